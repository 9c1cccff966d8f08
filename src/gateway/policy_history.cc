#include "gateway/policy_history.h"

#include <algorithm>
#include <charconv>
#include <filesystem>
#include <memory>
#include <set>
#include <utility>

#include <boost/json.hpp>
#include <fmt/format.h>
#include <fmt/ranges.h>

#include "gateway/audit_log.h"
#include "gateway/decision_record.h"
#include "gateway/policy_diff.h"
#include "gateway/policy_json.h"
#include "gateway/policy_values.h"
#include "gateway/signal_conditions.h"
#include "gateway/signals.h"

namespace surety::gateway {
namespace {

constexpr size_t kMaxShownPartitions = 1000;
constexpr int64_t kMaxPastClassifierBytes = 256LL << 20;

enum class PastKnown : uint8_t { kNo, kYes, kUnknown };

std::string PastRoute(const DecisionRecord& record) {
  if (record.attempts.empty()) return record.decision.route;
  return record.attempts.front().substr(0, record.attempts.front().find(':'));
}

std::optional<std::string> PastQuestion(const AuditRow& row, const HistoryOptions& options, const std::string& id) {
  const auto* sealed = row.body.if_contains("payload");
  if (!options.unseal || sealed == nullptr || !sealed->is_object()) return std::nullopt;
  const auto text = options.unseal(sealed->get_object(), id);
  if (!text) return std::nullopt;
  boost::system::error_code failed;
  const auto texts = boost::json::parse(*text, failed);
  const auto* question = !failed && texts.is_object() ? texts.get_object().if_contains("question") : nullptr;
  if (question == nullptr || !question->is_string()) return std::nullopt;
  return std::string(std::string_view(question->get_string()));
}

std::string PastConditionText(const Condition& condition) {
  return fmt::format("{}|{}|{}|{}|{}", condition.subject, fmt::join(condition.any_of, ","),
                     condition.above ? fmt::format("{}", *condition.above) : "",
                     condition.below ? fmt::format("{}", *condition.below) : "",
                     condition.at_least ? std::string(NameOf(*condition.at_least)) : "");
}

std::string PastSubject(const std::string& subject) {
  return subject.ends_with(".group") ? subject.substr(0, subject.size() - 6) : subject;
}

const SignalSpec* PastSignalSpec(const Policy& policy, const std::string& name) {
  const auto found = std::ranges::find(policy.signals, name, &SignalSpec::name);
  return found == policy.signals.end() ? nullptr : &*found;
}

SignalValue PastValue(const SignalSpec& spec, const std::string& label) {
  SignalValue value;
  value.label = label;
  const bool numeric = spec.by == SignalSpec::By::kLength || spec.by == SignalSpec::By::kAmount ||
                       (spec.by == SignalSpec::By::kPattern && spec.number);
  const auto [end, error] = std::from_chars(label.data(), label.data() + label.size(), value.number);
  value.has_number = numeric && error == std::errc() && end == label.data() + label.size();
  if (!value.has_number) value.number = 0;
  return value;
}

// What is known of one decision, as one policy sees it.
class PastView {
 public:
  PastView(const Policy& policy, const PastDecision& past) : policy_(policy) {
    for (size_t d = 0; d < kDimensionCount; ++d) {
      const auto dimension = static_cast<Dimension>(d);
      const DimensionSource& source = policy.identity[d];
      std::string value;
      if (dimension == Dimension::kTenant) value = past.tenant;
      if (source.from == DimensionSource::From::kPolicy) value = policy.version;
      if (source.from == DimensionSource::From::kClock) value = FormatInstant(past.time_ns).substr(0, 10);
      if (source.from == DimensionSource::From::kConstant) value = source.name;
      if (!value.empty() && dimension != Dimension::kPermissions) {
        facts_.dimensions[std::string(NameOf(dimension))] = value;
      }
    }
  }

