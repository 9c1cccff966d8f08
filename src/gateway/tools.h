// Tools of a route: read by HTTP, SQL or a local command, all at the same time, each with its own deadline; and the
// comparison of what they say.
//
// Threads: any; Gather runs each call on a thread of its own pool. Owns: connections and child processes; a late call
// is given up (its connection closed, its process killed), never waited for.
// Errors: in ToolResult::status: kDeadlineExceeded, kUnavailable, kInvalidArgument (an argument that is not allowed, a
// result that is no JSON object), kPermissionDenied (a write without approval).
// Invariants: (1) only what the policy lists can be called, with the arguments that it lists. (2) A write needs an
// approval and runs at most once for an idempotency key, which is made from (case, step, canonical arguments): its
// intent is on disk before the call. An unknown outcome is reported as such, never retried.
#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <set>
#include <string>
#include <vector>

#include "base/clock.h"
#include "base/status.h"
#include "gateway/audit_log.h"
#include "gateway/evidence.h"
#include "gateway/policy.h"

namespace surety::gateway {

using ToolArguments = std::map<std::string, std::string>;

class ToolRunner {
 public:
  static Result<std::unique_ptr<ToolRunner>> Make(const Policy& policy, const std::string& directory,
                                                  const Clock& clock);
  virtual ~ToolRunner() = default;

  // One result a name, in that order; returns when all are there or late. `deadline_ns`: monotonic, of all together.
  virtual std::vector<ToolResult> Gather(const std::vector<std::string>& names, const ToolArguments& arguments,
                                         int64_t deadline_ns) = 0;
  // A write. `approvers`: who approved it; two different ones where the tool asks for four eyes.
  virtual ToolResult Write(const std::string& name, const std::string& case_id, const std::string& step,
                           const ToolArguments& arguments, const std::vector<std::string>& approvers,
                           AuditLog& audit) = 0;
};

// The invariants that the results violate. What cannot be told counts against the results: a `when` that is unknown (a
// result or field is missing) and a `require` that is not true are conflicts. kInvalidArgument for an expression that
// does not parse (the reader has checked them).
Result<std::vector<Conflict>> FindConflicts(const std::vector<InvariantSpec>& invariants,
                                            const std::vector<ToolResult>& results);
// The tools that an expression looks at.
Result<std::set<std::string>> ToolsOfInvariant(std::string_view expression);
Status CheckInvariantExpression(std::string_view expression, const std::map<std::string, ToolSpec>& tools);

// Results older than their tool's fresh_ns, or too far apart, as an error text; empty: none.
std::string StaleResult(const Policy& policy, const std::vector<ToolResult>& results, int64_t now_wall_ns);

// Sorted members, no spaces, numbers as they stand: equal values have equal bytes.
std::string CanonicalJson(const boost::json::value& value);

}  // namespace surety::gateway
