// Decides whether a request may join the queue, and how long it would wait there: the number ahead times the interval
// at which requests are taken up. The interval is what was seen while there was a queue, over the last ten or the last
// fifty of them, whichever was longer: a run of short answers promises nothing for the next. Until much was seen, what
// the engine expects counts as well.
//
// Threads: any; the engine thread reports what it takes up. Owns: counts only.
// Invariant: each request that Enter let in leaves exactly once, by Started or by Left.
#pragma once

#include <cstdint>
#include <memory>
#include <mutex>
#include <string>
#include <unordered_map>

#include "api/backend.h"

namespace surety::engine {

struct AdmissionOptions {
  int max_waiting = 256;
  int max_waiting_per_tenant = 256;
  int64_t max_queue_wait_ns = 0;  // 0: any
};

class Admission {
 public:
  explicit Admission(const AdmissionOptions& options) : options_(options) {}

  // Null, or the refusal.
  std::unique_ptr<api::Refusal> Enter(api::RequestId id, const std::string& tenant, int64_t timeout_ms);
  // Taken up by the engine thread at `now_ns`.
  void Started(api::RequestId id, int64_t now_ns);
  void Left(api::RequestId id);  // ended without having been taken up
  void SetPlacesFree(int n);     // in the batch, as of the last step
  void SetExpectedInterval(int64_t ns);  // from what runs; 0: not known, the last one stays
  void Drain();

  int n_waiting() const;
  int64_t PredictedWaitNs() const;

 private:
  int64_t PredictedWaitLocked() const;
  void Forget(api::RequestId id);

  AdmissionOptions options_;
  mutable std::mutex mutex_;
  std::unordered_map<api::RequestId, std::string> waiting_;
  std::unordered_map<std::string, int> by_tenant_;
  bool draining_ = false;
  int places_free_ = 1;
  int64_t last_start_ns_ = 0;
  bool had_queue_ = false;      // others waited when the last one was taken up
  // Time with a queue, and how many were taken up in it, fading.
  struct Seen {
    double fade;
    double nanos = 0, n = 0;
    void Add(double interval_ns) {
      nanos = nanos * fade + interval_ns;
      n = n * fade + 1;
    }
    double IntervalNs(double expected_ns, double weight) const { return (nanos + weight * expected_ns) / (n + weight); }
  };
  Seen lately_{0.9}, longer_{0.98};
  double expected_ns_ = 0;
};

}  // namespace surety::engine
