#include "gateway/progress_ticker.h"

#include <algorithm>
#include <chrono>
#include <utility>

namespace surety::gateway {
namespace {

constexpr int64_t kLongestSleepNs = 3'600'000'000'000;

}  // namespace

ProgressTicker::ProgressTicker(const Clock& clock) : clock_(clock), thread_([this] { Run(); }) {}

ProgressTicker::~ProgressTicker() {
  {
    const std::lock_guard lock(mutex_);
    stopping_ = true;
  }
  changed_.notify_all();
  thread_.join();
}

void ProgressTicker::Watch(int64_t due_ns, Tick tick) {
  bool first = false;
  {
    const std::lock_guard lock(mutex_);
    const auto placed = due_.emplace(due_ns, std::move(tick));
    first = placed == due_.begin();
  }
  if (first) changed_.notify_all();
}

void ProgressTicker::Run() {
  std::unique_lock lock(mutex_);
  while (!stopping_) {
    const int64_t wait_ns = due_.empty() ? kLongestSleepNs : due_.begin()->first - clock_.NowNanos();
    if (wait_ns > 0) {
      changed_.wait_for(lock, std::chrono::nanoseconds(std::min(wait_ns, kLongestSleepNs)));
      continue;
    }
    Tick tick = std::move(due_.extract(due_.begin()).mapped());
    lock.unlock();
    const std::optional<int64_t> again = tick();
    if (!again) tick = nullptr;  // what it holds ends without the lock
    lock.lock();
    if (again) due_.emplace(*again, std::move(tick));
  }
}

}  // namespace surety::gateway