  void Put(const std::string& signal, SignalValue value) { signals_.values[signal] = std::move(value); }
  // After all signals were put.
  void Settle() {
    facts_.policy = &policy_;
    facts_.signals = &signals_;
    SettleLevel(policy_.risk, "risk", signals_.risk);
    SettleLevel(policy_.complexity, "complexity", signals_.complexity);
  }
  void Learn(const Condition& condition, bool holds) { learnt_[PastConditionText(condition)] = holds; }
  // Of who asked, as the other policy's route tells; `alike`: subjects that have the same source in both.
  void LearnFrom(const PastView& other, const std::set<std::string>& alike) {
    for (const auto& [condition, holds] : other.learnt_) {
      if (alike.contains(condition.substr(0, condition.find('|')))) learnt_[condition] = holds;
    }
  }

  PastKnown Holds(const Condition& condition) const {
    const std::string base = PastSubject(condition.subject);
    const bool level = base == "risk" || base == "complexity";
    const bool known = level ? levels_.contains(base)
                             : signals_.values.contains(base) || facts_.dimensions.contains(base);
    if (known) return gateway::Holds({condition}, facts_) ? PastKnown::kYes : PastKnown::kNo;
    const auto learnt = learnt_.find(PastConditionText(condition));
    if (learnt == learnt_.end()) return PastKnown::kUnknown;
    return learnt->second ? PastKnown::kYes : PastKnown::kNo;
  }
  PastKnown Holds(const When& when) const {
    PastKnown all = PastKnown::kYes;
    for (const Condition& condition : when) {
      const PastKnown one = Holds(condition);
      if (one == PastKnown::kNo) return PastKnown::kNo;
      if (one == PastKnown::kUnknown) all = PastKnown::kUnknown;
    }
    return all;
  }
  // The route was taken: its conditions held; of an earlier route, of which all but one held, that one did not.
  void LearnFromRoute(const std::string& taken) {
    for (const RouteSpec& route : policy_.routes) {
      if (route.name == taken) {
        for (const Condition& condition : route.when) Learn(condition, true);
        break;
      }
    }
    for (const RouteSpec& route : policy_.routes) {
      if (route.name == taken) return;
      const Condition* open = nullptr;
      size_t n_open = 0;
      for (const Condition& condition : route.when) {
        if (Holds(condition) != PastKnown::kYes) open = &condition, ++n_open;
      }
      if (n_open == 1 && Holds(*open) == PastKnown::kUnknown) Learn(*open, false);
    }
  }

  // The routes that it may take, and what is not known of it.
  std::vector<std::string> Routes(std::set<std::string>& unknown) const {
    std::vector<std::string> out;
    for (const RouteSpec& route : policy_.routes) {
      const PastKnown holds = route.always ? PastKnown::kYes : Holds(route.when);
      if (holds == PastKnown::kNo) continue;
      out.push_back(route.name);
      if (holds == PastKnown::kYes) break;
      for (const Condition& condition : route.when) {
        if (Holds(condition) == PastKnown::kUnknown) unknown.insert(condition.subject);
      }
    }
    return out;
  }

 private:
  void SettleLevel(const LevelSpec& spec, const std::string& name, Level& level) {
    bool all_known = true, high = spec.base == Level::kHigh;
    for (const LevelSpec::Rule& rule : spec.rules) {
      const PastKnown holds = Holds(rule.when);
      high = high || (holds == PastKnown::kYes && rule.level == Level::kHigh);
      for (const Condition& condition : rule.when) {
        const std::string base = PastSubject(condition.subject);
        all_known = all_known && (levels_.contains(base) || signals_.values.contains(base));
      }
    }
    if (!all_known && !high) return;
    level = high ? Level::kHigh : LevelFor(spec, facts_);
    levels_.insert(name);
  }

