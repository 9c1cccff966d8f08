#include "gateway/call_pool.h"

#include <system_error>
#include <utility>

namespace surety::gateway {

CallPool::~CallPool() {
  {
    const std::lock_guard lock(mutex_);
    ending_ = true;
  }
  wake_.notify_all();
  for (std::thread& thread : threads_) thread.join();
}

bool CallPool::Run(std::function<void()> call) {
  const std::lock_guard lock(mutex_);
  if (static_cast<int>(queue_.size()) >= n_idle_) {
    if (static_cast<int>(threads_.size()) < max_threads_) {
      try {
        threads_.emplace_back([this] { Work(); });
        ++n_idle_;  // it takes the call that is put in now
      } catch (const std::system_error&) {
        if (threads_.empty()) return false;
      }
    }
    if (static_cast<int>(queue_.size()) - n_idle_ >= max_queued_) return false;
  }
  queue_.push_back(std::move(call));
  wake_.notify_one();
  return true;
}

void CallPool::Work() {
  std::unique_lock lock(mutex_);
  while (true) {
    wake_.wait(lock, [this] { return ending_ || !queue_.empty(); });
    if (queue_.empty()) return;
    std::function<void()> call = std::move(queue_.front());
    queue_.pop_front();
    --n_idle_;
    lock.unlock();
    call();
    call = nullptr;  // what it holds is let go of without the lock
    lock.lock();
    ++n_idle_;
  }
}

}  // namespace surety::gateway
