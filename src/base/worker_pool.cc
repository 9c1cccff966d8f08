#include "base/worker_pool.h"

#include <utility>

namespace surety {

WorkerPool::WorkerPool(int n_threads, size_t max_queued) : max_queued_(max_queued) {
  for (int i = 0; i < n_threads; ++i) threads_.emplace_back([this] { Work(); });
}

WorkerPool::~WorkerPool() {
  {
    const std::lock_guard lock(mutex_);
    stopping_ = true;
  }
  changed_.notify_all();
  for (std::thread& thread : threads_) thread.join();
}

bool WorkerPool::Post(Task task) {
  {
    const std::lock_guard lock(mutex_);
    if (stopping_ || queue_.size() >= max_queued_) return false;
    queue_.push_back(std::move(task));
  }
  changed_.notify_one();
  return true;
}

bool WorkerPool::PostNext(Task task) {
  {
    const std::lock_guard lock(mutex_);
    if (stopping_) return false;
    next_.push_back(std::move(task));
  }
  changed_.notify_one();
  return true;
}

void WorkerPool::Work() {
  std::unique_lock lock(mutex_);
  while (true) {
    changed_.wait(lock, [this] { return stopping_ || !queue_.empty() || !next_.empty(); });
    std::deque<Task>& from = next_.empty() ? queue_ : next_;
    if (from.empty()) return;
    Task task = std::move(from.front());
    from.pop_front();
    lock.unlock();
    task();
    task = nullptr;  // what it owned ends outside the lock
    lock.lock();
  }
}

}  // namespace surety
