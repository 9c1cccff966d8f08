#include "gateway/signals.h"

#include <algorithm>
#include <charconv>
#include <cmath>
#include <filesystem>
#include <optional>
#include <set>
#include <utility>
#include <variant>

#include <fmt/format.h>
#include <re2/re2.h>

#include "base/file.h"
#include "base/nearest_name.h"
#include "gateway/amount_reader.h"
#include "gateway/intent_classifier.h"
#include "gateway/pattern_folding.h"
#include "gateway/phrase_matcher.h"
#include "gateway/signal_conditions.h"
#include "gateway/text_folding.h"
#include "gateway/text_numbers.h"

namespace surety::gateway {
namespace {

// Texts as they stand, and where there may be HTML in them also as it would be shown.
using FoldedViews = std::vector<PhraseText>;

bool MayHoldHtml(std::string_view text) { return text.find_first_of("<&") != std::string_view::npos; }

FoldedViews ViewsOf(std::initializer_list<std::string_view> texts) {
  FoldedViews views;
  for (const std::string_view text : texts) {
    views.emplace_back(FoldText(text, Folding::kPhrase));
    if (MayHoldHtml(text)) views.emplace_back(FoldText(text, Folding::kPhrase, true));
  }
  return views;
}

// A text in the forms that signals read, each made once, when it is first asked for.
class SignalText {
 public:
  SignalText(std::string_view text, std::string_view all_text, const EmbedTexts& embed)
      : text_(text), all_text_(all_text), embed_(embed) {}

  std::string_view text() const { return text_; }
  const FoldedViews& Turn() { return Once(turn_, [&] { return ViewsOf({text_}); }); }
  // The last turn belongs to the conversation, whether the caller put it there or not. Where it is all of it, but for a
  // line feed at the end, no phrase is in the one and not in the other: phrases end with a letter or a digit.
  const FoldedViews& All() {
    const bool same = all_text_.size() == text_.size() + 1 && all_text_.ends_with('\n') && all_text_.starts_with(text_);
    if (same && !MayHoldHtml(text_)) return Turn();
    return Once(all_, [&] { return ViewsOf({all_text_, text_}); });
  }
  const std::string& Folded() { return Once(folded_, [&] { return FoldForPattern(text_); }); }
  // Empty: there is none.
  const std::vector<float>& Vector() {
    return Once(vector_, [&]() -> std::vector<float> {
      if (Folded().empty()) return {};
      const std::string text(text_);
      auto vectors = embed_(std::span(&text, 1));
      return vectors && vectors->size() == 1 ? std::move(vectors->front()) : std::vector<float>();
    });
  }

 private:
  template <typename T, typename Fn>
  static const T& Once(std::optional<T>& value, Fn&& make) {
    if (!value) value = make();
    return *value;
  }

  std::string_view text_, all_text_;
  const EmbedTexts& embed_;
  std::optional<FoldedViews> turn_, all_;
  std::optional<std::string> folded_;
  std::optional<std::vector<float>> vector_;
};

SignalValue LabelValue(std::string label) {
  SignalValue value;
  value.label = std::move(label);
  return value;
}

SignalValue NumberValue(double number) {
  SignalValue value;
  const bool whole = number > 0 && number < 1e15 && number == std::floor(number);
  value.label = whole ? std::to_string(static_cast<int64_t>(number)) : fmt::format("{}", number);
  value.number = number;
  value.has_number = true;
  return value;
}

SignalValue AbstainedValue(double confidence) {
  SignalValue value;
  value.label = kAbstained;
  value.confidence = confidence;
  return value;
}

struct PhraseSignal {
  PhraseMatcher matcher;
  std::vector<std::string> labels;   // by phrase
  bool is_true_only = false;

  std::set<std::string_view> LabelsIn(const FoldedViews& views) const {
    std::set<std::string_view> found;
    for (const PhraseText& view : views) {
      for (const PhraseMatch& match : matcher.Find(view)) found.insert(labels[match.phrase]);
    }
    return found;
  }

