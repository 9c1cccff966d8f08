#include "gateway/route_space.h"

#include <algorithm>
#include <cmath>
#include <map>
#include <optional>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "base/random.h"

namespace surety::gateway {
namespace {

// One value that a variable can have.
struct SpaceValue {
  std::string label;
  bool has_number = false;
  double number = 0;
};

// A condition's share in one variable: for each class, whether it holds.
struct SpaceTest {
  size_t variable = 0;
  std::vector<bool> holds;
};

// A signal, a dimension, or the membership of one permission.
struct SpaceVariable {
  std::string subject;
  std::vector<SpaceValue> values;                 // one a class
  std::vector<std::vector<std::string>> labels;   // all of the class
  std::optional<size_t> wordless;                 // of what words make as one likes: the class without any
};

struct SpaceRule {
  std::vector<SpaceTest> tests;
  std::vector<const Condition*> of_risk, of_complexity;   // on levels that follow from the rest
  // Several permissions in one condition: any of them.
  std::vector<std::vector<SpaceTest>> any_of_permissions;
};

constexpr std::string_view kOtherLabel = "(another)";
constexpr std::string_view kUnsetLabel = "(none)";
constexpr std::string_view kAbstainedLabel = "abstained";

bool LevelHolds(const Condition& condition, Level level) {
  if (condition.at_least && level < *condition.at_least) return false;
  return condition.any_of.empty() || std::ranges::find(condition.any_of, NameOf(level)) != condition.any_of.end();
}

class SpaceBuilder {
 public:
  explicit SpaceBuilder(const Policy& policy) : policy_(policy) {
    for (const RouteSpec& route : policy.routes) Gather(route.when);
    for (const LevelSpec* level : {&policy.risk, &policy.complexity}) {
      for (const LevelSpec::Rule& rule : level->rules) Gather(rule.when);
    }
    const bool has_intent = std::ranges::find(policy.signals, "intent", &SignalSpec::name) != policy.signals.end();
    if (has_intent) by_subject_["intent"];
    for (const auto& [subject, conditions] : by_subject_) AddVariable(subject, conditions);
    for (const RouteSpec& route : policy.routes) routes_.push_back(RuleOf(route.when));
    risk_ = LevelOf(policy.risk);
    complexity_ = LevelOf(policy.complexity);
  }

  RouteSpace Build(uint64_t max_cells) {
    RouteSpace space;
    space.routes.resize(policy_.routes.size());
    space.n_cells = 1;
    for (const SpaceVariable& variable : variables_) {
      space.n_cells = std::min<uint64_t>(space.n_cells * variable.values.size(), uint64_t{1} << 40);
    }
    space.exhaustive = space.n_cells <= max_cells;
    if (space.exhaustive) Walk(space);
    if (!space.exhaustive) Judge(space);
    return space;
  }

 private:
  using Cell = std::vector<size_t>;   // the class of each variable

  static std::string BaseSubject(const std::string& subject) {
    return subject.ends_with(".group") ? subject.substr(0, subject.size() - 6) : subject;
  }
  void Gather(const When& when) {
    for (const Condition& condition : when) {
      if (condition.subject == "risk" || condition.subject == "complexity") continue;
      if (condition.subject == "permissions") {
        for (const std::string& permission : condition.any_of) by_subject_["permissions " + permission];
      } else {
        by_subject_[BaseSubject(condition.subject)].push_back(&condition);
      }
    }
  }
  const SignalSpec* Signal(std::string_view name) const {
    const auto found = std::ranges::find(policy_.signals, name, &SignalSpec::name);
    return found == policy_.signals.end() ? nullptr : &*found;
  }

