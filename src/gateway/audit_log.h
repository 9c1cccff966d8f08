// The audit log: append-only, each row chained to the one before it by SHA-256, on disk before Append returns.
//
// A row is one line of JSON: {"seq", "time", "prev", "kind", "body", "hash"} with hash = SHA-256 over the canonical
// bytes of the other members. One thread at a time writes and syncs, a caller's (Append, AppendTextHere) or the log's
// own; the rows that wait go together, so that many requests share one sync. Kinds: "decision", "stream_begin",
// "review", "release", "erasure", "policy", "tool_intent", "tool_outcome", "start"; "cut" and "segment" are the log's
// own. The bytes: audit_row.h.
//
// A file that became long or old enough is closed and the next one begun (audit_segments.h); the chain runs through.
// Nothing is ever deleted; closed segments may be taken away, the oldest first.
//
// Threads: any. Owns: the file, locked against a second process. Errors: kResourceExhausted when max_waiting rows wait
// (the caller then blocks high risk), kIoError; after a failed write or sync every later Append fails too, until the
// log is opened again. kInvalidArgument for a row that could not be read again (audit_row.h). kFailedPrecondition from
// Open where another has the log. kDataLoss from Open and Verify with the row that does not fit.
// Invariants: (1) a row whose Append returned ok survives kill -9 and power loss. (2) A torn last line (a crash inside
// a write) is cut off at Open, with a row that says so; any other damage is an error. (3) An Append that failed left
// either nothing or, where the system did not let it be taken back, a whole row that nobody acted upon. (4) A crash at
// any point of a rotation leaves a log that Open takes up with every acknowledged row in it.
//
// What the chain cannot show by itself: rows cut off at the end, at the border of two, and a log that was replaced as a
// whole by one who wrote a new chain. Both are found with an anchor, the hash of a row that was noted elsewhere
// (surety audit verify --expect).
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <utility>

#include <boost/json/object.hpp>

#include "base/clock.h"
#include "base/function_ref.h"
#include "base/status.h"

namespace surety::gateway {

struct AuditRow {
  int64_t seq = 0;
  int64_t time_ns = 0;
  std::string kind;
  boost::json::object body;
  std::string hash;
};

class AuditLog {
 public:
  struct Options {
    std::string path;
    int max_waiting = 4096;
    int64_t max_indexed_rows = 4'000'000;  // whose places are in memory, at most 43 bytes each; Find reads for others
    int64_t rotate_at_bytes = 0;           // a file of that many is closed before the next write; 0: never for its size
    int64_t rotate_every_ns = 0;           // so is one that began in an earlier such span, counted from the Unix epoch
  };
  static Result<std::unique_ptr<AuditLog>> Open(Options options, const Clock& clock);
  virtual ~AuditLog() = default;

  // Blocks until the row is on disk.
  virtual Result<AuditRow> Append(std::string_view kind, boost::json::object body) = 0;
  // Returns at once; `done` is called once, by one thread at a time and in the order of the rows. It may append, but
  // must not wait for the log nor end it.
  virtual void AppendAsync(std::string_view kind, boost::json::object body,
                           std::function<void(Result<AuditRow>)> done) = 0;
  // The same of a body that is text already, an object of JSON as Boost.JSON writes it, and for a caller that can be
  // held up for a write and a sync: where no other thread is at it, this one is, which saves handing the row over and
  // back. `done` gets the row without its body, maybe before this returns: the caller holds no lock that it takes.
  virtual void AppendTextHere(std::string_view kind, std::string body, std::function<void(Result<AuditRow>)> done);
  virtual int64_t n_rows() const = 0;       // ever appended, those of segments that were taken away included
  virtual bool failed() const = 0;
  // The newest row of `kind` whose body's "id" is `id`; from an index in memory of where rows lie. kNotFound. Of rows
  // older than the index holds it reads the log. kUnavailable where its segment was taken away since Open.
  virtual Result<AuditRow> Find(std::string_view kind, std::string_view id) const = 0;
};

struct AuditReport {
  int64_t n_rows = 0;            // that are there
  std::string last_hash;
  bool torn_tail = false;        // the last line is incomplete; what is before it verifies
  int64_t first_seq = 0;         // above 0: older segments are not there
  std::string first_prev;        // the hash that the first row here follows
  int64_t n_segments = 1;
  bool newest_missing = false;   // closed segments alone are there
};
// Reads the whole log; `path`: the newest file, or its folder. kDataLoss naming the first row that is wrong: missing,
// reordered, changed, inserted.
Result<AuditReport> VerifyAuditLog(const std::string& path);
// Calls `each` for every row in order; stops when it returns false.
Status ReadAuditLog(const std::string& path, FunctionRef<bool(const AuditRow&)> each);

}  // namespace surety::gateway
