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

// A file's size and identity; `info` of a descriptor, which must be a regular file's.
Status ExamineAuditFile(int fd, AuditSegment& segment) {
  struct stat info {};
  if (::fstat(fd, &info) != 0) return IoError(fmt::format("'{}': {}", segment.path, std::strerror(errno)));
  if (!S_ISREG(info.st_mode)) return InvalidArgumentError(fmt::format("'{}' is not a regular file", segment.path));
  segment.size_bytes = info.st_size;
  segment.device = info.st_dev;
  segment.inode = info.st_ino;
  return OkStatus();
}

Result<int> OpenAuditFile(const std::string& path) {
  const int fd = ::open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK);
  if (fd >= 0) return fd;
  const std::string message = fmt::format("'{}': {}", path, std::strerror(errno));
  if (errno == ENOENT || errno == ENOTDIR) return Error(NotFoundError(message));
  if (errno == EACCES) return Error({StatusCode::kPermissionDenied, message});
  return Error(IoError(message));
}

}  // namespace

AuditReader::AuditReader(std::vector<AuditSegment> segments, int last_fd)
    : segments_(std::move(segments)), last_fd_(last_fd), last_hash_(AuditChainStart()),
      first_prev_(AuditChainStart()) {}

AuditReader::~AuditReader() {
  if (fd_ >= 0 && fd_ != last_fd_) ::close(fd_);
  if (owns_last_ && last_fd_ >= 0) ::close(last_fd_);
}

Result<std::unique_ptr<AuditReader>> AuditReader::Open(const std::string& path) {
  SURETY_ASSIGN_OR_RETURN(const std::string log, AuditLogAt(path));
  auto fd = OpenAuditFile(log);
  if (!fd && fd.error().code() == StatusCode::kNotFound && log != path) {  // a folder of segments that were archived
    SURETY_ASSIGN_OR_RETURN(auto segments, ListAuditSegments(log));
    if (segments.empty()) return Error(fd.error());
    SURETY_ASSIGN_OR_RETURN(auto reader, OfSegments(std::move(segments), -1));
    reader->newest_missing_ = true;
    return reader;
  }
  if (!fd) return Error(fd.error());
  auto reader = Of(*fd, log);
  if (reader) {
    (*reader)->owns_last_ = true;
  } else {
    ::close(*fd);
  }
  return reader;
}

Result<std::unique_ptr<AuditReader>> AuditReader::Of(int fd, const std::string& path) {
  AuditSegment newest;
  newest.path = path;
  SURETY_RETURN_IF_ERROR(ExamineAuditFile(fd, newest));
  SURETY_ASSIGN_OR_RETURN(auto segments, ListAuditSegments(path));
  // The file was opened before the folder was listed: what was closed in between is not part of what is read.
  const auto same = std::ranges::find_if(segments, [&](const AuditSegment& segment) {
    return segment.device == newest.device && segment.inode == newest.inode;
  });
  segments.erase(same, segments.end());
  segments.push_back(std::move(newest));
  return OfSegments(std::move(segments), fd);
}

Result<std::unique_ptr<AuditReader>> AuditReader::OfSegments(std::vector<AuditSegment> segments, int fd) {
  auto reader = std::unique_ptr<AuditReader>(new AuditReader(std::move(segments), fd));
  SURETY_RETURN_IF_ERROR(reader->Start());
  return reader;
}

Status AuditReader::Start() {
  for (size_t i = 1; i < segments_.size(); ++i) {
    segments_[i].base_offset = segments_[i - 1].base_offset + segments_[i - 1].size_bytes;
  }
  row_offset_ = offset_ = segments_.front().base_offset;
  return OpenSegment();
}

Status AuditReader::OpenSegment() {
  if (fd_ >= 0 && fd_ != last_fd_) ::close(fd_);
  fd_ = -1;
  buffer_.clear();
  used_ = 0;
  read_offset_ = rows_in_segment_ = 0;
  if (at_ + 1 == segments_.size() && last_fd_ >= 0) {
    fd_ = last_fd_;
    return OkStatus();
  }
  SURETY_ASSIGN_OR_RETURN(fd_, OpenAuditFile(segments_[at_].path));
  AuditSegment now{.path = segments_[at_].path};
  SURETY_RETURN_IF_ERROR(ExamineAuditFile(fd_, now));
  if (now.size_bytes == segments_[at_].size_bytes) return OkStatus();
  return DataLossError(fmt::format("'{}': it has {} bytes instead of {}: it was written to or cut after it was closed",
                                   now.path, now.size_bytes, segments_[at_].size_bytes));
}

