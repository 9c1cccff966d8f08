// Opening an audit log: what is there, what a crash left, and rows that are looked up in it.
#include <fcntl.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <filesystem>
#include <span>

#include <fmt/format.h>

#include "base/hash.h"
#include "gateway/audit_log_file.h"
#include "gateway/audit_row.h"

namespace surety::gateway {

Status FileAuditLog::OpenFile() {
  // A log that was rotated has a newest file at every moment: an empty one in its place would hide that it was lost.
  auto closed = ListAuditSegments(options_.path);
  if (!closed && closed.error().code() == StatusCode::kNotFound) {
    return NotFoundError(fmt::format("audit log '{}': its folder does not exist", options_.path));
  }
  if (!closed) return closed.error();
  const int create = closed->empty() ? O_CREAT : 0;
  for (bool locked = false; !locked;) {
    fd_ = ::open(options_.path.c_str(), O_RDWR | create | O_APPEND | O_CLOEXEC | O_NONBLOCK, 0600);
    if (fd_ < 0 && errno == ENOENT && create == 0) {
      return DataLossError(fmt::format("audit log '{}': closed segments lie beside it, but the newest file is missing",
                                       options_.path));
    }
    if (fd_ < 0) return Problem("open it", errno);
    file_ = std::make_shared<AuditFile>(fd_);
    if (::flock(fd_, LOCK_EX | LOCK_NB) != 0) {
      if (errno != EWOULDBLOCK) return Problem("lock it", errno);
      return FailedPreconditionError(fmt::format("audit log '{}': another process has it open", options_.path));
    }
    struct stat info {}, named {};
    if (::fstat(fd_, &info) != 0) return Problem("examine it", errno);
    if (!S_ISREG(info.st_mode)) {
      return InvalidArgumentError(fmt::format("audit log '{}': not a regular file", options_.path));
    }
    device_ = info.st_dev;
    inode_ = info.st_ino;
    // Another process may have closed this file as a segment between its opening and its locking.
    locked = ::stat(options_.path.c_str(), &named) == 0 && named.st_dev == device_ && named.st_ino == inode_;
  }
  SURETY_RETURN_IF_ERROR(FinishRotation());
  // Always: the process that made the file may have died before this.
  return SyncFolder();
}

// A crash between two steps of Rotate: the file has both names, or the next one was not put in its place.
Status FileAuditLog::FinishRotation() {
  SURETY_ASSIGN_OR_RETURN(const auto closed, ListAuditSegments(options_.path));
  for (const AuditSegment& segment : closed) {
    if (segment.device != device_ || segment.inode != inode_) continue;
    if (const int error = io_.Remove(segment.path); error < 0) return Problem("undo its rotation", -error);
  }
  if (const int error = io_.Remove(AuditNextPath(options_.path)); error < 0) {
    return Problem("remove a file that was to follow it", -error);
  }
  return OkStatus();
}

Status FileAuditLog::SyncFolder() {
  std::string directory = std::filesystem::path(options_.path).parent_path().string();
  if (directory.empty()) directory = ".";
  if (const int error = io_.SyncDirectory(directory); error < 0) return Problem("sync its folder", -error);
  return OkStatus();
}

Status FileAuditLog::ReadWhatIsThere() {
  SURETY_ASSIGN_OR_RETURN(const auto reader, AuditReader::Of(fd_, options_.path));
  size_t segment = reader->segments().size();
  for (AuditRowText row;;) {
    SURETY_ASSIGN_OR_RETURN(const bool more, reader->Next(row));
    if (!more) break;
    if (segment != reader->segment()) {
      segment = reader->segment();
      first_seq_ = row.seq;
      first_time_ns_ = row.time_ns;
    }
    if (const std::string id = AuditTextMember(row.body, "id"); !id.empty()) {
      index_.Add(row.kind, id, reader->row_offset());
    }
  }
  closed_ = reader->segments();
  base_offset_ = closed_.back().base_offset;
  closed_.pop_back();
  n_rows_ = reader->first_seq() + reader->n_rows();
  last_hash_ = reader->last_hash();
  size_bytes_ = reader->end_offset() - base_offset_;
  if (!reader->torn().empty()) return CutTail(*reader);
  // What was read may be in the system's memory alone: rows of a process that died before it synced them.
  return SyncAll(fd_);
}

Status FileAuditLog::CutTail(const AuditReader& reader) {
  boost::json::object body;
  body["id"] = fmt::format("cut_{}", size_bytes_);
  body["offset"] = size_bytes_;
  body["bytes"] = reader.torn().size();
  const Sha256Digest digest = Sha256Of(std::as_bytes(std::span(reader.torn())));
  body["sha256"] = HexOf(digest);
  if (const int error = io_.Cut(fd_, size_bytes_); error < 0) return Problem("cut off its torn last line", -error);
  std::vector<WaitingRow> batch;
  SURETY_ASSIGN_OR_RETURN(WaitingRow row, MakeRow("cut", std::move(body)));
  batch.push_back(std::move(row));
  return Commit(batch);
}

FileAuditLog::Files FileAuditLog::SnapFiles() const {
  const std::lock_guard lock(index_mutex_);
  Files out{closed_, file_};
  AuditSegment newest;
  newest.path = options_.path;
  if (!closed_.empty()) newest.base_offset = closed_.back().base_offset + closed_.back().size_bytes;
  out.segments.push_back(std::move(newest));
  return out;
}

Result<AuditRow> FileAuditLog::ReadRow(int64_t offset) const {
  const Files files = SnapFiles();
  const auto segment = std::prev(std::ranges::upper_bound(files.segments, offset, {}, &AuditSegment::base_offset));
  std::shared_ptr<const AuditFile> file = files.newest;
  if (segment + 1 != files.segments.end()) {
    const int fd = ::open(segment->path.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK);
    if (fd < 0 && errno == ENOENT) {
      // Not kNotFound: what is there to be found must not pass for what never happened.
      return Error(UnavailableError(fmt::format("the row lies in '{}', which was taken away", segment->path)));
    }
    if (fd < 0) return Error(IoError(fmt::format("'{}': {}", segment->path, std::strerror(errno))));
    file = std::make_shared<AuditFile>(fd);
  }
  offset -= segment->base_offset;
  std::string line;
  for (size_t want = 4096; line.find('\n') == std::string::npos; want *= 4) {
    const size_t before = line.size();
    line.resize(before + want);
    const ssize_t n = ::pread(file->fd, line.data() + before, want, offset + static_cast<int64_t>(before));
    if (n < 0 && errno != EINTR) return Error(Problem("read it", errno));
    line.resize(before + static_cast<size_t>(std::max<ssize_t>(n, 0)));
    if (n == 0) return Error(DataLossError(fmt::format("audit log '{}': it was cut at byte {}", segment->path,
                                            offset + static_cast<int64_t>(before))));
  }
  line.resize(line.find('\n'));
  const std::string place = fmt::format("'{}', the row at byte {}", segment->path, offset);
  const auto text = ParseAuditLine(line);
  if (!text) return Error(text.error().WithContext(place));
  auto row = AuditRowOf(*text);
  if (!row) return Error(row.error().WithContext(place));
  return row;
}

Result<std::optional<int64_t>> FileAuditLog::Search(std::string_view kind, std::string_view id, int64_t before) const {
  Files files = SnapFiles();
  struct stat info {};
  if (::fstat(files.newest->fd, &info) != 0) return Error(Problem("examine it", errno));
  files.segments.back().size_bytes = info.st_size;
  // The oldest may have been taken away; a gap behind the first that is there is an error.
  while (files.segments.size() > 1 && ::access(files.segments.front().path.c_str(), F_OK) != 0) {
    files.segments.erase(files.segments.begin());
  }
  SURETY_ASSIGN_OR_RETURN(const auto reader, AuditReader::OfSegments(std::move(files.segments), files.newest->fd));
  std::optional<int64_t> found;
  for (AuditRowText row; reader->end_offset() < before;) {
    SURETY_ASSIGN_OR_RETURN(const bool more, reader->Next(row));
    if (!more) break;
    if (row.kind == kind && AuditTextMember(row.body, "id") == id) found = reader->row_offset();
  }
  return found;
}

}  // namespace surety::gateway
