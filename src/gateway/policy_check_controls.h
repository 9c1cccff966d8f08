// Parts of obligations 8, 9 and 11: that nothing a route promises is lost on the way, and that what goes to people goes
// to those whom the policy names.
//
// Threads: any. Errors: none by status: faults and warnings of the obligation.
#pragma once

#include <array>
#include <vector>

#include "gateway/policy_check.h"

namespace surety::gateway {

// The levels of risk at which each route may be taken: by its own conditions, or as the fallback of one that is.
using RouteRisks = std::vector<std::array<bool, 3>>;

// Obligation 8.
void CheckReviewWays(const CheckInput& input, Obligation& out);       // where a person decides, a queue is named
void CheckLevelsOfControl(const CheckInput& input, const RouteRisks& risks, Obligation& out);
void CheckRouteInvariants(const CheckInput& input, Obligation& out);  // each looks at tools that its route asks
void CheckQueues(const CheckInput& input, const RouteRisks& risks, Obligation& out);
// Obligation 9: `to` is a route with a model.
void CheckKeptPromises(const CheckInput& input, const RouteSpec& from, const RouteSpec& to, Obligation& out);
void CheckModels(const CheckInput& input, Obligation& out);           // obligation 3: keys in the open
// Obligation 11: nothing is generated behind a budget that ran out.
void CheckBudgetWays(const CheckInput& input, Obligation& out);

// Whether a fallback is taken for this cause.
bool TakenFor(const FallbackSpec& fallback, FallbackSpec::Cause cause);

}  // namespace surety::gateway
