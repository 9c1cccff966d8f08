// Everything that is needed to rebuild a decision: one row of the audit log. What may hold texts or data of a customer
// is taken out of it (TakeTexts) and kept apart, encrypted; names, codes and digests stand in clear.
//
// Threads: a value. Units: nanoseconds; wall times since the Unix epoch.
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include <boost/json/object.hpp>

#include "api/decision.h"
#include "api/request.h"
#include "base/status.h"
#include "gateway/evidence.h"
#include "gateway/verifier.h"

namespace surety::gateway {

// The six parts of a request's time and cost.
struct StageTimes {
  int64_t queue_ns = 0;        // waiting for workers and for the backend
  int64_t gather_ns = 0;       // identity to context: classification, cache, retrieval, tools
  int64_t prefill_ns = 0, decode_ns = 0;
  int64_t verify_ns = 0;
  int64_t release_ns = 0;      // audit and hand-over
  int64_t total_ns = 0;        // from submission to the last event
  int64_t first_token_ns = 0;  // from submission to the caller's first byte
  int64_t first_useful_ns = 0; // to the first verified or released sentence

  // The same way in finer parts, for measurements (surety bench policy); not in the row.
  int64_t decide_ns = 0;       // conversation, identity, signals, route, quota
  int64_t cache_ns = 0, retrieve_ns = 0, tools_ns = 0;
  int64_t context_ns = 0;      // to the model's submission
  int64_t model_ns = 0;        // from there to a worker that has the whole answer; verify_ns follows
  int64_t review_ns = 0;       // the ticket
  int64_t audit_ns = 0;        // rows: made, sealed, on disk, and back on a worker
};

struct CostParts {
  double prefill = 0, cached_prefill = 0, decode = 0, tools = 0, verify = 0, review = 0;
  double total() const { return prefill + cached_prefill + decode + tools + verify + review; }
};

struct DecisionRecord {
  api::Decision decision;
  int64_t time_ns = 0;                       // wall, when it was received
  std::string policy_id, policy_digest;
  std::string subject, tenant;
  std::vector<std::string> permissions;      // with which it was asked: who has fewer cannot see the answer
  std::string partition_digest;              // empty: no partition
  std::map<std::string, std::string> signals;  // label, number or "abstained" by name; with risk and complexity
  std::map<std::string, double> confidence;  // of classifiers
  std::string model, model_revision;
  std::string request_digest, prompt_digest, answer_digest;
  std::string seed;                          // decimal; with the rest it makes the same bytes again
  boost::json::object request;               // what replay needs: messages and parameters. Only where audit keeps it
  std::string answer;                        // released text; likewise
  std::vector<std::string> passages;         // "document:chunk@version"
  std::vector<std::string> tool_digests;     // "tool:digest"
  std::vector<Verdict> verdicts;
  std::vector<Conflict> conflicts;
  std::string action;                        // of the judgement
  std::string error;                         // of a failure, with its code
  std::vector<std::string> attempts;         // "route:model:outcome" in order, fallbacks included
  api::Usage usage;
  StageTimes times;
  CostParts cost;
  double avoided_cost = 0;                   // of a cache hit

  // Takes out what may hold a customer's data, in the form of docs/governance.md: request, answer, reasons and findings
  // of verdicts, values of conflicts, the error's message. What stays: verifiers, sources, the error's code.
  boost::json::object TakeTexts();
  boost::json::object ToJson() const;        // stable names: docs/governance.md
  // The text of ToJson() without its closing brace, of a record whose texts were taken out.
  void AppendRow(std::string& out) const;
  static Result<DecisionRecord> FromJson(const boost::json::object& json);
};

}  // namespace surety::gateway
