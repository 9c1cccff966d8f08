#include "cli/probe_run.h"

#include <algorithm>
#include <array>
#include <random>
#include <utility>

#include <boost/json.hpp>
#include <fmt/format.h>

#include "cli/interrupt.h"
#include "cli/load_models.h"
#include "cli/load_random.h"
#include "cli/load_reply.h"
#include "cli/load_text.h"

namespace surety::cli {
namespace {

// One exchange into a record; ends the loop's run.
class ProbeExchange final : public ExchangeSink {
 public:
  explicit ProbeExchange(LoadLoop& loop) : loop_(loop), reader_(record, false) {}
  void OnSent(int64_t time_ns) override { record.sent_ns = time_ns; }
  void OnHeader(int status, bool event_stream, double) override { reader_.OnHeader(status, event_stream); }
  bool OnBody(std::string_view bytes, int64_t time_ns) override { return reader_.OnBody(bytes, time_ns); }
  void OnEnd(ExchangeEnd end, const std::string& message, int64_t time_ns) override {
    if (end == ExchangeEnd::kComplete) {
      reader_.OnComplete(time_ns);
    } else if (end != ExchangeEnd::kStopped) {  // there the reader has said why
      reader_.OnFailure(LoadOutcome::kConnect, message, time_ns);
    }
    loop_.Stop();
  }

  LoadRecord record;

