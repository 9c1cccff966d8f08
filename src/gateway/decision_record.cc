#include "gateway/decision_record.h"

#include <algorithm>
#include <array>
#include <charconv>
#include <cmath>
#include <concepts>
#include <string_view>
#include <utility>

#include <boost/json/serialize.hpp>
#include <fmt/format.h>

#include "base/check.h"

namespace surety::gateway {
namespace {

using boost::json::array;
using boost::json::object;
using boost::json::value;

constexpr std::array<std::pair<Verdict::Outcome, std::string_view>, 3> kVerdictNames = {
    {{Verdict::Outcome::kPass, "pass"}, {Verdict::Outcome::kFail, "fail"}, {Verdict::Outcome::kError, "error"}}};
constexpr std::array<api::Outcome, 6> kRecordOutcomes = {api::Outcome::kNone,     api::Outcome::kStreamed,
                                                         api::Outcome::kHeld,     api::Outcome::kTemplate,
                                                         api::Outcome::kReview,   api::Outcome::kRefused};

// Fields of a record by name, once for both directions: `Visit` calls visit(name, field) for each.
template <typename Record, typename F>
void VisitTimes(Record& times, F&& visit) {
  visit("queue", times.queue_ns);
  visit("gather", times.gather_ns);
  visit("prefill", times.prefill_ns);
  visit("decode", times.decode_ns);
  visit("verify", times.verify_ns);
  visit("release", times.release_ns);
  visit("total", times.total_ns);
  visit("first_token", times.first_token_ns);
  visit("first_useful", times.first_useful_ns);
}

template <typename Record, typename F>
void VisitCost(Record& cost, F&& visit) {
  visit("prefill", cost.prefill);
  visit("cached_prefill", cost.cached_prefill);
  visit("decode", cost.decode);
  visit("tools", cost.tools);
  visit("verify", cost.verify);
  visit("review", cost.review);
}

template <typename Record, typename F>
void VisitUsage(Record& usage, F&& visit) {
  visit("prompt_tokens", usage.prompt_tokens);
  visit("cached_tokens", usage.cached_tokens);
  visit("output_tokens", usage.output_tokens);
  visit("draft_tokens", usage.draft_tokens);
  visit("accepted_tokens", usage.accepted_tokens);
}

// What stands before and behind the texts, which rows do not have.
template <typename Record, typename F>
void VisitHead(Record& record, F&& visit) {
  visit("id", record.decision.id);
  visit("time_ns", record.time_ns);
  visit("route", record.decision.route);
  visit("outcome", record.decision.outcome);
  visit("policy_id", record.policy_id);
  visit("policy_version", record.decision.policy_version);
  visit("policy_digest", record.policy_digest);
  visit("subject", record.subject);
  visit("tenant", record.tenant);
  visit("permissions", record.permissions);
  visit("partition", record.partition_digest);
  visit("signals", record.signals);
  visit("confidence", record.confidence);
  visit("model", record.model);
  visit("model_revision", record.model_revision);
  visit("request_digest", record.request_digest);
  visit("prompt_digest", record.prompt_digest);
  visit("answer_digest", record.answer_digest);
  visit("seed", record.seed);
  visit("cache", record.decision.cache);
  visit("draft", record.decision.draft);
  visit("verifier", record.decision.verifier);
  visit("review_ticket", record.decision.review_ticket);
  visit("caller_cost", record.decision.cost);
  visit("n_attempts", record.decision.attempts);
}

template <typename Record, typename F>
void VisitTail(Record& record, F&& visit) {
  visit("passages", record.passages);
  visit("tools", record.tool_digests);
  visit("verdicts", record.verdicts);
  visit("conflicts", record.conflicts);
  visit("action", record.action);
  visit("error", record.error);
  visit("attempts", record.attempts);
  visit("usage", record.usage);
  visit("times_ns", record.times);
}

template <typename Record, typename F>
void VisitRecord(Record& record, F&& visit) {
  VisitHead(record, visit);
  visit("request", record.request);
  visit("answer", record.answer);
  VisitTail(record, visit);
  visit("cost", record.cost);
  visit("avoided_cost", record.avoided_cost);
}

template <typename Record, typename F>
void VisitFinding(Record& finding, F&& visit) {
  visit("what", finding.what);
  visit("where", finding.where);
  visit("offset", finding.offset);
  visit("length", finding.length);
}

template <typename Record, typename F>
void VisitVerdict(Record& verdict, F&& visit) {
  visit("verifier", verdict.verifier);
  visit("version", verdict.version);
  visit("outcome", verdict.outcome);
  visit("reason", verdict.reason);
  visit("findings", verdict.findings);
  visit("duration_ns", verdict.duration_ns);
}

template <typename Record, typename F>
void VisitConflict(Record& conflict, F&& visit) {
  visit("invariant", conflict.invariant);
  visit("when", conflict.when);
  visit("require", conflict.require);
  visit("violated_by", conflict.violated_by);
}

// ---- To JSON.

struct RecordWriter {
  object out;

