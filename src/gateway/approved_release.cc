#include "gateway/approved_release.h"

#include <algorithm>
#include <span>
#include <utility>

#include <boost/json.hpp>

#include "base/hash.h"
#include "gateway/tool_write.h"

namespace surety::gateway {
namespace {

namespace json = boost::json;

std::string TextMember(const json::object& object, std::string_view name) {
  const json::value* value = object.if_contains(name);
  return value != nullptr && value->is_string() ? std::string(value->get_string()) : std::string();
}

const json::array& WritesOf(const Ticket& ticket) {
  static const json::array kNone;
  const json::value* writes = ticket.context.if_contains("writes");
  return writes != nullptr && writes->is_array() ? writes->get_array() : kNone;
}

ToolArguments ArgumentsOfWrite(const json::object& write) {
  ToolArguments arguments;
  const json::value* given = write.if_contains("arguments");
  if (given == nullptr || !given->is_object()) return arguments;
  for (const auto& argument : given->get_object()) {
    if (argument.value().is_string()) arguments[argument.key()] = std::string(argument.value().get_string());
  }
  return arguments;
}

// What the answer was based on, as the ticket keeps it.
std::shared_ptr<const Evidence> EvidenceOf(const Ticket& ticket, const Policy& policy) {
  auto evidence = std::make_shared<Evidence>();
  evidence->validity = policy.validity;
  evidence->as_of_ns = ticket.created_ns;
  const json::value* passages = ticket.context.if_contains("passages");
  for (size_t i = 0; passages != nullptr && passages->is_array() && i < passages->get_array().size(); ++i) {
    const json::value& value = passages->get_array()[i];
    if (!value.is_object()) continue;
    const std::string id = TextMember(value.get_object(), "id");
    const size_t at = id.rfind('@');
    const size_t colon = id.rfind(':', at);
    if (at == std::string::npos || colon == std::string::npos) continue;
    Passage passage;
    passage.document = id.substr(0, colon);
    passage.chunk = id.substr(colon + 1, at - colon - 1);
    passage.version = id.substr(at + 1);
    passage.title = TextMember(value.get_object(), "title");
    passage.text = TextMember(value.get_object(), "text");
    evidence->passages.push_back(std::move(passage));
  }
  const json::value* tools = ticket.context.if_contains("tools");
  for (size_t i = 0; tools != nullptr && tools->is_array() && i < tools->get_array().size(); ++i) {
    const json::value& value = tools->get_array()[i];
    if (!value.is_object()) continue;
    ToolResult result;
    result.tool = TextMember(value.get_object(), "tool");
    result.digest = TextMember(value.get_object(), "digest");
    if (const json::value* found = value.get_object().if_contains("value")) {
      result.value = *found;
    } else {
      result.status = UnavailableError(TextMember(value.get_object(), "error"));
    }
    evidence->tools.push_back(std::move(result));
  }
  return evidence;
}

ReleaseOutcome OutcomeOfRow(const json::object& row) {
  ReleaseOutcome outcome;
  const std::string state = TextMember(row, "state");
  outcome.state = state == NameOf(TicketState::kApproved)          ? ReleaseState::kReleased
                  : state == NameOf(ReleaseState::kWriteFailed) ? ReleaseState::kWriteFailed
                                                                : ReleaseState::kRejected;
  if (const json::value* writes = row.if_contains("writes"); writes != nullptr && writes->is_array()) {
    outcome.writes = writes->get_array();
  }
  outcome.text_sha256 = TextMember(row, "text_sha256");
  return outcome;
}

}  // namespace

std::string TextSha256(std::string_view text) { return HexOf(Sha256Of(std::as_bytes(std::span(text)))); }

std::string_view NameOf(ReleaseState state) {
  switch (state) {
    case ReleaseState::kReleased: return "released";
    case ReleaseState::kRejected: return "rejected";
    case ReleaseState::kWaiting: return "write_waiting";
    case ReleaseState::kReconcile: return "reconcile";
    case ReleaseState::kWriteFailed: return "write_failed";
  }
  return "unknown";
}

json::object ReleaseOutcome::ToJson() const { return {{"state", NameOf(state)}, {"writes", writes}}; }

// Of one decision, one thread at a time.
class ApprovedRelease::Turn {
 public:
  Turn(ApprovedRelease& all, std::string decision) : all_(all), decision_(std::move(decision)) {
    std::unique_lock lock(all_.mutex_);
    all_.turn_ended_.wait(lock, [&] { return !all_.running_.contains(decision_); });
    all_.running_.insert(decision_);
  }
  ~Turn() {
    const std::lock_guard lock(all_.mutex_);
    all_.running_.erase(decision_);
    all_.turn_ended_.notify_all();
  }
  Turn(const Turn&) = delete;
  Turn& operator=(const Turn&) = delete;

