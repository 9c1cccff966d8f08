#include "gateway/testing/backend_conformance.h"

#include <memory>
#include <set>
#include <thread>

#include "base/clock.h"
#include "gateway/testing/event_recorder.h"

namespace surety::gateway {
namespace {

constexpr int64_t kSecond = 1'000'000'000;

class ConformanceRun {
 public:
  ConformanceRun(api::Backend& backend, const ConformanceSubject& subject) : backend_(backend), subject_(subject) {}

  std::vector<std::string> Run() {
    QuickRequests();
    ManyAtOnce();
    Cancelled();
    CancelledBySinks();
    Full();
    Drained();
    return std::move(faults_);
  }

 private:
  void Expect(bool holds, const std::string& claim) {
    if (!holds) faults_.push_back(claim);
  }

  std::shared_ptr<EventRecorder> Start(api::GenerationRequest request, api::RequestId* id = nullptr) {
    auto recorder = std::make_shared<EventRecorder>(request.n_choices);
    const auto accepted = backend_.Submit(std::move(request), EventRecorder::SinkOf(recorder));
    if (!accepted) {
      faults_.push_back("refused: " + accepted.error().status.ToString());
      return nullptr;
    }
    if (id != nullptr) *id = *accepted;
    return recorder;
  }

  void CheckEnd(const EventRecorder& recorder, const std::string& which) {
    Expect(recorder.Wait(), which + ": its choices end");
    Expect(recorder.fault().empty(), which + ": " + recorder.fault());
  }

  void QuickRequests() {
    std::set<api::RequestId> ids;
    for (const int n : {1, 3}) {
      const int64_t begun = Clock::Real().NowNanos();
      api::RequestId id = 0;
      const auto recorder = Start(subject_.quick(n), &id);
      if (recorder == nullptr) return;
      CheckEnd(*recorder, "quick");
      const int64_t took = Clock::Real().NowNanos() - begun;
      ids.insert(id);
      for (int i = 0; i < n; ++i) {
        const api::Event last = recorder->last(i);
        Expect(last.finish == api::FinishReason::kStop || last.finish == api::FinishReason::kLength,
               "quick: ends by itself, not by " + std::string(api::NameOf(last.finish)) + last.error.ToString());
        Expect(!recorder->text(i).empty(), "quick: has text");
        Expect(last.request == id, "quick: events carry the id");
        const api::Timings& t = last.timings;
        Expect(t.queue_ns >= 0 && t.prefill_ns >= 0 && t.decode_ns >= 0 &&
                   t.queue_ns + t.prefill_ns + t.decode_ns <= took, "quick: times add up");
        Expect(last.usage.prompt_tokens > 0 && last.usage.output_tokens > 0, "quick: has usage");
        Expect(last.usage.cached_tokens <= last.usage.prompt_tokens, "quick: no more is cached than there is");
      }
    }
    Expect(ids.size() == 2, "ids differ");
  }

  void ManyAtOnce() {
    std::vector<std::shared_ptr<EventRecorder>> recorders;
    for (int i = 0; i < 4; ++i) recorders.push_back(Start(subject_.quick(1)));
    for (const auto& recorder : recorders) {
      if (recorder != nullptr) CheckEnd(*recorder, "one of four");
    }
  }

  void Cancelled() {
    backend_.Cancel(~api::RequestId{0});
    api::RequestId id = 0;
    const auto recorder = Start(subject_.endless(), &id);
    if (recorder == nullptr) return;
    Expect(recorder->WaitForText(1), "endless: begins");
    const int64_t begun = Clock::Real().NowNanos();
    backend_.Cancel(id);
    backend_.Cancel(id);
    CheckEnd(*recorder, "cancelled");
    Expect(Clock::Real().NowNanos() - begun < 2 * kSecond, "cancelled: ends soon");
    Expect(recorder->last().finish == api::FinishReason::kCancelled, "cancelled: says so");
    backend_.Cancel(id);
    const int n = recorder->n_events();
    std::this_thread::sleep_for(std::chrono::milliseconds(30));
    Expect(recorder->n_events() == n, "cancelled: silent afterwards");
  }

  // A sink may call Cancel.
  void CancelledBySinks() {
    auto recorder = std::make_shared<EventRecorder>(1);
    const auto accepted = backend_.Submit(subject_.endless(), [this, sink = EventRecorder::SinkOf(recorder)](
                                                                  api::Event event) {
      backend_.Cancel(event.request);
      sink(std::move(event));
    });
    Expect(accepted.has_value(), "endless: accepted");
    if (accepted) CheckEnd(*recorder, "cancelled by its sink");
  }

  void Full() {
    if (subject_.max_parallel == 0) return;
    std::vector<std::shared_ptr<EventRecorder>> running;
    std::vector<api::RequestId> ids(static_cast<size_t>(subject_.max_parallel));
    for (api::RequestId& id : ids) running.push_back(Start(subject_.endless(), &id));
    const int64_t begun = Clock::Real().NowNanos();
    const auto refused = backend_.Submit(subject_.quick(1), [](api::Event) {});
    Expect(!refused.has_value(), "full: refuses");
    Expect(Clock::Real().NowNanos() - begun < kSecond, "full: refuses at once");
    if (!refused) {
      Expect(refused.error().status.code() == StatusCode::kResourceExhausted, "full: as kResourceExhausted");
      Expect(refused.error().retry_after_s > 0, "full: says when to come again");
    }
    for (const api::RequestId id : ids) backend_.Cancel(id);
    for (const auto& recorder : running) {
      if (recorder != nullptr) CheckEnd(*recorder, "one of all");
    }
    const auto again = Start(subject_.quick(1));
    if (again != nullptr) CheckEnd(*again, "after being full");
  }

  void Drained() {
    Expect(backend_.health() == api::Health::kReady, "is ready while it works");
    const auto running = Start(subject_.endless());
    if (running != nullptr) Expect(running->WaitForText(1), "endless: begins");
    backend_.Drain(20);
    if (running != nullptr) {
      Expect(running->Wait(0), "drained: running requests have ended when Drain returns");
      Expect(running->last().finish == api::FinishReason::kCancelled, "drained: cancelled");
      Expect(running->fault().empty(), "drained: " + running->fault());
    }
    const auto refused = backend_.Submit(subject_.quick(1), [](api::Event) {});
    Expect(!refused && refused.error().status.code() == StatusCode::kUnavailable, "drained: refuses");
    const api::Health health = backend_.health();
    Expect(health == api::Health::kDraining || health == api::Health::kStopped, "drained: says so");
  }

  api::Backend& backend_;
  const ConformanceSubject& subject_;
  std::vector<std::string> faults_;
};

}  // namespace

std::vector<std::string> CheckConformance(api::Backend& backend, const ConformanceSubject& subject) {
  return ConformanceRun(backend, subject).Run();
}

}  // namespace surety::gateway