  // Labels that conditions or groups name.
  void Mentioned(const std::vector<const Condition*>& conditions, const SignalSpec* signal,
                 std::set<std::string>& labels) const {
    for (const Condition* condition : conditions) {
      if (!condition->subject.ends_with(".group")) labels.insert(condition->any_of.begin(), condition->any_of.end());
    }
    if (signal == nullptr) return;
    for (const auto& [group, members] : signal->groups) labels.insert(members.begin(), members.end());
  }
  static void AddNumbers(const std::vector<const Condition*>& conditions, std::vector<SpaceValue>& values) {
    std::set<double> bounds;
    for (const Condition* condition : conditions) {
      if (condition->above) bounds.insert(*condition->above);
      if (condition->below) bounds.insert(*condition->below);
    }
    if (bounds.empty()) bounds.insert(0);
    std::set<double> numbers = bounds;
    double last = *bounds.begin();
    numbers.insert(last - std::max(1.0, std::abs(last)));
    for (const double bound : bounds) {
      if (bound > last) numbers.insert(last + (bound - last) / 2);
      last = bound;
    }
    numbers.insert(last + std::max(1.0, std::abs(last)));
    for (const double number : numbers) values.push_back({fmt::format("{}", number), true, number});
  }
  std::vector<SpaceValue> SignalValues(const SignalSpec& signal,
                                       const std::vector<const Condition*>& conditions) const {
    std::set<std::string> labels;
    std::vector<SpaceValue> values;
    switch (signal.by) {
      case SignalSpec::By::kPhrases:
        if (signal.phrases.size() == 1 && (signal.phrases.contains("") || signal.phrases.contains("true"))) {
          return {{"true"}, {"false"}};
        }
        for (const auto& [label, phrases] : signal.phrases) labels.insert(label);
        labels.insert({"none", std::string(kAbstainedLabel)});
        break;
      case SignalSpec::By::kPattern:
        if (!signal.number) return {{"true"}, {"false"}};
        [[fallthrough]];
      case SignalSpec::By::kAmount:
        AddNumbers(conditions, values);
        values.insert(values.end(), {{"none"}, {std::string(kAbstainedLabel)}});
        return values;
      case SignalSpec::By::kClassifier:
        Mentioned(conditions, &signal, labels);
        labels.insert({std::string(kOtherLabel), "none", std::string(kAbstainedLabel)});
        break;
      case SignalSpec::By::kMetadata:
        labels.insert(signal.values.begin(), signal.values.end());
        labels.insert("none");
        break;
      case SignalSpec::By::kLength:
        AddNumbers(conditions, values);
        return values;
    }
    for (const std::string& label : labels) values.push_back({label});
    return values;
  }
  std::vector<SpaceValue> DimensionValues(const std::string& subject,
                                          const std::vector<const Condition*>& conditions) const {
    std::set<std::string> labels;
    Mentioned(conditions, nullptr, labels);
    labels.insert(std::string(kOtherLabel));
    bool required = false;
    for (size_t i = 0; i < kDimensionCount; ++i) {
      const DimensionSource& source = policy_.identity[i];
      if (NameOf(static_cast<Dimension>(i)) != subject) continue;
      required = source.required;
      if (!source.values.empty()) labels = {source.values.begin(), source.values.end()};
      if (source.from == DimensionSource::From::kConstant) labels = {source.name};
      if (source.from == DimensionSource::From::kUnset) labels.clear();
    }
    if (!required || labels.empty()) labels.insert(std::string(kUnsetLabel));
    std::vector<SpaceValue> values;
    for (const std::string& label : labels) values.push_back({label});
    return values;
  }

  bool ValueHolds(const Condition& condition, const SpaceValue& value) const {
    if (condition.subject.ends_with(".group")) {
      const SignalSpec* signal = Signal(BaseSubject(condition.subject));
      if (signal == nullptr) return false;
      std::set<std::string> names;
      for (const auto& [group, members] : signal->groups) {
        if (std::ranges::find(members, value.label) != members.end()) names.insert(group);
      }
      if (names.empty()) names.insert("none");
      if (value.label == kAbstainedLabel) names = {value.label};
      return std::ranges::any_of(condition.any_of, [&](const std::string& group) { return names.contains(group); });
    }
    if (condition.above && !(value.has_number && value.number > *condition.above)) return false;
    if (condition.below && !(value.has_number && value.number < *condition.below)) return false;
    return condition.any_of.empty() || std::ranges::find(condition.any_of, value.label) != condition.any_of.end();
  }

  // The label that a signal has without any words, if words make it whatever their writer likes. Signals with labels
  // and classifiers with a least confidence say what the last turn is about and abstain where they are not sure, so
  // they are not among these; metadata are no words.
  static std::optional<std::string> WordlessLabel(const SignalSpec& signal,
                                                  const std::vector<SpaceValue>& values) {
    switch (signal.by) {
      case SignalSpec::By::kPhrases:
        if (values.size() == 2 && values[1].label == "false") return "false";
        return std::nullopt;
      case SignalSpec::By::kPattern: return signal.number ? "none" : "false";
      case SignalSpec::By::kAmount: return "none";
      case SignalSpec::By::kLength: return values.front().label;
      case SignalSpec::By::kClassifier:
        if (signal.min_confidence <= 0) return std::string(kAbstainedLabel);
        return std::nullopt;
      case SignalSpec::By::kMetadata: break;
    }
    return std::nullopt;
  }

