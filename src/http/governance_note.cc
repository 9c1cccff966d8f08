#include "http/governance_note.h"

#include <algorithm>
#include <cmath>
#include <cstdio>

#include "http/sse.h"

namespace surety::http {
namespace {

std::string CostText(double cost) {
  char text[32];
  std::snprintf(text, sizeof text, "%.9g", cost);
  return text;
}

std::string MillisText(int64_t nanos) {
  char text[32];
  std::snprintf(text, sizeof text, "%.9gms", static_cast<double>(nanos) * 1e-6);
  return text;
}

void AddObjectives(const api::Decision& decision, HeaderList& headers) {
  std::string text;
  for (const api::Objective& objective : decision.slo) {
    text += (text.empty() ? "" : ", ") + objective.name + "=" + MillisText(objective.limit_ns);
  }
  if (!text.empty()) headers.emplace_back("x-surety-slo", std::move(text));
}

// As OpenAI writes a duration: "120ms", "59.5s", "1m0s".
std::string ResetText(double seconds) {
  const auto millis = static_cast<int64_t>(std::ceil(std::clamp(seconds, 0.0, 1e9) * 1e3));
  char text[48];
  if (millis < 1000) {
    std::snprintf(text, sizeof text, "%dms", static_cast<int>(millis));
  } else if (millis < 60'000) {
    std::snprintf(text, sizeof text, "%.9gs", static_cast<double>(millis) * 1e-3);
  } else {
    std::snprintf(text, sizeof text, "%lldm%.9gs", static_cast<long long>(millis / 60'000),
                  static_cast<double>(millis % 60'000) * 1e-3);
  }
  return text;
}

void AddRateLimit(const api::RateLimit& limit, const std::string& of, HeaderList& headers) {
  if (limit.limit < 0) return;
  headers.emplace_back("x-ratelimit-limit-" + of, std::to_string(limit.limit));
  headers.emplace_back("x-ratelimit-remaining-" + of, std::to_string(limit.remaining));
  headers.emplace_back("x-ratelimit-reset-" + of, ResetText(limit.reset_s));
}

boost::json::object ObjectivesObject(const api::Decision& decision) {
  boost::json::object out;
  for (const api::Objective& objective : decision.slo) out[objective.name] = MillisText(objective.limit_ns);
  return out;
}

}  // namespace

HeaderList GovernanceHeaders(const api::Decision& decision) {
  if (decision.stage != api::Stage::kNone) {  // progress: the rest is not known yet
    HeaderList headers = {{"x-surety-decision-id", decision.id},
                          {"x-surety-route", decision.route},
                          {"x-surety-policy-version", decision.policy_version}};
    AddObjectives(decision, headers);
    return headers;
  }
  HeaderList headers = {{"x-surety-decision-id", decision.id},
                        {"x-surety-route", decision.route},
                        {"x-surety-policy-version", decision.policy_version},
                        {"x-surety-cache", decision.cache},
                        {"x-surety-release", std::string(api::NameOf(decision.outcome))},
                        {"x-surety-attempts", std::to_string(decision.attempts)},
                        {"x-surety-cost", CostText(decision.cost)}};
  if (decision.draft) headers.emplace_back("x-surety-draft", "true");
  AddObjectives(decision, headers);
  AddRateLimit(decision.requests, "requests", headers);
  AddRateLimit(decision.tokens, "tokens", headers);
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

std::string ProgressComment(const api::Decision& decision) {
  boost::json::object note{{"decision_id", decision.id},
                           {"route", decision.route},
                           {"state", api::NameOf(decision.stage)}};
  if (!decision.slo.empty()) note["slo"] = ObjectivesObject(decision);
  std::string out;
  AppendSseComment(out, boost::json::serialize(boost::json::object{{"governance", std::move(note)}}));
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
