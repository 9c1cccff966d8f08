// Reads an audit log from its start, row by row, and holds each against the chain.
//
// Threads: one a reader. Owns: a descriptor and one buffer that grows to the longest row. Errors: kNotFound, kIoError;
// kDataLoss with the first row that does not fit. What is appended after Open is not read.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <string>

#include "base/status.h"
#include "gateway/audit_row.h"

namespace surety::gateway {

class AuditReader {
 public:
  static Result<std::unique_ptr<AuditReader>> Open(const std::string& path);
  // Over a descriptor that stays the caller's.
  static Result<std::unique_ptr<AuditReader>> Of(int fd, const std::string& path);
  ~AuditReader();
  AuditReader(const AuditReader&) = delete;
  AuditReader& operator=(const AuditReader&) = delete;

  // False at the end. The row's views hold until the next call.
  Result<bool> Next(AuditRowText& row);

  int64_t row_offset() const { return row_offset_; }    // of the row that Next gave last
  int64_t end_offset() const { return offset_; }        // behind it, its line feed included
  int64_t size_bytes() const { return size_bytes_; }
  int64_t n_rows() const { return n_rows_; }
  const std::string& last_hash() const { return last_hash_; }
  // After the end: bytes behind the last line feed.
  std::string_view torn() const { return torn_; }

 private:
  AuditReader(int fd, bool owns, std::string path, int64_t size_bytes);
  Result<bool> Fill();
  Status Wrong(const std::string& what) const;

  int fd_;
  bool owns_;
  std::string path_;
  int64_t size_bytes_;
  std::string buffer_;
  size_t used_ = 0;          // bytes of the buffer that were given out
  int64_t read_offset_ = 0;  // of the file, behind the buffer
  int64_t row_offset_ = 0, offset_ = 0;
  int64_t n_rows_ = 0;
  std::string last_hash_;
  std::string_view torn_;
};

struct AuditVerifyOptions {
  std::string expect;   // a hash that the chain must pass through; empty: none
  std::function<bool(int64_t done_bytes, int64_t total_bytes)> progress;  // false: kCancelled
};
struct AuditVerification {
  AuditReport report;
  int64_t anchor_seq = -1;   // the row whose hash is `expect`; -1: the empty chain's
};
// kDataLoss also where no row has the expected hash: the end of the log was cut, or all of it replaced.
Result<AuditVerification> VerifyAuditChain(const std::string& path, const AuditVerifyOptions& options);

}  // namespace surety::gateway