  void AddVariable(const std::string& subject, const std::vector<const Condition*>& conditions) {
    std::vector<SpaceValue> values;
    const SignalSpec* signal = Signal(subject);
    if (subject.starts_with("permissions ")) {
      values = {{"true"}, {"false"}};
    } else {
      values = signal != nullptr ? SignalValues(*signal, conditions) : DimensionValues(subject, conditions);
    }
    const auto wordless = signal != nullptr ? WordlessLabel(*signal, values) : std::nullopt;
    SpaceVariable variable{subject, {}, {}, {}};
    std::map<std::vector<bool>, size_t> classes;
    for (const SpaceValue& value : values) {
      std::vector<bool> holds;
      for (const Condition* condition : conditions) holds.push_back(ValueHolds(*condition, value));
      if (subject.starts_with("permissions ")) holds.push_back(value.label == "true");
      holds.push_back(value.label == kAbstainedLabel);
      const auto [place, is_new] = classes.emplace(std::move(holds), variable.values.size());
      if (is_new) {
        variable.values.push_back(value);
        variable.labels.emplace_back();
      }
      variable.labels[place->second].push_back(value.label);
      if (wordless && value.label == *wordless) variable.wordless = place->second;
    }
    index_[subject] = variables_.size();
    variables_.push_back(std::move(variable));
  }

  SpaceRule RuleOf(const When& when) const {
    SpaceRule rule;
    for (const Condition& condition : when) {
      if (condition.subject == "risk") {
        rule.of_risk.push_back(&condition);
      } else if (condition.subject == "complexity") {
        rule.of_complexity.push_back(&condition);
      } else if (condition.subject == "permissions") {
        std::vector<SpaceTest>& any = rule.any_of_permissions.emplace_back();
        for (const std::string& permission : condition.any_of) {
          SpaceTest test{index_.at("permissions " + permission), {}};
          for (const SpaceValue& value : variables_[test.variable].values) test.holds.push_back(value.label == "true");
          any.push_back(std::move(test));
        }
      } else {
        SpaceTest test{index_.at(BaseSubject(condition.subject)), {}};
        for (const SpaceValue& value : variables_[test.variable].values) {
          test.holds.push_back(ValueHolds(condition, value));
        }
        rule.tests.push_back(std::move(test));
      }
    }
    return rule;
  }

  // A level: the rules that raise it, and the signals whose abstention alone makes it medium, because a rule reads them
  // and none says what their abstention means (signal_conditions.h).
  struct SpaceLevel {
    Level base = Level::kLow;
    std::vector<std::pair<SpaceRule, Level>> rules;
    std::vector<size_t> open;
  };
  SpaceLevel LevelOf(const LevelSpec& spec) const {
    SpaceLevel level{spec.base, {}, {}};
    std::set<std::string> read, answered;
    for (const LevelSpec::Rule& rule : spec.rules) {
      level.rules.emplace_back(RuleOf(rule.when), rule.level);
      for (const Condition& condition : rule.when) {
        const bool names_it = std::ranges::find(condition.any_of, kAbstainedLabel) != condition.any_of.end();
        (names_it ? answered : read).insert(BaseSubject(condition.subject));
      }
    }
    for (const std::string& subject : read) {
      if (!answered.contains(subject) && Signal(subject) != nullptr) level.open.push_back(index_.at(subject));
    }
    return level;
  }

  static bool TestHolds(const SpaceTest& test, const Cell& cell) { return test.holds[cell[test.variable]]; }
  static bool RuleHolds(const SpaceRule& rule, const Cell& cell, Level risk, Level complexity) {
    for (const SpaceTest& test : rule.tests) {
      if (!TestHolds(test, cell)) return false;
    }
    for (const auto& any : rule.any_of_permissions) {
      if (!std::ranges::any_of(any, [&](const SpaceTest& test) { return TestHolds(test, cell); })) return false;
    }
    for (const Condition* condition : rule.of_risk) {
      if (!LevelHolds(*condition, risk)) return false;
    }
    for (const Condition* condition : rule.of_complexity) {
      if (!LevelHolds(*condition, complexity)) return false;
    }
    return true;
  }
  Level LevelAt(const SpaceLevel& spec, const Cell& cell, Level risk) const {
    Level level = spec.base;
    for (const auto& [rule, raised] : spec.rules) {
      if (raised > level && RuleHolds(rule, cell, risk, Level::kLow)) level = raised;
    }
    for (const size_t v : spec.open) {
      if (variables_[v].values[cell[v]].label == kAbstainedLabel) level = std::max(level, Level::kMedium);
    }
    return level;
  }
  std::string ExampleOf(const Cell& cell, Level risk) const {
    std::vector<std::string> parts;
    for (size_t v = 0; v < variables_.size(); ++v) {
      parts.push_back(fmt::format("{}={}", variables_[v].subject, variables_[v].values[cell[v]].label));
    }
    parts.push_back(fmt::format("risk={}", NameOf(risk)));
    return fmt::format("{}", fmt::join(parts, ", "));
  }

