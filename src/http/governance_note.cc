#include "http/governance_note.h"

#include <cstdio>

namespace surety::http {
namespace {

std::string CostText(double cost) {
  char text[32];
  std::snprintf(text, sizeof text, "%.9g", cost);
  return text;
}

}  // namespace

HeaderList GovernanceHeaders(const api::Decision& decision) {
  HeaderList headers = {{"x-surety-decision-id", decision.id},
                        {"x-surety-route", decision.route},
                        {"x-surety-policy-version", decision.policy_version},
                        {"x-surety-cache", decision.cache},
                        {"x-surety-release", std::string(api::NameOf(decision.outcome))},
                        {"x-surety-attempts", std::to_string(decision.attempts)},
                        {"x-surety-cost", CostText(decision.cost)}};
  if (decision.draft) headers.emplace_back("x-surety-draft", "true");
  std::erase_if(headers, [](const auto& header) { return header.second.empty(); });
  return headers;
}

boost::json::object GovernanceObject(const api::Decision& decision) {
  boost::json::object out{{"decision_id", decision.id},
                          {"route", decision.route},
                          {"policy_version", decision.policy_version},
                          {"cache", decision.cache},
                          {"release", api::NameOf(decision.outcome)},
                          {"draft", decision.draft},
                          {"attempts", decision.attempts},
                          {"cost", decision.cost}};
  if (!decision.verifier.empty()) out["verifier"] = decision.verifier;
  if (!decision.review_ticket.empty()) out["review_ticket"] = decision.review_ticket;
  return out;
}

std::string GovernanceMember(const std::shared_ptr<const api::Decision>& decision) {
  if (decision == nullptr) return "";
  return ",\"governance\":" + boost::json::serialize(GovernanceObject(*decision));
}

void AddGovernance(const std::shared_ptr<const api::Decision>& decision, ApiError& error) {
  if (decision == nullptr) return;
  error.more["governance"] = GovernanceObject(*decision);
  if (decision->retry_after_s > 0) error.retry_after_s = decision->retry_after_s;
  if (decision->outcome == api::Outcome::kReview) {
    error.status = 409;
    error.type = "review_pending";
    error.code = "review_pending";
  }
}

ApiError FilteredError(const std::shared_ptr<const api::Decision>& decision) {
  ApiError error;
  error.status = 403;
  error.type = "content_filter";
  error.code = "content_filter";
  error.message = "a check of the whole answer kept it back";
  AddGovernance(decision, error);
  return error;
}

}  // namespace surety::http