  const Policy& policy_;
  Signals signals_;
  RoutingFacts facts_;
  std::set<std::string> levels_;
  std::map<std::string, bool> learnt_;
};

class HistoryComparison {
 public:
  HistoryComparison(const Policy& old_policy, const Policy& new_policy, FileSystem& files)
      : old_(old_policy), new_(new_policy), files_(files) {
    const auto before = PolicyJson(old_policy), after = PolicyJson(new_policy);
    for (const SignalSpec& signal : new_policy.signals) {
      const auto* one = before.at("signals").get_object().if_contains(signal.name);
      const auto& two = after.at("signals").at(signal.name);
      if (one != nullptr && *one == two && SameFile(signal)) same_.insert(signal.name);
    }
    for (size_t d = 0; d < kDimensionCount; ++d) {
      const std::string name(NameOf(static_cast<Dimension>(d)));
      const auto* one = before.at("identity").get_object().if_contains(name);
      const auto* two = after.at("identity").get_object().if_contains(name);
      if (one != nullptr && two != nullptr && *one == *two) alike_.insert(name);
    }
    if (same_.size() < new_policy.signals.size()) {
      const std::string directory = std::filesystem::path(new_policy.path).parent_path().string();
      auto reader = SignalReader::Make(new_policy, directory, {});
      if (reader) {
        reader_ = *std::move(reader);
      } else {
        notes_.push_back(fmt::format("signals that changed are not read again: {}", reader.error().message()));
      }
    }
  }

  boost::json::object Run(const std::vector<PastDecision>& decisions) {
    for (const PastDecision& past : decisions) One(past);
    boost::json::object moves;
    for (const auto& [move, n] : moves_) moves[move] = n;
    boost::json::array notes;
    for (const std::string& note : notes_) notes.push_back(boost::json::string(note));
    return {{"decisions", decisions.size()}, {"of_other_policy", n_other_},   {"without_route", n_without_route_},
            {"moved", n_moved_},             {"undetermined", n_undetermined_}, {"moves", std::move(moves)},
            {"lines", std::move(lines_)},    {"partitions", Partitions()},    {"notes", std::move(notes)}};
  }

 private:
  // A classifier's file may have changed under its name.
  bool SameFile(const SignalSpec& signal) const {
    if (signal.by != SignalSpec::By::kClassifier) return true;
    const auto bytes = [&](const Policy& policy) {
      return files_.ReadAll((std::filesystem::path(policy.path).parent_path() / signal.file).string(),
                            kMaxPastClassifierBytes);
    };
    const auto one = bytes(old_), two = bytes(new_);
    return one && two && *one == *two;
  }

  bool IsOfOld(const PastDecision& past) const {
    return past.policy_digest == old_.digest ||
           (past.policy_id == old_.id && past.policy_version == old_.version);
  }

  void One(const PastDecision& past) {
    if (!IsOfOld(past)) {
      ++n_other_;
      return;
    }
    if (past.route.empty()) {   // refused before a route was chosen
      ++n_without_route_;
      return;
    }
    NotePartition(past);
    PastView before(old_, past), after(new_, past);
    for (const auto& [name, label] : past.signals) {
      const SignalSpec* one = PastSignalSpec(old_, name);
      const SignalSpec* two = PastSignalSpec(new_, name);
      if (one != nullptr) before.Put(name, PastValue(*one, label));
      if (two != nullptr && same_.contains(name)) after.Put(name, PastValue(*two, label));
    }
    if (reader_ != nullptr && past.question) {
      const Signals read = reader_->Read(*past.question, *past.question, {});
      for (const SignalSpec& signal : new_.signals) {
        const auto value = read.values.find(signal.name);
        if (same_.contains(signal.name) || value == read.values.end()) continue;
        // Metadata are not in the log; and of the conversation, which phrases without labels read whole, only the last
        // turn is.
        const bool elsewhere = signal.by == SignalSpec::By::kMetadata ||
                               (signal.by == SignalSpec::By::kPhrases && value->second.label == "false");
        if (!elsewhere) after.Put(signal.name, value->second);
      }
    }
    before.Settle();
    before.LearnFromRoute(past.route);
    after.Settle();
    after.LearnFrom(before, alike_);
    Note(past, after);
  }

