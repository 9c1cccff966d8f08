#include "gateway/ledger_sums.h"

#include <algorithm>
#include <cmath>

namespace surety::gateway {
namespace {

using boost::json::object;
using boost::json::value;

// Of nothing there is no share.
value ShareOf(double part, double whole) { return whole > 0 ? value(part / whole) : value(nullptr); }

double MoneyOf(double amount) { return std::isfinite(amount) && amount > 0 ? amount : 0; }

int64_t WholeOf(double count) { return static_cast<int64_t>(std::llround(count)); }

}  // namespace

void LedgerSums::Add(const LedgerSums& other) {
  for (size_t i = 0; i < values.size(); ++i) values[i] += other.values[i];
}

double LedgerSums::SumOfParts() const {
  double sum = 0;
  for (size_t i = 0; i < kCostNames.size(); ++i) sum += values[static_cast<size_t>(Sum::kPrefill) + i];
  return sum;
}

std::array<double, 7> PartsOf(const CostParts& cost) {
  return {MoneyOf(cost.prefill), MoneyOf(cost.cached_prefill), MoneyOf(cost.decode), MoneyOf(cost.tools),
          MoneyOf(cost.verify),  MoneyOf(cost.review),         0};
}

std::vector<Attempt> AttemptsOf(const DecisionRecord& record) {
  std::vector<Attempt> attempts;
  for (const std::string& text : record.attempts) {
    const size_t first = text.find(':'), last = text.rfind(':');
    if (first == std::string::npos || first == last) {
      attempts.push_back({text.substr(0, first), "", first == std::string::npos ? "" : text.substr(first + 1)});
    } else {
      attempts.push_back({text.substr(0, first), text.substr(first + 1, last - first - 1), text.substr(last + 1)});
    }
  }
  return attempts;
}

std::string ErrorCodeOf(const DecisionRecord& record) {
  const std::string code = record.error.substr(0, record.error.find(':'));
  if (code.empty()) return code;
  for (int i = 0; i <= static_cast<int>(StatusCode::kIoError); ++i) {
    if (StatusCodeName(static_cast<StatusCode>(i)) == code) return code;
  }
  return std::string(StatusCodeName(StatusCode::kInternal));  // a text, which must not become a label
}

// What the policy lets a caller spend is no fault of the service; a model that is full is.
bool OverBudgetAlone(const DecisionRecord& record) {
  const std::vector<Attempt> attempts = AttemptsOf(record);
  return !attempts.empty() &&
         std::ranges::all_of(attempts, [](const Attempt& attempt) { return attempt.outcome == "budget"; });
}

bool ServiceFailed(const DecisionRecord& record) {
  static constexpr std::array<StatusCode, 8> kOfCallers = {
      StatusCode::kCancelled,        StatusCode::kInvalidArgument,    StatusCode::kNotFound,
      StatusCode::kPermissionDenied, StatusCode::kUnauthenticated,    StatusCode::kFailedPrecondition,
      StatusCode::kOutOfRange,       StatusCode::kUnimplemented};
  const std::string code = ErrorCodeOf(record);
  if (code == StatusCodeName(StatusCode::kResourceExhausted) && OverBudgetAlone(record)) return false;
  return !code.empty() && std::ranges::none_of(kOfCallers, [&](StatusCode of) { return StatusCodeName(of) == code; });
}

bool AcceptedWithoutReview(const DecisionRecord& record) {
  const api::Outcome outcome = record.decision.outcome;
  const bool left = outcome == api::Outcome::kStreamed || outcome == api::Outcome::kHeld ||
                    outcome == api::Outcome::kTemplate;
  return left && record.error.empty() && record.decision.verifier.empty();
}

LedgerSums SumsOf(const DecisionRecord& record) {
  LedgerSums sums;
  sums[Sum::kDecisions] = 1;
  sums[static_cast<Sum>(static_cast<int>(Sum::kNone) + static_cast<int>(record.decision.outcome))] = 1;
  sums[Sum::kAccepted] = sums[Sum::kReleased] = AcceptedWithoutReview(record) ? 1 : 0;
  sums[Sum::kFailed] = ServiceFailed(record) ? 1 : 0;
  const std::array<double, 7> parts = PartsOf(record.cost);
  for (size_t i = 0; i < parts.size(); ++i) {
    sums.values[static_cast<size_t>(Sum::kPrefill) + i] = parts[i];
    sums[Sum::kSpend] += parts[i];
  }
  sums[Sum::kAvoided] = MoneyOf(record.avoided_cost);
  const std::string& cache = record.decision.cache;
  if (cache.starts_with("hit")) sums[Sum::kHits] = 1;
  else if (cache.starts_with("miss")) sums[Sum::kMisses] = 1;
  else sums[Sum::kBypasses] = 1;
  sums[Sum::kPromptTokens] = std::max(record.usage.prompt_tokens, 0);
  sums[Sum::kCachedTokens] = std::max(record.usage.cached_tokens, 0);
  sums[Sum::kOutputTokens] = std::max(record.usage.output_tokens, 0);
  const std::vector<Attempt> attempts = AttemptsOf(record);
  sums[Sum::kAttempts] = static_cast<double>(attempts.size());
  for (size_t i = 0; i < attempts.size(); ++i) {
    if (attempts[i].outcome == "timeout") ++sums[Sum::kTimeoutsGenerate];
    if (i > 0) ++sums[attempts[i].route == attempts[i - 1].route ? Sum::kRetries : Sum::kFallbacks];
  }
  if (ErrorCodeOf(record) == StatusCodeName(StatusCode::kDeadlineExceeded)) sums[Sum::kTimeoutsRequest] = 1;
  bool all_passed = true;
  for (const Verdict& verdict : record.verdicts) {
    const bool passed = verdict.outcome == Verdict::Outcome::kPass;
    ++sums[passed ? Sum::kPass : verdict.outcome == Verdict::Outcome::kFail ? Sum::kFail : Sum::kError];
    all_passed = all_passed && passed;
  }
  if (!record.verdicts.empty()) {
    sums[Sum::kChecked] = 1;
    sums[Sum::kAllPassed] = all_passed ? 1 : 0;
  }
  return sums;
}

LedgerSums SumsOf(const ReviewOutcome& outcome) {
  LedgerSums sums;
  sums[Sum::kAccepted] = sums[Sum::kApproved] = outcome.approved ? 1 : 0;
  sums[Sum::kRejected] = outcome.approved ? 0 : 1;
  sums[Sum::kEdited] = outcome.approved && outcome.edit_distance > 0 ? 1 : 0;
  sums[Sum::kEditDistance] = outcome.approved ? MoneyOf(outcome.edit_distance) : 0;
  sums[Sum::kReviewSeconds] = NanosToSeconds(std::max<int64_t>(outcome.review_ns, 0));
  sums[Sum::kReviewCost] = sums[Sum::kSpend] = MoneyOf(outcome.cost);
  return sums;
}

LedgerSums SumsOf(const ShadowOutcome& outcome) {
  LedgerSums sums;
  sums[static_cast<Sum>(static_cast<int>(Sum::kShadowSame) + static_cast<int>(outcome.result))] = 1;
  sums[Sum::kShadowCost] = sums[Sum::kSpend] = MoneyOf(outcome.cost);
  return sums;
}

object ReportOf(const LedgerSums& sums, double all_decisions) {
  object outcomes;
  for (int i = 0; i <= static_cast<int>(api::Outcome::kRefused); ++i) {
    outcomes[api::NameOf(static_cast<api::Outcome>(i))] =
        WholeOf(sums[static_cast<Sum>(static_cast<int>(Sum::kNone) + i)]);
  }
  object parts;
  for (size_t i = 0; i < kCostNames.size(); ++i) {
    parts[kCostNames[i]] = sums.values[static_cast<size_t>(Sum::kPrefill) + i];
  }
  const double decisions = sums[Sum::kDecisions], reviews = sums[Sum::kApproved] + sums[Sum::kRejected];
  const double verdicts = sums[Sum::kPass] + sums[Sum::kFail] + sums[Sum::kError];
  object out;
  out["decisions"] = WholeOf(decisions);
  out["share"] = ShareOf(decisions, all_decisions);
  out["outcomes"] = std::move(outcomes);
  out["failed"] = WholeOf(sums[Sum::kFailed]);
  out["accepted"] = WholeOf(sums[Sum::kAccepted]);
  out["acceptance"] = ShareOf(sums[Sum::kAccepted], decisions);
  out["cost"] = object{{"parts", std::move(parts)},
                       {"total", sums[Sum::kSpend]},
                       {"avoided", sums[Sum::kAvoided]},
                       {"per_accepted_task", ShareOf(sums[Sum::kSpend], sums[Sum::kAccepted])}};
  out["response_cache"] = object{{"hits", WholeOf(sums[Sum::kHits])},
                                 {"misses", WholeOf(sums[Sum::kMisses])},
                                 {"bypasses", WholeOf(sums[Sum::kBypasses])},
                                 {"hit_rate", ShareOf(sums[Sum::kHits], sums[Sum::kHits] + sums[Sum::kMisses])},
                                 {"shadow_same", WholeOf(sums[Sum::kShadowSame])},
                                 {"shadow_different", WholeOf(sums[Sum::kShadowDifferent])},
                                 {"shadow_dropped", WholeOf(sums[Sum::kShadowDropped])}};
  out["prefix_cache"] = object{{"prompt_tokens", WholeOf(sums[Sum::kPromptTokens])},
                               {"cached_tokens", WholeOf(sums[Sum::kCachedTokens])},
                               {"hit_rate", ShareOf(sums[Sum::kCachedTokens], sums[Sum::kPromptTokens])}};
  out["output_tokens"] = WholeOf(sums[Sum::kOutputTokens]);
  out["attempts"] = WholeOf(sums[Sum::kAttempts]);
  out["retries"] = WholeOf(sums[Sum::kRetries]);
  out["fallbacks"] = WholeOf(sums[Sum::kFallbacks]);
  out["timeouts"] = object{{"generate", WholeOf(sums[Sum::kTimeoutsGenerate])},
                           {"request", WholeOf(sums[Sum::kTimeoutsRequest])}};
  out["people"] = object{{"escalations", WholeOf(sums[Sum::kReview])},
                         {"approved", WholeOf(sums[Sum::kApproved])},
                         {"rejected", WholeOf(sums[Sum::kRejected])},
                         {"edited", WholeOf(sums[Sum::kEdited])},
                         {"overrides", WholeOf(sums[Sum::kRejected] + sums[Sum::kEdited])},
                         {"override_rate", ShareOf(sums[Sum::kRejected] + sums[Sum::kEdited], reviews)},
                         {"edit_distance", ShareOf(sums[Sum::kEditDistance], sums[Sum::kApproved])},
                         {"review_seconds", ShareOf(sums[Sum::kReviewSeconds], reviews)}};
  out["verifiers"] = object{{"pass", WholeOf(sums[Sum::kPass])},
                            {"fail", WholeOf(sums[Sum::kFail])},
                            {"error", WholeOf(sums[Sum::kError])},
                            {"pass_rate", ShareOf(sums[Sum::kPass], verdicts)},
                            {"answers_passed", ShareOf(sums[Sum::kAllPassed], sums[Sum::kChecked])}};
  return out;
}

}  // namespace surety::gateway
