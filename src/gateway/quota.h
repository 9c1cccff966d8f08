// Budgets: the worst case is reserved when a request is admitted, what it really took is settled when it ends.
//
// A request counts against every budget that applies; all are reserved together or none. Windows of rpm and tpm slide
// over 60 s; money windows are aligned to the epoch by their duration, or to calendar months (UTC).
// Threads: any. Errors: kResourceExhausted naming the budget, what is left and when it is free again (Refusal::retry).
// Invariants: (1) settled + reserved <= limit after every successful Reserve, so that concurrent callers cannot pass
// the same check twice. (2) Each reservation is settled or given back exactly once; a dropped one gives itself back.
// (3) A limit of 0 allows nothing; no limit allows all.
#pragma once

#include <cstdint>
#include <expected>
#include <memory>
#include <string>
#include <vector>

#include <boost/json/object.hpp>

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
    virtual void Settle(QuotaAmount used) = 0;  // may be more than was reserved: then the window is over its limit
  };
  struct Denied {
    Status status;
    double retry_after_s = 0;
    std::string budget;
  };

  static std::unique_ptr<Quota> Make(std::vector<BudgetSpec> budgets, const Clock& clock);
  virtual ~Quota() = default;
  virtual std::expected<std::unique_ptr<Reservation>, Denied> Reserve(const QuotaSubject& who, QuotaAmount worst) = 0;
  // For x-ratelimit headers and admin: limit, used, reserved, reset by budget and key.
  virtual boost::json::array State() const = 0;
  // Money spent in running windows, to be restored after a restart.
  virtual boost::json::object Save() const = 0;
  virtual Status Restore(const boost::json::object& saved) = 0;
};

// The most that a route can cost: max_input and max_output, times candidates and attempts, over its dearest model in
// reach through fallbacks.
QuotaAmount WorstCase(const Policy& policy, const RouteSpec& route, int input_tokens, int max_output_tokens);
// The cost of a generation by the model's prices. cached_tokens are part of prompt_tokens and priced apart.
struct GenerationCost {
  double prefill = 0, cached_prefill = 0, decode = 0;
};
GenerationCost CostOf(const ModelSpec& model, int prompt_tokens, int cached_tokens, int output_tokens);

}  // namespace surety::gateway
