#include "cli/load_run.h"

#include <sys/resource.h>

#include <algorithm>
#include <memory>
#include <utility>

#include "base/clock.h"
#include "cli/interrupt.h"
#include "cli/load_reply.h"

namespace surety::cli {
namespace {

constexpr int64_t kLeadNanos = 20'000'000;        // between the start and the first arrival
constexpr int64_t kTickNanos = 200'000'000;
constexpr int64_t kRetryNanos = 100'000'000;      // a closed loop's pause after a failure, so that it does not spin
constexpr size_t kAheadRequests = 256;
constexpr size_t kAheadBytes = 16 << 20;

double CpuSeconds() {
  rusage usage = {};
  getrusage(RUSAGE_SELF, &usage);
  const auto seconds = [](const timeval& t) {
    return static_cast<double>(t.tv_sec) + 1e-6 * static_cast<double>(t.tv_usec);
  };
  return seconds(usage.ru_utime) + seconds(usage.ru_stime);
}

}  // namespace

class LoadRun::Request final : public ExchangeSink {
 public:
  Request(LoadRun& run, LoadRecord& record, std::vector<ChatMessage> conversation, bool keep_text)
      : run_(run), record_(record), conversation_(std::move(conversation)), reader_(record, keep_text) {}

  void OnSent(int64_t time_ns) override { record_.sent_ns = time_ns - run_.start_ns_; }
  void OnHeader(int status, bool event_stream, double retry_after_s) override {
    record_.retry_after_s = retry_after_s;
    reader_.OnHeader(status, event_stream);
  }
  bool OnBody(std::string_view bytes, int64_t time_ns) override {
    const size_t before = record_.events.size();
    const bool go_on = reader_.OnBody(bytes, time_ns - run_.start_ns_);
    run_.events_ += static_cast<int64_t>(record_.events.size() - before);
    if (before == 0 && !record_.events.empty()) {
      run_.ttft_ms_.push_back(static_cast<double>(record_.events[0].time_ns - record_.intended_ns) * 1e-6);
    }
    return go_on;
  }
  void OnEnd(ExchangeEnd end, const std::string& message, int64_t time_ns) override {
    const int64_t now = time_ns - run_.start_ns_;
    switch (end) {
      case ExchangeEnd::kComplete: reader_.OnComplete(now); break;
      case ExchangeEnd::kConnectFailed: reader_.OnFailure(LoadOutcome::kConnect, message, now); break;
      case ExchangeEnd::kCut: reader_.OnFailure(LoadOutcome::kCut, message, now); break;
      case ExchangeEnd::kBadHttp: reader_.OnFailure(LoadOutcome::kProtocol, message, now); break;
      case ExchangeEnd::kTimeout: reader_.OnFailure(LoadOutcome::kTimeout, message, now); break;
      case ExchangeEnd::kCancelled: reader_.OnFailure(run_.cancelled_as_, message, now); break;
      case ExchangeEnd::kStopped: break;  // the reader has said why
      case ExchangeEnd::kNoConnection: reader_.OnFailure(LoadOutcome::kNotSent, message, now); break;
    }
    run_.OnRequestEnd(*this);
  }

  const LoadRecord& record() const { return record_; }
  std::vector<ChatMessage> TakeConversation() {
    conversation_.push_back({"assistant", reader_.text()});
    return std::move(conversation_);
  }