 private:
  ApprovedRelease& all_;
  const std::string decision_;
};

Status ApprovedRelease::MayApprove(const Ticket& ticket) const {
  const auto runtime = runtime_();
  const RouteSpec* route = runtime->policy->FindRoute(ticket.route);
  if (route == nullptr) {
    return FailedPreconditionError("ticket " + ticket.id + " is of route '" + ticket.route +
                                   "', which the policy no longer has, so nothing says what must hold; reject it");
  }
  std::vector<std::string> blocking;
  for (const std::string& name : route->verify) {
    const auto spec = runtime->policy->verifiers.find(name);
    if (spec == runtime->policy->verifiers.end() || spec->second.fail == VerifierSpec::Action::kBlock) {
      blocking.push_back(name);
    }
  }
  if (blocking.empty()) return OkStatus();
  auto answer = std::make_shared<AnswerText>();
  answer->text = ticket.text;
  const Judgement judgement =
      runtime->verifiers->Judge(blocking, std::move(answer), EvidenceOf(ticket, *runtime->policy),
                                /*open_allowed=*/false);
  for (const Verdict& verdict : judgement.verdicts) {
    if (verdict.outcome == Verdict::Outcome::kPass) continue;
    if (verdict.outcome == Verdict::Outcome::kError) {
      return UnavailableError("verifier '" + verdict.verifier + "' cannot tell whether the text of ticket " +
                              ticket.id + " may leave: " + verdict.reason);
    }
    std::string found;
    for (const Finding& finding : verdict.findings) found += (found.empty() ? ": " : "; ") + finding.what;
    return {StatusCode::kPermissionDenied, "verifier '" + verdict.verifier + "' refuses the text of ticket " +
                                               ticket.id + found + "; edit it"};
  }
  if (judgement.verdicts.size() == blocking.size()) return OkStatus();
  return UnavailableError("the text of ticket " + ticket.id + " was not looked at by every verifier of its route");
}

Status ApprovedRelease::MayDecide(const ReviewVote& vote) const {
  if (!vote.approval) return OkStatus();
  const auto row = audit_.Find("decision", vote.ticket.decision);
  if (row) return OkStatus();
  if (row.error().code() != StatusCode::kNotFound) return row.error();
  return FailedPreconditionError("ticket " + vote.ticket.id + ": this server's log has no decision '" +
                                 vote.ticket.decision + "': its request ended with an error, or another server with "
                                 "the same queue has it; approve it there, or reject it");
}

// Of a write that did not end well; the log knows how far it came.
std::string ApprovedRelease::WriteStateOf(const ToolResult& result, const std::string& key) const {
  if (result.status.ok()) return "done";
  const auto intent = audit_.Find("tool_intent", key);
  if (!intent && intent.error().code() != StatusCode::kNotFound) return "unknown";
  if (intent) {
    const auto outcome = audit_.Find("tool_outcome", key);
    return outcome && outcome->seq > intent->seq ? TextMember(outcome->body, "state") : "unknown";
  }
  const bool denied = result.status.code() == StatusCode::kPermissionDenied ||
                      result.status.code() == StatusCode::kInvalidArgument ||
                      result.status.code() == StatusCode::kNotFound;
  return denied ? "refused" : "not_sent";
}

// In order; the first that is not done stops those after it.
ReleaseOutcome ApprovedRelease::RunWrites(const Ticket& ticket) {
  const auto runtime = runtime_();
  ReleaseOutcome outcome;
  outcome.state = ReleaseState::kReleased;
  const json::array& writes = WritesOf(ticket);
  for (size_t i = 0; i < writes.size() && outcome.state == ReleaseState::kReleased; ++i) {
    if (!writes[i].is_object()) continue;
    const json::object& write = writes[i].get_object();
    const std::string tool = TextMember(write, "tool"), step = std::to_string(i);
    const ToolArguments arguments = ArgumentsOfWrite(write);
    const ToolResult result = runtime->tools->Write(tool, ticket.decision, step, arguments, ticket.approvers, audit_);
    const std::string state = WriteStateOf(result, IdempotencyKey(ticket.decision, step, arguments));
    outcome.writes.push_back(json::object{{"tool", tool}, {"step", i}, {"state", state},
                                          {"error", result.status.message()}});
    if (state == "unknown") outcome.state = ReleaseState::kReconcile;
    if (state == "refused") outcome.state = ReleaseState::kWriteFailed;
    if (state == "not_sent") outcome.state = ReleaseState::kWaiting;
  }
  return outcome;
}

Result<ReleaseOutcome> ApprovedRelease::Finish(const Ticket& ticket) {
  const Turn turn(*this, ticket.decision);
  return FinishAlone(ticket);
}

Result<ReleaseOutcome> ApprovedRelease::FinishAlone(const Ticket& ticket) {
  const auto done = audit_.Find("release", ticket.decision);
  if (done) return OutcomeOfRow(done->body);
  if (done.error().code() != StatusCode::kNotFound) return Error(done.error());
  const bool approved = ticket.state == TicketState::kApproved;
  if (!approved && ticket.state != TicketState::kRejected) {
    return Error(FailedPreconditionError("ticket " + ticket.id + " is " + std::string(NameOf(ticket.state))));
  }
  SURETY_ASSIGN_OR_RETURN(const AuditRow decision, audit_.Find("decision", ticket.decision));
  ReleaseOutcome outcome;
  outcome.state = ReleaseState::kRejected;
  if (approved) outcome = RunWrites(ticket);
  outcome.text_sha256 = TextSha256(ticket.text);
  if (outcome.state == ReleaseState::kWaiting || outcome.state == ReleaseState::kReconcile) {
    Note(ticket, outcome);
    return outcome;
  }
  const std::string_view state = outcome.state == ReleaseState::kWriteFailed ? NameOf(outcome.state)
                                                                             : NameOf(ticket.state);
  json::array writes;  // the errors are for people who may see the ticket
  for (const json::value& write : outcome.writes) {
    const json::object& one = write.get_object();
    writes.push_back(json::object{{"tool", one.at("tool")}, {"step", one.at("step")}, {"state", one.at("state")}});
  }
  SURETY_ASSIGN_OR_RETURN(const AuditRow written,
                          audit_.Append("release", {{"id", ticket.decision},
                                                    {"ticket", ticket.id},
                                                    {"state", state},
                                                    {"version", ticket.version},
                                                    {"text_sha256", outcome.text_sha256},
                                                    {"writes", std::move(writes)}}));
  Note(ticket, outcome);
  const auto runtime = runtime_();
  const auto queue = runtime->policy->review.find(ticket.queue);
  ReviewOutcome reviewed;
  reviewed.route = ticket.route;
  reviewed.queue = ticket.queue;
  reviewed.approved = outcome.state == ReleaseState::kReleased;
  reviewed.edit_distance = ticket.edit_distance;
  reviewed.review_ns = ticket.review_ns;
  const double minute_cost = queue == runtime->policy->review.end() ? 0 : queue->second.minute_cost;
  reviewed.cost = static_cast<double>(ticket.review_ns) / 60e9 * minute_cost;
  ledger_.Record(reviewed);
  return outcome;
}

void ApprovedRelease::Note(const Ticket& ticket, const ReleaseOutcome& outcome) {
  const std::lock_guard lock(mutex_);
  if (outcome.state != ReleaseState::kWaiting && outcome.state != ReleaseState::kReconcile) {
    unfinished_.erase(ticket.decision);
    return;
  }
  unfinished_[ticket.decision] = {{"decision", ticket.decision},
                                  {"ticket", ticket.id},
                                  {"state", NameOf(outcome.state)},
                                  {"writes", outcome.writes}};
}

Status ApprovedRelease::Settle(const Ticket& ticket, int step, const std::string& state, const std::string& by,
                               const std::string& reason) {
  if (state != "done" && state != "refused" && state != "not_sent") {
    return InvalidArgumentError("state: '" + state + "' is none of done, refused, not_sent");
  }
  const json::array& writes = WritesOf(ticket);
  if (step < 0 || static_cast<size_t>(step) >= writes.size() || !writes[static_cast<size_t>(step)].is_object()) {
    return NotFoundError("step: decision '" + ticket.decision + "' has " + std::to_string(writes.size()) +
                         " writes, numbered from 0");
  }
  const json::object& write = writes[static_cast<size_t>(step)].get_object();
  const std::string key = IdempotencyKey(ticket.decision, std::to_string(step), ArgumentsOfWrite(write));
  const Turn turn(*this, ticket.decision);
  const auto intent = audit_.Find("tool_intent", key);
  if (!intent) return intent.error().WithContext("this write was never begun");
  const auto outcome = audit_.Find("tool_outcome", key);
  if (!outcome && outcome.error().code() != StatusCode::kNotFound) return outcome.error();
  const bool known = outcome && outcome->seq > intent->seq && TextMember(outcome->body, "state") != "unknown";
  if (known) {
    return FailedPreconditionError("the outcome of this write is known: " + TextMember(outcome->body, "state"));
  }
  const StatusCode code = state == "done" ? StatusCode::kOk : StatusCode::kFailedPrecondition;
  SURETY_ASSIGN_OR_RETURN(const AuditRow row,
                          audit_.Append("tool_outcome", {{"id", key},
                                                         {"tool", TextMember(write, "tool")},
                                                         {"case", ticket.decision},
                                                         {"step", std::to_string(step)},
                                                         {"state", state},
                                                         {"code", StatusCodeName(code)},
                                                         {"settled_by", by},
                                                         {"settled_why", reason}}));
  return OkStatus();
}

json::array ApprovedRelease::Unfinished() const {
  const std::lock_guard lock(mutex_);
  json::array out;
  for (const auto& [decision, entry] : unfinished_) out.push_back(entry);
  return out;
}

}  // namespace surety::gateway