  template <typename T>
  void operator()(std::string_view name, const T& field) {
    out[name] = Json(field);
  }

  static value Json(const std::string& text) { return value(text); }
  static value Json(const object& json) { return json; }
  static value Json(bool flag) { return flag; }
  static value Json(double number) { return number; }
  template <std::signed_integral T>
  static value Json(T number) { return static_cast<int64_t>(number); }
  static value Json(size_t number) { return static_cast<uint64_t>(number); }
  static value Json(api::Outcome outcome) { return value(api::NameOf(outcome)); }
  static value Json(Verdict::Outcome outcome) {
    return value(std::ranges::find(kVerdictNames, outcome, &decltype(kVerdictNames)::value_type::first)->second);
  }
  template <typename T>
  static value Json(const std::map<std::string, T>& fields) {
    object json;
    for (const auto& [name, field] : fields) json[name] = field;
    return json;
  }
  template <typename T>
  static value Json(const std::vector<T>& items) {
    array json;
    for (const T& item : items) json.push_back(Json(item));
    return json;
  }
  static value Json(const Finding& finding) {
    RecordWriter writer;
    VisitFinding(finding, writer);
    return writer.out;
  }
  static value Json(const Verdict& verdict) {
    RecordWriter writer;
    VisitVerdict(verdict, writer);
    return writer.out;
  }
  static value Json(const Conflict& conflict) {
    RecordWriter writer;
    VisitConflict(conflict, writer);
    return writer.out;
  }
  static value Json(const StageTimes& times) {
    RecordWriter writer;
    VisitTimes(times, writer);
    return writer.out;
  }
  static value Json(const api::Usage& usage) {
    RecordWriter writer;
    VisitUsage(usage, writer);
    return writer.out;
  }
  static value Json(const CostParts& cost) {
    RecordWriter writer;
    VisitCost(cost, writer);
    writer("total", cost.total());
    return writer.out;
  }
};

// ---- To text: the bytes that Boost.JSON writes of what RecordWriter makes, without making it.

// Behind a backslash; 'u': \u00 and two hex digits; 0: the byte stands for itself.
constexpr std::array<char, 256> kRecordEscapes = [] {
  std::array<char, 256> escapes{};
  for (size_t c = 0; c < 0x20; ++c) escapes[c] = 'u';
  for (const auto& [c, letter] : {std::pair('\b', 'b'), {'\f', 'f'}, {'\n', 'n'}, {'\r', 'r'}, {'\t', 't'}, {'"', '"'},
                                  {'\\', '\\'}}) {
    escapes[static_cast<size_t>(c)] = letter;
  }
  return escapes;
}();

void AppendRecordText(std::string& out, std::string_view text) {
  static constexpr std::string_view kHex = "0123456789abcdef";
  out += '"';
  size_t kept = 0;
  for (size_t i = 0; i < text.size(); ++i) {
    const auto c = static_cast<unsigned char>(text[i]);
    const char escape = kRecordEscapes[c];
    if (escape == 0) continue;
    out.append(text, kept, i - kept) += '\\';
    kept = i + 1;
    out += escape;
    if (escape == 'u') out.append("00").append(1, kHex[c >> 4]).append(1, kHex[c & 15]);
  }
  out.append(text, kept) += '"';
}

class RecordTextWriter {
 public:
  // `out` ends where the first member is to stand.
  explicit RecordTextWriter(std::string& out) : out_(out) {}

  template <typename T>
  void operator()(std::string_view name, const T& field) {
    if (!std::exchange(first_, false)) out_ += ',';
    AppendRecordText(out_, name);
    out_ += ':';
    Write(field);
  }

