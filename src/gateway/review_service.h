// Review as calls with JSON in and out, whatever carries them; and where they lie in HTTP, for server and client.
//
// A vote goes: rules hold, before_decide (the audit row is on disk), commit, on_decided, answer. A crash
//  - before the commit: the ticket is as it was. A row may stand for a vote that never was; TookEffect tells it.
//  - after the commit, before on_decided: the ticket is decided and nobody was told. Whoever releases must therefore
//    look at the ticket when it is asked for (GetForDecision), not wait for on_decided alone, and release once by the
//    ticket's id.
//
// Threads: any. Owns: nothing; the store must outlive it. Errors: those of the store; kInvalidArgument for arguments,
// naming the nearest that is known.
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <mutex>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include <boost/json/object.hpp>

#include "base/status.h"
#include "gateway/policy.h"
#include "gateway/review_store.h"

namespace surety::gateway {

class ReviewService {
 public:
  struct Hooks {
    // Before an approval, with the ticket as the approver saw it: an error refuses the vote.
    std::function<Status(const Ticket&)> before_approval;
    // With each ticket that became approved or rejected, after that is durable and before the answer, in which what it
    // returns stands as "release".
    std::function<boost::json::object(const Ticket&)> on_decided;
  };
  ReviewService(ReviewStore& store, std::map<std::string, ReviewQueueSpec> queues)
      : ReviewService(store, std::move(queues), Hooks()) {}
  ReviewService(ReviewStore& store, std::map<std::string, ReviewQueueSpec> queues, Hooks hooks);

  void UseQueues(std::map<std::string, ReviewQueueSpec> queues);   // of a new policy: review_store.h

  // Actions and their arguments, required ones with a star: list (queue, state, limit), free (queue, limit: those that
  // this reviewer may take now), get (id*), lease (queue*; or
  // id* and version*), release (id*, version*), edit (id*, version*, text*), approve and reject (id*, version*,
  // reason_code, reason), stats. null is as good as absent; an unknown member is an error. Answers: docs/review.md.
  Result<boost::json::object> Handle(const Reviewer& reviewer, std::string_view action,
                                     const boost::json::object& arguments) const;

 private:
  std::map<std::string, ReviewQueueSpec> Queues() const;

  ReviewStore& store_;
  mutable std::mutex mutex_;
  std::map<std::string, ReviewQueueSpec> queues_;   // those that a policy once had, too
  Hooks hooks_;
};

struct ReviewCall {
  std::string action;
  boost::json::object arguments;
};
// What a request means. `target`: path and query; the query's values go into the arguments beside the body's members.
// kNotFound: no such path; kUnimplemented: the path takes another method (the message names it).
Result<ReviewCall> ReviewCallOf(std::string_view method, std::string_view target, const boost::json::object& body);

struct ReviewRequest {
  std::string method, target;
  boost::json::object body;   // of POST
};
// The inverse, for a client.
ReviewRequest ReviewRequestOf(const ReviewCall& call);

// The body of the audit row of a vote: "id" (of the ticket), "version", "decision", "tenant", "queue", "vote",
// "reviewer", "state", "approvers", "reason_code", "text_sha256"; no text of a customer.
boost::json::object AuditBodyOf(const ReviewVote& vote);
// Of rows with `body` of AuditBodyOf: whether this vote became part of the ticket. `newest`: no later row has the same
// id and version.
bool TookEffect(const boost::json::object& body, const Ticket& ticket, bool newest);

}  // namespace surety::gateway
