#include "gateway/audit_log.h"

#include <fcntl.h>
#include <sys/file.h>
#include <sys/stat.h>

#include <cerrno>
#include <cstring>
#include <filesystem>

#include <fmt/format.h>

#include "gateway/audit_log_file.h"
#include "gateway/audit_row.h"

namespace surety::gateway {
namespace {

constexpr size_t kAuditBatchBytes = 8 << 20;              // of one write and sync
constexpr size_t kAuditWaitingBytes = size_t{256} << 20;  // of all rows that wait

}  // namespace

thread_local bool FileAuditLog::in_call_ = false;

Status FileAuditLog::Problem(std::string_view what, int error) const {
  return IoError(fmt::format("audit log '{}': cannot {}: {}", options_.path, what, std::strerror(error)));
}

// All that needs no knowledge of the row before is done here, on the caller's thread.
Result<WaitingRow> FileAuditLog::MakeRow(std::string_view kind, boost::json::object body) {
  SURETY_ASSIGN_OR_RETURN(WaitingRow row, MakeTextRow(kind, AuditBodyText(body)));
  row.body = std::move(body);
  return row;
}

Result<WaitingRow> FileAuditLog::MakeTextRow(std::string_view kind, Result<std::string> text) {
  SURETY_RETURN_IF_ERROR(CheckAuditKind(kind));
  if (!text) return Error(text.error());
  WaitingRow row;
  row.text = *std::move(text);
  row.id = AuditTextMember(row.text, "id");
  row.kind = kind;
  return row;
}

Result<bool> FileAuditLog::Enqueue(WaitingRow& row) {
  const std::lock_guard lock(mutex_);
  if (!failure_.ok()) return Error(failure_);
  if (stopping_) {
    return Error(FailedPreconditionError(fmt::format("audit log '{}': it is being closed", options_.path)));
  }
  if (n_waiting_ >= options_.max_waiting || waiting_bytes_ + row.text.size() > kAuditWaitingBytes) {
    return Error(ResourceExhaustedError(fmt::format("audit log '{}': {} rows of {} bytes wait for the disk already",
                                                    options_.path, n_waiting_, waiting_bytes_)));
  }
  ++n_waiting_;
  waiting_bytes_ += row.text.size();
  queue_.push_back(std::move(row));
  return !std::exchange(writing_, true);
}

// On the thread of the row's caller, which saves two hand-overs between threads: what is in the queue now. What came
// meanwhile is the writer's, so that nobody writes for others without end.
void FileAuditLog::Lead(bool calls) {
  WriteBatch();
  std::unique_lock lock(mutex_);
  writing_ = passed_on_ = !queue_.empty();
  if (passed_on_ || stopping_) work_.notify_one();
  if (settled_.empty() || calling_) return;
  calls ? CallSettled(lock) : settled_ready_.notify_one();
}

void FileAuditLog::PassOn() {
  const std::lock_guard lock(mutex_);
  passed_on_ = true;
  work_.notify_one();
}

void FileAuditLog::Write() {
  std::unique_lock lock(mutex_);
  while (true) {
    work_.wait(lock, [&] { return passed_on_ || (stopping_ && !writing_); });
    if (!std::exchange(passed_on_, false)) return;
    while (!queue_.empty()) {
      lock.unlock();
      WriteBatch();
      lock.lock();
      if (!settled_.empty()) settled_ready_.notify_one();
    }
    writing_ = false;
  }
}

void FileAuditLog::WriteBatch() {
  std::vector<WaitingRow> batch;
  Status status;
  {
    const std::lock_guard lock(mutex_);
    for (size_t bytes = 0; !queue_.empty() && bytes < kAuditBatchBytes; queue_.pop_front()) {
      bytes += queue_.front().text.size();
      batch.push_back(std::move(queue_.front()));
    }
    status = failure_;
  }
  if (status.ok()) {
    if (MustRotate()) status = Rotate();
    if (status.ok()) status = Commit(batch);
    if (!status.ok()) Fail(status);
  }
  Settle(batch, status);
}

// Writes and syncs; only then the rows count.
Status FileAuditLog::Commit(std::vector<WaitingRow>& batch) {
  std::string bytes, hash = last_hash_;
  int64_t seq = n_rows_.load();
  for (WaitingRow& waiting : batch) {
    const std::string prev = hash;
    const AuditRowText text{seq++, clock_.WallNanos(), prev, waiting.kind, waiting.text, {}};
    waiting.offset = base_offset_ + size_bytes_ + static_cast<int64_t>(bytes.size());
    AppendAuditLine(bytes, text, hash);
    bytes.push_back('\n');
    waiting.row = {text.seq, text.time_ns, waiting.kind, std::move(waiting.body), hash};
  }
  const int64_t size_after = size_bytes_ + static_cast<int64_t>(bytes.size());
  Status status = WriteAll(fd_, bytes);
  if (status.ok()) status = SyncAll(fd_);
  if (!status.ok()) {
    // After a failed sync the system may take pages for written that are not, so what lies there is not read again as
    // if it were on disk. Where this fails as well, the rows stay, whole or torn, and Open sees to them.
    (void)io_.Cut(fd_, size_bytes_);
    return status;
  }
  SURETY_RETURN_IF_ERROR(CheckPlace(size_after));
  if (size_bytes_ == 0) first_time_ns_ = batch.front().row.time_ns;
  size_bytes_ = size_after;
  last_hash_ = hash;
  n_rows_ = seq;
  std::lock_guard lock(index_mutex_);
  for (const WaitingRow& waiting : batch) {
    if (!waiting.id.empty()) index_.Add(waiting.kind, waiting.id, waiting.offset);
  }
  return OkStatus();
}

bool FileAuditLog::MustRotate() const {
  if (size_bytes_ == 0) return false;
  if (options_.rotate_at_bytes > 0 && size_bytes_ >= options_.rotate_at_bytes) return true;
  return options_.rotate_every_ns > 0 &&
         clock_.WallNanos() / options_.rotate_every_ns > first_time_ns_ / options_.rotate_every_ns;
}

// Closes the newest file and begins the next. The log's name always names a whole file, and no file is without a name:
// the next is on disk before it takes the place of the one that already has its second name there.
Status FileAuditLog::Rotate() {
  const std::string next = AuditNextPath(options_.path), closed = AuditSegmentPath(options_.path, first_seq_);
  const int64_t seq = n_rows_.load(), now_ns = clock_.WallNanos();
  const std::string id = fmt::format("segment_{}", seq);
  const boost::json::object body{{"id", id},
                                 {"before", std::filesystem::path(closed).filename().string()},
                                 {"before_bytes", size_bytes_}};
  SURETY_ASSIGN_OR_RETURN(const std::string text, AuditBodyText(body));
  std::string hash;
  const std::string line = AuditLine({seq, now_ns, last_hash_, kAuditSegmentKind, text, {}}, hash) + '\n';
  if (const int error = io_.Remove(next); error < 0) return Problem("remove a file that was to follow it", -error);
  const int fd = io_.Create(next);
  if (fd < 0) return Problem("begin the file that follows it", -fd);
  auto file = std::make_shared<AuditFile>(fd);
  struct stat info {};
  if (::fstat(fd, &info) != 0) return Problem("examine the file that follows it", errno);
  if (::flock(fd, LOCK_EX | LOCK_NB) != 0) return Problem("lock the file that follows it", errno);
  SURETY_RETURN_IF_ERROR(WriteAll(fd, line));
  SURETY_RETURN_IF_ERROR(SyncAll(fd));
  if (const int error = io_.Link(options_.path, closed); error < 0) return Problem("name it '" + closed + "'", -error);
  SURETY_RETURN_IF_ERROR(SyncFolder());
  if (const int error = io_.Rename(next, options_.path); error < 0) return Problem("put its follower there", -error);
  SURETY_RETURN_IF_ERROR(SyncFolder());
  const std::lock_guard lock(index_mutex_);
  closed_.push_back({closed, first_seq_, base_offset_, size_bytes_, device_, inode_});
  index_.Add(kAuditSegmentKind, id, base_offset_ + size_bytes_);
  base_offset_ += size_bytes_;
  size_bytes_ = static_cast<int64_t>(line.size());
  first_seq_ = seq;
  first_time_ns_ = now_ns;
  last_hash_ = hash;
  n_rows_ = seq + 1;
  fd_ = fd;
  device_ = info.st_dev;
  inode_ = info.st_ino;
  file_ = std::move(file);
  return OkStatus();
}

Status FileAuditLog::SyncAll(int fd) {
  int error = 0;
  do {
    error = io_.Sync(fd);
  } while (error == -EINTR);
  return error < 0 ? Problem("sync it", -error) : OkStatus();
}

Status FileAuditLog::WriteAll(int fd, std::string_view bytes) {
  while (!bytes.empty()) {
    const ssize_t n = io_.Write(fd, bytes);
    if (n == -EINTR) continue;
    if (n <= 0) return Problem("write to it", n == 0 ? EIO : static_cast<int>(-n));
    bytes.remove_prefix(static_cast<size_t>(n));
  }
  return OkStatus();
}

// That the rows lie where somebody will look for them: the file was not removed, renamed, cut or written to.
Status FileAuditLog::CheckPlace(int64_t size_bytes) const {
  struct stat own {}, named {};
  if (::fstat(fd_, &own) != 0) return Problem("examine it", errno);
  if (own.st_size != size_bytes) {
    return IoError(fmt::format("audit log '{}': it has {} bytes instead of {}: something else wrote to it or cut it",
                               options_.path, own.st_size, size_bytes));
  }
  if (::stat(options_.path.c_str(), &named) != 0 || named.st_dev != device_ || named.st_ino != inode_) {
    return IoError(fmt::format("audit log '{}': it was removed, renamed or replaced while it was open", options_.path));
  }
  return OkStatus();
}

void FileAuditLog::Fail(const Status& status) {
  std::lock_guard lock(mutex_);
  failure_ = IoError(status.message() + "; nothing more is taken until it is opened again");
  failed_ = true;
}

void FileAuditLog::Settle(std::vector<WaitingRow>& batch, const Status& status) {
  {
    std::lock_guard lock(mutex_);
    for (WaitingRow& waiting : batch) {
      --n_waiting_;
      waiting_bytes_ -= waiting.text.size();
      if (waiting.waiter) continue;
      if (status.ok()) {
        settled_.emplace_back(std::move(waiting.done), std::move(waiting.row));
      } else {
        settled_.emplace_back(std::move(waiting.done), Error(status));
      }
    }
  }
  for (WaitingRow& waiting : batch) {
    if (!waiting.waiter) continue;
    std::lock_guard lock(waiting.waiter->mutex);
    if (status.ok()) {
      waiting.waiter->result.emplace(std::move(waiting.row));
    } else {
      waiting.waiter->result.emplace(Error(status));
    }
    waiting.waiter->ready.notify_one();
  }
}

// A thread apart, so that neither a slow callback holds up a sync nor a slow disk the news that a row was refused.
void FileAuditLog::CallBack() {
  std::unique_lock lock(mutex_);
  while (true) {
    settled_ready_.wait(lock, [&] { return !calling_ && (settled_all_ || !settled_.empty()); });
    if (settled_.empty()) return;
    CallSettled(lock);
  }
}

// With the mutex, which is let go of during the calls.
void FileAuditLog::CallSettled(std::unique_lock<std::mutex>& lock) {
  std::deque<std::pair<AuditDone, Result<AuditRow>>> settled;
  settled.swap(settled_);
  calling_ = true;
  lock.unlock();
  in_call_ = true;
  for (auto& [done, result] : settled) {
    if (done) done(std::move(result));
  }
  settled.clear();
  in_call_ = false;
  lock.lock();
  calling_ = false;
  if (settled_all_ || !settled_.empty()) settled_ready_.notify_one();
}

Result<std::unique_ptr<AuditLog>> OpenAuditLog(AuditLog::Options options, const Clock& clock, AuditIo& io) {
  auto log = std::make_unique<FileAuditLog>(std::move(options), clock, io);
  SURETY_RETURN_IF_ERROR(log->Start());
  return log;
}

Result<std::unique_ptr<AuditLog>> AuditLog::Open(Options options, const Clock& clock) {
  return OpenAuditLog(std::move(options), clock, AuditIo::Real());
}

}  // namespace surety::gateway
