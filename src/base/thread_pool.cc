#include "base/thread_pool.h"

#include <pthread.h>
#include <sched.h>

#include <chrono>
#include <fstream>
#include <memory>
#include <string>
#include <system_error>
#include <thread>
#include <vector>

#include "base/check.h"
#include "base/topology.h"

#if defined(__x86_64__)
#include <immintrin.h>
#endif

namespace surety {
namespace {

void CpuRelax() {
#if defined(__x86_64__)
  _mm_pause();
#elif defined(__aarch64__)
  asm volatile("yield");
#endif
}

int64_t SteadyNanos() {
  return std::chrono::duration_cast<std::chrono::nanoseconds>(std::chrono::steady_clock::now().time_since_epoch())
      .count();
}

// Waits until `word` differs from `old`: spins, then sleeps on it. Spinning yields to the system now and then, so that
// it does not starve the worker it waits for when there are more threads than processors.
uint32_t AwaitChange(const std::atomic<uint32_t>& word, uint32_t old, int64_t spin_nanos) {
  uint32_t now;
  int rounds = 0;
  int64_t deadline = 0;
  while ((now = word.load(std::memory_order_acquire)) == old) {
    CpuRelax();
    if (++rounds % 4096 != 0) continue;
    const int64_t t = SteadyNanos();
    if (deadline == 0) deadline = t + spin_nanos;
    if (t >= deadline) {
      word.wait(old, std::memory_order_acquire);
    } else {
      std::this_thread::yield();
    }
  }
  return now;
}

// cgroup v2's cpu.max holds "quota period" or "max period".
double CgroupProcessorQuota() {
  std::ifstream file("/sys/fs/cgroup/cpu.max");
  std::string quota;
  double period = 0;
  if (!(file >> quota >> period) || quota == "max" || period <= 0) return 0;
  try {
    return std::stod(quota) / period;
  } catch (...) {
    return 0;
  }
}

class ThreadPool final : public Executor {
 public:
  explicit ThreadPool(const ThreadPoolOptions& options)
      : n_workers_(options.n_workers > 0 ? options.n_workers : UsableProcessorCount()),
        spin_nanos_(options.spin_nanos) {}

  // Once. Throws std::system_error where the system refuses a thread; those already there end with the pool.
  void Start(bool pin) {
    const std::vector<int> processors = PlanWorkers(ThisTopology(), CgroupProcessorQuota()).processors;
    for (int worker = 1; worker < n_workers_; ++worker) {
      threads_.emplace_back([this, worker] { WorkerLoop(worker); });
      if (pin && static_cast<size_t>(n_workers_) <= processors.size()) {
        cpu_set_t set;
        CPU_ZERO(&set);
        CPU_SET(processors[static_cast<size_t>(worker)], &set);
        ::pthread_setaffinity_np(threads_.back().native_handle(), sizeof(set), &set);
      }
    }
  }

  ~ThreadPool() override {
    stopping_.store(true, std::memory_order_relaxed);
    generation_.fetch_add(1, std::memory_order_release);
    generation_.notify_all();
    for (auto& thread : threads_) thread.join();
  }

  int n_workers() const override { return n_workers_; }

  void Run(FunctionRef<void(int)> fn) override {
    if (n_workers_ == 1) {
      fn(0);
      return;
    }
    job_ = &fn;
    running_.store(static_cast<uint32_t>(n_workers_ - 1), std::memory_order_relaxed);
    generation_.fetch_add(1, std::memory_order_release);
    generation_.notify_all();
    fn(0);
    for (uint32_t left; (left = running_.load(std::memory_order_acquire)) != 0;) {
      AwaitChange(running_, left, spin_nanos_);
    }
  }

  void Barrier(int /*worker*/) override {
    if (n_workers_ == 1) return;
    const uint32_t phase = barrier_phase_.load(std::memory_order_relaxed);
    if (barrier_count_.fetch_add(1, std::memory_order_acq_rel) + 1 == static_cast<uint32_t>(n_workers_)) {
      barrier_count_.store(0, std::memory_order_relaxed);
      barrier_phase_.store(phase + 1, std::memory_order_release);
      barrier_phase_.notify_all();
      return;
    }
    AwaitChange(barrier_phase_, phase, spin_nanos_);
  }

 private:
  void WorkerLoop(int worker) {
    uint32_t seen = 0;
    while (true) {
      seen = AwaitChange(generation_, seen, spin_nanos_);
      if (stopping_.load(std::memory_order_relaxed)) return;
      (*job_)(worker);
      if (running_.fetch_sub(1, std::memory_order_acq_rel) == 1) running_.notify_all();
    }
  }

  int n_workers_;
  int64_t spin_nanos_;
  std::vector<std::thread> threads_;
  FunctionRef<void(int)>* job_ = nullptr;
  std::atomic<bool> stopping_{false};
  alignas(64) std::atomic<uint32_t> generation_{0};
  alignas(64) std::atomic<uint32_t> running_{0};
  alignas(64) std::atomic<uint32_t> barrier_count_{0};
  alignas(64) std::atomic<uint32_t> barrier_phase_{0};
};

}  // namespace

int UsableProcessorCount() { return PlanWorkers(ThisTopology(), CgroupProcessorQuota()).n_workers; }

Result<std::unique_ptr<Executor>> TryMakeThreadPool(const ThreadPoolOptions& options) {
  auto pool = std::make_unique<ThreadPool>(options);
  try {
    pool->Start(options.pin);
  } catch (const std::system_error& error) {
    return Error(ResourceExhaustedError("cannot start " + std::to_string(pool->n_workers()) +
                                        " worker threads: " + error.code().message()));
  }
  return pool;
}

std::unique_ptr<Executor> MakeThreadPool(const ThreadPoolOptions& options) {
  auto pool = TryMakeThreadPool(options);
  SURETY_CHECK_MSG(pool.has_value(), pool.error().message());
  return *std::move(pool);
}

}  // namespace surety
