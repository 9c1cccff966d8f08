#include "base/worker_pool.h"

#include <utility>

namespace surety {
namespace {

// Of a worker's thread: whose it is, and what its task goes on with.
thread_local const WorkerPool* worker_of = nullptr;
thread_local Task continuation;

}  // namespace

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
  const std::lock_guard lock(mutex_);
  if (stopping_ || queue_.size() >= max_queued_) return false;
  queue_.push_back(std::move(task));
  changed_.notify_one();   // with the mutex: the task may let the pool end
  return true;
}

bool WorkerPool::PostNext(Task task) {
  const std::lock_guard lock(mutex_);
  if (stopping_) return false;
  next_.push_back(std::move(task));
  changed_.notify_one();
  return true;
}

bool WorkerPool::Continue(Task task) {
  if (worker_of != this || continuation) return PostNext(std::move(task));
  continuation = std::move(task);
  return true;
}

void WorkerPool::Work() {
  worker_of = this;
  std::unique_lock lock(mutex_);
  while (true) {
    changed_.wait(lock, [this] { return stopping_ || !queue_.empty() || !next_.empty(); });
    std::deque<Task>& from = next_.empty() ? queue_ : next_;
    if (from.empty()) return;
    Task task = std::move(from.front());
    from.pop_front();
    lock.unlock();
    while (task) {
      task();
      task = nullptr;   // what it owned ends outside the lock, and may go on too
      task = std::exchange(continuation, nullptr);
    }
    lock.lock();
  }
}

}  // namespace surety
