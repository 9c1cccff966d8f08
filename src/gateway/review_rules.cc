#include "gateway/review_rules.h"

#include <algorithm>

#include <fmt/format.h>
#include <utf8proc.h>

#include "base/nearest_name.h"

namespace surety::gateway {
namespace {

constexpr size_t kMaxReviewName = 256, kMaxReviewReason = 4096, kMaxReviewText = size_t{256} << 10,
                 kMaxReviewQuestion = size_t{4} << 20;

bool IsReviewUtf8(std::string_view text) {
  const auto* at = reinterpret_cast<const utf8proc_uint8_t*>(text.data());
  auto left = static_cast<utf8proc_ssize_t>(text.size());
  while (left > 0) {
    utf8proc_int32_t code = 0;
    const utf8proc_ssize_t length = utf8proc_iterate(at, left, &code);
    if (length <= 0) return false;
    at += length;
    left -= length;
  }
  return true;
}

Status CheckReviewName(std::string_view what, std::string_view name) {
  if (name.empty()) return InvalidArgumentError(fmt::format("{}: it is empty", what));
  if (name.size() > kMaxReviewName) {
    return InvalidArgumentError(fmt::format("{}: {} bytes; at most {}", what, name.size(), kMaxReviewName));
  }
  const bool plain = std::ranges::none_of(name, [](char c) { return static_cast<unsigned char>(c) < 32 || c == 127; });
  if (!plain || !IsReviewUtf8(name)) {
    return InvalidArgumentError(fmt::format("{}: it must be UTF-8 without control characters", what));
  }
  return OkStatus();
}

Status CheckReviewText(std::string_view what, std::string_view text, size_t limit) {
  if (text.size() > limit) {
    return InvalidArgumentError(fmt::format("{}: {} bytes; at most {}", what, text.size(), limit));
  }
  if (!IsReviewUtf8(text)) return InvalidArgumentError(fmt::format("{}: it is not UTF-8", what));
  return OkStatus();
}

bool Holds(const std::vector<std::string>& names, const std::string& name) {
  return std::ranges::find(names, name) != names.end();
}

bool LeaseLives(const Ticket& ticket, int64_t now_ns) {
  return !ticket.leased_by.empty() && now_ns < ticket.lease_until_ns;
}

// Ends the lease, live or not, and adds its time.
void EndLease(HeldTicket& held, int64_t now_ns) {
  Ticket& ticket = held.ticket;
  if (!ticket.leased_by.empty()) {
    ticket.review_ns += std::max<int64_t>(0, std::min(now_ns, ticket.lease_until_ns) - held.lease_since_ns);
  }
  ticket.leased_by.clear();
  ticket.lease_until_ns = held.lease_since_ns = 0;
}

Status CheckOpen(const Ticket& ticket, const ReviewStep& step) {
  if (ticket.version != step.version) {
    return FailedPreconditionError(fmt::format("ticket {} was changed: version {} was seen, it is {}; read it again",
                                               ticket.id, step.version, ticket.version));
  }
  if (ticket.state != TicketState::kOpen) {
    return FailedPreconditionError(fmt::format("ticket {} is {}, no longer open", ticket.id, NameOf(ticket.state)));
  }
  return OkStatus();
}

Status Denied(std::string message) { return {StatusCode::kPermissionDenied, std::move(message)}; }

Status CheckNotAuthor(const Ticket& ticket, const ReviewStep& step) {
  if (!step.queue.exclude_author || ticket.subject != step.reviewer.name) return OkStatus();
  return Denied(fmt::format("ticket {} is {}'s own request; queue '{}' excludes its author", ticket.id, ticket.subject,
                            step.queue.name));
}

Status CheckLease(const Ticket& ticket, const ReviewStep& step) {
  const bool lives = LeaseLives(ticket, step.now_ns);
  if (lives && ticket.leased_by == step.reviewer.name) return OkStatus();
  if (lives) return FailedPreconditionError(fmt::format("ticket {} is leased by {}", ticket.id, ticket.leased_by));
  return FailedPreconditionError(fmt::format("ticket {}: {}; lease it first", ticket.id,
                                             ticket.leased_by == step.reviewer.name ? "the lease has run out"
                                                                                    : "it is not leased"));
}

// kInvalidArgument naming the nearest one.
Result<const ReviewQueueSpec*> FindReviewQueue(const std::string& queue, const ReviewQueues& queues) {
  const auto found = queues.find(queue);
  if (found != queues.end()) return &found->second;
  std::vector<std::string> names;
  for (const auto& [name, spec] : queues) names.push_back(name);
  const std::string nearest = NearestName(queue, names);
  return Error(InvalidArgumentError(fmt::format("no review queue '{}'{}", queue,
                                                nearest.empty() ? "" : fmt::format("; did you mean '{}'?", nearest))));
}

Status CheckReason(const ReviewQueueSpec& queue, const std::string& code, const std::string& reason) {
  if (queue.reasons_required || !code.empty()) {
    if (code.find_first_not_of(' ') == std::string::npos) {
      return InvalidArgumentError(fmt::format("reason_code: queue '{}' requires one", queue.name));
    }
    SURETY_RETURN_IF_ERROR(CheckReviewName("reason_code", code));
  }
  return CheckReviewText("reason", reason, kMaxReviewReason);
}

}  // namespace

std::string_view NameOf(TicketState state) {
  switch (state) {
    case TicketState::kOpen: return "open";
    case TicketState::kApproved: return "approved";
    case TicketState::kRejected: return "rejected";
    case TicketState::kErased: return "erased";
  }
  return "unknown";
}

Status CheckReviewer(const Reviewer& reviewer) {
  SURETY_RETURN_IF_ERROR(CheckReviewName("the reviewer's name", reviewer.name));
  return CheckReviewName("the reviewer's tenant", reviewer.tenant);
}

bool SeesTenant(const Reviewer& reviewer, std::string_view tenant) {
  return reviewer.tenant == "*" || reviewer.tenant == tenant;
}

bool HasPermission(const Reviewer& reviewer, const ReviewQueueSpec& queue) {
  if (queue.permission == kAdministratorsAlone) return reviewer.tenant == "*";
  return queue.permission.empty() || Holds(reviewer.permissions, queue.permission);
}

Status UnknownTicket(std::string_view id) {
  // What was asked for is echoed only where it can be an id: it comes from outside.
  const bool plain = id.size() <= 64 && std::ranges::all_of(id, [](char c) { return c > 32 && c < 127; });
  return NotFoundError(plain ? fmt::format("no ticket {}", id) : "no such ticket");
}

Result<const ReviewQueueSpec*> QueueFor(const Reviewer& reviewer, const std::string& queue,
                                        const ReviewQueues& queues) {
  SURETY_ASSIGN_OR_RETURN(const ReviewQueueSpec* spec, FindReviewQueue(queue, queues));
  if (!HasPermission(reviewer, *spec)) {
    return Error(Denied(fmt::format("{} lacks the permission '{}' that queue '{}' asks for", reviewer.name,
                                    spec->permission, queue)));
  }
  return spec;
}

Result<const ReviewQueueSpec*> QueueOf(const Reviewer& reviewer, const Ticket& ticket, const ReviewQueues& queues) {
  if (!SeesTenant(reviewer, ticket.tenant)) return Error(UnknownTicket(ticket.id));
  if (!queues.contains(ticket.queue)) {
    return Error(FailedPreconditionError(fmt::format("ticket {} is of queue '{}', which the policy no longer has",
                                                     ticket.id, ticket.queue)));
  }
  return QueueFor(reviewer, ticket.queue, queues);
}

Status PrepareTicket(Ticket& ticket, const ReviewQueues& queues, int64_t now_ns) {
  SURETY_RETURN_IF_ERROR(CheckReviewName("decision", ticket.decision));
  SURETY_RETURN_IF_ERROR(CheckReviewName("tenant", ticket.tenant));
  if (ticket.tenant == "*") return InvalidArgumentError("tenant: '*' stands for all tenants and is none");
  SURETY_ASSIGN_OR_RETURN(const ReviewQueueSpec* spec, FindReviewQueue(ticket.queue, queues));
  if (spec->exclude_author || !ticket.subject.empty()) {
    SURETY_RETURN_IF_ERROR(CheckReviewName("subject (who asked, and may not approve)", ticket.subject));
  }
  for (const auto& [what, value] : {std::pair{"route", &ticket.route}, std::pair{"risk", &ticket.risk}}) {
    if (!value->empty()) SURETY_RETURN_IF_ERROR(CheckReviewName(what, *value));
  }
  if (ticket.text.empty()) ticket.text = ticket.draft;
  SURETY_RETURN_IF_ERROR(CheckReviewText("question", ticket.question, kMaxReviewQuestion));
  SURETY_RETURN_IF_ERROR(CheckReviewText("draft", ticket.draft, kMaxReviewText));
  SURETY_RETURN_IF_ERROR(CheckReviewText("text", ticket.text, kMaxReviewText));
  ticket.state = TicketState::kOpen;
  ticket.version = 1;
  ticket.created_ns = now_ns;
  ticket.decided_ns = ticket.lease_until_ns = ticket.review_ns = 0;
  ticket.leased_by.clear();
  ticket.approvers.clear();
  ticket.editors.clear();
  ticket.reason_code.clear();
  ticket.reason.clear();
  ticket.decided_by.clear();
  ticket.votes.clear();
  ticket.edit_distance = NormalisedEditDistance(ticket.draft, ticket.text);
  return OkStatus();
}

Status LeaseHeld(HeldTicket& held, const ReviewStep& step) {
  Ticket& ticket = held.ticket;
  SURETY_RETURN_IF_ERROR(CheckOpen(ticket, step));
  SURETY_RETURN_IF_ERROR(CheckNotAuthor(ticket, step));
  if (LeaseLives(ticket, step.now_ns) && ticket.leased_by != step.reviewer.name) {
    return FailedPreconditionError(fmt::format("ticket {} is leased by {}", ticket.id, ticket.leased_by));
  }
  EndLease(held, step.now_ns);
  ticket.leased_by = step.reviewer.name;
  held.lease_since_ns = step.now_ns;
  ticket.lease_until_ns = step.now_ns + step.queue.lease_ns;
  ++ticket.version;
  return OkStatus();
}

Status ReleaseHeld(HeldTicket& held, const ReviewStep& step) {
  SURETY_RETURN_IF_ERROR(CheckOpen(held.ticket, step));
  SURETY_RETURN_IF_ERROR(CheckLease(held.ticket, step));
  EndLease(held, step.now_ns);
  ++held.ticket.version;
  return OkStatus();
}

Result<bool> EditHeld(HeldTicket& held, const ReviewStep& step, std::string& text) {
  Ticket& ticket = held.ticket;
  if (text.empty()) return Error(InvalidArgumentError("text: it is empty; reject a ticket that must not be answered"));
  SURETY_RETURN_IF_ERROR(CheckReviewText("text", text, kMaxReviewText));
  SURETY_RETURN_IF_ERROR(CheckOpen(ticket, step));
  SURETY_RETURN_IF_ERROR(CheckNotAuthor(ticket, step));
  SURETY_RETURN_IF_ERROR(CheckLease(ticket, step));
  if (text == ticket.text) return false;
  ticket.text = std::move(text);
  ticket.edit_distance = NormalisedEditDistance(ticket.draft, ticket.text);
  ticket.approvers.clear();  // they approved another text
  ticket.reason_code.clear();
  ticket.reason.clear();
  if (!Holds(ticket.editors, step.reviewer.name)) ticket.editors.push_back(step.reviewer.name);
  ++ticket.version;
  return true;
}

Status ApproveHeld(HeldTicket& held, const ReviewStep& step, const std::string& reason_code,
                   const std::string& reason) {
  Ticket& ticket = held.ticket;
  const std::string& name = step.reviewer.name;
  SURETY_RETURN_IF_ERROR(CheckReason(step.queue, reason_code, reason));
  SURETY_RETURN_IF_ERROR(CheckOpen(ticket, step));
  SURETY_RETURN_IF_ERROR(CheckNotAuthor(ticket, step));
  if (step.queue.exclude_author && Holds(ticket.editors, name)) {
    return Denied(fmt::format("{} edited the text of ticket {}; another person must approve it", name, ticket.id));
  }
  if (Holds(ticket.approvers, name)) {
    return Denied(fmt::format("{} has approved ticket {} already; another person must, too", name, ticket.id));
  }
  SURETY_RETURN_IF_ERROR(CheckLease(ticket, step));
  if (ticket.text.empty()) {
    return FailedPreconditionError(fmt::format("ticket {} has no text to release; write one first", ticket.id));
  }
  EndLease(held, step.now_ns);
  ticket.approvers.push_back(name);
  ticket.reason_code = reason_code;
  ticket.reason = reason;
  if (static_cast<int64_t>(ticket.approvers.size()) >= std::max(1, step.queue.approvals)) {
    ticket.state = TicketState::kApproved;
    ticket.decided_ns = step.now_ns;
    ticket.decided_by = name;
  }
  ticket.votes.push_back(++ticket.version);
  return OkStatus();
}

Status RejectHeld(HeldTicket& held, const ReviewStep& step, const std::string& reason_code, const std::string& reason) {
  Ticket& ticket = held.ticket;
  SURETY_RETURN_IF_ERROR(CheckReason(step.queue, reason_code, reason));
  SURETY_RETURN_IF_ERROR(CheckOpen(ticket, step));
  SURETY_RETURN_IF_ERROR(CheckNotAuthor(ticket, step));
  SURETY_RETURN_IF_ERROR(CheckLease(ticket, step));
  EndLease(held, step.now_ns);
  ticket.state = TicketState::kRejected;
  ticket.decided_ns = step.now_ns;
  ticket.decided_by = step.reviewer.name;
  ticket.reason_code = reason_code;
  ticket.reason = reason;
  ticket.votes.push_back(++ticket.version);
  return OkStatus();
}

void EraseHeld(HeldTicket& held, int64_t now_ns) {
  Ticket& ticket = held.ticket;
  EndLease(held, now_ns);
  ticket.question.clear();
  ticket.draft.clear();
  ticket.text.clear();
  ticket.context = {};
  ticket.reason.clear();
  ticket.state = TicketState::kErased;
  ++ticket.version;
}

Ticket ShownTicket(const HeldTicket& held, int64_t now_ns) {
  Ticket ticket = held.ticket;
  if (!LeaseLives(ticket, now_ns)) {
    ticket.leased_by.clear();
    ticket.lease_until_ns = 0;
  }
  return ticket;
}

}  // namespace surety::gateway
