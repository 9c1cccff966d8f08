// What decisions took and cost, by route: metrics, objectives with their burn rates, cost per accepted task.
//
// Threads: any. Owns: its series in the registry. Labels: route, verifier, outcome, cause, stage; never a tenant with a
// user and a route together.
#pragma once

#include <memory>
#include <string>

#include <boost/json/object.hpp>

#include "base/clock.h"
#include "gateway/decision_record.h"
#include "gateway/policy.h"
#include "observe/metrics.h"

namespace surety::gateway {

struct ReviewOutcome {
  std::string route, queue;
  bool approved = false;
  double edit_distance = 0;
  int64_t review_ns = 0;      // people's time
  double cost = 0;
};

// Of an answer from the cache that was computed again after its release.
struct ShadowOutcome {
  enum class Result : uint8_t { kSame, kDifferent, kDropped };   // kDropped: not computed, or not comparable
  std::string route;
  Result result = Result::kDropped;
  double cost = 0;
};

class Ledger {
 public:
  static std::unique_ptr<Ledger> Make(const Policy& policy, observe::Registry& metrics, const Clock& clock);
  virtual ~Ledger() = default;
  virtual void Record(const DecisionRecord& record) = 0;     // once a decision, when it has ended
  virtual void Record(const ReviewOutcome& outcome) = 0;
  virtual void Record(const ShadowOutcome& outcome) = 0;
  virtual void UsePolicy(const Policy& policy) = 0;          // after a reload
  // p50/p95/p99 of total, ttft, ttfu, queue; shares of routes, cache outcomes, fallbacks, timeouts; cost per accepted
  // task; objectives with error budget left and burn rates over 5 min, 1 h, 6 h: the JSON of `surety slo`.
  virtual boost::json::object Report() const = 0;
};

}  // namespace surety::gateway
