// What an answer may be based on: passages that this caller may read, results of tools, and the facts of the request.
// Built once for a request, then read-only.
//
// Threads: a value; shared as const.
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include <boost/json/value.hpp>

#include "base/status.h"
#include "gateway/policy.h"

namespace surety::gateway {

struct Passage {
  std::string document, chunk, version;   // cited as [document:chunk@version]
  std::string title, text;                // text: exact bytes of the chunk
  Validity validity;
  bool is_public = false;                 // readable by everyone: its KV may be shared
  double score = 0;
};

struct ToolResult {
  std::string tool;
  Status status;                          // not ok: late, failed, refused
  boost::json::value value;               // an object where status is ok
  int64_t observed_at_ns = 0;             // as the tool says (field observed_at), else when the answer came; wall clock
  int64_t latency_ns = 0;
  std::string digest;                     // SHA-256 of the canonical value, hex
};

struct Evidence {
  std::vector<Passage> passages;
  std::vector<ToolResult> tools;
  std::string retrieval_snapshot;
  Validity validity;                      // the intersection of all passages, tables and the policy
  int64_t as_of_ns = 0;
  // By name, as texts. `facts`: dimensions that the identity, a tool or the policy vouches for. `signals`: what was
  // read from the caller's own words or metadata, which proves nothing that an answer says.
  std::map<std::string, std::string> facts, signals;
};

// Two sources that contradict each other: what a person needs, and no cause.
struct Conflict {
  std::string invariant, when, require;
  std::vector<std::string> violated_by;   // "rail_status.status = \"returned\" (observed 2026-11-30T10:00:00Z)", ...
};

}  // namespace surety::gateway
