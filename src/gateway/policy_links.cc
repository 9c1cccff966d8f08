// What two parts of a policy file say must fit together: every name that is used is defined, conditions ask for values
// that their subject can have, placeholders stand for something.
#include <algorithm>
#include <set>

#include <fmt/format.h>

#include "gateway/policy_form.h"
#include "gateway/tools.h"

namespace surety::gateway {
namespace {

using Known = std::vector<std::string>;

template <typename T>
Known KeysOf(const std::map<std::string, T>& map) {
  Known out;
  for (const auto& [name, value] : map) out.push_back(name);
  return out;
}

bool LinkHas(const Known& known, std::string_view name) { return std::ranges::find(known, name) != known.end(); }

const SignalSpec* LinkSignal(const Policy& policy, std::string_view name) {
  const auto found = std::ranges::find(policy.signals, name, &SignalSpec::name);
  return found == policy.signals.end() ? nullptr : &*found;
}

Known DimensionNames() {
  Known out;
  for (int i = 0; i < kDimensionCount; ++i) out.emplace_back(NameOf(static_cast<Dimension>(i)));
  return out;
}

Known SignalSubjects(const Policy& policy) {
  Known out;
  for (const SignalSpec& signal : policy.signals) {
    out.push_back(signal.name);
    if (!signal.groups.empty()) out.push_back(signal.name + ".group");
  }
  return out;
}

// What a condition may ask of a subject; nullopt: any text.
std::optional<Known> LabelsOf(const Policy& policy, const std::string& subject) {
  if (subject == "risk" || subject == "complexity") return Known{"low", "medium", "high"};
  if (subject.ends_with(".group")) {
    const SignalSpec* signal = LinkSignal(policy, subject.substr(0, subject.size() - 6));
    if (signal == nullptr) return std::nullopt;
    Known labels = KeysOf(signal->groups);
    labels.insert(labels.end(), {"none", "abstained"});
    return labels;
  }
  if (const SignalSpec* signal = LinkSignal(policy, subject)) {
    switch (signal->by) {
      case SignalSpec::By::kPhrases: {
        Known labels = KeysOf(signal->phrases);
        if (labels == Known{""} || labels == Known{"true"}) return Known{"true", "false"};
        labels.insert(labels.end(), {"none", "abstained"});
        return labels;
      }
      case SignalSpec::By::kPattern: return signal->number ? Known{"none", "abstained"} : Known{"true", "false"};
      case SignalSpec::By::kMetadata: {
        Known labels = signal->values;
        labels.emplace_back("none");
        return labels;
      }
      case SignalSpec::By::kLength: return Known{};
      case SignalSpec::By::kAmount: return Known{"none", "abstained"};
      case SignalSpec::By::kClassifier: return std::nullopt;
    }
  }
  const Known dimensions = DimensionNames();
  const auto dimension = std::ranges::find(dimensions, subject);
  if (dimension == dimensions.end()) return std::nullopt;
  const auto& values = policy.identity[static_cast<size_t>(dimension - dimensions.begin())].values;
  return values.empty() ? std::nullopt : std::optional(values);
}

bool IsNumber(const Policy& policy, std::string_view subject) {
  const SignalSpec* signal = LinkSignal(policy, subject);
  return signal != nullptr &&
         (signal->by == SignalSpec::By::kLength || signal->by == SignalSpec::By::kAmount ||
          (signal->by == SignalSpec::By::kPattern && signal->number));
}

class LinkChecker {
 public:
  LinkChecker(PolicyReading& reading, const Policy& policy) : reading_(reading), policy_(policy) {
    known_ = {{"model", KeysOf(policy.models)},       {"retriever", KeysOf(policy.retrievers)},
              {"tool", KeysOf(policy.tools)},         {"invariant", KeysOf(policy.invariants)},
              {"verifier", KeysOf(policy.verifiers)}, {"template", KeysOf(policy.templates)},
              {"context", KeysOf(policy.contexts)},   {"review queue", KeysOf(policy.review)},
              {"signal subject", SignalSubjects(policy)}};
    for (const RouteSpec& route : policy.routes) known_["route"].push_back(route.name);
    for (const SignalSpec& signal : policy.signals) known_["signal"].push_back(signal.name);
    known_["complexity subject"] = known_["signal subject"];
    known_["complexity subject"].emplace_back("risk");
    Known& subjects = known_["subject"] = known_["signal subject"];
    subjects.insert(subjects.end(), {"risk", "complexity"});
    for (std::string& name : DimensionNames()) subjects.push_back(std::move(name));
  }

