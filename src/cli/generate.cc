#include "cli/generate.h"

#include <fmt/format.h>

#include "base/clock.h"
#include "cli/interrupt.h"
#include "cli/json_out.h"
#include "cli/progress.h"

namespace surety::cli {
namespace {

double Rate(int64_t rows, int64_t nanos) {
  return nanos > 0 ? static_cast<double>(rows) / NanosToSeconds(nanos) : 0.0;
}

// Takes an event's news into the answer.
Status Take(const api::Event& event, Answer& answer, FunctionRef<void(std::string_view)> on_text) {
  answer.text += event.text;
  answer.tokens.insert(answer.tokens.end(), event.tokens.begin(), event.tokens.end());
  answer.logprobs.insert(answer.logprobs.end(), event.logprobs.begin(), event.logprobs.end());
  if (!event.text.empty()) on_text(event.text);
  if (event.finish == api::FinishReason::kNone) return OkStatus();
  answer.finish = event.finish;
  answer.stop_text = event.stop_text;
  answer.usage = event.usage;
  return event.finish == api::FinishReason::kError ? event.error : OkStatus();
}

}  // namespace

Result<Answer> Generate(engine::Engine& engine, const api::GenerationRequest& request, uint64_t keep,
                        FunctionRef<void(std::string_view)> on_text) {
  Clock& clock = Clock::Real();
  const int64_t start = clock.NowNanos();
  const engine::EngineCounters before = engine.counters();
  SURETY_ASSIGN_OR_RETURN(const api::RequestId id, engine.Submit(request, keep));
  Answer answer;
  bool cancelled = false;
  std::vector<api::Event> events;
  ProgressLine progress("reading the prompt", ProgressUnit::kCount, "tokens");
  Status status;
  while (status.ok() && !engine.idle()) {
    if (Interrupted() && !cancelled) {
      engine.Cancel(id);
      cancelled = true;
    }
    events.clear();
    status = engine.Step(events);
    if (answer.tokens.empty()) progress.Update(engine.counters().prefill_rows - before.prefill_rows, 0);
    for (const api::Event& event : events) {
      if (event.request != id) continue;
      if (answer.tokens.empty() && !event.tokens.empty()) {
        progress.Finish();
        answer.ttft_seconds = NanosToSeconds(clock.NowNanos() - start);
      }
      if (const Status taken = Take(event, answer, on_text); !taken.ok()) status = taken;
    }
  }
  progress.Finish();
  SURETY_RETURN_IF_ERROR(status);
  answer.total_seconds = NanosToSeconds(clock.NowNanos() - start);
  const engine::EngineCounters& after = engine.counters();
  answer.prefill_tok_per_s = Rate(after.prefill_rows - before.prefill_rows, after.prefill_nanos - before.prefill_nanos);
  // Rows of drafts that did not hold were no tokens.
  const int64_t n_dropped = answer.usage.draft_tokens - answer.usage.accepted_tokens;
  answer.decode_tok_per_s =
      Rate(after.decode_rows - before.decode_rows - n_dropped, after.decode_nanos - before.decode_nanos);
  return answer;
}

std::string TimingLine(const Answer& answer) {
  std::string line = fmt::format("prompt {} tokens", answer.usage.prompt_tokens);
  if (answer.usage.cached_tokens > 0) line += fmt::format(" ({} cached)", answer.usage.cached_tokens);
  line += fmt::format(", prefill {:.1f} tok/s, first token {}; answer {} tokens", answer.prefill_tok_per_s,
                      HumanSeconds(answer.ttft_seconds), answer.usage.output_tokens);
  if (answer.decode_tok_per_s > 0) line += fmt::format(", decode {:.1f} tok/s", answer.decode_tok_per_s);
  if (answer.usage.draft_tokens > 0) {
    line += fmt::format(", drafts {}/{} held", answer.usage.accepted_tokens, answer.usage.draft_tokens);
  }
  line += fmt::format(" ({})", NameOf(answer.finish));
  return line;
}

void DescribeAnswer(const Answer& answer, boost::json::object& out) {
  out["text"] = answer.text;
  out["token_ids"] = boost::json::array(answer.tokens.begin(), answer.tokens.end());
  if (!answer.logprobs.empty()) {
    boost::json::array logprobs;
    for (const api::TokenLogprob& logprob : answer.logprobs) {
      boost::json::array top;
      for (const auto& [token, value] : logprob.top) {
        top.push_back(boost::json::object{{"token_id", token}, {"logprob", value}});
      }
      logprobs.push_back(boost::json::object{{"token_id", logprob.token}, {"logprob", logprob.logprob}, {"top", top}});
    }
    out["logprobs"] = std::move(logprobs);
  }
  out["finish_reason"] = NameOf(answer.finish);
  if (!answer.stop_text.empty()) out["stop_text"] = answer.stop_text;
  out["prompt_tokens"] = answer.usage.prompt_tokens;
  out["cached_tokens"] = answer.usage.cached_tokens;
  out["output_tokens"] = answer.usage.output_tokens;
  out["draft_tokens"] = answer.usage.draft_tokens;
  out["accepted_tokens"] = answer.usage.accepted_tokens;
  out["ttft_seconds"] = Rounded(answer.ttft_seconds);
  out["total_seconds"] = Rounded(answer.total_seconds);
  out["prefill_tok_per_s"] = Rounded(answer.prefill_tok_per_s);
  out["decode_tok_per_s"] = Rounded(answer.decode_tok_per_s);
}

}  // namespace surety::cli
