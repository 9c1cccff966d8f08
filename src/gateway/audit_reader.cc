#include "gateway/audit_reader.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>

#include <fmt/format.h>

namespace surety::gateway {
namespace {

constexpr size_t kAuditChunkBytes = 1 << 20;

}  // namespace

AuditReader::AuditReader(int fd, bool owns, std::string path, int64_t size_bytes)
    : fd_(fd), owns_(owns), path_(std::move(path)), size_bytes_(size_bytes), last_hash_(AuditChainStart()) {}

AuditReader::~AuditReader() {
  if (owns_) ::close(fd_);
}

Result<std::unique_ptr<AuditReader>> AuditReader::Open(const std::string& path) {
  const int fd = ::open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK);
  if (fd < 0) {
    const std::string message = fmt::format("'{}': {}", path, std::strerror(errno));
    if (errno == ENOENT || errno == ENOTDIR) return Error(NotFoundError(message));
    if (errno == EACCES) return Error({StatusCode::kPermissionDenied, message});
    return Error(IoError(message));
  }
  auto reader = Of(fd, path);
  if (reader) {
    (*reader)->owns_ = true;
  } else {
    ::close(fd);
  }
  return reader;
}

Result<std::unique_ptr<AuditReader>> AuditReader::Of(int fd, const std::string& path) {
  struct stat info {};
  if (::fstat(fd, &info) != 0) return Error(IoError(fmt::format("'{}': {}", path, std::strerror(errno))));
  if (!S_ISREG(info.st_mode)) return Error(InvalidArgumentError(fmt::format("'{}' is not a regular file", path)));
  return std::unique_ptr<AuditReader>(new AuditReader(fd, false, path, info.st_size));
}

// False where nothing is left to read.
Result<bool> AuditReader::Fill() {
  buffer_.erase(0, used_);
  used_ = 0;
  const size_t want = std::min(kAuditChunkBytes, static_cast<size_t>(size_bytes_ - read_offset_));
  if (want == 0) return false;
  const size_t before = buffer_.size();
  buffer_.resize(before + want);
  ssize_t n = 0;
  do {
    n = ::pread(fd_, buffer_.data() + before, want, read_offset_);
  } while (n < 0 && errno == EINTR);
  if (n < 0) return Error(IoError(fmt::format("cannot read '{}': {}", path_, std::strerror(errno))));
  buffer_.resize(before + static_cast<size_t>(n));
  read_offset_ += n;
  if (n == 0) size_bytes_ = read_offset_;  // it became shorter meanwhile
  return n > 0;
}

Status AuditReader::Wrong(const std::string& what) const {
  return DataLossError(fmt::format("'{}', row {} (at byte {}): {}", path_, n_rows_, row_offset_, what));
}

Result<bool> AuditReader::Next(AuditRowText& row) {
  size_t seen = used_;
  size_t end = buffer_.find('\n', seen);
  row_offset_ = offset_;
  while (end == std::string::npos) {
    seen = buffer_.size() - used_;
    if (seen > kMaxAuditRowBytes) {
      return Error(Wrong(fmt::format("a line of more than {} bytes, which no row has", kMaxAuditRowBytes)));
    }
    SURETY_ASSIGN_OR_RETURN(const bool more, Fill());
    if (!more) {
      torn_ = buffer_;
      return false;
    }
    end = buffer_.find('\n', seen);
  }
  const std::string_view line = std::string_view(buffer_).substr(used_, end - used_);
  auto parsed = ParseAuditLine(line);
  if (!parsed) return Error(Wrong(parsed.error().message()));
  row = *parsed;
  if (row.seq > n_rows_) {
    return Error(Wrong(fmt::format("it has the number {}: rows {} to {} are missing", row.seq, n_rows_, row.seq - 1)));
  }
  if (row.seq < n_rows_) {
    return Error(Wrong(fmt::format("it has the number {}: it stands twice, or rows were reordered", row.seq)));
  }
  if (row.prev != last_hash_) return Error(Wrong("it does not follow the row before it: one of the two was replaced"));
  last_hash_ = row.hash;
  ++n_rows_;
  offset_ += static_cast<int64_t>(line.size()) + 1;
  used_ = end + 1;
  return true;
}

Result<AuditVerification> VerifyAuditChain(const std::string& path, const AuditVerifyOptions& options) {
  SURETY_ASSIGN_OR_RETURN(const auto reader, AuditReader::Open(path));
  AuditVerification out;
  bool found = options.expect.empty() || options.expect == AuditChainStart();
  for (AuditRowText row;;) {
    SURETY_ASSIGN_OR_RETURN(const bool more, reader->Next(row));
    if (!more) break;
    if (!found && row.hash == options.expect) {
      found = true;
      out.anchor_seq = row.seq;
    }
    if (options.progress && !options.progress(reader->end_offset(), reader->size_bytes())) {
      return Error(CancelledError(fmt::format("'{}': stopped after {} rows", path, reader->n_rows())));
    }
  }
  if (!found) {
    return Error(DataLossError(fmt::format("'{}': none of its {} rows has the hash {}: its end was cut off, or all of "
                                           "it was replaced", path, reader->n_rows(), options.expect)));
  }
  out.report = {reader->n_rows(), reader->last_hash(), !reader->torn().empty()};
  return out;
}

Result<AuditReport> VerifyAuditLog(const std::string& path) {
  SURETY_ASSIGN_OR_RETURN(const AuditVerification verification, VerifyAuditChain(path, {}));
  return verification.report;
}

Status ReadAuditLog(const std::string& path, FunctionRef<bool(const AuditRow&)> each) {
  SURETY_ASSIGN_OR_RETURN(const auto reader, AuditReader::Open(path));
  for (AuditRowText text;;) {
    SURETY_ASSIGN_OR_RETURN(const bool more, reader->Next(text));
    if (!more) return OkStatus();
    auto row = AuditRowOf(text);
    if (!row) return row.error().WithContext(fmt::format("'{}', row {}", path, text.seq));
    if (!each(*row)) return OkStatus();
  }
}

}  // namespace surety::gateway
