// Decisions that were made, held against another policy: which of them would take another route, and which partitions'
// cached answers die with it.
//
// A row of the audit log says what the signals were, not what was written. A signal that both policies define alike
// keeps its value; one that is new or was changed is read again where the text is there (the vault's key opens it),
// and is unknown otherwise. Of the dimensions the log holds the tenant alone; of the others is known what the route
// that was taken says of them: its conditions held, and an earlier route's did not. What stays unknown is said, never
// guessed: a decision whose route depends on it is undetermined.
//
// Threads: one. Errors: as ReadAuditLog and DecisionRecord::FromJson; a policy whose classifier cannot be run here
// reads no texts, and says so.
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include <boost/json/object.hpp>

#include "base/file.h"
#include "base/status.h"
#include "gateway/policy.h"

namespace surety::gateway {

struct PastDecision {
  std::string id, policy_id, policy_version, policy_digest, tenant;
  std::string route;                               // that was chosen first, before any fallback
  std::string cache, partition;
  int64_t time_ns = 0;
  std::map<std::string, std::string> signals;      // with risk and complexity
  std::optional<std::string> question;             // the last user turn
};

struct HistoryOptions {
  int64_t from_ns = INT64_MIN, to_ns = INT64_MAX;  // when the request was received
  // The texts sealed in a row; an error: it stays without.
  std::function<Result<std::string>(const boost::json::object& sealed, const std::string& decision)> unseal;
};
// `path`: the newest file of a log, or its folder. Rows are checked against the chain on the way.
Result<std::vector<PastDecision>> ReadPastDecisions(const std::string& path, const HistoryOptions& options);

// {decisions, of_other_policy, without_route, moved, undetermined, moves: {"OLD > NEW": n},
//  lines: [{id, old, new: [routes], moved, why}], partitions: [{route, partitions, decisions, die, digests}],
//  notes: [line]}. `lines` are those that move or are undetermined. The moment is each decision's own.
Result<boost::json::object> CompareHistory(const Policy& old_policy, const Policy& new_policy, FileSystem& files,
                                           const std::vector<PastDecision>& decisions);

}  // namespace surety::gateway
