// A few threads and a bounded queue for work that must not hold up I/O threads: parsing, tokenizing, embedding, the
// stages of a governed request.
//
// Threads: Post from any, also from a task. Owns: its threads; the destructor runs what is queued, then joins.
// Invariants: (1) a task that was accepted runs exactly once. (2) At most max_queued tasks of Post wait.
#pragma once

#include <condition_variable>
#include <cstddef>
#include <deque>
#include <functional>
#include <mutex>
#include <thread>
#include <vector>

namespace surety {

using Task = std::function<void()>;
// Hands a task to other threads; false if there is no room for it.
using PostTask = std::function<bool(Task)>;

class WorkerPool {
 public:
  WorkerPool(int n_threads, size_t max_queued);
  ~WorkerPool();
  WorkerPool(const WorkerPool&) = delete;
  WorkerPool& operator=(const WorkerPool&) = delete;

  bool Post(Task task);
  // The next step of work under way: runs before what Post accepted, and only an ending pool refuses it. Who calls it
  // bounds how much work is under way.
  bool PostNext(Task task);
  // From a task of this pool: the next step of what that task does, run by the same thread once the task has returned,
  // which saves waking another; so it is called last. A second one, and one from any other thread, is as PostNext.
  bool Continue(Task task);
  PostTask AsPostTask() { return [this](Task task) { return Post(std::move(task)); }; }

 private:
  void Work();

  const size_t max_queued_;
  std::mutex mutex_;
  std::condition_variable changed_;
  std::deque<Task> queue_, next_;
  bool stopping_ = false;
  std::vector<std::thread> threads_;
};

}  // namespace surety
