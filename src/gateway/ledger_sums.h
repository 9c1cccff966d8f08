// What the ledger counts of one route, and its words in reports.
//
// Threads: a value. Units: money in the policy's currency, seconds.
#pragma once

#include <array>
#include <string>
#include <string_view>
#include <vector>

#include <boost/json/object.hpp>

#include "gateway/decision_record.h"
#include "gateway/ledger.h"

namespace surety::gateway {

enum class Sum : uint8_t {
  kDecisions, kNone, kStreamed, kHeld, kTemplate, kReview, kRefused,   // outcomes in the order of api::Outcome
  kAccepted, kReleased, kFailed,
  kPrefill, kCachedPrefill, kDecode, kTools, kVerify, kReviewCost,     // in the order of CostParts
  kShadowCost,
  kSpend,                                                              // their sum, added up apart
  kAvoided,
  kHits, kMisses, kBypasses,
  kShadowSame, kShadowDifferent, kShadowDropped,   // in the order of ShadowOutcome::Result
  kPromptTokens, kCachedTokens, kOutputTokens,
  kAttempts, kRetries, kFallbacks, kTimeoutsGenerate, kTimeoutsRequest,
  kApproved, kRejected, kEdited, kEditDistance, kReviewSeconds,
  kPass, kFail, kError, kChecked, kAllPassed,
  kCount,
};

struct LedgerSums {
  std::array<double, static_cast<size_t>(Sum::kCount)> values{};

  double& operator[](Sum sum) { return values[static_cast<size_t>(sum)]; }
  double operator[](Sum sum) const { return values[static_cast<size_t>(sum)]; }
  void Add(const LedgerSums& other);
  double SumOfParts() const;
};

inline constexpr std::array<std::string_view, 7> kCostNames = {"prefill", "cached_prefill", "decode", "tools",
                                                               "verify",  "review",         "shadow"};
// In the same order; a decision has no cost of shadows. What is negative or no number counts as nothing.
std::array<double, 7> PartsOf(const CostParts& cost);

// "route:model:outcome" of a record's attempts, taken apart: the model may hold colons.
struct Attempt {
  std::string route, model, outcome;
};
std::vector<Attempt> AttemptsOf(const DecisionRecord& record);
// "DEADLINE_EXCEEDED" of "DEADLINE_EXCEEDED: message"; empty if there is no error.
std::string ErrorCodeOf(const DecisionRecord& record);
// The service failed: it was late, overloaded or broken. Not: a caller who left, or asked for something wrong.
bool ServiceFailed(const DecisionRecord& record);
// Released without a person and held back by nothing. What people approve is accepted as well, when they do.
bool AcceptedWithoutReview(const DecisionRecord& record);

LedgerSums SumsOf(const DecisionRecord& record);
LedgerSums SumsOf(const ReviewOutcome& outcome);
LedgerSums SumsOf(const ShadowOutcome& outcome);

// For `surety slo`: docs/governance.md, The ledger's report.
boost::json::object ReportOf(const LedgerSums& sums, double all_decisions);

}  // namespace surety::gateway
