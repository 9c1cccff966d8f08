#include "gateway/signal_conditions.h"

#include <algorithm>
#include <optional>
#include <set>

#include <fmt/format.h>

#include "base/check.h"
#include "base/nearest_name.h"

namespace surety::gateway {
namespace {

constexpr std::string_view kGroupSuffix = ".group";

bool Lists(const std::vector<std::string>& names, std::string_view name) {
  return std::ranges::find(names, name) != names.end();
}

std::optional<Level> LevelNamed(std::string_view name) {
  for (const Level level : {Level::kLow, Level::kMedium, Level::kHigh}) {
    if (NameOf(level) == name) return level;
  }
  return std::nullopt;
}

// "intent" of "intent.group"; else empty.
std::string_view GroupedSignal(std::string_view subject) {
  if (!subject.ends_with(kGroupSuffix)) return {};
  subject.remove_suffix(kGroupSuffix.size());
  return subject;
}

const SignalValue* ValueOf(const RoutingFacts& facts, const std::string& signal) {
  if (facts.signals == nullptr) return nullptr;
  const auto found = facts.signals->values.find(signal);
  return found == facts.signals->values.end() ? nullptr : &found->second;
}

// The names that a subject answers to, its number and its level; nothing of them: it can not be evaluated.
struct SubjectFacts {
  std::vector<std::string_view> names;   // of what `facts` hold
  std::optional<double> number;
  std::optional<Level> level;
};

SubjectFacts GroupFacts(const std::string& signal, const RoutingFacts& facts) {
  const SignalValue* value = ValueOf(facts, signal);
  if (value == nullptr || facts.policy == nullptr) return {};
  if (value->label == kAbstained) return {{kAbstained}, {}, {}};
  const auto spec = std::ranges::find(facts.policy->signals, signal, &SignalSpec::name);
  if (spec == facts.policy->signals.end()) return {};
  SubjectFacts out;
  for (const auto& [group, labels] : spec->groups) {
    if (Lists(labels, value->label)) out.names.push_back(group);
  }
  if (out.names.empty()) out.names.emplace_back("none");
  return out;
}

SubjectFacts FactsOf(const std::string& subject, const RoutingFacts& facts) {
  if (subject == "risk" || subject == "complexity") {
    if (facts.signals == nullptr) return {};
    const Level level = subject == "risk" ? facts.signals->risk : facts.signals->complexity;
    return {{NameOf(level)}, {}, level};
  }
  if (subject == "permissions") return {{facts.permissions.begin(), facts.permissions.end()}, {}, {}};
  if (const std::string signal(GroupedSignal(subject)); !signal.empty()) return GroupFacts(signal, facts);
  if (const SignalValue* value = ValueOf(facts, subject)) {
    SubjectFacts out{{value->label}, {}, LevelNamed(value->label)};
    if (value->has_number) out.number = value->number;
    return out;
  }
  const auto dimension = facts.dimensions.find(subject);
  if (dimension == facts.dimensions.end()) return {};
  return {{dimension->second}, {}, {}};
}

bool ConditionHolds(const Condition& condition, const RoutingFacts& facts) {
  if (condition.any_of.empty() && !condition.above && !condition.below && !condition.at_least) return false;
  const SubjectFacts subject = FactsOf(condition.subject, facts);
  const auto is_listed = [&](std::string_view name) { return Lists(condition.any_of, name); };
  if (!condition.any_of.empty() && std::ranges::none_of(subject.names, is_listed)) return false;
  if (condition.above && !(subject.number && *subject.number > *condition.above)) return false;
  if (condition.below && !(subject.number && *subject.number < *condition.below)) return false;
  return !condition.at_least || (subject.level && *subject.level >= *condition.at_least);
}

// The signal that a subject reads; empty: none.
std::string SignalOf(const std::string& subject) {
  const std::string_view grouped = GroupedSignal(subject);
  return grouped.empty() ? subject : std::string(grouped);
}

}  // namespace

bool Holds(const When& when, const RoutingFacts& facts) {
  return std::ranges::all_of(when, [&](const Condition& condition) { return ConditionHolds(condition, facts); });
}

const RouteSpec& ChooseRoute(const RoutingFacts& facts) {
  SURETY_CHECK(facts.policy != nullptr && !facts.policy->routes.empty());
  for (const RouteSpec& route : facts.policy->routes) {
    if (route.always || Holds(route.when, facts)) return route;
  }
  return facts.policy->routes.back();
}

Level LevelFor(const LevelSpec& spec, const RoutingFacts& facts) {
  Level level = spec.base;
  std::set<std::string> unknown, answered;
  for (const LevelSpec::Rule& rule : spec.rules) {
    if (Holds(rule.when, facts)) level = std::max(level, rule.level);
    for (const Condition& condition : rule.when) {
      const std::string signal = SignalOf(condition.subject);
      const SignalValue* value = ValueOf(facts, signal);
      if (value == nullptr || value->label != kAbstained) continue;
      (Lists(condition.any_of, kAbstained) ? answered : unknown).insert(signal);
    }
  }
  const bool is_open = std::ranges::any_of(unknown, [&](const std::string& name) { return !answered.contains(name); });
  return is_open ? std::max(level, Level::kMedium) : level;
}

Status CheckLevelSubjects(const Policy& policy, const LevelSpec& spec, const std::string& level) {
  std::vector<std::string> known;
  for (const SignalSpec& signal : policy.signals) known.push_back(signal.name);
  for (const LevelSpec::Rule& rule : spec.rules) {
    for (const Condition& condition : rule.when) {
      if (level == "complexity" && condition.subject == "risk") continue;
      if (Lists(known, SignalOf(condition.subject))) continue;
      const std::string nearest = NearestName(condition.subject, known);
      return InvalidArgumentError(fmt::format("{}: its rules can read signals only, and there is no signal '{}'{}",
                                              level, condition.subject,
                                              nearest.empty() ? "" : fmt::format("; did you mean '{}'?", nearest)));
    }
  }
  return OkStatus();
}

}  // namespace surety::gateway