  void Note(const PastDecision& past, const PastView& after) {
    std::set<std::string> unknown;
    const std::vector<std::string> routes = after.Routes(unknown);
    const bool may_stay = std::ranges::find(routes, past.route) != routes.end();
    if (may_stay && routes.size() == 1) return;
    boost::json::array ways;
    for (const std::string& route : routes) ways.push_back(boost::json::string(route));
    (may_stay ? n_undetermined_ : n_moved_)++;
    if (!may_stay) ++moves_[fmt::format("{} > {}", past.route, fmt::join(routes, " or "))];
    lines_.push_back(boost::json::object{{"id", past.id}, {"old", past.route}, {"new", std::move(ways)},
                                         {"moved", !may_stay},
                                         {"why", unknown.empty() ? "" : fmt::format("not known: {}",
                                                                                    fmt::join(unknown, ", "))}});
  }

  void NotePartition(const PastDecision& past) {
    if (past.partition.empty() || (past.cache != "hit" && past.cache != "miss")) return;
    auto& [digests, n] = partitions_[past.route];
    digests.insert(past.partition);
    ++n;
  }

  boost::json::array Partitions() const {
    const auto diff = DiffPolicies(old_, new_);
    std::set<std::string> dying;
    for (const auto& route : diff.at("dying").get_array()) dying.emplace(std::string_view(route.get_string()));
    boost::json::array out;
    for (const auto& [route, seen] : partitions_) {
      boost::json::array digests;
      for (const std::string& digest : seen.first) {
        if (digests.size() < kMaxShownPartitions) digests.push_back(boost::json::string(digest));
      }
      out.push_back(boost::json::object{{"route", route},
                                        {"partitions", seen.first.size()},
                                        {"decisions", seen.second},
                                        {"die", dying.contains(route)},
                                        {"digests", std::move(digests)}});
    }
    return out;
  }

  const Policy& old_;
  const Policy& new_;
  FileSystem& files_;
  std::set<std::string> same_;             // signals that mean the same in both
  std::set<std::string> alike_;            // dimensions with the same source in both
  std::unique_ptr<SignalReader> reader_;   // of the new policy, where it is needed and can be made
  std::vector<std::string> notes_;
  int64_t n_other_ = 0, n_without_route_ = 0, n_moved_ = 0, n_undetermined_ = 0;
  std::map<std::string, int64_t> moves_;
  boost::json::array lines_;
  std::map<std::string, std::pair<std::set<std::string>, int64_t>> partitions_;   // by route: digests, lookups
};

}  // namespace

Result<std::vector<PastDecision>> ReadPastDecisions(const std::string& path, const HistoryOptions& options) {
  std::vector<PastDecision> out;
  Status wrong;
  SURETY_RETURN_IF_ERROR(ReadAuditLog(path, [&](const AuditRow& row) {
    if (row.kind != "decision") return true;
    const auto record = DecisionRecord::FromJson(row.body);
    if (!record) {
      wrong = record.error().WithContext(fmt::format("row {}", row.seq));
      return false;
    }
    if (record->time_ns < options.from_ns || record->time_ns >= options.to_ns) return true;
    const auto* id = row.body.if_contains("id");
    PastDecision past;
    past.id = id != nullptr && id->is_string() ? std::string(std::string_view(id->get_string())) : "";
    past.policy_id = record->policy_id;
    past.policy_version = record->decision.policy_version;
    past.policy_digest = record->policy_digest;
    past.tenant = record->tenant;
    past.route = PastRoute(*record);
    past.cache = record->decision.cache;
    past.partition = record->partition_digest;
    past.time_ns = record->time_ns;
    past.signals = record->signals;
    past.question = PastQuestion(row, options, past.id);
    out.push_back(std::move(past));
    return true;
  }));
  if (!wrong.ok()) return Error(wrong);
  return out;
}

Result<boost::json::object> CompareHistory(const Policy& old_policy, const Policy& new_policy, FileSystem& files,
                                           const std::vector<PastDecision>& decisions) {
  return HistoryComparison(old_policy, new_policy, files).Run(decisions);
}

}  // namespace surety::gateway