  SignalValue Read(SignalText& text) const {
    if (is_true_only) return LabelValue(LabelsIn(text.All()).empty() ? "false" : "true");
    const std::set<std::string_view> found = LabelsIn(text.Turn());
    if (found.size() > 1) return AbstainedValue(1);
    return LabelValue(found.empty() ? "none" : std::string(*found.begin()));
  }
};

struct PatternSignal {
  std::unique_ptr<RE2> pattern;
  bool number = false;

  SignalValue Read(SignalText& text) const {
    const std::string& folded = text.Folded();
    if (!number) return LabelValue(RE2::PartialMatch(folded, *pattern) ? "true" : "false");
    std::optional<double> largest;
    re2::StringPiece groups[2];
    for (size_t at = 0; at <= folded.size();) {
      if (!pattern->Match(folded, at, folded.size(), RE2::UNANCHORED, groups, 2)) break;
      const auto end = static_cast<size_t>(groups[0].data() - folded.data()) + groups[0].size();
      at = std::max(end, at + 1);
      if (groups[1].data() == nullptr) continue;   // the group took no part in this match
      const auto amount = ReadAmount(std::string_view(groups[1].data(), groups[1].size()));
      if (!amount) return AbstainedValue(1);       // a number was meant, and is not known
      largest = std::max(largest.value_or(*amount), *amount);
    }
    return largest ? NumberValue(*largest) : LabelValue("none");
  }
};

struct ClassifierSignal {
  IntentClassifier classifier;
  double min_confidence = 0;

  SignalValue Read(SignalText& text) const {
    const std::vector<float>& vector = text.Vector();
    if (vector.empty()) return AbstainedValue(0);
    const auto intent = classifier.Classify(vector);
    // Written so that a confidence that is no number abstains too.
    if (!intent || !(intent->confidence >= min_confidence)) return AbstainedValue(intent ? intent->confidence : 0);
    SignalValue value = LabelValue(classifier.labels[static_cast<size_t>(intent->label)]);
    value.confidence = intent->confidence;
    return value;
  }
};

struct MetadataSignal {
  std::string key;
  std::vector<std::string> values;