 private:
  void Write(const std::string& text) { AppendRecordText(out_, text); }
  void Write(bool flag) { out_ += flag ? "true" : "false"; }
  void Write(double number) {
    if (number == 0 && !std::signbit(number)) {  // most costs of most decisions
      out_ += "0E0";
    } else {
      out_ += boost::json::serialize(value(number));
    }
  }
  template <std::integral T>
  void Write(T number) {
    std::array<char, 24> digits;
    out_.append(digits.data(), std::to_chars(digits.data(), digits.data() + digits.size(), number).ptr);
  }
  void Write(api::Outcome outcome) { AppendRecordText(out_, api::NameOf(outcome)); }
  void Write(Verdict::Outcome outcome) {
    AppendRecordText(out_, std::ranges::find(kVerdictNames, outcome,
                                             &decltype(kVerdictNames)::value_type::first)->second);
  }
  template <typename T>
  void Write(const std::map<std::string, T>& fields) {
    Members([&](RecordTextWriter& members) {
      for (const auto& [name, field] : fields) members(name, field);
    });
  }
  template <typename T>
  void Write(const std::vector<T>& items) {
    out_ += '[';
    for (const T& item : items) {
      if (&item != &items.front()) out_ += ',';
      Write(item);
    }
    out_ += ']';
  }
  void Write(const Finding& finding) {
    Members([&](RecordTextWriter& members) { VisitFinding(finding, members); });
  }
  void Write(const Verdict& verdict) {
    Members([&](RecordTextWriter& members) { VisitVerdict(verdict, members); });
  }
  void Write(const Conflict& conflict) {
    Members([&](RecordTextWriter& members) { VisitConflict(conflict, members); });
  }
  void Write(const StageTimes& times) {
    Members([&](RecordTextWriter& members) { VisitTimes(times, members); });
  }
  void Write(const api::Usage& usage) {
    Members([&](RecordTextWriter& members) { VisitUsage(usage, members); });
  }
  void Write(const CostParts& cost) {
    Members([&](RecordTextWriter& members) {
      VisitCost(cost, members);
      members("total", cost.total());
    });
  }
  template <typename F>
  void Members(F&& write) {
    out_ += '{';
    RecordTextWriter members(out_);
    write(members);
    out_ += '}';
  }

  std::string& out_;
  bool first_ = true;
};

// ---- From JSON. The first fault is kept, with the path to it.

class RecordReader {
 public:
  RecordReader(const object& json, std::string path, Status& fault)
      : json_(json), path_(std::move(path)), fault_(fault) {}

  // A member that is not there leaves the field as it is: rows of earlier versions have fewer.
  template <typename T>
  void operator()(std::string_view name, T& field) {
    const value* json = json_.if_contains(name);
    if (json != nullptr && fault_.ok()) Take(*json, path_ + std::string(name), field);
  }

 private:
  void Wrong(const std::string& path, std::string_view expected) {
    if (fault_.ok()) fault_ = InvalidArgumentError(fmt::format("decision record: {} is not {}", path, expected));
  }

  void Take(const value& json, const std::string& path, std::string& field) {
    if (!json.is_string()) return Wrong(path, "a text");
    field = json.get_string();
  }
  void Take(const value& json, const std::string& path, object& field) {
    if (!json.is_object()) return Wrong(path, "an object");
    field = json.get_object();
  }
  void Take(const value& json, const std::string& path, bool& field) {
    if (!json.is_bool()) return Wrong(path, "true or false");
    field = json.get_bool();
  }
  // What is no number was written as null.
  void Take(const value& json, const std::string& path, double& field) {
    boost::system::error_code error;
    const double number = json.is_null() ? 0.0 : json.to_number<double>(error);
    if (error) return Wrong(path, "a number");
    field = number;
  }
  template <std::integral T>
  void Take(const value& json, const std::string& path, T& field) {
    boost::system::error_code error;
    const T number = json.to_number<T>(error);
    if (error || json.is_double()) return Wrong(path, "a whole number in its range");
    field = number;
  }
  void Take(const value& json, const std::string& path, api::Outcome& field) {
    for (const api::Outcome outcome : kRecordOutcomes) {
      if (json.is_string() && api::NameOf(outcome) == std::string_view(json.get_string())) {
        field = outcome;
        return;
      }
    }
    Wrong(path, "none, streamed, held, template, review or refused");
  }
  void Take(const value& json, const std::string& path, Verdict::Outcome& field) {
    for (const auto& [outcome, name] : kVerdictNames) {
      if (json.is_string() && name == std::string_view(json.get_string())) {
        field = outcome;
        return;
      }
    }
    Wrong(path, "pass, fail or error");
  }
  template <typename T>
  void Take(const value& json, const std::string& path, std::map<std::string, T>& field) {
    if (!json.is_object()) return Wrong(path, "an object");
    field.clear();
    for (const auto& member : json.get_object()) {
      Take(member.value(), path + "." + std::string(member.key()), field[std::string(member.key())]);
    }
  }
  template <typename T>
  void Take(const value& json, const std::string& path, std::vector<T>& field) {
    if (!json.is_array()) return Wrong(path, "a list");
    field.clear();
    for (const value& item : json.get_array()) {
      const std::string item_path = fmt::format("{}[{}]", path, field.size());
      Take(item, item_path, field.emplace_back());
    }
  }
  template <typename T, typename F>
  void TakeParts(const value& json, const std::string& path, T& field, F visit) {
    if (!json.is_object()) return Wrong(path, "an object");
    RecordReader reader(json.get_object(), path + ".", fault_);
    visit(field, reader);
  }
  void Take(const value& json, const std::string& path, Finding& field) {
    TakeParts(json, path, field, [](auto& part, auto& reader) { VisitFinding(part, reader); });
  }
  void Take(const value& json, const std::string& path, Verdict& field) {
    TakeParts(json, path, field, [](auto& part, auto& reader) { VisitVerdict(part, reader); });
  }
  void Take(const value& json, const std::string& path, Conflict& field) {
    TakeParts(json, path, field, [](auto& part, auto& reader) { VisitConflict(part, reader); });
  }
  void Take(const value& json, const std::string& path, StageTimes& field) {
    TakeParts(json, path, field, [](auto& part, auto& reader) { VisitTimes(part, reader); });
  }
  void Take(const value& json, const std::string& path, api::Usage& field) {
    TakeParts(json, path, field, [](auto& part, auto& reader) { VisitUsage(part, reader); });
  }
  void Take(const value& json, const std::string& path, CostParts& field) {
    TakeParts(json, path, field, [](auto& part, auto& reader) { VisitCost(part, reader); });
  }