  void Run() {
    for (const auto& reference : reading_.references()) Check(reference);
  }

 private:
  void Fail(const PolicyReading::Reference& at, std::string_view what) {
    reading_.FailAt(at.line, at.column, at.path, what);
  }
  void Check(const PolicyReading::Reference& at) {
    if (at.kind == "label") return CheckLabel(at);
    if (at.kind == "number subject") {
      if (IsNumber(policy_, at.name)) return;
      Fail(at, "above and below are for signals that are numbers: by: amount, by: length, or by: pattern with number: "
               "true");
      return;
    }
    if (at.kind == "level subject") {
      if (at.name != "risk" && at.name != "complexity") Fail(at, "at_least is for risk and complexity");
      return;
    }
    const Known& known = known_[at.kind];
    if (LinkHas(known, at.name)) return;
    if ((at.kind == "signal subject" || at.kind == "complexity subject") && LinkHas(known_["subject"], at.name)) {
      return Fail(at, fmt::format("'{}' is not known yet where this level is found: ask for signals", at.name));
    }
    const bool condition = at.kind.ends_with("subject");
    Fail(at, fmt::format("'{}' is no {} of this policy{}", at.name, condition ? "subject of a condition" : at.kind,
                         PolicyHint(at.name, known)));
  }
  void CheckLabel(const PolicyReading::Reference& at) {
    const auto labels = LabelsOf(policy_, at.of);
    if (!labels || LinkHas(*labels, at.name)) return;
    Fail(at, IsNumber(policy_, at.of)
                 ? fmt::format("'{}' is a number: ask for it with above and below, or for none", at.of)
                 : fmt::format("'{}' is never a value of '{}'{}", at.name, at.of, PolicyHint(at.name, *labels)));
  }

