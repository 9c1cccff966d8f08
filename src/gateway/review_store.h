// Answers that wait for a person: queue, leases, four eyes, and what reviewers decided.
//
// Kept in SQLite, or in PostgreSQL by a connection string, with one schema and one set of tests for both.
// Threads: any. Owns: its connections. Errors: kNotFound, kPermissionDenied (author, missing permission, same reviewer
// twice), kFailedPrecondition (state or version changed meanwhile, lease run out), kInvalidArgument, kUnavailable (the
// database does not answer), kIoError.
// Invariants: (1) a ticket has at most one lease at a time; an expired one is free again. (2) Each change names the
// version it saw; another's change in between refuses it. (3) A ticket is approved only by the queue's number of
// different people, none of them its author or an editor of the final text where exclude_author holds. (4) Approval
// covers the exact text: an edit after an approval takes the approvals back.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include <boost/json/object.hpp>

#include "base/clock.h"
#include "base/status.h"
#include "gateway/policy.h"

namespace surety::gateway {

enum class TicketState : uint8_t { kOpen, kApproved, kRejected, kErased };
std::string_view NameOf(TicketState state);

struct Ticket {
  std::string id;                  // "rev_..."
  std::string decision, queue, route, tenant, subject, risk;
  std::string question;            // the last user turn
  std::string draft;               // as the model made it; empty: no model was asked
  std::string text;                // as edited; what an approval releases
  boost::json::object context;     // evidence: passages, tools, verdicts, conflicts
  TicketState state = TicketState::kOpen;
  int64_t version = 1;
  int64_t created_ns = 0, decided_ns = 0;
  std::string leased_by;
  int64_t lease_until_ns = 0;
  std::vector<std::string> approvers, editors;
  std::string reason_code, reason;
  double edit_distance = 0;        // normalised, draft to text, 0 to 1
  int64_t review_ns = 0;           // time under lease, added up
};

struct Reviewer {
  std::string name;
  std::vector<std::string> permissions;
  std::string tenant;              // sees tickets of this tenant alone; "*": an operator of all
};

class ReviewStore {
 public:
  // `database`: a file, ":memory:", or "postgresql://...".
  static Result<std::unique_ptr<ReviewStore>> Open(const std::string& database,
                                                   const std::map<std::string, ReviewQueueSpec>& queues,
                                                   const Clock& clock);
  virtual ~ReviewStore() = default;

  virtual Result<Ticket> Create(Ticket ticket) = 0;                 // id, version and times are set here
  virtual Result<Ticket> Get(const Reviewer& reviewer, const std::string& id) = 0;
  virtual Result<Ticket> GetForDecision(const std::string& decision) = 0;  // for the caller's own status
  virtual Result<std::vector<Ticket>> List(const Reviewer& reviewer, const std::string& queue, TicketState state,
                                           int limit) = 0;
  // The oldest open ticket that this reviewer may take; kNotFound if there is none.
  virtual Result<Ticket> Lease(const Reviewer& reviewer, const std::string& queue) = 0;
  virtual Result<Ticket> LeaseTicket(const Reviewer& reviewer, const std::string& id, int64_t version) = 0;
  virtual Result<Ticket> Release(const Reviewer& reviewer, const std::string& id, int64_t version) = 0;
  virtual Result<Ticket> Edit(const Reviewer& reviewer, const std::string& id, int64_t version, std::string text) = 0;
  virtual Result<Ticket> Approve(const Reviewer& reviewer, const std::string& id, int64_t version,
                                 const std::string& reason_code, const std::string& reason) = 0;
  virtual Result<Ticket> Reject(const Reviewer& reviewer, const std::string& id, int64_t version,
                                const std::string& reason_code, const std::string& reason) = 0;
  // Overwrites question, draft, text and context of all tickets of the subject; how many.
  virtual Result<int64_t> Forget(const std::string& tenant, const std::string& subject) = 0;
  virtual Result<boost::json::object> Stats() = 0;   // by queue: open, leased, approved, rejected, oldest, medians
};

// Levenshtein distance over characters (code points), divided by the longer length; 0 for two empty texts.
double NormalisedEditDistance(std::string_view a, std::string_view b);

}  // namespace surety::gateway
