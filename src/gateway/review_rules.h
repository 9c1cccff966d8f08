// The rules of review, apart from where tickets lie: what a person may do with a ticket, and what becomes of it.
//
// Threads: pure functions. Errors: as review_store.h says, in this order: who may see it, what the call itself lacks,
// version and state, the person, the lease.
#pragma once

#include <cstdint>
#include <map>
#include <string>

#include "base/status.h"
#include "gateway/policy.h"
#include "gateway/review_store.h"

namespace surety::gateway {

using ReviewQueues = std::map<std::string, ReviewQueueSpec>;

struct HeldTicket {
  Ticket ticket;               // with leased_by of a lease that may have run out
  int64_t lease_since_ns = 0;  // not yet added to review_ns
};

// What a reviewer does, where and when.
struct ReviewStep {
  const Reviewer& reviewer;
  const ReviewQueueSpec& queue;
  int64_t version = 0;
  int64_t now_ns = 0;
};

Status CheckReviewer(const Reviewer& reviewer);
bool SeesTenant(const Reviewer& reviewer, std::string_view tenant);
bool HasPermission(const Reviewer& reviewer, const ReviewQueueSpec& queue);
Status UnknownTicket(std::string_view id);
// kInvalidArgument naming the nearest queue; kPermissionDenied.
Result<const ReviewQueueSpec*> QueueFor(const Reviewer& reviewer, const std::string& queue, const ReviewQueues& queues);
// The queue of a ticket that the reviewer may see; else as if there were no such ticket, or kPermissionDenied.
Result<const ReviewQueueSpec*> QueueOf(const Reviewer& reviewer, const Ticket& ticket, const ReviewQueues& queues);

// Fills in what a new ticket needs, but for its id.
Status PrepareTicket(Ticket& ticket, const ReviewQueues& queues, int64_t now_ns);

Status LeaseHeld(HeldTicket& held, const ReviewStep& step);
Status ReleaseHeld(HeldTicket& held, const ReviewStep& step);
// `text` is moved from. False: it is the text that is there, so nothing changes.
Result<bool> EditHeld(HeldTicket& held, const ReviewStep& step, std::string& text);
Status ApproveHeld(HeldTicket& held, const ReviewStep& step, const std::string& reason_code, const std::string& reason);
Status RejectHeld(HeldTicket& held, const ReviewStep& step, const std::string& reason_code, const std::string& reason);
void EraseHeld(HeldTicket& held, int64_t now_ns);

// What others see.
Ticket ShownTicket(const HeldTicket& held, int64_t now_ns);

}  // namespace surety::gateway
