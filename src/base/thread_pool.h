// The machine's fork-join executor: n_workers - 1 threads that spin between jobs for a while and then sleep, each
// pinned to a processor of the process's affinity mask, in the order of topology.h.
//
// Threads: see executor.h. Owns: its threads; joins them when destroyed.
#pragma once

#include <memory>

#include "base/executor.h"
#include "base/status.h"

namespace surety {

struct ThreadPoolOptions {
  int n_workers = 0;              // 0: UsableProcessorCount()
  bool pin = true;                // bind worker i to the plan's i-th processor (worker 0 is the caller, not bound)
  int64_t spin_nanos = 2'000'000; // how long an idle worker spins before it sleeps
};

// Cores of the process's affinity mask that are worth a worker each (WorkerPlan::n_workers), also bounded by a cgroup's
// CPU quota (rounded up), at least 1.
int UsableProcessorCount();

// kResourceExhausted with the count where the system starts no more threads.
Result<std::unique_ptr<Executor>> TryMakeThreadPool(const ThreadPoolOptions& options);
// Stops the process where TryMakeThreadPool has an error: benchmarks and tests.
std::unique_ptr<Executor> MakeThreadPool(const ThreadPoolOptions& options);

}  // namespace surety