  const object& json_;
  std::string path_;
  Status& fault_;
};

}  // namespace

object DecisionRecord::ToJson() const {
  RecordWriter writer;
  VisitRecord(*this, writer);
  // What the policy does not keep is not there, rather than there and empty.
  if (request.empty()) writer.out.erase("request");
  if (answer.empty()) writer.out.erase("answer");
  return std::move(writer.out);
}

// ToJson erases the two texts, and where a member of an object of Boost.JSON is erased, the last one takes its place.
void DecisionRecord::AppendRow(std::string& out) const {
  SURETY_CHECK_MSG(request.empty() && answer.empty(), "a row holds no texts");
  out += '{';
  RecordTextWriter writer(out);
  VisitHead(*this, writer);
  writer("avoided_cost", avoided_cost);
  writer("cost", cost);
  VisitTail(*this, writer);
}

object DecisionRecord::TakeTexts() {
  object texts{{"request", std::exchange(request, {})}, {"answer", std::exchange(answer, {})}};
  array reasons, values;
  for (Verdict& verdict : verdicts) {
    array found;
    for (Finding& finding : verdict.findings) found.push_back(value(std::exchange(finding.what, {})));
    if (verdict.reason.empty() && found.empty()) continue;
    reasons.push_back(object{{"verifier", verdict.verifier}, {"reason", std::exchange(verdict.reason, {})},
                             {"findings", std::move(found)}});
  }
  for (Conflict& conflict : conflicts) {
    array lines;
    for (std::string& line : conflict.violated_by) {
      lines.push_back(value(line));
      line.resize(std::min(line.find(' '), line.size()));  // tool and member; the value follows
    }
    values.push_back(object{{"invariant", conflict.invariant}, {"violated_by", std::move(lines)}});
  }
  if (!reasons.empty()) texts["verdicts"] = std::move(reasons);
  if (!values.empty()) texts["conflicts"] = std::move(values);
  if (error.empty()) return texts;
  texts["error"] = error;
  const size_t end = error.find_first_not_of("ABCDEFGHIJKLMNOPQRSTUVWXYZ_");
  const bool coded = end != 0 && (end == std::string::npos || error[end] == ':');
  error = coded ? error.substr(0, end) : "EVIDENCE";  // of tools that fail or contradict each other
  return texts;
}

Result<DecisionRecord> DecisionRecord::FromJson(const object& json) {
  DecisionRecord record;
  Status fault;
  RecordReader reader(json, "", fault);
  VisitRecord(record, reader);
  if (!fault.ok()) return Error(std::move(fault));
  if (record.decision.id.empty()) return Error(InvalidArgumentError("decision record: it has no id"));
  return record;
}

}  // namespace surety::gateway