 private:
  LoadLoop& loop_;
  ReplyReader reader_;
};

uint64_t FreshSeed() {
  std::random_device device;
  return (uint64_t{device()} << 32) ^ device();
}

}  // namespace

Result<std::unique_ptr<ProbeRun>> ProbeRun::Make(const ProbeOptions& options) {
  auto run = std::unique_ptr<ProbeRun>(new ProbeRun(options));
  run->seed_ = FreshSeed();
  LoadTarget other = options.target;
  other.api_key = options.other_key;
  SURETY_ASSIGN_OR_RETURN(run->first_, LoadLoop::Make(options.target));
  SURETY_ASSIGN_OR_RETURN(run->other_, LoadLoop::Make(other));
  if (options.model.empty()) {
    SURETY_ASSIGN_OR_RETURN(run->options_.model, FirstModelOf(*run->first_, options.target.url));
  }
  for (LoadLoop* loop : {run->first_.get(), run->other_.get()}) {
    if (const int fd = InterruptDescriptor(); fd >= 0) {
      loop->WhenReadable(fd, [loop] { loop->CancelAll(); });
    }
  }
  return run;
}

std::string ProbeRun::FreshPrompt() {
  const TextSegment segment{LoadLane::kUserText, next_prompt_++, options_.prompt_tokens};
  return WordsOf({&segment, 1}, seed_, 1);
}

std::string ProbeRun::BodyOf(const std::string& prompt, const std::string& salt) const {
  boost::json::object body;
  body["model"] = options_.model;
  if (options_.endpoint == "chat") {
    body["messages"] = boost::json::array{boost::json::object{{"role", "user"}, {"content", prompt}}};
  } else {
    body["prompt"] = prompt;
  }
  body["max_tokens"] = 1;
  body["temperature"] = 0;
  body["stream"] = true;
  body["stream_options"] = boost::json::object{{"include_usage", true}};
  if (!salt.empty()) body["cache_salt"] = salt;
  return boost::json::serialize(body);
}

Result<LoadRecord> ProbeRun::Ask(LoadLoop& loop, const std::string& prompt, const std::string& salt) {
  if (Interrupted()) return Error(CancelledError("interrupted"));
  const auto exchange = std::make_shared<ProbeExchange>(loop);
  loop.Send(options_.endpoint == "chat" ? "/chat/completions" : "/completions", BodyOf(prompt, salt), exchange);
  loop.Run();
  if (Interrupted()) return Error(CancelledError("interrupted"));
  return std::move(exchange->record);
}

Result<ProbeSample> ProbeRun::Measure(LoadLoop& loop, const std::string& prompt, const std::string& salt) {
  SURETY_ASSIGN_OR_RETURN(const LoadRecord record, Ask(loop, prompt, salt));
  if (record.outcome != LoadOutcome::kOk) {
    return Error(Status(StatusCode::kUnavailable, fmt::format("{}: {}: {}", options_.target.url,
                                                              LoadOutcomeName(record.outcome), record.error)));
  }
  const int64_t first_ns = record.events.empty() ? record.end_ns : record.events.front().time_ns;
  return ProbeSample{static_cast<double>(first_ns - record.sent_ns) * 1e-6, record.cached_tokens,
                     record.prompt_tokens};
}

// Connections, code and what both callers' requests begin with; and whether the server takes a salt.
Status ProbeRun::WarmUp() {
  for (LoadLoop* loop : {first_.get(), other_.get()}) {
    SURETY_ASSIGN_OR_RETURN([[maybe_unused]] const ProbeSample ignored, Measure(*loop, FreshPrompt(), ""));
  }
  if (!with_salt_) return OkStatus();
  SURETY_ASSIGN_OR_RETURN(const LoadRecord salted, Ask(*first_, FreshPrompt(), "probe"));
  with_salt_ = salted.outcome == LoadOutcome::kOk;
  if (with_salt_ || salted.http_status == 400 || salted.http_status == 422) return OkStatus();
  return Status(StatusCode::kUnavailable, fmt::format("{}: {}", options_.target.url, salted.error));
}

Result<ProbeRound> ProbeRun::RunRound(int number) {
  const std::string shared = FreshPrompt(), salted = FreshPrompt();
  const std::string salt = fmt::format("probe-{:x}-{}", seed_, number);
  SURETY_ASSIGN_OR_RETURN([[maybe_unused]] const ProbeSample primed, Measure(*first_, shared, ""));
  if (with_salt_) {
    SURETY_ASSIGN_OR_RETURN([[maybe_unused]] const ProbeSample primed_too, Measure(*first_, salted, salt));
  }
  std::array<ProbeKind, kProbeKinds> order;
  for (int i = 0; i < kProbeKinds; ++i) order[static_cast<size_t>(i)] = static_cast<ProbeKind>(i);
  RandomStream stream(seed_, static_cast<uint64_t>(number), LoadLane::kLengths);
  for (size_t i = order.size(); i > 1; --i) std::swap(order[i - 1], order[stream.Below(i)]);
  ProbeRound round;
  for (const ProbeKind kind : order) {
    const bool uses_salt = kind == ProbeKind::kOtherKeySalt || kind == ProbeKind::kOtherSalt;
    if (uses_salt && !with_salt_) continue;
    const bool others = kind == ProbeKind::kOtherFresh || kind == ProbeKind::kOtherKey ||
                        kind == ProbeKind::kOtherKeySalt;
    const bool fresh = kind == ProbeKind::kFresh || kind == ProbeKind::kOtherFresh;
    const std::string& prompt = uses_salt ? salted : shared;
    const std::string its_salt = kind == ProbeKind::kOtherKeySalt ? salt : uses_salt ? salt + "-other" : "";
    SURETY_ASSIGN_OR_RETURN(round[static_cast<size_t>(kind)],
                            Measure(others ? *other_ : *first_, fresh ? FreshPrompt() : prompt, its_salt));
  }
  return round;
}

Result<std::vector<ProbeRound>> ProbeRun::Run(const std::function<void(int)>& watch) {
  SURETY_RETURN_IF_ERROR(WarmUp());
  std::vector<ProbeRound> rounds;
  for (int number = 0; number < options_.rounds; ++number) {
    watch(number);
    SURETY_ASSIGN_OR_RETURN(ProbeRound round, RunRound(number));
    rounds.push_back(round);
  }
  return rounds;
}

}  // namespace surety::cli
