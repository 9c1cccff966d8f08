// Answers that wait for a person: queue, leases, four eyes, and what reviewers decided.
//
// Kept in SQLite, or in PostgreSQL by a connection string, with one schema and one set of tests for both.
// Threads: any. Owns: its connections. Errors: kNotFound, kPermissionDenied (author, missing permission, same reviewer
// twice), kFailedPrecondition (state or version changed meanwhile, lease run out), kInvalidArgument, kUnavailable (the
// database does not answer), kIoError.
// Times are the clock's wall time, since several processes may share a database. A ticket of another tenant is answered
// as one that does not exist. A lease that has run out is not shown.
// Invariants: (1) a ticket has at most one lease at a time; an expired one is free again. (2) Each change names the
// version it saw; another's change in between refuses it. (3) A ticket is approved only by the queue's number of
// different people, none of them its author or an editor of the final text where exclude_author holds. (4) Approval
// covers the exact text: an edit after an approval takes the approvals back.
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <string>
#include <string_view>
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
  std::string decided_by;          // whose vote decided it
  std::vector<int64_t> votes;      // the versions that approvals and rejections made
};

struct Reviewer {
  std::string name;
  std::vector<std::string> permissions;
  std::string tenant;              // sees tickets of this tenant alone; "*": an operator of all
};

// An approval or a rejection that is about to be committed.
struct ReviewVote {
  Ticket ticket;                   // as it will be: version, approvers, state (kOpen: further approvals are needed)
  std::string reviewer;
  bool approval = false;
};
// Called inside the transaction, when every rule has held and before anything is committed: the audit row is on disk
// before the decision can be seen. An error refuses the vote and leaves the ticket as it was. It must not call the
// store. A crash after it and before the commit leaves a row of a vote that never was: its version is not among the
// ticket's votes, or a later row has the same ticket and version (of those the last alone can have taken effect).
using BeforeDecide = std::function<Status(const ReviewVote&)>;

class ReviewStore {
 public:
  // `database`: a file, ":memory:", or "postgresql://...".
  static Result<std::unique_ptr<ReviewStore>> Open(const std::string& database,
                                                   const std::map<std::string, ReviewQueueSpec>& queues,
                                                   const Clock& clock, BeforeDecide before_decide = {});
  virtual ~ReviewStore() = default;
  // The queues of a new policy; their rules hold for tickets that are there, too. Queues that it lacks keep their
  // tickets and rules until the store is closed: requests that run under the old policy may still send tickets there.
  virtual void UseQueues(const std::map<std::string, ReviewQueueSpec>& queues) = 0;

  // Sets id, version, times, and the text where only a draft is given. Once for a decision: the same again gives the
  // ticket that is there, another one for the same decision is kFailedPrecondition. Draft and text may have 256 KiB,
  // question and context 4 MiB, and all are UTF-8.
  virtual Result<Ticket> Create(Ticket ticket) = 0;
  virtual Result<Ticket> Get(const Reviewer& reviewer, const std::string& id) = 0;
  virtual Result<Ticket> GetForDecision(const std::string& decision) = 0;  // for the caller's own status
  // Decisions of the tickets that were approved or rejected at this time or later, the oldest first: whoever releases
  // asks after a crash.
  virtual Result<std::vector<std::string>> DecidedSince(int64_t decided_ns) = 0;
  // The oldest first; `queue` empty: all that the reviewer may see; limit 1 to 1000. Without draft, text and context,
  // and of the question the first 1,024 bytes.
  virtual Result<std::vector<Ticket>> List(const Reviewer& reviewer, const std::string& queue, TicketState state,
                                           int limit) = 0;
  // Of the open ones, those that are free and that this reviewer may decide.
  virtual Result<std::vector<Ticket>> ListFree(const Reviewer& reviewer, const std::string& queue, int limit) = 0;
  // The oldest open ticket that this reviewer may decide; kNotFound if there is none.
  virtual Result<Ticket> Lease(const Reviewer& reviewer, const std::string& queue) = 0;
  // An editor may take a ticket to edit again, an approver to change his mind. One's own lease is renewed.
  virtual Result<Ticket> LeaseTicket(const Reviewer& reviewer, const std::string& id, int64_t version) = 0;
  // These need one's own live lease. A vote ends it. An edit to the same text changes nothing.
  virtual Result<Ticket> Release(const Reviewer& reviewer, const std::string& id, int64_t version) = 0;
  virtual Result<Ticket> Edit(const Reviewer& reviewer, const std::string& id, int64_t version, std::string text) = 0;
  virtual Result<Ticket> Approve(const Reviewer& reviewer, const std::string& id, int64_t version,
                                 const std::string& reason_code, const std::string& reason) = 0;
  virtual Result<Ticket> Reject(const Reviewer& reviewer, const std::string& id, int64_t version,
                                const std::string& reason_code, const std::string& reason) = 0;
  // Overwrites question, draft, text, context and the written reason of all tickets of the subject; how many. Again
  // after kUnavailable: it may be that only old copies of what is overwritten are left; the count is of both calls.
  virtual Result<int64_t> Forget(const std::string& tenant, const std::string& subject) = 0;
  // By queue: open, leased, approved, rejected, erased, oldest_open_seconds, and of decided tickets the medians
  // review_seconds, decision_seconds and edit_distance. Of all tenants; for a reviewer: of what he may see.
  virtual Result<boost::json::object> Stats() = 0;
  virtual Result<boost::json::object> Stats(const Reviewer& reviewer) = 0;
};

// Levenshtein distance over characters (code points), divided by the longer length; 0 for two empty texts. Where more
// than 32,768 characters differ it is an upper bound.
double NormalisedEditDistance(std::string_view a, std::string_view b);

}  // namespace surety::gateway
