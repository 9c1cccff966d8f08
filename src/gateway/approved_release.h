// What follows a person's decision: the writes that were approved, and then the row of the release, which alone makes
// the text visible to its caller.
//
// An approval that cannot be carried out releases nothing: while a write's outcome is unknown the ticket waits for an
// operator (kReconcile, Settle), one that was never sent is tried again (kWaiting), and one that was refused ends the
// decision without its text (kWriteFailed), since the text may tell of what did not happen.
//
// Threads: any; calls for one decision wait for each other. Owns: nothing of its parts. Errors: kFailedPrecondition for
// a decision that is not on this server's record; kPermissionDenied for a text that a blocking verifier refuses;
// kUnavailable where a verifier or the log does not answer.
// Invariants: (1) one row of kind "release" for a decision, and one entry in the ledger. (2) No write is called for a
// ticket without a row of its decision, nor by two threads at once. (3) A text is released with a token for its digest.
#pragma once

#include <condition_variable>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <set>
#include <string>

#include <boost/json/array.hpp>
#include <boost/json/object.hpp>

#include "gateway/audit_log.h"
#include "gateway/ledger.h"
#include "gateway/policy_runtime.h"
#include "gateway/review_store.h"

namespace surety::gateway {

enum class ReleaseState : uint8_t { kReleased, kRejected, kWaiting, kReconcile, kWriteFailed };
std::string_view NameOf(ReleaseState state);  // "released", "rejected", "write_waiting", "reconcile", "write_failed"

struct ReleaseOutcome {
  ReleaseState state = ReleaseState::kWaiting;
  boost::json::array writes;     // {tool, step, state: done | refused | not_sent | unknown, error}
  std::string text_sha256;       // of what may be shown
  boost::json::object ToJson() const;
};

class ApprovedRelease {
 public:
  ApprovedRelease(AuditLog& audit, Ledger& ledger, std::function<std::shared_ptr<const PolicyRuntime>()> runtime)
      : audit_(audit), ledger_(ledger), runtime_(std::move(runtime)) {}

  // Before an approval: the route's verifiers that block look at the text as it is now, edits included. What a person
  // may overrule (fail: review, fail: repair) is not asked again.
  Status MayApprove(const Ticket& ticket) const;
  // Before a vote is committed.
  Status MayDecide(const ReviewVote& vote) const;
  // After it; does only what was not done before.
  Result<ReleaseOutcome> Finish(const Ticket& ticket);
  // What an operator found out about a write whose outcome is unknown. `state`: done, refused, or not_sent, after which
  // it is tried again. kFailedPrecondition unless it is unknown.
  Status Settle(const Ticket& ticket, int step, const std::string& state, const std::string& by,
                const std::string& reason);
  // Approved tickets whose writes are not done: {"decision", "ticket", "state", "writes"}.
  boost::json::array Unfinished() const;

 private:
  class Turn;
  Result<ReleaseOutcome> FinishAlone(const Ticket& ticket);
  ReleaseOutcome RunWrites(const Ticket& ticket);
  std::string WriteStateOf(const ToolResult& result, const std::string& key) const;
  void Note(const Ticket& ticket, const ReleaseOutcome& outcome);

  AuditLog& audit_;
  Ledger& ledger_;
  const std::function<std::shared_ptr<const PolicyRuntime>()> runtime_;
  mutable std::mutex mutex_;
  std::condition_variable turn_ended_;
  std::set<std::string> running_;                          // decisions
  std::map<std::string, boost::json::object> unfinished_;  // by decision
};

// Digest of a text as approvals name it.
std::string TextSha256(std::string_view text);

}  // namespace surety::gateway