  // The route that a cell leads to; their number if none does.
  size_t RouteAt(const Cell& cell, Level risk) const {
    const Level complexity = LevelAt(complexity_, cell, risk);
    for (size_t r = 0; r < routes_.size(); ++r) {
      if (policy_.routes[r].always || RuleHolds(routes_[r], cell, risk, complexity)) return r;
    }
    return routes_.size();
  }
  // The route that a cell leads to takes note of it.
  size_t Visit(const Cell& cell, RouteSpace& space) const {
    const Level risk = LevelAt(risk_, cell, Level::kLow);
    const size_t r = RouteAt(cell, risk);
    if (r == routes_.size()) return r;
    RouteReach& reach = space.routes[r];
    if (reach.kind != RouteReach::Kind::kReached) reach.example = ExampleOf(cell, risk);
    reach.kind = RouteReach::Kind::kReached;
    reach.risks[static_cast<size_t>(risk)] = true;
    if (const auto intent = index_.find("intent"); intent != index_.end()) {
      const auto& labels = variables_[intent->second].labels[cell[intent->second]];
      reach.intents.insert(labels.begin(), labels.end());
    }
    return r;
  }
  // Whether one more word lowers control from here on: each signal that words make, and is not yet made, is made.
  void CompareWithWords(Cell cell, size_t from, RouteSpace& space) const {
    if (from == routes_.size() || ControlOf(policy_.routes[from]) == Control::kOpen) return;
    for (size_t v = 0; v < variables_.size(); ++v) {
      const SpaceVariable& variable = variables_[v];
      if (!variable.wordless || cell[v] != *variable.wordless) continue;
      for (size_t c = 0; c < variable.values.size(); ++c) {
        cell[v] = c;
        const Level risk = LevelAt(risk_, cell, Level::kLow);
        const size_t to = RouteAt(cell, risk);
        if (to == routes_.size() || ControlOf(policy_.routes[to]) >= ControlOf(policy_.routes[from])) continue;
        // An answer of high risk that nothing looks at is wrong however it came there: release safety says so.
        const bool is_made = policy_.routes[to].answer != RouteSpec::Answer::kTemplate;
        if (risk == Level::kHigh && is_made && ControlOf(policy_.routes[to]) == Control::kOpen) continue;
        const bool known = std::ranges::any_of(space.drops, [&](const ControlDrop& drop) {
          return drop.signal == variable.subject && drop.from == from && drop.to == to;
        });
        if (known) continue;
        space.drops.push_back({variable.subject, variable.values[*variable.wordless].label, variable.values[c].label,
                               from, to, ExampleOf(cell, risk)});
      }
      cell[v] = *variable.wordless;
    }
  }
  void Walk(RouteSpace& space) const {
    Cell cell(variables_.size(), 0);
    while (true) {
      CompareWithWords(cell, Visit(cell, space), space);
      size_t v = 0;
      while (v < cell.size() && ++cell[v] == variables_[v].values.size()) cell[v++] = 0;
      if (v == cell.size()) break;
    }
    for (RouteReach& reach : space.routes) {
      if (reach.kind == RouteReach::Kind::kNever) {
        reach.example = fmt::format("none of {} combinations of values leads to it", space.n_cells);
      }
    }
  }

