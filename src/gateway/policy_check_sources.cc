// Obligations 3, 6, 7 and 13: where values come from, how long answers are true, what may be shared, what is used.
#include <algorithm>
#include <limits>
#include <set>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "gateway/policy_check.h"
#include "gateway/policy_check_controls.h"
#include "gateway/policy_check_data.h"
#include "gateway/policy_form.h"
#include "gateway/policy_values.h"

namespace surety::gateway {
namespace {

using SourceFrom = DimensionSource::From;

// Dimensions that what the caller says may narrow: it asks about something else, it does not become somebody else.
bool IsNarrowing(Dimension dimension) { return dimension == Dimension::kProduct || dimension == Dimension::kLanguage; }

// A tool tells no more of the caller than what it is asked with: by what the caller says, it answers for anybody.
void CheckIdentityTool(const Policy& policy, const std::string& dimension, const ToolSpec& tool, Obligation& out) {
  for (const std::string& argument : tool.arguments) {
    bool verified = argument == "subject" || argument == "tenant";
    for (int i = 0; i < kDimensionCount; ++i) {
      const SourceFrom from = policy.identity[static_cast<size_t>(i)].from;
      const bool of_caller = from == SourceFrom::kMetadata || from == SourceFrom::kSignal ||
                             from == SourceFrom::kTool || from == SourceFrom::kUnset;
      verified = verified || (NameOf(static_cast<Dimension>(i)) == argument && !of_caller);
    }
    if (verified) continue;
    out.faults.push_back(
        fmt::format("identity.{} comes from the tool '{}', which is asked with '{}': the caller says that, and may say "
                    "another's; ask with subject, tenant or a dimension from token.claim", dimension, tool.name,
                    argument));
  }
}

void CheckSource(const CheckInput& input, Dimension dimension, Obligation& out) {
  const DimensionSource& source = input.policy.identity[static_cast<size_t>(dimension)];
  const std::string name(NameOf(dimension));
  out.details.push_back(fmt::format("{}: {}", name, DescribeSource(source)));
  if (source.from == SourceFrom::kMetadata || source.from == SourceFrom::kSignal) {
    const char* from = source.from == SourceFrom::kMetadata ? "the request's body" : "the customer's words";
    if (!IsNarrowing(dimension)) {
      out.faults.push_back(
          fmt::format("identity.{} comes from {}, which may only narrow: take it from token.claim or a "
                      "tool",
                      name, from));
    } else if (source.from == SourceFrom::kMetadata && source.values.empty()) {
      out.faults.push_back(fmt::format("identity.{} takes any text of the request's body: list its values", name));
    } else {
      out.warnings.push_back(fmt::format("identity.{} comes from {}: narrowing only", name, from));
    }
  }
  if (source.from == SourceFrom::kTool) {
    const auto tool = input.policy.tools.find(source.name);
    if (tool == input.policy.tools.end()) {
      out.faults.push_back(
          fmt::format("identity.{} comes from the tool '{}', which is not defined", name, source.name));
    } else if (tool->second.kind == ToolSpec::Kind::kWrite) {
      out.faults.push_back(fmt::format("identity.{} comes from '{}', a tool that writes", name, source.name));
    }
    if (dimension == Dimension::kTenant || dimension == Dimension::kPermissions) {
      out.faults.push_back(fmt::format("identity.{} comes from a tool; who somebody is and may do says the token "
                                       "alone: take it from token.claim", name));
    }
    if (tool != input.policy.tools.end()) CheckIdentityTool(input.policy, name, tool->second, out);
  }
  if (source.from == SourceFrom::kClock && dimension != Dimension::kEffectiveDate) {
    out.faults.push_back(fmt::format("identity.{} comes from the clock, which gives effective_date alone", name));
  }
  if (source.from == SourceFrom::kPolicy && dimension != Dimension::kPolicyVersion) {
    out.faults.push_back(fmt::format("identity.{} comes from the policy, which gives policy_version alone", name));
  }
}

std::string_view DescribeControl(const RouteSpec& route) {
  if (route.answer == RouteSpec::Answer::kRefuse) return "which refuses";
  switch (ControlOf(route)) {
    case Control::kPerson: return "where a person decides";
    case Control::kVerified: return "which holds the answer until it is verified";
    case Control::kOpen: break;
  }
  if (route.answer == RouteSpec::Answer::kTemplate) return "a ready-made answer";
  if (route.release.mode == ReleaseSpec::Mode::kStream) return "which streams before it verifies";
  return "which has no verifier";
}

// Words may raise control and never lower it: whoever writes them, in a question or in what a tool returns, would
// choose the way that his request takes.
void CheckWords(const CheckInput& input, Obligation& out) {
  const auto& routes = input.policy.routes;
  for (const ControlDrop& drop : input.space.drops) {
    const RouteSpec& from = routes[drop.from];
    const RouteSpec& to = routes[drop.to];
    out.faults.push_back(fmt::format(
        "signal '{}' can be made '{}' by whoever writes the words, and then opens route '{}', {}, instead of '{}', {} "
        "(as with {}): ask for a signal with labels, or for a classifier with min_confidence",
        drop.signal, drop.with, to.name, DescribeControl(to), from.name, DescribeControl(from), drop.example));
  }
  if (!input.space.drops.empty()) return;
  out.details.push_back(fmt::format("no words lead from a route to one of lower control, signals with labels and gated "
                                    "classifiers apart: {}", input.space.exhaustive ? "all combinations were walked"
                                                                                    : "judged by samples"));
  if (!input.space.exhaustive) {
    out.warnings.emplace_back("conditions tell too many requests apart to walk them all: whether words can lower "
                              "control was judged by samples");
  }
}

struct Boundary {
  int64_t t_ns = std::numeric_limits<int64_t>::max();
  std::string what = "none";
};

void Note(Boundary& boundary, int64_t now_ns, const Validity& validity, const std::string& what) {
  for (const auto& [t, end] : {std::pair(validity.from_ns, " begins"), std::pair(validity.to_ns, " ends")}) {
    if (t > now_ns && t < boundary.t_ns) boundary = {t, what + end};
  }
}

// The law that a lookup relies on: a moment is in the intersection exactly if it is in both.
void CheckIntersection(const CheckInput& input, Obligation& out) {
  constexpr int64_t kMin = std::numeric_limits<int64_t>::min(), kMax = std::numeric_limits<int64_t>::max();
  const int64_t points[] = {kMin, -1, 0, 1, 2, 3, kMax};
  for (const int64_t a : points) {
    for (const int64_t b : points) {
      for (const int64_t c : points) {
        for (const int64_t d : points) {
          const Validity one{a, b}, two{c, d}, both = input.run.intersect(one, two);
          for (const int64_t t : points) {
            if (both.Contains(t) == (one.Contains(t) && two.Contains(t))) continue;
            out.faults.emplace_back("the intersection of two validities is not what is in both");
            return;
          }
        }
      }
    }
  }
}

const std::set<std::string>& VolatileNames() {
  static const auto* names = new std::set<std::string>{"request_id", "decision_id", "trace_id", "now",  "time",
                                                       "timestamp",  "datetime",    "uuid",     "random", "nonce",
                                                       "today",      "date"};
  return *names;
}

std::set<std::string> NamesOfPolicy(const Policy& policy) {
  std::set<std::string> names{"subject", "user", "customer"};
  for (int i = 0; i < kDimensionCount; ++i) names.emplace(NameOf(static_cast<Dimension>(i)));
  for (const SignalSpec& signal : policy.signals) names.insert(signal.name);
  for (const DimensionSource& source : policy.identity) {
    if (source.from == SourceFrom::kMetadata) names.insert(source.name);
  }
  return names;
}

template <typename T>
void WarnUnused(const std::map<std::string, T>& defined, const std::set<std::string>& used, std::string_view part,
                Obligation& out) {
  for (const auto& [name, value] : defined) {
    if (!used.contains(name)) out.warnings.push_back(fmt::format("{}.{} is used by no route", part, name));
  }
}

bool AsksForAbstained(const Policy& policy, const std::string& signal) {
  const auto asks = [&](const When& when) {
    return std::ranges::any_of(when, [&](const Condition& condition) {
      const bool of_it = condition.subject == signal || condition.subject == signal + ".group";
      return of_it && std::ranges::find(condition.any_of, "abstained") != condition.any_of.end();
    });
  };
  const auto rule_asks = [&](const LevelSpec::Rule& rule) { return asks(rule.when); };
  return std::ranges::any_of(policy.risk.rules, rule_asks) || std::ranges::any_of(policy.complexity.rules, rule_asks) ||
         std::ranges::any_of(policy.routes, [&](const RouteSpec& route) { return asks(route.when); });
}

void WarnUnusedParts(const Policy& policy, Obligation& out) {
  std::set<std::string> models, retrievers, tools, invariants, verifiers, templates, contexts, queues, subjects;
  for (const RouteSpec& route : policy.routes) {
    models.insert(route.model);
    retrievers.insert(route.retrieve);
    tools.insert(route.tools.begin(), route.tools.end());
    invariants.insert(route.invariants.begin(), route.invariants.end());
    verifiers.insert(route.verify.begin(), route.verify.end());
    templates.insert(route.template_name);
    contexts.insert(route.context);
    queues.insert({route.queue, route.release.review});
    for (const Condition& condition : route.when) subjects.insert(condition.subject);
    if (!route.cache.intents.empty() || !route.template_name.empty()) subjects.insert("intent");
  }
  for (const DimensionSource& source : policy.identity) {
    if (source.from == SourceFrom::kTool) tools.insert(source.name);
    if (source.from == SourceFrom::kSignal) subjects.insert(source.name);
  }
  for (const LevelSpec* level : {&policy.risk, &policy.complexity}) {
    for (const auto& rule : level->rules) {
      for (const Condition& condition : rule.when) subjects.insert(condition.subject);
    }
  }
  for (const auto& [name, made] : policy.templates) {
    for (const auto& [label, text] : made.texts) {
      for (const std::string& placeholder : PlaceholdersOf(text)) subjects.insert(placeholder);
    }
  }
  WarnUnused(policy.models, models, "models", out);
  WarnUnused(policy.retrievers, retrievers, "retrievers", out);
  WarnUnused(policy.tools, tools, "tools", out);
  WarnUnused(policy.invariants, invariants, "invariants", out);
  WarnUnused(policy.verifiers, verifiers, "verifiers", out);
  WarnUnused(policy.templates, templates, "templates", out);
  WarnUnused(policy.contexts, contexts, "context", out);
  WarnUnused(policy.review, queues, "review", out);
  for (const SignalSpec& signal : policy.signals) {
    std::set<std::string> asked = subjects;
    for (const auto& tool : policy.tools) asked.insert(tool.second.arguments.begin(), tool.second.arguments.end());
    if (asked.contains(signal.name) || asked.contains(signal.name + ".group")) continue;
    out.warnings.push_back(fmt::format("signals.{} is asked for by nothing", signal.name));
  }
}

}  // namespace

Obligation CheckProvenance(const CheckInput& input) {
  Obligation out{3, "provenance", {}, {}, {}};
  for (int i = 0; i < kDimensionCount; ++i) CheckSource(input, static_cast<Dimension>(i), out);
  CheckModels(input, out);
  for (const SignalSpec& signal : input.policy.signals) {
    if (signal.by != SignalSpec::By::kClassifier || signal.min_confidence > 0) continue;
    if (AsksForAbstained(input.policy, signal.name)) continue;
    out.warnings.push_back(fmt::format("signal '{}': a classifier without min_confidence is never in doubt, and no "
                                       "rule asks for abstained", signal.name));
  }
  for (const RouteSpec& route : input.policy.routes) {
    for (const Condition& condition : route.when) {
      const auto signal = std::ranges::find(input.policy.signals, condition.subject, &SignalSpec::name);
      if (signal == input.policy.signals.end() || signal->by != SignalSpec::By::kMetadata) continue;
      out.warnings.push_back(
          fmt::format("route '{}' is chosen by what the request's body says ({}); risk is not lowered "
                      "by it",
                      route.name, signal->key));
    }
  }
  CheckWords(input, out);
  return out;
}

Obligation CheckTime(const CheckInput& input) {
  Obligation out{6, "time", {}, {}, {}};
  const Policy& policy = input.policy;
  CheckIntersection(input, out);
  if (policy.validity.from_ns >= policy.validity.to_ns) out.faults.emplace_back("the policy is never valid");
  for (const RouteSpec& route : policy.routes) {
    Boundary next;
    Note(next, input.now_ns, policy.validity, "the policy");
    if (const auto made = policy.templates.find(route.template_name); made != policy.templates.end()) {
      const TemplateSpec& used = made->second;
      Note(next, input.now_ns, used.validity, fmt::format("template {} {}", used.name, used.version));
      const Validity both = input.run.intersect(policy.validity, used.validity);
      if (both.from_ns >= both.to_ns) {
        out.faults.push_back(
            fmt::format("route '{}': template '{}' is not valid at any moment of the policy", route.name, used.name));
      } else if (!(both == policy.validity) && std::ranges::none_of(route.fallback, [](const FallbackSpec& fallback) {
                   return TakenFor(fallback, FallbackSpec::Cause::kError);
                 })) {
        out.faults.push_back(fmt::format("route '{}': template '{}' holds from {} to {} only, and outside nothing "
                                         "answers: give the route a fallback that is taken on error", route.name,
                                         used.name, FormatInstant(used.validity.from_ns),
                                         FormatInstant(used.validity.to_ns)));
      } else if (!(both == policy.validity)) {
        out.warnings.push_back(fmt::format("route '{}': template '{}' holds from {} to {} only; outside, its fallback "
                                           "answers", route.name, used.name, FormatInstant(used.validity.from_ns),
                                           FormatInstant(used.validity.to_ns)));
      }
    }
    for (const std::string& name : route.verify) {
      const auto verifier = policy.verifiers.find(name);
      if (verifier == policy.verifiers.end() || verifier->second.table.empty()) continue;
      const auto table = ReadCheckedTable(policy, input.files, verifier->second.table);
      if (!table) continue;   // obligation 12 says so
      for (const CodeEntry& row : table->entries()) {
        Note(next, input.now_ns, row.validity, fmt::format("{} of {}", row.code, verifier->second.table));
      }
    }
    const bool documents = !route.retrieve.empty();
    out.details.push_back(fmt::format("{}: next boundary {} ({}){}", route.name, FormatInstant(next.t_ns), next.what,
                                      documents ? ", and those of the documents it cites" : ""));
  }
  if (input.now_ns >= policy.validity.to_ns) out.warnings.emplace_back("the policy has ended");
  return out;
}

Obligation CheckPrefixSharing(const CheckInput& input) {
  Obligation out{7, "prefix sharing", {}, {}, {}};
  const auto scope_of = [&](const Circumstances& values) {
    const auto scope = input.run.scope(values);
    return scope ? std::optional(*scope) : std::nullopt;
  };
  const Circumstances base = WitnessBase(input);
  const auto scope = scope_of(base);
  if (!scope || scope != scope_of(base)) out.faults.emplace_back("equal circumstances have no equal scope");
  for (int i = 0; i < kDimensionCount; ++i) {
    const auto dimension = static_cast<Dimension>(i);
    if (scope_of(WitnessSibling(input, dimension)) != scope) continue;
    out.faults.push_back(fmt::format("requests that differ in {} share KV", NameOf(dimension)));
  }
  if (scope && !scope->salt.empty()) out.faults.emplace_back("the scope carries a salt of its own");
  out.details.emplace_back("KV is shared in the same partitions as answers: 8 of 8 dimensions change the scope");
  const std::set<std::string> own = NamesOfPolicy(input.policy);
  for (const RouteSpec& route : input.policy.routes) {
    if (!Generates(route)) continue;
    for (const std::string& placeholder : PlaceholdersOf(route.system)) {
      if (!own.contains(placeholder)) continue;
      out.faults.push_back(
          fmt::format("route '{}': its instruction names {{{}}}; it is a public block, the same for all, "
                      "so nothing of one caller may stand in it",
                      route.name, placeholder));
    }
    const auto model = input.policy.models.find(route.model);
    if (model == input.policy.models.end() || model->second.engine == ModelSpec::Engine::kLocal) continue;
    out.warnings.push_back(fmt::format("route '{}': what {} shares is not in this policy's hands", route.name,
                                       model->second.api_base));
  }
  return out;
}

Obligation CheckHitRate(const CheckInput& input) {
  Obligation out{13, "hit rate", {}, {}, {}};
  const DimensionSource& date = input.policy.identity[static_cast<size_t>(Dimension::kEffectiveDate)];
  for (const RouteSpec& route : input.policy.routes) {
    std::vector<std::string> culprits;
    if (date.from == SourceFrom::kClock && date.instant && Caches(route)) {
      culprits.emplace_back("identity.effective_date: the instant");
    }
    for (const std::string& placeholder : PlaceholdersOf(route.system)) {
      if (VolatileNames().contains(placeholder))
        culprits.push_back(fmt::format("{{{}}} in its instruction", placeholder));
    }
    if (culprits.empty()) continue;
    const std::string line = fmt::format("route '{}': no two requests are alike, nothing would ever be found again: {}",
                                         route.name, fmt::join(culprits, ", "));
    (Caches(route) ? out.faults : out.warnings).push_back(line);
  }
  for (size_t d = 0; d < kDimensionCount; ++d) {
    const DimensionSource& source = input.policy.identity[d];
    const bool single = source.values.size() == 1 || source.from == SourceFrom::kConstant;
    if (single) out.details.push_back(fmt::format("{} has one value: it tells no two requests apart",
                                                  NameOf(static_cast<Dimension>(d))));
  }
  WarnUnusedParts(input.policy, out);
  out.details.emplace_back("no dimension and no instruction changes with every request");
  if (!out.faults.empty()) out.details.pop_back();
  return out;
}

}  // namespace surety::gateway
