// Budgets: the worst case is reserved when a request is admitted, what it really took is settled when it ends.
//
// A request counts against every budget that applies; all are reserved together or none. Windows of rpm and tpm slide
// over 60 s; money windows are aligned to the epoch by their duration, or to calendar months (UTC). What is reserved
// counts until it is settled or given back, whatever window it was reserved in; what is settled counts in the window
// of its settlement, and for the 60 s after it. A request counts for the 60 s after its reservation. Money is kept in
// whole units of 1e-12, so that sums do not drift.
// Threads: any; a reservation may outlive its quota. Errors: kResourceExhausted naming the budget, what is left and
// when it is free again (Denied::retry_after_s).
// Invariants: (1) settled + reserved <= limit after every successful Reserve, so that concurrent callers cannot pass
// the same check twice. (2) Each reservation is settled or given back exactly once; a dropped one gives itself back.
// (3) A limit of 0 allows nothing; no limit allows all.
#pragma once

#include <cstdint>
#include <expected>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include <boost/json/object.hpp>

#include "api/decision.h"
#include "base/clock.h"
#include "base/status.h"
#include "gateway/policy.h"

namespace surety::gateway {

struct QuotaSubject {
  std::string tenant, subject, route, model;
};

struct QuotaAmount {
  double money = 0;
  int64_t tokens = 0;   // input and output
};

class Quota {
 public:
  class Reservation {
   public:
    virtual ~Reservation() = default;           // gives back what was not settled
    // Once. May be more than was reserved: then the window is over its limit. An amount that is no amount (negative,
    // not finite) is settled as what was reserved.
    virtual void Settle(QuotaAmount used) = 0;
  };
  struct Denied {
    Status status;
    double retry_after_s = 0;   // 0: waiting will not help, the request is larger than the budget
    std::string budget;
  };

  static std::unique_ptr<Quota> Make(std::vector<BudgetSpec> budgets, const Clock& clock);
  virtual ~Quota() = default;
  virtual std::expected<std::unique_ptr<Reservation>, Denied> Reserve(const QuotaSubject& who, QuotaAmount worst) = 0;
  // Of the enforced budgets that apply to `who` and count requests, or tokens, a minute: the one with the least left.
  struct Standing {
    api::RateLimit requests, tokens;
  };
  virtual Standing StandingOf(const QuotaSubject& who) const = 0;
  // For admin, an object for each limit of each budget and key: {budget, key, limit_name,
  // limit, used, reserved, remaining, reset_s, shadow}; limit_name: max_budget, rpm_limit, tpm_limit or
  // max_parallel_requests. remaining is never below 0; reset_s: until the money window ends, or until nothing of now
  // counts any more.
  virtual boost::json::array State() const = 0;
  // Money spent and reserved in running windows, to be restored after a restart or into the quota of a new policy.
  virtual boost::json::object Save() const = 0;
  // What was reserved is taken as spent: nobody knows what became of it. Budgets that are no more and windows that have
  // ended are passed over; kDataLoss for what Save did not write, and then nothing is restored.
  virtual Status Restore(const boost::json::object& saved) = 0;
};

// The most that a task can cost which begins at `route`: on each route max_attempts generations of the whole input and
// the whole output, along the dearest path of fallbacks (money and tokens each by its own path). The input is not the
// caller's text, to which instruction, passages, tools and repairs are added: it is all that the route's context takes,
// or, where that sets no limit, `input_tokens`, or what the model of each route takes (`context_tokens` by model; 0 or
// none: kAssumedContextTokens). max_output_tokens <= 0, or more than a route's: the route's.
QuotaAmount WorstCase(const Policy& policy, const RouteSpec& route, int input_tokens, int max_output_tokens);
QuotaAmount WorstCaseOf(const Policy& policy, const RouteSpec& route, const std::map<std::string, int>& context_tokens,
                        int max_output_tokens);
// The cost of a generation by the model's prices. cached_tokens are part of prompt_tokens and priced apart.
struct GenerationCost {
  double prefill = 0, cached_prefill = 0, decode = 0;
};
GenerationCost CostOf(const ModelSpec& model, int prompt_tokens, int cached_tokens, int output_tokens);

}  // namespace surety::gateway