  // The classes of each variable that a rule allows.
  std::vector<std::vector<bool>> AllowedBy(const SpaceRule& rule) const {
    std::vector<std::vector<bool>> allowed;
    for (const SpaceVariable& variable : variables_) allowed.emplace_back(variable.values.size(), true);
    for (const SpaceTest& test : rule.tests) {
      for (size_t c = 0; c < test.holds.size(); ++c) {
        allowed[test.variable][c] = allowed[test.variable][c] && test.holds[c];
      }
    }
    for (const auto& any : rule.any_of_permissions) {
      if (any.size() != 1) continue;
      for (size_t c = 0; c < any[0].holds.size(); ++c) {
        allowed[any[0].variable][c] = allowed[any[0].variable][c] && any[0].holds[c];
      }
    }
    return allowed;
  }
  // Whether everything that meets `narrow` meets `wide`: for each variable, and for levels by their sets.
  bool Covers(size_t wide, size_t narrow) const {
    if (policy_.routes[wide].always) return true;
    const SpaceRule& w = routes_[wide];
    if (std::ranges::any_of(w.any_of_permissions, [](const auto& any) { return any.size() > 1; })) return false;
    const auto allowed_wide = AllowedBy(w), allowed_narrow = AllowedBy(routes_[narrow]);
    for (size_t v = 0; v < variables_.size(); ++v) {
      for (size_t c = 0; c < allowed_wide[v].size(); ++c) {
        if (allowed_narrow[v][c] && !allowed_wide[v][c]) return false;
      }
    }
    for (const Level level : {Level::kLow, Level::kMedium, Level::kHigh}) {
      const auto meets = [&](const auto& conditions) {
        return std::ranges::all_of(conditions, [&](const Condition* c) { return LevelHolds(*c, level); });
      };
      if (meets(routes_[narrow].of_risk) && !meets(w.of_risk)) return false;
      if (meets(routes_[narrow].of_complexity) && !meets(w.of_complexity)) return false;
    }
    return true;
  }

  void Judge(RouteSpace& space) const {
    uint64_t position = 0;
    const auto draw = [&position](size_t n) { return RandomBits({1, ++position, RandomPurpose::kWorkload, 0}) % n; };
    for (size_t r = 0; r < routes_.size(); ++r) {
      const auto allowed = AllowedBy(routes_[r]);
      std::vector<std::vector<size_t>> choices(variables_.size());
      bool empty = false;
      for (size_t v = 0; v < variables_.size(); ++v) {
        for (size_t c = 0; c < allowed[v].size(); ++c) {
          if (allowed[v][c]) choices[v].push_back(c);
        }
        empty = empty || choices[v].empty();
      }
      for (int i = 0; i < 4000 && !empty; ++i) {
        Cell cell(variables_.size());
        for (size_t v = 0; v < cell.size(); ++v) cell[v] = choices[v][draw(choices[v].size())];
        CompareWithWords(cell, Visit(cell, space), space);
      }
      RouteReach& reach = space.routes[r];
      if (reach.kind == RouteReach::Kind::kReached) continue;
      reach.kind = RouteReach::Kind::kUndecided;
      if (empty) {
        reach.kind = RouteReach::Kind::kNever;
        reach.example = "its conditions contradict each other";
      }
      for (size_t earlier = 0; earlier < r; ++earlier) {
        if (!Covers(earlier, r)) continue;
        reach.kind = RouteReach::Kind::kNever;
        reach.example = fmt::format("whatever meets its conditions goes to '{}'", policy_.routes[earlier].name);
      }
    }
    for (size_t r = 0; r < routes_.size(); ++r) Widen(r, space.routes[r]);
  }
  // What was not seen in samples counts as possible as far as the route's own conditions allow it.
  void Widen(size_t r, RouteReach& reach) const {
    if (reach.kind == RouteReach::Kind::kNever) return;
    for (const Level level : {Level::kLow, Level::kMedium, Level::kHigh}) {
      if (level < policy_.risk.base) continue;
      reach.risks[static_cast<size_t>(level)] = std::ranges::all_of(
          routes_[r].of_risk, [&](const Condition* condition) { return LevelHolds(*condition, level); });
    }
    const auto intent = index_.find("intent");
    if (intent == index_.end()) return;
    const auto allowed = AllowedBy(routes_[r])[intent->second];
    for (size_t c = 0; c < allowed.size(); ++c) {
      const auto& labels = variables_[intent->second].labels[c];
      if (allowed[c]) reach.intents.insert(labels.begin(), labels.end());
    }
  }

  const Policy& policy_;
  std::map<std::string, std::vector<const Condition*>> by_subject_;
  std::map<std::string, size_t> index_;
  std::vector<SpaceVariable> variables_;
  std::vector<SpaceRule> routes_;
  SpaceLevel risk_, complexity_;
};

}  // namespace

Control ControlOf(const RouteSpec& route) {
  using Answer = RouteSpec::Answer;
  if (route.answer == Answer::kHuman || route.answer == Answer::kRefuse || !route.release.review.empty()) {
    return Control::kPerson;
  }
  const bool held = route.release.mode == ReleaseSpec::Mode::kHeld;
  return route.answer != Answer::kTemplate && held && !route.verify.empty() ? Control::kVerified : Control::kOpen;
}

RouteSpace SpaceOf(const Policy& policy, uint64_t max_cells) { return SpaceBuilder(policy).Build(max_cells); }

}  // namespace surety::gateway
