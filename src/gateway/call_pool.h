// Threads for calls that wait for others: started as they are needed, bounded, and never waited for to start a call.
//
// Threads: any. Owns: its threads; the destructor waits for running calls, so they must end by themselves when their
// owner says so. Errors: Run: false when all threads are busy and the queue is full, or no thread can be started.
#pragma once

#include <condition_variable>
#include <deque>
#include <functional>
#include <mutex>
#include <thread>
#include <vector>

namespace surety::gateway {

class CallPool {
 public:
  CallPool(int max_threads, int max_queued) : max_threads_(max_threads), max_queued_(max_queued) {}
  ~CallPool();
  CallPool(const CallPool&) = delete;
  CallPool& operator=(const CallPool&) = delete;

  [[nodiscard]] bool Run(std::function<void()> call);

 private:
  void Work();

  const int max_threads_, max_queued_;
  std::mutex mutex_;
  std::condition_variable wake_;
  std::deque<std::function<void()>> queue_;
  std::vector<std::thread> threads_;
  int n_idle_ = 0;
  bool ending_ = false;
};

}  // namespace surety::gateway
