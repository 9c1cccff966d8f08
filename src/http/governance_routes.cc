#include "http/governance_routes.h"

#include <charconv>
#include <utility>

#include "http/json_body.h"
#include "http/json_route.h"

namespace surety::http {
namespace {

Parsed<boost::json::object> FromGovernance(Result<boost::json::object> result, const std::string& param = {}) {
  if (!result) {
    ApiError error = ErrorOf(result.error(), param);
    // The state of a ticket or decision is at fault, not what the model can do.
    if (result.error().code() == StatusCode::kFailedPrecondition) {
      error.status = 409;
      error.code = "conflict";
    }
    if (result.error().code() == StatusCode::kUnimplemented) {  // the path takes another method
      error.status = 405;
      error.code = "method_not_allowed";
    }
    return std::unexpected(std::move(error));
  }
  return *std::move(result);
}

api::Caller CallerOf(const HttpRequest& request) {
  return {request.identity.subject, request.identity.role == Role::kAdmin, request.identity.claims, {}};
}

std::string PercentEncoded(std::string_view text) {
  static constexpr char kHex[] = "0123456789ABCDEF";
  std::string out;
  for (const char c : text) {
    const auto byte = static_cast<unsigned char>(c);
    const bool plain = (byte >= '0' && byte <= '9') || (byte >= 'A' && byte <= 'Z') || (byte >= 'a' && byte <= 'z') ||
                       byte == '-' || byte == '_' || byte == '.';
    if (plain) {
      out += c;
    } else {
      out += {'%', kHex[byte >> 4], kHex[byte & 15]};
    }
  }
  return out;
}

Parsed<boost::json::object> Review(gateway::Governance& governance, const HttpRequest& request) {
  boost::json::object body;
  if (!request.body.empty()) {
    auto parsed = ParseJsonBody(request.body);
    if (!parsed) return std::unexpected(parsed.error());
    body = *std::move(parsed);
  }
  std::string target = request.path;
  char separator = '?';
  for (const auto& [key, value] : request.query) {
    target += std::exchange(separator, '&') + PercentEncoded(key) + "=" + PercentEncoded(value);
  }
  const auto call = gateway::ReviewCallOf(request.method, target, body);
  if (!call) return FromGovernance(Error(call.error()));
  const auto reviewer = governance.ReviewerOf(CallerOf(request));
  if (!reviewer) return FromGovernance(Error(reviewer.error()));
  return FromGovernance(governance.review().Handle(*reviewer, call->action, call->arguments));
}

}  // namespace

std::vector<Route> GovernanceRoutes(gateway::Governance& governance, const PostTask& post) {
  std::vector<Route> routes;
  routes.push_back(MakeJsonRoute("GET", "/v1/decisions/*", Role::kUser, post, [&](const HttpRequest& request) {
    constexpr size_t kPrefix = std::string_view("/v1/decisions/").size();
    return FromGovernance(governance.StateOf(request.path.substr(kPrefix), CallerOf(request)));
  }));
  for (const char* method : {"GET", "POST"}) {
    routes.push_back(MakeJsonRoute(method, "/v1/review/*", Role::kUser, post, [&](const HttpRequest& request) {
      return Review(governance, request);
    }));
  }
  return routes;
}

std::vector<Route> GovernanceAdminRoutes(gateway::Governance& governance, const PostTask& post) {
  std::vector<Route> routes;
  const auto add = [&](const char* method, const char* path, JsonWork work) {
    routes.push_back(MakeJsonRoute(method, path, Role::kAdmin, post, std::move(work)));
  };
  add("GET", "/admin/policy", [&](const HttpRequest&) -> Parsed<boost::json::object> { return governance.Describe(); });
  add("GET", "/admin/slo", [&](const HttpRequest&) -> Parsed<boost::json::object> { return governance.Slo(); });
  add("POST", "/admin/policy/reload", [&](const HttpRequest&) { return FromGovernance(governance.Reload()); });
  const auto by_decision = [&](const HttpRequest& request,
                               const std::function<Result<boost::json::object>(const std::string&)>& act)
      -> Parsed<boost::json::object> {
    const auto fields = StringFields::Of(request, {"decision"});
    if (!fields) return std::unexpected(fields.error());
    if (fields->Get("decision").empty()) return BadField("decision", "'decision' must name the decision", "missing");
    return FromGovernance(act(fields->Get("decision")), "decision");
  };
  add("POST", "/admin/replay", [&, by_decision](const HttpRequest& request) {
    return by_decision(request, [&](const std::string& id) { return governance.Replay(id); });
  });
  add("POST", "/admin/cache/forget", [&, by_decision](const HttpRequest& request) {
    return by_decision(request, [&](const std::string& id) { return governance.ForgetDecision(id); });
  });
  add("GET", "/admin/writes",
      [&](const HttpRequest&) -> Parsed<boost::json::object> { return governance.UnfinishedWrites(); });
  add("POST", "/admin/writes/settle", [&](const HttpRequest& request) -> Parsed<boost::json::object> {
    const auto fields = StringFields::Of(request, {"decision", "step", "state", "reason"});
    if (!fields) return std::unexpected(fields.error());
    for (const char* name : {"decision", "state", "reason"}) {
      if (fields->Get(name).empty()) return BadField(name, std::string("'") + name + "' is missing", "missing");
    }
    const std::string step = fields->Get("step").empty() ? "0" : fields->Get("step");
    int number = -1;
    const auto read = std::from_chars(step.data(), step.data() + step.size(), number);
    if (read.ec != std::errc() || read.ptr != step.data() + step.size()) {
      return BadField("step", "'step' must be the number of the write, as a text: \"0\" for the first", "invalid");
    }
    return FromGovernance(governance.SettleWrite(fields->Get("decision"), number, fields->Get("state"),
                                                 request.identity.subject, fields->Get("reason")));
  });
  add("POST", "/admin/forget-subject", [&](const HttpRequest& request) -> Parsed<boost::json::object> {
    const auto fields = StringFields::Of(request, {"tenant", "subject"});
    if (!fields) return std::unexpected(fields.error());
    for (const char* name : {"tenant", "subject"}) {
      if (fields->Get(name).empty()) return BadField(name, std::string("'") + name + "' is missing", "missing");
    }
    return FromGovernance(governance.ForgetSubject(fields->Get("tenant"), fields->Get("subject")));
  });
  return routes;
}

}  // namespace surety::http
