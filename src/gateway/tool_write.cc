#include "gateway/tool_write.h"

#include <algorithm>
#include <array>
#include <optional>

#include <boost/json.hpp>

#include "base/hash.h"
#include "gateway/tool_time.h"

namespace surety::gateway {
namespace {

namespace json = boost::json;

std::string FoldedName(std::string_view name) {
  while (!name.empty() && name.front() == ' ') name.remove_prefix(1);
  while (!name.empty() && name.back() == ' ') name.remove_suffix(1);
  std::string folded(name);
  std::ranges::transform(folded, folded.begin(), [](char c) { return c >= 'A' && c <= 'Z' ? char(c - 'A' + 'a') : c; });
  return folded;
}

std::string_view StateName(ToolEffect effect) {
  switch (effect) {
    case ToolEffect::kNotSent: return "not_sent";
    case ToolEffect::kRefused: return "refused";
    case ToolEffect::kDone: return "done";
    case ToolEffect::kUnknown: return "unknown";
  }
  return "unknown";
}

std::string_view RowText(const json::object& body, std::string_view name) {
  const json::value* value = body.if_contains(name);
  return value != nullptr && value->is_string() ? std::string_view(value->get_string()) : std::string_view();
}

StatusCode CodeNamed(std::string_view name) {
  for (int i = 0; i <= static_cast<int>(StatusCode::kIoError); ++i) {
    if (StatusCodeName(static_cast<StatusCode>(i)) == name) return static_cast<StatusCode>(i);
  }
  return StatusCode::kInternal;
}

ToolResult Reconcile(const std::string& tool, std::string_view why) {
  ToolResult result;
  result.tool = tool;
  result.status = UnavailableError(tool + ": reconcile: " + std::string(why) +
                                   "; it may have happened and is not tried again");
  return result;
}

json::object OutcomeBody(const ToolWriteRequest& request, const std::string& key, const ToolResult& result,
                         ToolEffect effect) {
  json::object body{{"id", key},
                    {"tool", request.tool},
                    {"case", request.case_id},
                    {"step", request.step},
                    {"state", StateName(effect)},
                    {"code", StatusCodeName(result.status.code())},
                    {"latency_ns", result.latency_ns}};
  // Neither the value nor a message: both may hold a customer's data, and the log can never change.
  if (effect != ToolEffect::kDone || !result.status.ok()) return body;
  body["digest"] = result.digest;
  body["observed_at_ns"] = result.observed_at_ns;
  return body;
}

// What was recorded: how the call ended, and its result's digest.
ToolResult Recorded(const std::string& tool, const json::object& body) {
  ToolResult result;
  result.tool = tool;
  const StatusCode code = CodeNamed(RowText(body, "code"));
  if (code != StatusCode::kOk) result.status = Status(code, tool + ": as recorded");
  result.value = json::object();
  result.digest = RowText(body, "digest");
  const auto whole = [&](std::string_view name) {
    const json::value* value = body.if_contains(name);
    return value != nullptr && value->is_int64() ? value->get_int64() : 0;
  };
  result.observed_at_ns = whole("observed_at_ns");
  result.latency_ns = whole("latency_ns");
  return result;
}

}  // namespace

std::string IdempotencyKey(std::string_view case_id, std::string_view step, const ToolArguments& arguments) {
  json::object object;
  for (const auto& [name, value] : arguments) object[name] = value;
  std::string bytes;
  for (const std::string& field : {std::string(case_id), std::string(step), CanonicalJson(object)}) {
    for (int shift = 56; shift >= 0; shift -= 8) bytes += static_cast<char>(field.size() >> shift & 0xff);
    bytes += field;
  }
  return HexOf(Sha256Of(std::as_bytes(std::span(bytes))));
}

Status CheckWrite(const ToolSpec& spec, const std::string& case_id, const std::string& step,
                  const ToolArguments& arguments, const std::vector<std::string>& approvers) {
  if (spec.kind != ToolSpec::Kind::kWrite) return InvalidArgumentError("tool '" + spec.name + "' only reads");
  if (case_id.empty() || step.empty()) return InvalidArgumentError("a write needs a case and a step");
  for (const auto& [name, value] : arguments) {
    if (std::ranges::find(spec.arguments, name) == spec.arguments.end()) {
      return InvalidArgumentError("tool '" + spec.name + "' takes no argument '" + name + "'");
    }
  }
  std::set<std::string> people;
  for (const std::string& approver : approvers) {
    if (const std::string name = FoldedName(approver); !name.empty()) people.insert(name);
  }
  const size_t needed = spec.four_eyes ? 2 : 1;
  if (people.size() >= needed) return OkStatus();
  return Status(StatusCode::kPermissionDenied,
                "tool '" + spec.name + "' needs the approval of " +
                    (spec.four_eyes ? "two different people" : "one person") + ", but has that of " +
                    std::to_string(people.size()));
}

ToolResult ToolWriter::Write(const ToolWriteRequest& request, AuditLog& audit, const Call& call) {
  const std::string key = IdempotencyKey(request.case_id, request.step, request.arguments);
  {
    std::unique_lock lock(mutex_);
    changed_.wait(lock, [&] { return !running_.contains(key); });
    running_.insert(key);
  }
  ToolResult result = WriteAlone(request, key, audit, call);
  const std::lock_guard lock(mutex_);
  running_.erase(key);
  changed_.notify_all();
  return result;
}

ToolResult ToolWriter::WriteAlone(const ToolWriteRequest& request, const std::string& key, AuditLog& audit,
                                  const Call& call) {
  ToolResult failed;
  failed.tool = request.tool;
  const Result<AuditRow> intent = audit.Find("tool_intent", key);
  if (!intent && intent.error().code() != StatusCode::kNotFound) {
    failed.status = UnavailableError(request.tool + ": the audit log cannot be read: " + intent.error().message());
    return failed;
  }
  if (intent) {
    if (RowText(intent->body, "tool") != request.tool) {
      failed.status = InvalidArgumentError(request.tool + ": this step, with these arguments, is another tool's: '" +
                                           std::string(RowText(intent->body, "tool")) + "'");
      return failed;
    }
    const Result<AuditRow> outcome = audit.Find("tool_outcome", key);
    if (!outcome || outcome->seq < intent->seq) return Reconcile(request.tool, "a call has begun and no end is known");
    const std::string_view state = RowText(outcome->body, "state");
    if (state == "done" || state == "refused") return Recorded(request.tool, outcome->body);
    if (state != "not_sent") return Reconcile(request.tool, "how its call ended is not known");
  }
  json::object arguments;
  for (const auto& [name, value] : request.arguments) arguments[name] = value;
  const Result<AuditRow> begun = audit.Append(
      "tool_intent", {{"id", key},
                      {"tool", request.tool},
                      {"case", request.case_id},
                      {"step", request.step},
                      {"arguments_digest", ToolDigest(arguments)},
                      {"approvers", json::array(request.approvers.begin(), request.approvers.end())}});
  if (!begun) {
    failed.status = UnavailableError(request.tool + ": not called, since its intent cannot be recorded: " +
                                     begun.error().message());
    return failed;
  }
  auto [result, effect] = call(key);
  const Result<AuditRow> ended = audit.Append("tool_outcome", OutcomeBody(request, key, result, effect));
  if (effect == ToolEffect::kUnknown) return Reconcile(request.tool, result.status.message());
  if (!ended && effect == ToolEffect::kDone) return Reconcile(request.tool, "it is done, but that cannot be recorded");
  return result;
}

}  // namespace surety::gateway