  PolicyReading& reading_;
  const Policy& policy_;
  std::map<std::string, Known> known_;
};

void CheckSignalNames(PolicyReading& reading, const YamlNode& root, const Policy& policy) {
  Known taken = DimensionNames();
  taken.insert(taken.end(), {"risk", "complexity"});
  for (const SignalSpec& signal : policy.signals) {
    if (!LinkHas(taken, signal.name)) continue;
    reading.Fail(*root.Find("signals")->Find(signal.name),
                 fmt::format("a signal cannot be called '{}': conditions mean something else by it", signal.name));
  }
}

// Lists whose items carry their names.
void CheckListNames(PolicyReading& reading, const YamlNode& root, std::string_view part) {
  const YamlNode* list = root.Find(part);
  if (list == nullptr) return;
  std::set<std::string> seen;
  for (const YamlNode& item : list->items) {
    const YamlNode* name = item.Find("name");
    if (name == nullptr || seen.insert(name->text).second) continue;
    reading.Fail(*name, fmt::format("{}: '{}' stands here twice", part, name->text));
  }
}

void CheckPlaceholders(PolicyReading& reading, const YamlNode& root, const Policy& policy) {
  Known known = DimensionNames();
  known.insert(known.end(), {"risk", "complexity"});
  for (const SignalSpec& signal : policy.signals) known.push_back(signal.name);
  for (const SignalSpec& signal : policy.signals) {
    if (signal.by == SignalSpec::By::kMetadata) known.push_back(signal.key);
  }
  for (const DimensionSource& source : policy.identity) {
    if (source.from == DimensionSource::From::kMetadata) known.push_back(source.name);
  }
  for (const auto& [name, made] : policy.templates) {
    for (const auto& [label, text] : made.texts) {
      for (const std::string& placeholder : PlaceholdersOf(text)) {
        if (LinkHas(known, placeholder)) continue;
        reading.Fail(*root.Find("templates")->Find(name)->Find("texts")->Find(label),
                     fmt::format("'{{{}}}' stands for nothing: no signal, dimension or metadata key of this policy is "
                                 "called so{}", placeholder, PolicyHint(placeholder, known)));
      }
    }
  }
}

void CheckTemplateLabels(PolicyReading& reading, const YamlNode& root, const Policy& policy) {
  const SignalSpec* intent = LinkSignal(policy, "intent");
  for (const auto& [name, made] : policy.templates) {
    for (const auto& [label, text] : made.texts) {
      if (label == "default") continue;
      const auto labels = LabelsOf(policy, "intent");
      if (intent != nullptr && (!labels || LinkHas(*labels, label))) continue;
      const YamlNode& place = *root.Find("templates")->Find(name)->Find("texts")->Find(label);
      reading.Fail(place, intent == nullptr
                              ? fmt::format("'{}' is never asked for: this policy has no signal 'intent'", label)
                              : fmt::format("'{}' is no label of the signal 'intent'{}", label,
                                            PolicyHint(label, *labels)));
    }
  }
}

// Each expression is one that conflicts.cc evaluates, over tools of this policy.
void CheckInvariants(PolicyReading& reading, const YamlNode& root, const Policy& policy) {
  const YamlNode* list = root.Find("invariants");
  if (list == nullptr) return;
  for (const YamlNode& item : list->items) {
    for (const char* key : {"when", "require"}) {
      const YamlNode* node = item.Find(key);
      if (node == nullptr || node->kind != YamlNode::Kind::kScalar) continue;
      if (const Status status = CheckInvariantExpression(node->text, policy.tools); !status.ok()) {
        reading.Fail(*node, status.message());
      }
    }
  }
}

// A list of invariants is looked at with the results of the route's own tools: one over another tool never finds
// anything.
void CheckInvariantsOfRoute(PolicyReading& reading, const YamlNode& list, const Policy& policy,
                            const RouteSpec& route) {
  if (route.invariants.empty()) return;
  if (route.tools.empty()) {
    reading.Fail(list, "invariants compare results of tools; this route names none");
    return;
  }
  for (size_t i = 0; i < route.invariants.size() && i < list.items.size(); ++i) {
    const auto invariant = policy.invariants.find(route.invariants[i]);
    if (invariant == policy.invariants.end()) continue;
    for (const std::string* expression : {&invariant->second.when, &invariant->second.require}) {
      const auto tools = ToolsOfInvariant(*expression);  // one that does not parse is reported where it stands
      for (const std::string& tool : tools ? *tools : std::set<std::string>()) {
        if (LinkHas(route.tools, tool)) continue;
        reading.Fail(list.items[i], fmt::format("'{}' reads the tool '{}', which this route does not ask: add it to "
                                                "its tools", invariant->first, tool));
      }
    }
  }
}

void CheckRoutes(PolicyReading& reading, const YamlNode& root, const Policy& policy) {
  const YamlNode& list = *root.Find("routes");
  if (!policy.routes.empty() && !policy.routes.back().always) {
    reading.Fail(list.items.back(), fmt::format("the last route, '{}', must be when: always, so that every request has "
                                                "one", policy.routes.back().name));
  }
  for (size_t i = 0; i < policy.routes.size() && i < list.items.size(); ++i) {
    const YamlNode* names = list.items[i].Find("invariants");
    if (names != nullptr) CheckInvariantsOfRoute(reading, *names, policy, policy.routes[i]);
  }
}

}  // namespace

void CheckPolicyLinks(PolicyReading& reading, const YamlNode& root, const Policy& policy) {
  LinkChecker(reading, policy).Run();
  CheckSignalNames(reading, root, policy);
  CheckListNames(reading, root, "routes");
  CheckListNames(reading, root, "invariants");
  CheckPlaceholders(reading, root, policy);
  CheckTemplateLabels(reading, root, policy);
  CheckInvariants(reading, root, policy);
  CheckRoutes(reading, root, policy);
}

}  // namespace surety::gateway
