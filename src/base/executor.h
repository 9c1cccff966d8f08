// Fork-join parallelism as an interface. The kernels see only this, so a test can run them on one thread, the simulator
// without threads, and the program on its pinned pool.
//
// Threads: one caller at a time; the caller takes part as worker 0. Run() does not nest.
// Invariants: (1) Run returns after every worker has returned from fn; memory written by workers is visible to the
// caller. (2) No allocation and no system call in Run while the workers spin.
#pragma once

#include <algorithm>
#include <atomic>
#include <cstdint>

#include "base/function_ref.h"

namespace surety {

class Executor {
 public:
  virtual ~Executor() = default;
  virtual int n_workers() const = 0;
  // Calls fn(worker) once for each worker in [0, n_workers()), all at the same time.
  virtual void Run(FunctionRef<void(int worker)> fn) = 0;
  // Inside Run: returns when every worker has reached it. Must be called by all workers equally often.
  virtual void Barrier(int worker) = 0;
};

// One thread: Run calls fn(0).
class SerialExecutor final : public Executor {
 public:
  int n_workers() const override { return 1; }
  void Run(FunctionRef<void(int)> fn) override { fn(0); }
  void Barrier(int) override {}
};

// fn(task, worker) for each task in [0, n_tasks), handed out one by one. The order of tasks is not defined, so tasks
// must not depend on each other and must write disjoint memory.
template <typename Fn>
void ParallelFor(Executor& executor, int64_t n_tasks, Fn&& fn) {
  if (n_tasks <= 0) return;
  if (n_tasks == 1 || executor.n_workers() == 1) {
    for (int64_t task = 0; task < n_tasks; ++task) fn(task, 0);
    return;
  }
  std::atomic<int64_t> next{0};
  executor.Run([&](int worker) {
    for (int64_t task; (task = next.fetch_add(1, std::memory_order_relaxed)) < n_tasks;) fn(task, worker);
  });
}

// The half-open range of n items that is worker's equal share, in multiples of `grain`.
struct Share {
  int64_t begin;
  int64_t end;
};
inline Share ShareOf(int64_t n, int worker, int n_workers, int64_t grain = 1) {
  const int64_t units = (n + grain - 1) / grain;
  const int64_t begin = units * worker / n_workers * grain;
  const int64_t end = units * (worker + 1) / n_workers * grain;
  return {std::min(begin, n), std::min(end, n)};
}

}  // namespace surety