  SignalValue Read(const api::Caller& caller) const {
    const auto* value = caller.metadata.if_contains(key);
    if (value == nullptr || !value->is_string()) return LabelValue("none");
    const std::string_view said(value->as_string().data(), value->as_string().size());
    return LabelValue(std::ranges::find(values, said) != values.end() ? std::string(said) : "none");
  }
};

struct LengthSignal {};

// The largest amount of money that the turn states, in any reading of it.
struct AmountSignal {
  static SignalValue Read(std::string_view text) {
    std::optional<double> largest;
    bool unread = false;
    for (const bool html : {false, true}) {
      if (html && !MayHoldHtml(text)) continue;
      for (const NumberMention& mention : FindNumbers(text, html)) {
        if (mention.kind == NumberMention::Kind::kCode) unread |= !mention.currency.empty();
        if (mention.kind != NumberMention::Kind::kMoney) continue;
        for (const std::string& value : mention.values) {
          double amount = 0;
          const auto [end, error] = std::from_chars(value.data(), value.data() + value.size(), amount);
          unread |= error != std::errc() || end != value.data() + value.size() || !std::isfinite(amount);
          largest = std::max(largest.value_or(amount), amount);
        }
      }
    }
    if (unread) return AbstainedValue(1);
    return largest ? NumberValue(*largest) : LabelValue("none");
  }
};

struct CompiledSignal {
  std::string name;
  std::variant<PhraseSignal, PatternSignal, ClassifierSignal, MetadataSignal, LengthSignal, AmountSignal> reader;
};

SignalValue ReadCompiled(const CompiledSignal& signal, SignalText& text, const api::Caller& caller) {
  if (const auto* phrases = std::get_if<PhraseSignal>(&signal.reader)) return phrases->Read(text);
  if (const auto* pattern = std::get_if<PatternSignal>(&signal.reader)) return pattern->Read(text);
  if (const auto* classifier = std::get_if<ClassifierSignal>(&signal.reader)) return classifier->Read(text);
  if (const auto* metadata = std::get_if<MetadataSignal>(&signal.reader)) return metadata->Read(caller);
  if (std::holds_alternative<AmountSignal>(signal.reader)) return AmountSignal::Read(text.text());
  return NumberValue(static_cast<double>(CountCharacters(text.text())));
}

Result<PhraseSignal> MakePhrases(const SignalSpec& spec) {
  if (spec.phrases.empty()) return Error(InvalidArgumentError("no phrases"));
  for (const auto& [label, phrases] : spec.phrases) {
    if (phrases.empty()) return Error(InvalidArgumentError(fmt::format("label \"{}\" has no phrases", label)));
    if (label == kAbstained || label == "none") {
      return Error(InvalidArgumentError(fmt::format("\"{}\" can not be a label: it has a meaning of its own", label)));
    }
  }
  std::vector<std::string> phrases, labels;
  for (const auto& [label, list] : spec.phrases) {
    phrases.insert(phrases.end(), list.begin(), list.end());
    labels.insert(labels.end(), list.size(), label);
  }
  SURETY_ASSIGN_OR_RETURN(PhraseMatcher matcher, PhraseMatcher::Make(phrases));
  const bool is_true_only = spec.phrases.size() == 1 && (labels[0].empty() || labels[0] == "true");
  return PhraseSignal{std::move(matcher), std::move(labels), is_true_only};
}

Result<PatternSignal> MakePattern(const SignalSpec& spec) {
  RE2::Options options;
  options.set_log_errors(false);
  auto pattern = std::make_unique<RE2>(spec.pattern, options);
  if (!pattern->ok()) {
    return Error(InvalidArgumentError(fmt::format("pattern \"{}\": {}", spec.pattern, pattern->error())));
  }
  if (spec.number && pattern->NumberOfCapturingGroups() < 1) {
    return Error(InvalidArgumentError(fmt::format("pattern \"{}\": the number is read from its first group, and it "
                                                  "has none: put the number in parentheses", spec.pattern)));
  }
  return PatternSignal{std::move(pattern), spec.number};
}

// Every label that the policy says of this signal must be one that it can have: a misspelt one would never hold.
Status CheckClassifierLabels(const Policy& policy, const SignalSpec& spec, const IntentClassifier& classifier) {
  std::vector<std::string> known = classifier.labels;
  known.emplace_back(kAbstained);
  known.emplace_back("none");
  const auto check = [&](const std::vector<std::string>& labels, const std::string& where) -> Status {
    for (const std::string& label : labels) {
      if (std::ranges::find(known, label) != known.end()) continue;
      const std::string nearest = NearestName(label, known);
      return InvalidArgumentError(fmt::format("{}: {} has no label \"{}\"{}", where, spec.file, label,
                                              nearest.empty() ? "" : "; did you mean \"" + nearest + "\"?"));
    }
    return OkStatus();
  };
  for (const auto& [group, labels] : spec.groups) SURETY_RETURN_IF_ERROR(check(labels, "group " + group));
  const auto check_when = [&](const When& when, const std::string& where) -> Status {
    for (const Condition& condition : when) {
      if (condition.subject == spec.name) SURETY_RETURN_IF_ERROR(check(condition.any_of, where));
    }
    return OkStatus();
  };
  for (const auto& rule : policy.risk.rules) SURETY_RETURN_IF_ERROR(check_when(rule.when, "risk"));
  for (const auto& rule : policy.complexity.rules) SURETY_RETURN_IF_ERROR(check_when(rule.when, "complexity"));
  for (const RouteSpec& route : policy.routes) {
    SURETY_RETURN_IF_ERROR(check_when(route.when, "route " + route.name));
  }
  return OkStatus();
}

Result<ClassifierSignal> MakeClassifier(const Policy& policy, const SignalSpec& spec, const std::string& directory,
                                        const EmbedTexts& embed) {
  const std::string path = (std::filesystem::path(directory) / spec.file).string();   // an absolute one stays
  SURETY_ASSIGN_OR_RETURN(IntentClassifier classifier, ReadIntentClassifier(FileSystem::Real(), path));
  SURETY_RETURN_IF_ERROR(CheckClassifierLabels(policy, spec, classifier));
  if (!(spec.min_confidence >= 0 && spec.min_confidence <= 1)) {
    return Error(InvalidArgumentError(fmt::format("min_confidence {} is not from 0 to 1", spec.min_confidence)));
  }
  if (!embed) {
    return Error(InvalidArgumentError(fmt::format("{} needs the embedding model {}, and none is served", path,
                                                  classifier.embedding_model)));
  }
  const auto vectors = embed(std::span(&classifier.probe_text, 1));
  if (!vectors) return Error(vectors.error().WithContext("the embedding model"));
  if (vectors->size() != 1) return Error(InvalidArgumentError("the embedding model gave no vector for one text"));
  SURETY_RETURN_IF_ERROR(classifier.CheckProbe(vectors->front()).WithContext(path));
  return ClassifierSignal{std::move(classifier), spec.min_confidence};
}

Result<CompiledSignal> CompileSignal(const Policy& policy, const SignalSpec& spec, const std::string& directory,
                                     const EmbedTexts& embed) {
  switch (spec.by) {
    case SignalSpec::By::kPhrases: {
      SURETY_ASSIGN_OR_RETURN(PhraseSignal phrases, MakePhrases(spec));
      return CompiledSignal{spec.name, std::move(phrases)};
    }
    case SignalSpec::By::kPattern: {
      SURETY_ASSIGN_OR_RETURN(PatternSignal pattern, MakePattern(spec));
      return CompiledSignal{spec.name, std::move(pattern)};
    }
    case SignalSpec::By::kClassifier: {
      SURETY_ASSIGN_OR_RETURN(ClassifierSignal classifier, MakeClassifier(policy, spec, directory, embed));
      return CompiledSignal{spec.name, std::move(classifier)};
    }
    case SignalSpec::By::kMetadata: {
      if (spec.key.empty() || spec.values.empty()) {
        return Error(InvalidArgumentError("metadata needs a key and the values that count"));
      }
      for (const std::string& value : spec.values) {
        if (value != kAbstained) continue;
        return Error(InvalidArgumentError("\"abstained\" can not be a value: it has a meaning of its own"));
      }
      return CompiledSignal{spec.name, MetadataSignal{spec.key, spec.values}};
    }
    case SignalSpec::By::kLength: return CompiledSignal{spec.name, LengthSignal{}};
    case SignalSpec::By::kAmount: return CompiledSignal{spec.name, AmountSignal{}};
  }
  return Error(InternalError("a kind of signal without a reader"));
}

class CompiledSignalReader final : public SignalReader {
 public:
  CompiledSignalReader(const Policy& policy, std::vector<CompiledSignal> signals, EmbedTexts embed)
      : policy_(policy), signals_(std::move(signals)), embed_(std::move(embed)) {}

