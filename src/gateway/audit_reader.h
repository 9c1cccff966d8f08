// Reads an audit log from its start, row by row, over all its segments in order, and holds each against the chain.
//
// Where the oldest segments were taken away it begins with the first that is there; `first_seq()` and `first_prev()`
// say after what. Only a segment's own first row can begin a log so.
//
// Threads: one a reader. Owns: a descriptor and one buffer that grows to the longest row. Errors: kNotFound, kIoError;
// kDataLoss with the first row that does not fit. What is appended after Open is not read; a log that is rotated
// meanwhile is read as it was.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "base/status.h"
#include "gateway/audit_row.h"
#include "gateway/audit_segments.h"

namespace surety::gateway {

class AuditReader {
 public:
  // `path`: the newest file; a folder with the log in it; or one closed segment, which is then read alone.
  static Result<std::unique_ptr<AuditReader>> Open(const std::string& path);
  // Over the descriptor of the newest file, which stays the caller's, and the segments beside `path`.
  static Result<std::unique_ptr<AuditReader>> Of(int fd, const std::string& path);
  // Over these; `fd`, of the last, stays the caller's.
  static Result<std::unique_ptr<AuditReader>> OfSegments(std::vector<AuditSegment> segments, int fd);
  ~AuditReader();
  AuditReader(const AuditReader&) = delete;
  AuditReader& operator=(const AuditReader&) = delete;

  // False at the end. The row's views hold until the next call.
  Result<bool> Next(AuditRowText& row);

  // Offsets count over all segments.
  int64_t row_offset() const { return row_offset_; }    // of the row that Next gave last
  int64_t end_offset() const { return offset_; }        // behind it, its line feed included
  int64_t size_bytes() const { return segments_.back().base_offset + segments_.back().size_bytes; }
  int64_t n_rows() const { return n_rows_; }            // read so far
  int64_t first_seq() const { return first_seq_; }
  const std::string& first_prev() const { return first_prev_; }
  const std::string& last_hash() const { return last_hash_; }
  const std::vector<AuditSegment>& segments() const { return segments_; }
  size_t segment() const { return at_; }                // in which the row lies that Next gave last
  bool newest_missing() const { return newest_missing_; }  // closed segments alone were found
  // After the end: bytes behind the last line feed.
  std::string_view torn() const { return torn_; }

 private:
  AuditReader(std::vector<AuditSegment> segments, int last_fd);
  Status Start();
  Status OpenSegment();
  Result<bool> Fill();
  Result<bool> EndOfSegment();
  Status CheckFirst(const AuditRowText& row);
  Status Wrong(const std::string& what) const;

  std::vector<AuditSegment> segments_;
  size_t at_ = 0;
  int last_fd_;              // -1: it is opened like the others
  bool owns_last_ = false;
  int fd_ = -1;
  std::string buffer_;
  size_t used_ = 0;          // bytes of the buffer that were given out
  int64_t read_offset_ = 0;  // of the segment, behind the buffer
  int64_t row_offset_ = 0, offset_ = 0;
  int64_t n_rows_ = 0, next_seq_ = 0, first_seq_ = 0, rows_in_segment_ = 0;
  std::string last_hash_, first_prev_;
  std::string_view torn_;
  bool newest_missing_ = false;
};

struct AuditVerifyOptions {
  std::string expect;         // a hash that the chain must pass through; empty: none
  std::string expect_first{};  // the hash that the oldest row here must follow; AuditChainStart(): none is missing
  std::function<bool(int64_t done_bytes, int64_t total_bytes)> progress;  // false: kCancelled
};
struct AuditVerification {
  AuditReport report;
  int64_t anchor_seq = -1;    // the row whose hash is `expect`; -1: the empty chain's
};
// kDataLoss also where no row has the expected hash: the end of the log was cut, or all of it replaced.
Result<AuditVerification> VerifyAuditChain(const std::string& path, const AuditVerifyOptions& options);

}  // namespace surety::gateway
