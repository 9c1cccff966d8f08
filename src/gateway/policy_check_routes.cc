// Obligations 8 to 11: what leaves and by which way, where requests go, how often, and at what price.
#include <algorithm>
#include <functional>
#include <set>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "gateway/policy_check.h"
#include "gateway/policy_check_controls.h"
#include "gateway/policy_values.h"

namespace surety::gateway {
namespace {

constexpr size_t kHigh = static_cast<size_t>(Level::kHigh), kMedium = static_cast<size_t>(Level::kMedium);

size_t IndexOf(const Policy& policy, std::string_view route) {
  const auto found = std::ranges::find(policy.routes, route, &RouteSpec::name);
  return static_cast<size_t>(found - policy.routes.begin());
}

RouteRisks RisksOf(const CheckInput& input) {
  const auto& routes = input.policy.routes;
  RouteRisks risks;
  for (const RouteReach& reach : input.space.routes) risks.push_back(reach.risks);
  risks.resize(routes.size());
  for (bool changed = true; changed;) {
    changed = false;
    for (size_t r = 0; r < routes.size(); ++r) {
      for (const FallbackSpec& fallback : routes[r].fallback) {
        const size_t to = IndexOf(input.policy, fallback.to);
        for (size_t level = 0; to < routes.size() && level < 3; ++level) {
          if (!risks[r][level] || risks[to][level]) continue;
          risks[to][level] = changed = true;
        }
      }
    }
  }
  return risks;
}

std::string RiskNames(const std::array<bool, 3>& risks) {
  std::vector<std::string_view> names;
  for (size_t level = 0; level < 3; ++level) {
    if (risks[level]) names.push_back(NameOf(static_cast<Level>(level)));
  }
  return names.empty() ? "never taken" : fmt::format("{}", fmt::join(names, ", "));
}

// The states that an answer goes through in a route, as a graph that is then searched: an argument about all ways out
// and not about the one that is expected.
enum class ReleaseState { kGenerating, kStreamed, kHeld, kVerified, kReviewed, kCustomer, kInternal };

std::vector<std::pair<ReleaseState, ReleaseState>> ReleaseGraph(const RouteSpec& route) {
  using S = ReleaseState;
  std::vector<std::pair<S, S>> edges;
  const S sink = route.release.audience == ReleaseSpec::Audience::kCustomer ? S::kCustomer : S::kInternal;
  if (route.release.mode == ReleaseSpec::Mode::kStream) {
    edges.insert(edges.end(), {{S::kGenerating, S::kStreamed}, {S::kStreamed, sink}});
  }
  edges.emplace_back(S::kGenerating, S::kHeld);
  const bool verified = !route.verify.empty(), reviewed = !route.release.review.empty();
  if (verified) edges.emplace_back(S::kHeld, S::kVerified);
  if (reviewed) edges.emplace_back(verified ? S::kVerified : S::kHeld, S::kReviewed);
  edges.emplace_back(reviewed ? S::kReviewed : verified ? S::kVerified : S::kHeld, sink);
  return edges;
}

// Whether a way leads from generation to `sink` that avoids `gate`.
bool Leaks(const RouteSpec& route, ReleaseState sink, std::initializer_list<ReleaseState> gates) {
  const auto edges = ReleaseGraph(route);
  std::set<ReleaseState> seen{ReleaseState::kGenerating};
  for (size_t before = 0; before != seen.size();) {
    before = seen.size();
    for (const auto& [from, to] : edges) {
      if (seen.contains(from) && std::ranges::find(gates, to) == gates.end()) seen.insert(to);
    }
  }
  return seen.contains(sink);
}

void CheckRelease(const CheckInput& input, const RouteSpec& route, const std::array<bool, 3>& risks, Obligation& out) {
  using S = ReleaseState;
  const bool high = risks[kHigh], raised = high || risks[kMedium];
  const auto fault = [&](std::string what) { out.faults.push_back(fmt::format("route '{}': {}", route.name, what)); };
  const bool semantic = route.cache.mode == CacheSpec::Mode::kSemantic ||
                        route.cache.mode == CacheSpec::Mode::kExactThenSemantic;
  if (high && semantic) fault("high risk is answered from other questions' answers (cache by meaning)");
  if (!Generates(route)) return;
  const bool streams = route.release.mode == ReleaseSpec::Mode::kStream;
  if (high && streams) fault("high risk is streamed before it is verified; hold it");
  if (streams && Leaks(route, S::kCustomer, {S::kVerified, S::kReviewed})) {
    fault("text reaches the customer before it is verified; stream to audience: internal, or hold it");
  } else if (raised && Leaks(route, S::kCustomer, {S::kVerified, S::kReviewed})) {
    fault("an answer of medium or high risk reaches the customer without a verifier or a review");
  } else if (high && Leaks(route, S::kInternal, {S::kVerified, S::kReviewed})) {
    fault("an answer of high risk leaves without a verifier or a review");
  } else if (Leaks(route, S::kCustomer, {S::kVerified, S::kReviewed})) {
    out.warnings.push_back(fmt::format("route '{}': low risk leaves without a verifier", route.name));
  }
  for (const std::string& name : route.verify) {
    const auto verifier = input.policy.verifiers.find(name);
    if (verifier == input.policy.verifiers.end()) {
      fault(fmt::format("its verifier '{}' is not defined", name));
    } else if (verifier->second.open_on_error && raised) {
      fault(fmt::format("verifier '{}' lets answers of medium or high risk out when it fails (error: open)", name));
    }
  }
}

bool Subset(const std::vector<std::string>& part, const std::vector<std::string>& whole) {
  return std::ranges::all_of(part, [&](const std::string& item) {
    return std::ranges::find(whole, item) != whole.end();
  });
}

// The most that one try of this route alone costs, fallbacks apart.
double OwnCost(const Policy& policy, const RouteSpec& route) {
  const auto model = policy.models.find(route.model);
  if (!Generates(route) || model == policy.models.end()) return 0;
  const auto context = policy.contexts.find(route.context);
  const int input_tokens = context == policy.contexts.end() ? 0 : context->second.max_input_tokens;
  const int assumed = kAssumedContextTokens;
  const double one = std::max(model->second.input_cost_per_token, model->second.cache_read_input_token_cost) *
                         (input_tokens > 0 ? input_tokens : assumed) +
                     model->second.output_cost_per_token * route.max_output_tokens;
  return one * route.max_attempts;
}

// `seen`: routes without a model on the way; what they fall back to answers in the place of `from`.
void CheckFallback(const CheckInput& input, const RouteSpec& from, const RouteSpec& to, std::set<std::string>& seen,
                   Obligation& out) {
  if (!Generates(to)) {   // a template, a person or a refusal keeps every promise
    if (!Generates(from) || !seen.insert(to.name).second) return;
    for (const FallbackSpec& fallback : to.fallback) {
      if (const RouteSpec* next = input.policy.FindRoute(fallback.to)) CheckFallback(input, from, *next, seen, out);
    }
    return;
  }
  const auto fault = [&](std::string what) {
    out.faults.push_back(fmt::format("route '{}' falls back to '{}', {}", from.name, to.name, what));
  };
  CheckKeptPromises(input, from, to, out);
  const auto first = input.policy.models.find(from.model), second = input.policy.models.find(to.model);
  if (second == input.policy.models.end()) return;
  if (first != input.policy.models.end() && !first->second.residency.empty()) {
    const auto& allowed = first->second.residency;
    if (second->second.residency.empty() || !Subset(second->second.residency, allowed)) {
      fault(fmt::format("whose model may process data outside {}", fmt::join(allowed, ", ")));
    }
  }
  if (!Generates(from)) return;   // it costs nothing, so any model is dearer
  const double before = OwnCost(input.policy, from), after = OwnCost(input.policy, to);
  if (after > before * (1 + 1e-9)) fault(fmt::format("which may cost more ({:.6g} instead of {:.6g})", after, before));
}

// Stages that run before and after generation, at their deadlines.
int64_t StagesNs(const Policy& policy, const RouteSpec& route) {
  int64_t gather = 0, verify = 0;
  if (const auto at = policy.retrievers.find(route.retrieve); at != policy.retrievers.end()) {
    gather = at->second.deadline_ns;
  }
  for (const std::string& name : route.tools) {
    if (const auto at = policy.tools.find(name); at != policy.tools.end())
      gather = std::max(gather, at->second.deadline_ns);
  }
  for (const std::string& name : route.verify) {
    if (const auto at = policy.verifiers.find(name); at != policy.verifiers.end()) {
      verify = std::max(verify, at->second.deadline_ns);
    }
  }
  return gather + verify;
}

// Ways through fallbacks are walked one by one below, so there must not be too many: with each route falling back to
// two others their number doubles at every step.
bool TooManyWays(const Policy& policy) {
  constexpr int kMaxSteps = 100'000;
  int n_steps = 0;
  std::vector<const RouteSpec*> way;
  std::function<void(const RouteSpec&)> walk = [&](const RouteSpec& route) {
    if (n_steps > kMaxSteps || std::ranges::find(way, &route) != way.end()) return;
    ++n_steps;
    way.push_back(&route);
    for (const FallbackSpec& fallback : route.fallback) {
      if (const RouteSpec* to = policy.FindRoute(fallback.to)) walk(*to);
    }
    way.pop_back();
  };
  for (const RouteSpec& route : policy.routes) walk(route);
  return n_steps > kMaxSteps;
}
constexpr const char* kTooManyWays = "fallbacks branch into more ways than can be walked; let routes share fewer";

// The longest that a request can take from here on, if every route uses up its deadline and then falls back.
int64_t LongestNs(const Policy& policy, const RouteSpec& route, std::set<std::string>& on_way) {
  if (!on_way.insert(route.name).second) return 0;
  int64_t rest = 0;
  for (const FallbackSpec& fallback : route.fallback) {
    if (const RouteSpec* to = policy.FindRoute(fallback.to)) rest = std::max(rest, LongestNs(policy, *to, on_way));
  }
  on_way.erase(route.name);
  return rest + (Generates(route) ? route.deadline_ns : StagesNs(policy, route));
}

void CheckDeadlines(const CheckInput& input, Obligation& out) {
  const Policy& policy = input.policy;
  for (const RouteSpec& route : policy.routes) {
    const int64_t stages = StagesNs(policy, route);
    if (Generates(route) && stages >= route.deadline_ns) {
      out.faults.push_back(fmt::format("route '{}': retrieval or tools and verifiers may take {} of its deadline {}; "
                                       "nothing is left for the answer", route.name, FormatDuration(stages),
                                       FormatDuration(route.deadline_ns)));
    }
    const auto slo = std::ranges::find(policy.slos, route.name, &SloSpec::route);
    if (slo == policy.slos.end()) continue;
    for (const auto& objective : slo->objectives) {
      std::set<std::string> on_way;
      const int64_t longest = LongestNs(policy, route, on_way);
      if (objective.name != "total" || objective.quantile < 0.99 || longest <= objective.limit_ns) continue;
      out.faults.push_back(
          fmt::format("route '{}': its deadline and those of its fallbacks add up to {}, more than its "
                      "objective of {}",
                      route.name, FormatDuration(longest), FormatDuration(objective.limit_ns)));
    }
  }
}

// Fallbacks that lead back; one line for each way round.
void CheckCycles(const Policy& policy, Obligation& out) {
  std::set<std::string> done;
  std::vector<std::string> way;
  std::function<void(const RouteSpec&)> visit = [&](const RouteSpec& route) {
    if (const auto at = std::ranges::find(way, route.name); at != way.end()) {
      out.faults.push_back(fmt::format("fallbacks lead round in a circle: {} > {}",
                                       fmt::join(std::vector(at, way.end()), " > "), route.name));
      return;
    }
    if (done.contains(route.name)) return;
    way.push_back(route.name);
    for (const FallbackSpec& fallback : route.fallback) {
      if (const RouteSpec* to = policy.FindRoute(fallback.to)) visit(*to);
    }
    way.pop_back();
    done.insert(route.name);
  };
  for (const RouteSpec& route : policy.routes) visit(route);
}

// The most generations on any way from a route, multiplied as nested retries would be.
int64_t AttemptsFrom(const Policy& policy, const RouteSpec& route, std::set<std::string>& on_way) {
  if (!on_way.insert(route.name).second) return 1;
  int64_t rest = 1;
  for (const FallbackSpec& fallback : route.fallback) {
    if (const RouteSpec* to = policy.FindRoute(fallback.to)) rest = std::max(rest, AttemptsFrom(policy, *to, on_way));
  }
  on_way.erase(route.name);
  return std::min<int64_t>(rest * (Generates(route) ? route.max_attempts : 1), 1'000'000);
}

// The worst case by the prices in the file, worked out apart from quota.h: every way through fallbacks is walked to its
// end, all attempts of all its routes at full length are added up, and the dearest way counts.
QuotaAmount WorstByHand(const Policy& policy, const RouteSpec& first) {
  QuotaAmount worst;
  std::vector<const RouteSpec*> way;
  std::function<void(const RouteSpec&)> walk = [&](const RouteSpec& route) {
    if (std::ranges::find(way, &route) != way.end()) return;
    way.push_back(&route);
    QuotaAmount sum;
    for (const RouteSpec* at : way) {
      const auto model = policy.models.find(at->model);
      if (!Generates(*at) || model == policy.models.end()) continue;
      const auto context = policy.contexts.find(at->context);
      const int declared = context == policy.contexts.end() ? 0 : context->second.max_input_tokens;
      const int input_tokens = declared > 0 ? declared : kAssumedContextTokens;
      sum.money += at->max_attempts * (input_tokens * model->second.input_cost_per_token +
                                       at->max_output_tokens * model->second.output_cost_per_token);
      sum.tokens += int64_t{at->max_attempts} * (int64_t{input_tokens} + at->max_output_tokens);
    }
    worst.money = std::max(worst.money, sum.money);
    worst.tokens = std::max(worst.tokens, sum.tokens);
    for (const FallbackSpec& fallback : route.fallback) {
      if (const RouteSpec* to = policy.FindRoute(fallback.to)) walk(*to);
    }
    way.pop_back();
  };
  walk(first);
  return worst;
}

bool Applies(const BudgetSpec& budget, const RouteSpec& route) {
  if (budget.only.empty()) return true;
  if (budget.scope == BudgetSpec::Scope::kRoute) return budget.only == route.name;
  if (budget.scope == BudgetSpec::Scope::kModel) return budget.only == route.model;
  return true;
}

std::string_view NameOfScope(BudgetSpec::Scope scope) {
  static constexpr std::string_view kNames[] = {"tenant", "subject", "route", "model", "all"};
  return kNames[static_cast<size_t>(scope)];
}

void CheckBudgetsFor(const CheckInput& input, const RouteSpec& route, const QuotaAmount& worst, Obligation& out) {
  for (const BudgetSpec& budget : input.policy.budgets) {
    if (!Applies(budget, route)) continue;
    auto& lines = budget.shadow ? out.warnings : out.faults;
    const std::string which = fmt::format("route '{}': the budget of line {} ({}{})", route.name, budget.line,
                                          NameOfScope(budget.scope), budget.only.empty() ? "" : " " + budget.only);
    if (budget.max_budget && worst.money > *budget.max_budget) {
      lines.push_back(fmt::format("{} allows {:.6g}, less than one request may cost ({:.6g}): none is ever admitted",
                                  which, *budget.max_budget, worst.money));
    }
    if (budget.tpm_limit && worst.tokens > *budget.tpm_limit) {
      lines.push_back(fmt::format("{} allows {} tokens a minute, fewer than one request may need ({}): none is ever "
                                  "admitted", which, *budget.tpm_limit, worst.tokens));
    }
  }
}

}  // namespace

Obligation CheckReleaseSafety(const CheckInput& input) {
  Obligation out{8, "release safety", {}, {}, {}};
  const auto risks = RisksOf(input);
  for (size_t r = 0; r < input.policy.routes.size(); ++r) {
    const RouteSpec& route = input.policy.routes[r];
    CheckRelease(input, route, risks[r], out);
    const char* how = !Generates(route)                                     ? "no model"
                      : route.release.mode == ReleaseSpec::Mode::kStream    ? "streamed as a draft to internal readers"
                      : route.release.review.empty()                        ? "held until verified"
                                                                            : "held until verified and approved";
    out.details.push_back(fmt::format("{}: risk {}; {}", route.name, RiskNames(risks[r]), how));
  }
  CheckReviewWays(input, out);
  CheckLevelsOfControl(input, risks, out);
  CheckRouteInvariants(input, out);
  CheckQueues(input, risks, out);
  return out;
}

Obligation CheckRouting(const CheckInput& input) {
  Obligation out{9, "totality and fallback", {}, {}, {}};
  const Policy& policy = input.policy;
  if (policy.routes.empty() || !policy.routes.back().always) {
    out.faults.emplace_back("the last route is not when: always, so some requests have no route");
  }
  for (size_t r = 0; r < policy.routes.size(); ++r) {
    const RouteReach& reach = input.space.routes[r];
    const std::string& name = policy.routes[r].name;
    bool is_fallback = false;
    for (const RouteSpec& route : policy.routes) {
      for (const FallbackSpec& fallback : route.fallback) is_fallback = is_fallback || fallback.to == name;
    }
    // The last one catches what others leave; that they leave nothing is no mistake.
    const bool last = r + 1 == policy.routes.size();
    if (reach.kind == RouteReach::Kind::kNever && !last) {
      auto& lines = is_fallback ? out.details : out.faults;
      lines.push_back(fmt::format("route '{}' is {}: {}", name,
                                  is_fallback ? "reached as a fallback alone" : "never reached", reach.example));
    }
    if (reach.kind == RouteReach::Kind::kUndecided) {
      out.warnings.push_back(fmt::format("route '{}': whether anything reaches it could not be decided", name));
    }
    if (reach.kind == RouteReach::Kind::kReached) out.details.push_back(fmt::format("{}: {}", name, reach.example));
  }
  CheckCycles(policy, out);
  for (const RouteSpec& route : policy.routes) {
    std::set<std::string> seen;
    for (const FallbackSpec& fallback : route.fallback) {
      const RouteSpec* to = policy.FindRoute(fallback.to);
      if (to == nullptr)
        out.faults.push_back(
            fmt::format("route '{}' falls back to '{}', which is not defined", route.name, fallback.to));
      if (to != nullptr) CheckFallback(input, route, *to, seen, out);
    }
  }
  if (TooManyWays(policy)) {
    out.faults.emplace_back(kTooManyWays);
  } else {
    CheckDeadlines(input, out);
  }
  out.details.push_back(fmt::format("{} combinations of what conditions tell apart, {}", input.space.n_cells,
                                    input.space.exhaustive ? "all walked" : "judged by conditions and samples"));
  return out;
}

Obligation CheckRetryBound(const CheckInput& input) {
  Obligation out{10, "retry bound", {}, {}, {}};
  if (TooManyWays(input.policy)) {
    out.faults.emplace_back(kTooManyWays);
    return out;
  }
  for (const RouteSpec& route : input.policy.routes) {
    std::set<std::string> on_way;
    const int64_t attempts = AttemptsFrom(input.policy, route, on_way);
    if (attempts > input.policy.max_attempts) {
      out.faults.push_back(
          fmt::format("route '{}': {} generations along its fallbacks, more than policy.max_attempts {}", route.name,
                      attempts, input.policy.max_attempts));
    }
    if (Generates(route)) out.details.push_back(fmt::format("{}: at most {}", route.name, attempts));
    for (const std::string& name : route.verify) {
      const auto verifier = input.policy.verifiers.find(name);
      if (verifier == input.policy.verifiers.end() || verifier->second.fail != VerifierSpec::Action::kRepair) continue;
      if (route.release.mode == ReleaseSpec::Mode::kStream) {
        out.warnings.push_back(fmt::format("route '{}': its answer is out as a draft before verifier '{}' could ask "
                                           "for a repair: what fails is marked as such, and nothing follows",
                                           route.name, name));
      } else if (route.max_attempts == 1) {
        out.warnings.push_back(fmt::format("route '{}': verifier '{}' asks for a repair, but max_attempts is 1: such "
                                           "answers go to review", route.name, name));
      }
    }
  }
  out.details.emplace_back("the gateway alone retries; its calls to models and tools are made once");
  return out;
}

Obligation CheckReservations(const CheckInput& input) {
  Obligation out{11, "budget", {}, {}, {}};
  const Policy& policy = input.policy;
  if (TooManyWays(policy)) {
    out.faults.emplace_back(kTooManyWays);
    return out;
  }
  for (const RouteSpec& route : policy.routes) {
    const auto context = policy.contexts.find(route.context);
    const int declared = context == policy.contexts.end() ? 0 : context->second.max_input_tokens;
    const QuotaAmount needed = WorstByHand(policy, route);
    const QuotaAmount reserved = input.run.worst_case(policy, route, kAssumedContextTokens, route.max_output_tokens);
    if (reserved.money < needed.money * (1 - 1e-9) || reserved.tokens < needed.tokens) {
      out.faults.push_back(fmt::format("route '{}': {:.6g} and {} tokens are reserved, {:.6g} and {} can be used",
                                       route.name, reserved.money, reserved.tokens, needed.money, needed.tokens));
    }
    if (context != policy.contexts.end() && context->second.reserve_output_tokens < route.max_output_tokens) {
      out.faults.push_back(
          fmt::format("route '{}': context '{}' keeps {} tokens free for the answer, which may have {}", route.name,
                      route.context, context->second.reserve_output_tokens, route.max_output_tokens));
    }
    CheckBudgetsFor(input, route, reserved, out);
    if (!Generates(route)) continue;
    out.details.push_back(fmt::format("{}: reserves {:.6g} {} and {} tokens{}", route.name, reserved.money,
                                      policy.currency, reserved.tokens,
                                      declared > 0 ? "" : " for a prompt of 8192 tokens (its context sets no limit; "
                                                          "what the model takes is reserved)"));
  }
  CheckBudgetWays(input, out);
  if (policy.budgets.empty()) out.warnings.emplace_back("no budget: nothing limits what is spent");
  return out;
}

}  // namespace surety::gateway
