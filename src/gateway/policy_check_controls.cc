#include "gateway/policy_check_controls.h"

#include <algorithm>
#include <set>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "gateway/http_client.h"
#include "gateway/tools.h"

namespace surety::gateway {
namespace {

bool ControlHas(const std::vector<std::string>& names, const std::string& name) {
  return std::ranges::find(names, name) != names.end();
}

std::vector<std::string> LackingIn(const std::vector<std::string>& whole, const std::vector<std::string>& part) {
  std::vector<std::string> lacking;
  for (const std::string& name : part) {
    if (!ControlHas(whole, name)) lacking.push_back(name);
  }
  return lacking;
}

// What sends an answer of this route, or a request that it cannot answer, to a person; empty: nothing.
std::string WayToReview(const Policy& policy, const RouteSpec& route) {
  if (route.answer == RouteSpec::Answer::kTools) return "the facts of its tools go to a person";
  if (route.answer != RouteSpec::Answer::kModel) return "";
  for (const std::string& name : route.tools) {
    const auto tool = policy.tools.find(name);
    if (tool == policy.tools.end() || tool->second.kind != ToolSpec::Kind::kRead) continue;
    if (tool->second.mandatory) return fmt::format("without a result of the tool '{}' a person answers", name);
    if (tool->second.fresh_ns > 0) return fmt::format("where the tool '{}' is out of date a person answers", name);
    if (!route.invariants.empty()) return "where its tools contradict each other a person answers";
  }
  if (route.release.mode == ReleaseSpec::Mode::kStream) return "";  // its verifiers end the stream
  for (const std::string& name : route.verify) {
    const auto verifier = policy.verifiers.find(name);
    if (verifier == policy.verifiers.end()) continue;
    const VerifierSpec& spec = verifier->second;
    if (spec.fail != VerifierSpec::Action::kBlock) {
      return fmt::format("verifier '{}' sends what fails to a person (fail: {})", name,
                         spec.fail == VerifierSpec::Action::kReview ? "review" : "repair");
    }
    if (spec.error != VerifierSpec::Action::kBlock && !spec.open_on_error) {
      return fmt::format("verifier '{}' sends what it cannot judge to a person (error: {})", name,
                         spec.error == VerifierSpec::Action::kReview ? "review" : "repair");
    }
  }
  return "";
}

bool AsksForFourEyes(const Policy& policy, const RouteSpec& route) {
  return std::ranges::any_of(route.tools, [&](const std::string& name) {
    const auto tool = policy.tools.find(name);
    return tool != policy.tools.end() && tool->second.kind == ToolSpec::Kind::kWrite && tool->second.four_eyes;
  });
}

// Routes with a model that fallbacks lead to from here.
void ModelsBehind(const Policy& policy, const RouteSpec& route, std::set<std::string>& seen,
                  std::vector<std::string>& models) {
  if (!seen.insert(route.name).second) return;
  if (route.answer == RouteSpec::Answer::kModel) models.push_back(route.name);
  for (const FallbackSpec& fallback : route.fallback) {
    if (const RouteSpec* to = policy.FindRoute(fallback.to)) ModelsBehind(policy, *to, seen, models);
  }
}

}  // namespace

bool TakenFor(const FallbackSpec& fallback, FallbackSpec::Cause cause) {
  return fallback.on.empty() || std::ranges::find(fallback.on, cause) != fallback.on.end();
}

void CheckReviewWays(const CheckInput& input, Obligation& out) {
  for (const RouteSpec& route : input.policy.routes) {
    if (!route.queue.empty() || !route.release.review.empty()) continue;
    const std::string way = WayToReview(input.policy, route);
    if (way.empty()) continue;
    out.faults.push_back(fmt::format("route '{}': {}, and it names no queue: give it queue: NAME of review", route.name,
                                     way));
  }
}

void CheckLevelsOfControl(const CheckInput& input, const RouteRisks& risks, Obligation& out) {
  const Policy& policy = input.policy;
  const auto& required = policy.risk.verify;
  for (size_t r = 0; r < policy.routes.size(); ++r) {
    const RouteSpec& route = policy.routes[r];
    if (!Generates(route)) continue;
    size_t top = 3;
    while (top > 0 && !risks[r][top - 1]) --top;
    if (top == 0) continue;
    const Level level = static_cast<Level>(top - 1);
    if (required) {
      for (size_t l = 0; l < top; ++l) {
        for (const std::string& name : LackingIn(route.verify, (*required)[l])) {
          out.faults.push_back(fmt::format("route '{}' can be taken at {} risk and lacks verifier '{}', which "
                                           "risk.verify asks for from {} on", route.name, NameOf(level), name,
                                           NameOf(static_cast<Level>(l))));
        }
      }
      continue;
    }
    for (size_t o = 0; o < policy.routes.size(); ++o) {
      const RouteSpec& other = policy.routes[o];
      bool lower = false;
      for (size_t l = 0; l + 1 < top; ++l) lower = lower || risks[o][l];
      if (o == r || !lower || !Generates(other)) continue;
      for (const std::string& name : LackingIn(route.verify, other.verify)) {
        out.faults.push_back(fmt::format("route '{}' can be taken at {} risk and lacks verifier '{}', by which route "
                                         "'{}' is checked at a lower one; add it, or say with risk.verify what each "
                                         "level needs", route.name, NameOf(level), name, other.name));
      }
    }
  }
}

void CheckRouteInvariants(const CheckInput& input, Obligation& out) {
  for (const RouteSpec& route : input.policy.routes) {
    if (!route.invariants.empty() && !Generates(route)) {
      out.faults.push_back(fmt::format("route '{}' has no model, so its tools are not asked and its invariants enforce "
                                       "nothing: take them away", route.name));
      continue;
    }
    for (const std::string& name : route.invariants) {
      const auto invariant = input.policy.invariants.find(name);
      if (invariant == input.policy.invariants.end()) {
        out.faults.push_back(fmt::format("route '{}': its invariant '{}' is not defined", route.name, name));
        continue;
      }
      for (const std::string& expression : {invariant->second.when, invariant->second.require}) {
        if (expression.empty()) continue;
        const auto tools = ToolsOfInvariant(expression);
        if (!tools) {
          out.faults.push_back(fmt::format("invariant '{}': {}", name, tools.error().message()));
          continue;
        }
        for (const std::string& tool : *tools) {
          const auto spec = input.policy.tools.find(tool);
          const bool read = spec != input.policy.tools.end() && spec->second.kind == ToolSpec::Kind::kRead;
          if (read && ControlHas(route.tools, tool)) continue;
          out.faults.push_back(fmt::format("route '{}': invariant '{}' looks at '{}', which {}: it could never hold",
                                           route.name, name, tool,
                                           read ? "this route does not ask" : "is no tool that reads"));
        }
      }
    }
  }
}

void CheckQueues(const CheckInput& input, const RouteRisks& risks, Obligation& out) {
  const Policy& policy = input.policy;
  for (const auto& [name, queue] : policy.review) {
    if (queue.permission.empty()) {
      out.faults.push_back(fmt::format("review queue '{}' has no permission: every caller of the tenant could decide "
                                       "in it", name));
    } else if (queue.permission == kAdministratorsAlone) {
      out.warnings.push_back(fmt::format("review queue '{}' names no permission: administrators alone decide in it",
                                         name));
    }
    for (size_t r = 0; r < policy.routes.size(); ++r) {
      const RouteSpec& route = policy.routes[r];
      if (route.queue != name && route.release.review != name) continue;
      if (queue.approvals < 2 && AsksForFourEyes(policy, route)) {
        out.faults.push_back(fmt::format("route '{}': its writes need four eyes, and queue '{}' asks for {} approval",
                                         route.name, name, queue.approvals));
      }
      if (!queue.exclude_author && risks[r][static_cast<size_t>(Level::kHigh)]) {
        out.warnings.push_back(fmt::format("route '{}': in queue '{}' who asked may approve an answer of high risk "
                                           "(exclude: [])", route.name, name));
      }
    }
  }
}

void CheckKeptPromises(const CheckInput& input, const RouteSpec& from, const RouteSpec& to, Obligation& out) {
  const auto fault = [&](std::string what) {
    out.faults.push_back(fmt::format("route '{}' falls back to '{}', {}", from.name, to.name, what));
  };
  for (const std::string& name : LackingIn(to.verify, from.verify)) {
    fault(fmt::format("which lacks verifier '{}'", name));
  }
  for (const std::string& name : LackingIn(to.tools, from.tools)) {
    fault(fmt::format("which does not ask tool '{}'", name));
  }
  for (const std::string& name : LackingIn(to.invariants, from.invariants)) {
    fault(fmt::format("which lacks invariant '{}'", name));
  }
  const auto forbidden = [&](const RouteSpec& route) {
    const auto context = input.policy.contexts.find(route.context);
    return context == input.policy.contexts.end() ? std::vector<std::string>{} : context->second.forbidden;
  };
  for (const std::string& kind : LackingIn(forbidden(to), forbidden(from))) {
    fault(fmt::format("whose context does not keep '{}' out", kind));
  }
  if (!from.release.review.empty() && to.release.review.empty()) fault("which has no review");
  if (from.release.mode == ReleaseSpec::Mode::kHeld && to.release.mode == ReleaseSpec::Mode::kStream) {
    fault("which streams what was to be held");
  }
  if (from.release.audience == ReleaseSpec::Audience::kInternal &&
      to.release.audience == ReleaseSpec::Audience::kCustomer && Generates(from)) {
    fault("which answers customers where internal readers were meant");
  }
}

void CheckModels(const CheckInput& input, Obligation& out) {
  for (const auto& [name, model] : input.policy.models) {
    if (model.engine != ModelSpec::Engine::kRemote || model.api_key.empty()) continue;
    const auto address = ParseHttpAddress(model.api_base);
    if (!address || address->tls) continue;
    const std::string& host = address->host;
    const bool own = host == "localhost" || host == "::1" || host == "[::1]" ||
                     (host.starts_with("127.") && host.find_first_not_of("0123456789.") == std::string::npos);
    if (own) continue;
    out.faults.push_back(fmt::format("model '{}': its key would go to {} unencrypted; use https://", name,
                                     model.api_base));
  }
  for (const RouteSpec& route : input.policy.routes) {
    const auto model = input.policy.models.find(route.model);
    const auto context = input.policy.contexts.find(route.context);
    if (model == input.policy.models.end() || context == input.policy.contexts.end()) continue;
    if (model->second.engine != ModelSpec::Engine::kRemote || !context->second.force_citations) continue;
    out.warnings.push_back(fmt::format("route '{}': force_citations holds only where {} keeps to a grammar; a server "
                                       "that does not is not forced", route.name, model->second.api_base));
  }
}

void CheckBudgetWays(const CheckInput& input, Obligation& out) {
  const Policy& policy = input.policy;
  for (const RouteSpec& route : policy.routes) {
    for (const FallbackSpec& fallback : route.fallback) {
      const RouteSpec* to = policy.FindRoute(fallback.to);
      if (to == nullptr || !TakenFor(fallback, FallbackSpec::Cause::kBudget)) continue;
      if (to->answer == RouteSpec::Answer::kModel) {
        if (fallback.on.empty()) continue;   // any other cause is meant
        out.warnings.push_back(fmt::format("route '{}': over a budget the fallback to '{}' is not taken, for it has a "
                                           "model too: the caller is refused", route.name, to->name));
        continue;
      }
      std::set<std::string> seen;
      std::vector<std::string> models;
      ModelsBehind(policy, *to, seen, models);
      if (models.empty()) continue;
      out.faults.push_back(fmt::format("route '{}': over a budget it falls back to '{}', and from there '{}' could be "
                                       "reached, which would generate without a reservation", route.name, to->name,
                                       fmt::join(models, "', '")));
    }
  }
}

}  // namespace surety::gateway