// False where nothing is left of the segment.
Result<bool> AuditReader::Fill() {
  buffer_.erase(0, used_);
  used_ = 0;
  int64_t& size_bytes = segments_[at_].size_bytes;
  const size_t want = std::min(kAuditChunkBytes, static_cast<size_t>(size_bytes - read_offset_));
  if (want == 0) return false;
  const size_t before = buffer_.size();
  buffer_.resize(before + want);
  ssize_t n = 0;
  do {
    n = ::pread(fd_, buffer_.data() + before, want, read_offset_);
  } while (n < 0 && errno == EINTR);
  if (n < 0) return Error(IoError(fmt::format("cannot read '{}': {}", segments_[at_].path, std::strerror(errno))));
  buffer_.resize(before + static_cast<size_t>(n));
  read_offset_ += n;
  if (n == 0) size_bytes = read_offset_;  // it became shorter meanwhile
  return n > 0;
}

Status AuditReader::Wrong(const std::string& what) const {
  return DataLossError(fmt::format("'{}', row {} (at byte {}): {}", segments_[at_].path, next_seq_,
                                   row_offset_ - segments_[at_].base_offset, what));
}

// False at the end of the last one.
Result<bool> AuditReader::EndOfSegment() {
  const bool last = at_ + 1 == segments_.size();
  if (rows_in_segment_ == 0 && (segments_.size() > 1 || newest_missing_)) {
    return Error(Wrong("it has no whole row, which no segment lacks: it was cut or replaced"));
  }
  torn_ = std::string_view(buffer_).substr(used_);
  if (!torn_.empty() && (!last || newest_missing_)) {
    return Error(Wrong("the last line is incomplete, in a segment that was closed whole: its end was cut off"));
  }
  if (last) return false;
  ++at_;
  SURETY_RETURN_IF_ERROR(OpenSegment());
  return true;
}

// Of a segment's first row: the log may begin with it, and the file's name must tell of it.
Status AuditReader::CheckFirst(const AuditRowText& row) {
  if (n_rows_ == 0 && row.kind == kAuditSegmentKind && row.seq > 0) {
    next_seq_ = first_seq_ = row.seq;
    last_hash_ = first_prev_ = std::string(row.prev);
  }
  const int64_t named = segments_[at_].first_seq;
  if (named < 0 || named == row.seq) return OkStatus();
  return Wrong(fmt::format("the file's name says that it begins with row {}, but it begins with row {}: segments were "
                           "swapped or renamed", named, row.seq));
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
      SURETY_ASSIGN_OR_RETURN(const bool another, EndOfSegment());
      if (!another) return false;
      seen = 0;
    }
    end = buffer_.find('\n', seen);
  }
  const std::string_view line = std::string_view(buffer_).substr(used_, end - used_);
  auto parsed = ParseAuditLine(line);
  if (!parsed) return Error(Wrong(parsed.error().message()));
  row = *parsed;
  if (rows_in_segment_ == 0) SURETY_RETURN_IF_ERROR(CheckFirst(row));
  if (row.seq > next_seq_) {
    return Error(Wrong(fmt::format("it has the number {}: rows {} to {} are missing", row.seq, next_seq_,
                                   row.seq - 1)));
  }
  if (row.seq < next_seq_) {
    return Error(Wrong(fmt::format("it has the number {}: it stands twice, or rows were reordered", row.seq)));
  }
  if (row.prev != last_hash_) return Error(Wrong("it does not follow the row before it: one of the two was replaced"));
  last_hash_ = row.hash;
  ++next_seq_;
  ++n_rows_;
  ++rows_in_segment_;
  offset_ += static_cast<int64_t>(line.size()) + 1;
  used_ = end + 1;
  return true;
}

Result<AuditVerification> VerifyAuditChain(const std::string& path, const AuditVerifyOptions& options) {
  SURETY_ASSIGN_OR_RETURN(const auto reader, AuditReader::Open(path));
  AuditVerification out;
  bool found = options.expect.empty();
  for (AuditRowText row;;) {
    SURETY_ASSIGN_OR_RETURN(const bool more, reader->Next(row));
    // Before the first row its `prev` is looked at: of an empty log, or of one whose oldest segments are elsewhere.
    if (reader->n_rows() <= 1 && !found && reader->first_prev() == options.expect) {
      found = true;
      out.anchor_seq = reader->first_seq() - 1;
    }
    if (reader->n_rows() <= 1 && !options.expect_first.empty() && reader->first_prev() != options.expect_first) {
      return Error(DataLossError(fmt::format("'{}': its oldest row here, {}, follows the hash {}, not {}: segments "
                                             "before it are missing, or it was replaced", path, reader->first_seq(),
                                             reader->first_prev(), options.expect_first)));
    }
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
  out.report = {.n_rows = reader->n_rows(),
                .last_hash = reader->last_hash(),
                .torn_tail = !reader->torn().empty(),
                .first_seq = reader->first_seq(),
                .first_prev = reader->first_prev(),
                .n_segments = static_cast<int64_t>(reader->segments().size()),
                .newest_missing = reader->newest_missing()};
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