  Signals Read(std::string_view text, std::string_view all_text, const api::Caller& caller) const override {
    Signals out;
    SignalText forms(text, all_text, embed_);
    for (const CompiledSignal& signal : signals_) out.values[signal.name] = ReadCompiled(signal, forms, caller);
    RoutingFacts facts{.policy = &policy_, .signals = &out, .dimensions = {}, .permissions = {}};
    out.risk = LevelFor(policy_.risk, facts);
    out.complexity = LevelFor(policy_.complexity, facts);
    return out;
  }

 private:
  Policy policy_;   // a copy of what conditions read
  std::vector<CompiledSignal> signals_;
  EmbedTexts embed_;
};

}  // namespace

Result<std::unique_ptr<SignalReader>> SignalReader::Make(const Policy& policy, const std::string& directory,
                                                         EmbedTexts embed) {
  std::vector<CompiledSignal> signals;
  std::set<std::string> names;
  for (const SignalSpec& spec : policy.signals) {
    const std::string where = fmt::format("signal '{}'", spec.name);
    if (!names.insert(spec.name).second) return Error(InvalidArgumentError(where + ": the name stands twice"));
    auto signal = CompileSignal(policy, spec, directory, embed);
    if (!signal) return Error(signal.error().WithContext(where));
    signals.push_back(std::move(*signal));
  }
  SURETY_RETURN_IF_ERROR(CheckLevelSubjects(policy, policy.risk, "risk"));
  SURETY_RETURN_IF_ERROR(CheckLevelSubjects(policy, policy.complexity, "complexity"));
  Policy conditions;
  conditions.signals = policy.signals;
  conditions.risk = policy.risk;
  conditions.complexity = policy.complexity;
  return std::make_unique<CompiledSignalReader>(conditions, std::move(signals), std::move(embed));
}

}  // namespace surety::gateway
