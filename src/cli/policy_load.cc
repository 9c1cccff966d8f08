#include "cli/policy_load.h"

#include <algorithm>
#include <set>

#include <boost/json.hpp>
#include <fmt/format.h>

namespace surety::cli {
namespace {

namespace json = boost::json;
using gateway::DimensionSource;
using gateway::Policy;

constexpr std::string_view kNumber = "{n}";
constexpr std::string_view kAnyValue = "bench";

Status LineFault(const std::string& path, int line, std::string_view what) {
  return InvalidArgumentError(fmt::format("'{}', line {}: {}", path, line, what));
}

Result<PolicyQuestion> ParseObject(std::string_view text, const std::string& path, int line) {
  boost::system::error_code failed;
  const json::value value = json::parse(text, failed);
  if (failed || !value.is_object()) return Error(LineFault(path, line, "no JSON object"));
  PolicyQuestion out;
  for (const auto& member : value.get_object()) {
    const json::value& of = member.value();
    if (member.key() == "question" && of.is_string()) {
      out.text = of.get_string();
    } else if (member.key() == "share" && of.is_number() && of.to_number<double>() > 0) {
      out.share = of.to_number<double>();
    } else if (member.key() == "claims" && of.is_object()) {
      out.claims = of.get_object();
    } else if (member.key() == "metadata" && of.is_object()) {
      out.metadata = of.get_object();
    } else {
      return Error(LineFault(path, line, fmt::format("'{}': only question (a text), share (above 0), claims and "
                                                     "metadata (objects) may stand here",
                                                     std::string_view(member.key()))));
    }
  }
  if (out.text.empty()) return Error(LineFault(path, line, "question: missing or empty"));
  return out;
}

json::value ValueFor(const DimensionSource& source, bool is_set, const std::vector<std::string>& permissions) {
  if (is_set) {
    json::array all;
    for (const std::string& one : source.values.empty() ? permissions : source.values) all.push_back(json::string(one));
    return all;
  }
  return json::string(source.values.empty() ? kAnyValue : std::string_view(source.values.front()));
}

}  // namespace

Result<std::vector<PolicyQuestion>> ParsePolicyQuestions(std::string_view contents, const std::string& path) {
  std::vector<PolicyQuestion> questions;
  int line = 0;
  while (!contents.empty()) {
    const size_t end = std::min(contents.find('\n'), contents.size());
    std::string_view text = contents.substr(0, end);
    contents.remove_prefix(std::min(end + 1, contents.size()));
    ++line;
    while (!text.empty() && (text.back() == '\r' || text.back() == ' ')) text.remove_suffix(1);
    while (text.starts_with(' ')) text.remove_prefix(1);
    if (text.empty()) continue;
    if (!text.starts_with('{') || text.starts_with(kNumber)) {
      questions.push_back({std::string(text), 1, {}, {}});
      continue;
    }
    SURETY_ASSIGN_OR_RETURN(auto question, ParseObject(text, path, line));
    questions.push_back(std::move(question));
  }
  if (questions.empty()) return Error(InvalidArgumentError(fmt::format("'{}': no question in it", path)));
  return questions;
}

std::vector<PolicyQuestion> QuestionsOf(const Policy& policy) {
  std::vector<PolicyQuestion> questions = {{"Request {n}: please tell me about this.", 1, {}, {}}};
  for (const gateway::SignalSpec& signal : policy.signals) {
    for (const auto& [label, phrases] : signal.phrases) {
      for (const std::string& phrase : phrases) questions.push_back({"About " + phrase + ": what holds?", 1, {}, {}});
    }
  }
  return questions;
}

api::Caller CallerFor(const Policy& policy, const std::vector<gateway::Document>& documents) {
  std::set<std::string> permissions = {std::string(kAnyValue)};
  for (const gateway::Document& document : documents) {
    for (const std::string& one : document.permissions) {
      if (one != "public") permissions.insert(one);
    }
  }
  const std::vector<std::string> all(permissions.begin(), permissions.end());
  api::Caller caller;
  for (size_t i = 0; i < policy.identity.size(); ++i) {
    const DimensionSource& source = policy.identity[i];
    const auto dimension = static_cast<gateway::Dimension>(i);
    const bool is_set = dimension == gateway::Dimension::kPermissions;
    const bool is_date = dimension == gateway::Dimension::kEffectiveDate;   // absent: now
    if (source.from == DimensionSource::From::kClaim && !is_date) {
      caller.claims[source.name] = ValueFor(source, is_set, all);
    } else if (source.from == DimensionSource::From::kMetadata && !is_date) {
      caller.metadata[source.name] = ValueFor(source, is_set, all);
      if (is_set) caller.claims[NameOf(dimension)] = caller.metadata[source.name];  // metadata can only narrow
    }
  }
  return caller;
}

std::vector<std::string> OutsideParts(const Policy& policy) {
  std::vector<std::string> parts;
  for (const auto& [name, spec] : policy.tools) parts.push_back("tool '" + name + "'");
  for (const auto& [name, spec] : policy.verifiers) {
    if (spec.kind == gateway::VerifierSpec::Kind::kHttp) parts.push_back("verifier '" + name + "'");
  }
  return parts;
}

PolicyLoad::PolicyLoad(std::vector<PolicyQuestion> questions, api::Caller caller, int subjects, uint64_t seed)
    : questions_(std::move(questions)), caller_(std::move(caller)), subjects_(subjects),
      random_(seed, 1, LoadLane::kUserText) {
  double sum = 0;
  for (const PolicyQuestion& question : questions_) up_to_.push_back(sum += question.share);
}

api::GenerationRequest PolicyLoad::Next() {
  const double at = random_.Uniform() * up_to_.back();
  const auto chosen = std::min<size_t>(static_cast<size_t>(std::ranges::upper_bound(up_to_, at) - up_to_.begin()),
                                       questions_.size() - 1);
  const PolicyQuestion& question = questions_[chosen];
  std::string text = question.text;
  ++n_made_;
  if (const size_t place = text.find(kNumber); place != std::string::npos) {
    text.replace(place, kNumber.size(), std::to_string(n_made_));
  }
  api::GenerationRequest request;
  request.messages.push_back(json::object{{"role", "user"}, {"content", text}});
  request.has_messages = true;
  request.sampling.temperature = 0;
  request.caller = caller_;
  for (const auto& claim : question.claims) request.caller.claims[claim.key()] = claim.value();
  for (const auto& member : question.metadata) request.caller.metadata[member.key()] = member.value();
  request.caller.subject = "bench-" + std::to_string(random_.Below(static_cast<uint64_t>(subjects_)));
  return request;
}

}  // namespace surety::cli
