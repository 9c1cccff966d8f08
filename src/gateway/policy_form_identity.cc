// Identity, signals, levels and conditions.
#include <algorithm>

#include <fmt/format.h>
#include <re2/re2.h>

#include "gateway/policy_form.h"
#include "gateway/policy_values.h"

namespace surety::gateway {
namespace {

constexpr int64_t kMaxClassifierFileBytes = 256LL << 20;

using From = DimensionSource::From;

struct DimensionForm {
  DimensionSource source;
  std::string claim, key, signal, value, granularity;
};

// "token.claim", "tool.NAME", ...
Shape<DimensionSource> FromShape() {
  static constexpr std::pair<std::string_view, From> kNames[] = {
      {"token.claim", From::kClaim}, {"request.metadata", From::kMetadata}, {"classifier", From::kSignal},
      {"signal", From::kSignal},     {"clock", From::kClock},               {"policy", From::kPolicy},
      {"constant", From::kConstant}};
  Shape<DimensionSource> shape;
  boost::json::array allowed;
  std::vector<std::string> known;
  for (const auto& [name, from] : kNames) {
    allowed.push_back(boost::json::string(name));
    known.emplace_back(name);
  }
  known.emplace_back("tool.NAME");
  shape.schema["anyOf"] = boost::json::array{boost::json::object{{"enum", std::move(allowed)}},
                                             boost::json::object{{"type", "string"}, {"pattern", "^tool\\..+"}}};
  shape.read = [known](PolicyReading& reading, const YamlNode& node, DimensionSource& out) {
    std::string text;
    if (!ReadScalar(reading, node, "a source, as in token.claim", text)) return false;
    if (text.starts_with("tool.")) {
      YamlNode tool = node;
      tool.text = text.substr(5);
      reading.Refer("tool", tool);
      out.from = From::kTool;
      out.name = tool.text;
      return true;
    }
    for (const auto& [name, from] : kNames) {
      if (name == text) out.from = from;
    }
    if (out.from != From::kUnset) return true;
    reading.Fail(node, fmt::format("'{}' is no source{}", text, PolicyHint(text, known)));
    return false;
  };
  return shape;
}

KeyRule SourceRule(const DimensionSource& source) {
  switch (source.from) {
    case From::kClaim: return {"from: token.claim", {}, {"claim", "values"}};
    case From::kMetadata: return {"from: request.metadata", {}, {"key", "values"}};
    case From::kSignal: return {"from: signal", {}, {"signal", "values"}};
    case From::kTool: return {"from: tool.NAME", {"field"}, {"values"}};
    case From::kClock: return {"from: clock", {}, {"granularity"}};
    case From::kConstant: return {"from: constant", {"value"}, {}};
    case From::kPolicy: return {"from: policy", {}, {}};
    case From::kUnset: break;
  }
  return {};
}

void FinishSource(PolicyReading& reading, const YamlNode& node, Dimension dimension, DimensionForm& form) {
  DimensionSource& source = form.source;
  CheckKeys(reading, node, SourceRule(source), {"from", "required"});
  const std::string own(NameOf(dimension));
  const YamlNode& from = *node.Find("from");
  if (source.from == From::kClock && dimension != Dimension::kEffectiveDate) {
    reading.Fail(from, "the clock gives effective_date alone");
  }
  if ((source.from == From::kPolicy) != (dimension == Dimension::kPolicyVersion)) {
    reading.Fail(from, dimension == Dimension::kPolicyVersion
                           ? "policy_version comes from the policy alone: from: policy"
                           : "the policy gives policy_version alone");
  }
  if (source.from == From::kClaim) source.name = form.claim.empty() ? own : form.claim;
  if (source.from == From::kMetadata) source.name = form.key.empty() ? own : form.key;
  if (source.from == From::kConstant) source.name = form.value;
  if (source.from == From::kSignal) {
    source.name = form.signal.empty() ? own : form.signal;
    YamlNode signal = node.Find("signal") != nullptr ? *node.Find("signal") : from;
    signal.text = source.name;
    reading.Refer("signal", signal);
  }
  source.instant = form.granularity == "instant";
}

// One condition's value: a label, several, or {above, below, at_least}.
Shape<Condition> ConditionShape(WhenPlace place) {
  auto labels = EitherShape(Shape<std::vector<std::string>>{LabelShape().schema, {}}, ListShape(LabelShape(), 256, 1));
  auto bounds = Fields<Condition>("bounds of a number, or of a level")
                    .AddWith<double>("above", NumberShape(-1e18, 1e18), "a number above this",
                                     [](Condition& out, double value) { out.above = value; })
                    .AddWith<double>("below", NumberShape(-1e18, 1e18), "a number below this",
                                     [](Condition& out, double value) { out.below = value; })
                    .AddWith<Level>("at_least", LevelNameShape(), "this level of risk or complexity, or a higher one",
                                    [](Condition& out, Level value) { out.at_least = value; })
                    .Done();
  Shape<Condition> shape;
  shape.schema["anyOf"] = boost::json::array{labels.schema, bounds.schema};
  shape.read = [bounds, place, list = ListShape(LabelShape(), 256, 1, true)](PolicyReading& reading,
                                                                                  const YamlNode& node,
                                                                                  Condition& out) {
    YamlNode subject = node;
    subject.text = out.subject;
    reading.Refer(place == WhenPlace::kRoute        ? "subject"
                  : place == WhenPlace::kComplexity ? "complexity subject"
                                                    : "signal subject",
                  subject);
    if (node.kind == YamlNode::Kind::kMap) {
      if (!bounds.read(reading, node, out)) return false;
      if (node.entries.empty()) reading.Fail(node, "no bound: give above, below or at_least");
      if (out.above || out.below) reading.Refer("number subject", subject);
      if (out.at_least) reading.Refer("level subject", subject);
      return true;
    }
    YamlNode single;
    single.kind = YamlNode::Kind::kList;
    if (node.kind == YamlNode::Kind::kScalar) single.items.push_back(node);
    const YamlNode& all = node.kind == YamlNode::Kind::kScalar ? single : node;
    if (!list.read(reading, all, out.any_of)) return false;
    for (const YamlNode& item : all.items) reading.Refer("label", item, out.subject);
    return true;
  };
  return shape;
}

KeyRule SignalRule(SignalSpec::By by) {
  switch (by) {
    case SignalSpec::By::kPhrases: return {"by: phrases", {}, {"phrases", "labels", "groups"}};
    case SignalSpec::By::kPattern: return {"by: pattern", {"pattern"}, {"number"}};
    case SignalSpec::By::kClassifier: return {"by: classifier", {"file"}, {"min_confidence", "groups"}};
    case SignalSpec::By::kMetadata: return {"by: metadata", {"values"}, {"key", "groups"}};
    case SignalSpec::By::kLength: return {"by: length", {}, {}};
    case SignalSpec::By::kAmount: return {"by: amount", {}, {}};
  }
  return {};
}

void FinishSignal(PolicyReading& reading, const YamlNode& node, SignalSpec& out) {
  CheckKeys(reading, node, SignalRule(out.by), {"by"});
  if (out.by == SignalSpec::By::kPhrases && (node.Find("phrases") == nullptr) == (node.Find("labels") == nullptr)) {
    reading.Fail(node, "by: phrases needs either phrases (true or false) or labels (a label each)");
  }
  if (out.by == SignalSpec::By::kMetadata && out.key.empty()) out.key = out.name;
  for (const char* label : {"none", "abstained"}) {
    if (!out.phrases.contains(label) && std::ranges::find(out.values, label) == out.values.end()) continue;
    reading.Fail(node, fmt::format("'{}' cannot be a label: it has a meaning of its own", label));
  }
  if (out.number) {
    const RE2 pattern(out.pattern, RE2::Quiet);
    if (pattern.ok() && pattern.NumberOfCapturingGroups() < 1) {
      reading.Fail(node, "number: true needs a group (...) in the pattern: the number stands in the first one");
    }
  }
  if (out.by == SignalSpec::By::kClassifier) return;  // its labels stand in its file
  for (const auto& [group, labels] : out.groups) {
    for (const std::string& label : labels) {
      std::vector<std::string> known = out.values;
      for (const auto& [name, phrases] : out.phrases) known.push_back(name);
      if (std::ranges::find(known, label) != known.end()) continue;
      reading.Fail(*node.Find("groups"), fmt::format("the group '{}' names the label '{}', which this signal has not{}",
                                                     group, label, PolicyHint(label, known)));
    }
  }
}

template <typename T>
std::map<std::string, T> MapOf(Named<T> named) {
  std::map<std::string, T> out;
  for (auto& [name, value] : named) out.emplace(std::move(name), std::move(value));
  return out;
}

}  // namespace

void CheckKeys(PolicyReading& reading, const YamlNode& node, const KeyRule& rule,
               std::initializer_list<std::string_view> common) {
  for (const std::string_view key : rule.required) {
    if (node.Find(key) == nullptr) reading.Fail(node, fmt::format("{} needs the key '{}'", rule.kind, key));
  }
  const auto in = [](const auto& keys, std::string_view key) { return std::ranges::find(keys, key) != std::end(keys); };
  for (const YamlNode::Entry& entry : node.entries) {
    if (in(common, entry.key) || in(rule.required, entry.key) || in(rule.optional, entry.key)) continue;
    reading.FailAt(entry.line, entry.column, reading.Path(),
                   fmt::format("the key '{}' has no effect with {}; take it away", entry.key, rule.kind));
  }
}

Shape<DimensionSource> DimensionSourceShape(Dimension dimension) {
  auto form =
      Fields<DimensionForm>("where the value comes from")
          .Add("from", &DimensionForm::source, FromShape(),
               "token.claim, request.metadata, signal (or classifier), tool.NAME, clock, policy, constant",
               Presence::kRequired)
          .Add("claim", &DimensionForm::claim, LabelShape(), "the claim's name (default: the dimension's)")
          .Add("key", &DimensionForm::key, LabelShape(), "the metadata key (default: the dimension's name)")
          .Add("signal", &DimensionForm::signal, LabelShape(), "the signal (default: the dimension's name)")
          .AddWith<std::string>("field", LabelShape(), "the field of the tool's result",
                                [](DimensionForm& out, std::string value) { out.source.field = std::move(value); })
          .Add("value", &DimensionForm::value, LabelShape(), "the constant")
          .AddWith<std::vector<std::string>>(
              "values", ListShape(LabelShape(), 1000, 1, true), "the only values that are taken (default: any)",
              [](DimensionForm& out, std::vector<std::string> value) { out.source.values = std::move(value); })
          .AddWith<bool>("required", BoolShape(), "without a value the request is denied (default: false)",
                         [](DimensionForm& out, bool value) { out.source.required = value; })
          .Add("granularity", &DimensionForm::granularity,
               EnumShape<std::string>({{"day", "day"}, {"instant", "instant"}}),
               "of the clock (default: day; with instant nothing is ever found again)")
          .Then([dimension](PolicyReading& reading, const YamlNode& node, DimensionForm& out) {
            FinishSource(reading, node, dimension, out);
          })
          .Done();
  Shape<DimensionSource> shape;
  shape.schema = form.schema;
  shape.read = [form](PolicyReading& reading, const YamlNode& node, DimensionSource& out) {
    DimensionForm made;
    if (!form.read(reading, node, made)) return false;
    out = std::move(made.source);
    out.line = node.line;
    return true;
  };
  return shape;
}

Shape<Policy> IdentityShape() {
  static constexpr std::string_view kHelp[kDimensionCount] = {
      "whose data it is", "what the caller may read, a set", "the jurisdiction", "the product asked about",
      "always of this file", "of the answer", "the class of customer", "the day whose rules hold"};
  Fields<Policy> fields("where each governed value comes from, and nowhere else");
  for (int i = 0; i < kDimensionCount; ++i) {
    const auto dimension = static_cast<Dimension>(i);
    fields.AddWith<DimensionSource>(std::string(NameOf(dimension)), DimensionSourceShape(dimension),
                                    std::string(kHelp[i]), [i](Policy& out, DimensionSource source) {
                                      out.identity[static_cast<size_t>(i)] = std::move(source);
                                    });
  }
  return fields.Done();
}

Shape<Level> LevelNameShape() {
  return EnumShape<Level>({{"low", Level::kLow}, {"medium", Level::kMedium}, {"high", Level::kHigh}});
}

Shape<WhenForm> WhenShape(WhenPlace place) {
  const bool everything = place == WhenPlace::kRoute;
  auto map = NamedShape<Condition>(LabelShape(), ConditionShape(place), 32,
                                   [](Condition& out, const std::string& name) { out.subject = name; });
  Shape<WhenForm> shape;
  shape.schema = everything ? boost::json::object{{"anyOf", boost::json::array{
                                  boost::json::object{{"const", "always"}}, map.schema}}}
                            : map.schema;
  shape.read = [map, everything](PolicyReading& reading, const YamlNode& node, WhenForm& out) {
    if (node.kind == YamlNode::Kind::kScalar && everything && node.text == "always") {
      out.always = true;
      return true;
    }
    if (node.kind != YamlNode::Kind::kMap) {
      reading.Fail(node, fmt::format("conditions are wanted, as in {{risk: high}}{}; here stands {}",
                                     everything ? ", or always" : "",
                                     node.kind == YamlNode::Kind::kScalar ? "'" + node.text + "'"
                                                                          : std::string(DescribeKind(node))));
      return false;
    }
    Named<Condition> conditions;
    if (!map.read(reading, node, conditions)) return false;
    if (conditions.empty()) {
      reading.Fail(node, everything ? "no condition; write when: always" : "no condition; `base` is for the rest");
      return false;
    }
    for (auto& [name, condition] : conditions) out.when.push_back(std::move(condition));
    return true;
  };
  return shape;
}

Shape<LevelSpec> LevelShape(bool of_complexity) {
  auto rule = Fields<LevelSpec::Rule>("a level where conditions hold")
                  .AddWith<WhenForm>("when", WhenShape(of_complexity ? WhenPlace::kComplexity : WhenPlace::kRisk),
                                     "conditions on signals; all must hold",
                                     [](LevelSpec::Rule& out, WhenForm form) { out.when = std::move(form.when); },
                                     Presence::kRequired)
                  .Add("level", &LevelSpec::Rule::level, LevelNameShape(), "low, medium or high", Presence::kRequired)
                  .Done();
  Fields<LevelSpec> fields("the highest level of all rules that hold, and of base");
  if (!of_complexity) {
    fields.AddWith<Named<std::vector<std::string>>>(
        "verify",
        NamedShape<std::vector<std::string>>(
            EnumShape<std::string>({{"low", "low"}, {"medium", "medium"}, {"high", "high"}}),
            ListShape(ReferenceShape("verifier"), 64, 0, true), 3),
        "verifiers by level that every route with a model needs from this level on (default: those of lower routes)",
        [](LevelSpec& out, Named<std::vector<std::string>> named) {
          out.verify.emplace();
          for (auto& [name, verifiers] : named) {
            for (const Level level : {Level::kLow, Level::kMedium, Level::kHigh}) {
              if (NameOf(level) == name) (*out.verify)[static_cast<size_t>(level)] = verifiers;
            }
          }
        });
  }
  return fields.Add("base", &LevelSpec::base, LevelNameShape(), "where no rule holds (default: low)")
      .Add("rules", &LevelSpec::rules, ListShape(std::move(rule), 256), "rules that raise it")
      .Done();
}

Shape<Named<SignalSpec>> SignalsShape() {
  using By = SignalSpec::By;
  auto shape =
      Fields<SignalSpec>("what a request is about")
          .Add("by", &SignalSpec::by,
               EnumShape<By>({{"phrases", By::kPhrases}, {"pattern", By::kPattern}, {"classifier", By::kClassifier},
                              {"metadata", By::kMetadata}, {"length", By::kLength}, {"amount", By::kAmount}}),
               "phrases, pattern, classifier, metadata, length or amount", Presence::kRequired)
          .AddWith<std::vector<std::string>>(
              "phrases", PhrasesShape(), "true where one of them occurs: a list, or the name of a file",
              [](SignalSpec& out, std::vector<std::string> value) { out.phrases[""] = std::move(value); })
          .AddWith<Named<std::vector<std::string>>>(
              "labels", NamedShape<std::vector<std::string>>(LabelShape(), PhrasesShape(), 256),
              "phrases by label: the label whose phrase occurs, none, or abstained for two",
              [](SignalSpec& out, Named<std::vector<std::string>> value) {
                for (auto& [label, phrases] : MapOf(std::move(value))) out.phrases[label] = phrases;
              })
          .Add("pattern", &SignalSpec::pattern, PatternShape(), "RE2: true where it is found")
          .Add("number", &SignalSpec::number, BoolShape(), "the largest number of the first group (default: false)")
          .Add("file", &SignalSpec::file, FileNameShape(kMaxClassifierFileBytes), "made by surety train-router")
          .Add("min_confidence", &SignalSpec::min_confidence, NumberShape(0, 1), "below it: abstained (default: 0)")
          .Add("key", &SignalSpec::key, LabelShape(), "of the request's metadata (default: the signal's name)")
          .Add("values", &SignalSpec::values, ListShape(LabelShape(), 1000, 1, true), "the only ones that are taken")
          .AddWith<Named<std::vector<std::string>>>(
              "groups", NamedShape<std::vector<std::string>>(NameShape(), ListShape(LabelShape(), 1000, 1, true), 64),
              "labels under one name, for conditions on SIGNAL.group",
              [](SignalSpec& out, Named<std::vector<std::string>> value) { out.groups = MapOf(std::move(value)); })
          .Line(&SignalSpec::line)
          .Then(FinishSignal)
          .Done();
  return NamedShape<SignalSpec>(NameShape(), std::move(shape), 256,
                                [](SignalSpec& out, const std::string& name) { out.name = name; });
}

}  // namespace surety::gateway
