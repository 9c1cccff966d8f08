// Collects the events of one request and says what it saw wrong. Threads: the sink any, one at a time; the rest any.
#pragma once

#include <chrono>
#include <condition_variable>
#include <map>
#include <memory>
#include <mutex>
#include <string>
#include <vector>

#include "api/backend.h"

namespace surety::gateway {

class EventRecorder {
 public:
  explicit EventRecorder(int n_choices) : ends_(static_cast<size_t>(n_choices), 0), texts_(ends_.size()) {
    last_.resize(ends_.size());
  }

  // Keeps the recorder alive.
  static api::EventSink SinkOf(std::shared_ptr<EventRecorder> recorder) {
    return [recorder = std::move(recorder)](api::Event event) { recorder->Add(std::move(event)); };
  }

  // All choices have ended, or `limit_ms` passed.
  bool Wait(int limit_ms = 10'000) const {
    std::unique_lock lock(mutex_);
    return changed_.wait_for(lock, std::chrono::milliseconds(limit_ms), [this] { return n_ended_ == ends_.size(); });
  }
  bool WaitForText(size_t n_bytes, int limit_ms = 10'000) const {
    std::unique_lock lock(mutex_);
    return changed_.wait_for(lock, std::chrono::milliseconds(limit_ms), [&] { return texts_[0].size() >= n_bytes; });
  }

  std::string text(int choice = 0) const { return Locked(texts_[static_cast<size_t>(choice)]); }
  api::Event last(int choice = 0) const { return Locked(last_[static_cast<size_t>(choice)]); }
  std::vector<api::ToolCallDelta> calls() const { return Locked(calls_); }
  int n_events() const { return Locked(n_events_); }
  std::string fault() const { return Locked(fault_); }  // of the invariants; empty: none

 private:
  template <typename T>
  T Locked(const T& value) const {
    const std::lock_guard lock(mutex_);
    return value;
  }

  void Add(api::Event event) {
    const std::lock_guard lock(mutex_);
    ++n_events_;
    if (n_ended_ == ends_.size()) fault_ = "an event after the last one";
    if (event.choice < 0 || event.choice >= static_cast<int>(ends_.size())) {
      fault_ = "a choice that was not asked for";
      return;
    }
    const auto at = static_cast<size_t>(event.choice);
    if (ends_[at] > 0) fault_ = "an event after its choice's end";
    if (request_ != 0 && event.request != request_) fault_ = "an event of another request";
    request_ = event.request;
    texts_[at] += event.text;
    for (const api::ToolCallDelta& call : event.tool_calls) calls_.push_back(call);
    if (event.finish != api::FinishReason::kNone) {
      ++ends_[at];
      ++n_ended_;
      if ((event.finish == api::FinishReason::kError) == event.error.ok()) fault_ = "an error without a status";
      last_[at] = std::move(event);
    }
    changed_.notify_all();
  }

  mutable std::mutex mutex_;
  mutable std::condition_variable changed_;
  std::vector<int> ends_;
  std::vector<std::string> texts_;
  std::vector<api::Event> last_;
  std::vector<api::ToolCallDelta> calls_;
  size_t n_ended_ = 0;
  int n_events_ = 0;
  api::RequestId request_ = 0;
  std::string fault_;
};

}  // namespace surety::gateway