 private:
  LoadRun& run_;
  LoadRecord& record_;
  std::vector<ChatMessage> conversation_;
  ReplyReader reader_;
};

LoadRun::Prepared LoadRun::Prepare(int64_t item, int turn, std::vector<ChatMessage> conversation) const {
  Prepared prepared{item, {}, std::move(conversation)};
  for (ChatMessage& message : workload_.NewMessages(item, turn)) prepared.conversation.push_back(std::move(message));
  prepared.body = workload_.Body(item, turn, prepared.conversation, model_);
  if (workload_.turns() == 1) prepared.conversation.clear();
  return prepared;
}

void LoadRun::Launch(Prepared prepared, int turn, int64_t intended_ns) {
  const TurnPlan plan = workload_.Plan(prepared.item, turn);
  LoadRecord& record = records_.emplace_back();
  record.item = prepared.item;
  record.turn = turn;
  record.intended_ns = intended_ns;
  record.planned_prompt_tokens = plan.prompt_tokens;
  record.planned_output_tokens = plan.output_tokens;
  ++in_flight_;
  const bool more = turn + 1 < workload_.turns();
  loop_.Send(options_.endpoint == "chat" ? "/chat/completions" : "/completions", std::move(prepared.body),
             std::make_shared<Request>(*this, record, std::move(prepared.conversation), more));
}

// Bodies of the next requests, made while nothing is due: making a long prompt takes a moment that would be send lag.
void LoadRun::PrepareAhead() {
  preparing_ = false;
  const size_t n = workload_.arrivals_ns().size();
  if (over_ || next_prepared_ >= n || ahead_.size() >= kAheadRequests || ahead_bytes_ >= kAheadBytes) return;
  ahead_.push_back(Prepare(static_cast<int64_t>(next_prepared_++), 0, {}));
  ahead_bytes_ += ahead_.back().body.size();
  preparing_ = true;
  loop_.Post([this] { PrepareAhead(); });
}

void LoadRun::SendDue() {
  const auto& arrivals = workload_.arrivals_ns();
  while (!over_ && next_arrival_ < arrivals.size() && arrivals[next_arrival_] <= Now()) {
    const int64_t intended = arrivals[next_arrival_];
    Prepared prepared;
    if (ahead_.empty()) {
      prepared = Prepare(static_cast<int64_t>(next_arrival_), 0, {});
      next_prepared_ = next_arrival_ + 1;
    } else {
      prepared = std::move(ahead_.front());
      ahead_.pop_front();
      ahead_bytes_ -= prepared.body.size();
    }
    ++next_arrival_;
    Launch(std::move(prepared), 0, intended);
  }
  if (!over_ && !preparing_) PrepareAhead();
  if (!over_ && next_arrival_ < arrivals.size()) At(arrivals[next_arrival_], [this] { SendDue(); });
  AfterChange();
}

void LoadRun::StartClosed(int64_t intended_ns) {
  if (over_ || closed_done_) return;
  if (intended_ns >= SecondsToNanos(options_.warmup_s)) {
    if (closed_measured_ >= workload_.closed_loop_requests()) {
      closed_done_ = true;
      return;
    }
    ++closed_measured_;
  }
  Launch(Prepare(next_closed_++, 0, {}), 0, intended_ns);
}

// True if the session goes on.
bool LoadRun::ContinueSession(Request& request) {
  const LoadRecord& record = request.record();
  const int turn = record.turn + 1;
  if (over_ || record.outcome != LoadOutcome::kOk || turn >= workload_.turns()) return false;
  const int64_t due = record.end_ns + workload_.Plan(record.item, turn).think_ns;
  // The request is made ahead of its time, too.
  auto prepared = std::make_shared<Prepared>(Prepare(record.item, turn, request.TakeConversation()));
  ++waiting_turns_;
  At(due, [this, prepared, turn, due] {
    --waiting_turns_;
    if (!over_) Launch(std::move(*prepared), turn, due);
    AfterChange();
  });
  return true;
}

void LoadRun::OnRequestEnd(Request& request) {
  --in_flight_;
  const bool ok = request.record().outcome == LoadOutcome::kOk;
  ++(ok ? completed_ : failed_);
  if (!ContinueSession(request) && options_.closed_loop()) {
    const int64_t due = Now() + (ok ? 0 : kRetryNanos);
    ++waiting_turns_;
    At(due, [this, due] {
      --waiting_turns_;
      StartClosed(due);
      AfterChange();
    });
  }
  AfterChange();
}

bool LoadRun::MoreToCome() const {
  if (over_) return false;
  if (options_.closed_loop() && !closed_done_) return true;
  return waiting_turns_ > 0 || next_arrival_ < workload_.arrivals_ns().size();
}

// Ends the run when nothing is left to wait for; sees to the drain's limit when only answers are.
void LoadRun::AfterChange() {
  if (MoreToCome()) return;
  if (in_flight_ == 0) {
    loop_.Stop();
    return;
  }
  if (options_.duration_s) return;  // the drain begins at the end of the window
  const size_t sent = records_.size();
  if (drain_set_for_ == sent) return;
  drain_set_for_ = sent;
  At(Now() + SecondsToNanos(options_.drain_s), [this, sent] {
    if (records_.size() == sent && !MoreToCome()) loop_.CancelAll();
  });
}

void LoadRun::Interrupt() {
  if (interrupted_) return;
  interrupted_ = true;
  interrupted_ns_ = Now();
  over_ = true;
  cancelled_as_ = LoadOutcome::kInterrupted;
  loop_.CancelAll();
  loop_.Stop();
}

void LoadRun::Tick(const std::function<void(const LoadProgress&)>& watch) {
  if (Interrupted()) return Interrupt();
  LoadProgress progress;
  const int64_t now = Now();
  progress.elapsed_s = static_cast<double>(now) * 1e-9;
  const auto& arrivals = workload_.arrivals_ns();
  if (options_.duration_s) {
    progress.total_s = options_.warmup_s + *options_.duration_s;
  } else if (!arrivals.empty()) {
    progress.total_s = static_cast<double>(arrivals.back()) * 1e-9;
  }
  progress.sent = static_cast<int64_t>(records_.size());
  progress.in_flight = in_flight_;
  progress.completed = completed_;
  progress.failed = failed_;
  const double since = std::max(1e-9, static_cast<double>(now - last_tick_ns_) * 1e-9);
  progress.output_events_per_s = static_cast<double>(events_ - events_seen_) / since;
  events_seen_ = events_;
  last_tick_ns_ = now;
  if (!ttft_ms_.empty()) {
    const auto middle = ttft_ms_.begin() + static_cast<std::ptrdiff_t>((ttft_ms_.size() - 1) / 2);
    std::nth_element(ttft_ms_.begin(), middle, ttft_ms_.end());
    progress.ttft_p50_ms = *middle;
  }
  watch(progress);
  At(now + kTickNanos, [this, &watch] { Tick(watch); });
}

LoadWindow LoadRun::WindowOf() const {
  LoadWindow window;
  window.start_ns = SecondsToNanos(options_.warmup_s);
  int64_t last_arrival = window.start_ns, last_end = window.start_ns;
  for (const LoadRecord& record : records_) {
    if (record.intended_ns < window.start_ns) continue;
    last_arrival = std::max(last_arrival, record.intended_ns);
    last_end = std::max(last_end, record.end_ns);
  }
  const bool until_ends = options_.closed_loop() || options_.arrivals == "burst" || last_arrival <= window.start_ns;
  window.end_ns = until_ends ? last_end : last_arrival;
  if (options_.duration_s) window.end_ns = SecondsToNanos(options_.warmup_s + *options_.duration_s);
  if (interrupted_) window.end_ns = std::max(window.start_ns, std::min(window.end_ns, interrupted_ns_));
  return window;
}

void LoadRun::Start(const std::function<void(const LoadProgress&)>& watch) {
  if (options_.duration_s) {
    const int64_t end = SecondsToNanos(options_.warmup_s + *options_.duration_s);
    At(end, [this] {
      over_ = true;
      AfterChange();
    });
    At(end + SecondsToNanos(options_.drain_s), [this] { loop_.CancelAll(); });
  }
  if (const int fd = InterruptDescriptor(); fd >= 0) {
    loop_.WhenReadable(fd, [this] {
      if (Interrupted()) Interrupt();
    });
  }
  At(kTickNanos, [this, &watch] { Tick(watch); });
  if (!options_.closed_loop()) {
    PrepareAhead();
    At(workload_.arrivals_ns().front(), [this] { SendDue(); });
    return;
  }
  At(0, [this] {
    for (int i = 0; i < options_.concurrency; ++i) StartClosed(0);
    AfterChange();
  });
}

LoadResult LoadRun::Run(const std::function<void(const LoadProgress&)>& watch) {
  LoadResult result;
  result.started_unix_ns = Clock::Real().WallNanos() + kLeadNanos;
  start_ns_ = loop_.Now() + kLeadNanos;
  const double cpu_before = CpuSeconds();
  Start(watch);
  loop_.Run();
  result.wall_s = std::max(1e-9, static_cast<double>(Now()) * 1e-9);
  result.cpu_s = CpuSeconds() - cpu_before;
  result.window = WindowOf();
  result.interrupted = interrupted_;
  int64_t sessions = 0;
  for (const LoadRecord& record : records_) sessions += record.turn == 0;
  result.lost_turns = sessions * workload_.turns() - static_cast<int64_t>(records_.size());
  result.records.assign(std::make_move_iterator(records_.begin()), std::make_move_iterator(records_.end()));
  result.connections_opened = loop_.connections_opened();
  return result;
}

}  // namespace surety::cli
