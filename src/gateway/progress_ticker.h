// Calls back at set times: for requests that say, while they have no answer yet, that they are still worked on.
//
// Threads: Watch from any; callbacks come on the ticker's own thread, one at a time, and must not block.
// Owns: its thread, and the callbacks until they want no further call. The destructor waits for a running callback.
#pragma once

#include <condition_variable>
#include <cstdint>
#include <functional>
#include <map>
#include <mutex>
#include <optional>
#include <thread>

#include "base/clock.h"

namespace surety::gateway {

class ProgressTicker {
 public:
  // Returns when it is to be called again, on the monotonic clock; nothing: never.
  using Tick = std::function<std::optional<int64_t>()>;

  explicit ProgressTicker(const Clock& clock);
  ~ProgressTicker();
  void Watch(int64_t due_ns, Tick tick);

 private:
  void Run();

  const Clock& clock_;
  std::mutex mutex_;
  std::condition_variable changed_;
  std::multimap<int64_t, Tick> due_;
  bool stopping_ = false;
  std::thread thread_;
};

}  // namespace surety::gateway
