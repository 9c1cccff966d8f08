#include "gateway/audit_log.h"

#include <fcntl.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include <atomic>
#include <cerrno>
#include <condition_variable>
#include <cstring>
#include <deque>
#include <filesystem>
#include <mutex>
#include <optional>
#include <thread>
#include <utility>
#include <vector>

#include <fmt/format.h>

#include "base/hash.h"
#include "gateway/audit_index.h"
#include "gateway/audit_io.h"
#include "gateway/audit_reader.h"
#include "gateway/audit_row.h"
#include "gateway/audit_segments.h"

namespace surety::gateway {
namespace {

constexpr size_t kAuditBatchBytes = 8 << 20;              // of one write and sync
constexpr size_t kAuditWaitingBytes = size_t{256} << 20;  // of all rows that wait

using AuditDone = std::function<void(Result<AuditRow>)>;

// One that waits in Append.
struct AuditWaiter {
  std::mutex mutex;
  std::condition_variable ready;
  std::optional<Result<AuditRow>> result;
};

struct WaitingRow {
  std::string kind, text, id;
  boost::json::object body;
  AuditDone done;                        // of AppendAsync
  std::shared_ptr<AuditWaiter> waiter;   // of Append
  AuditRow row;                          // once it is written
  int64_t offset = 0;
};

// A descriptor that is closed with its last user.
struct AuditFile {
  explicit AuditFile(int descriptor) : fd(descriptor) {}
  ~AuditFile() { ::close(fd); }
  AuditFile(const AuditFile&) = delete;
  AuditFile& operator=(const AuditFile&) = delete;
  const int fd;
};

class FileAuditLog final : public AuditLog {
 public:
  FileAuditLog(Options options, const Clock& clock, AuditIo& io)
      : options_(std::move(options)), clock_(clock), io_(io), index_(options_.max_indexed_rows) {}

  ~FileAuditLog() override {
    if (writer_.joinable()) {
      {
        std::lock_guard lock(mutex_);
        stopping_ = true;
      }
      work_.notify_all();
      writer_.join();
      {
        std::lock_guard lock(mutex_);
        settled_all_ = true;
      }
      settled_ready_.notify_all();
      caller_.join();
    }
  }

  Status Start() {
    SURETY_RETURN_IF_ERROR(OpenFile());
    SURETY_RETURN_IF_ERROR(ReadWhatIsThere());
    writer_ = std::thread([this] { Write(); });
    caller_ = std::thread([this] { CallBack(); });
    return OkStatus();
  }

  Result<AuditRow> Append(std::string_view kind, boost::json::object body) override {
    SURETY_ASSIGN_OR_RETURN(WaitingRow row, MakeRow(kind, std::move(body)));
    row.waiter = std::make_shared<AuditWaiter>();
    const auto waiter = row.waiter;
    SURETY_RETURN_IF_ERROR(Enqueue(row));
    std::unique_lock lock(waiter->mutex);
    waiter->ready.wait(lock, [&] { return waiter->result.has_value(); });
    return *std::move(waiter->result);
  }

  void AppendAsync(std::string_view kind, boost::json::object body, AuditDone done) override {
    AppendMade(MakeRow(kind, std::move(body)), std::move(done));
  }

  void AppendTextAsync(std::string_view kind, std::string body, AuditDone done) override {
    AppendMade(MakeTextRow(kind, AuditBodyText(std::move(body))), std::move(done));
  }

  void AppendMade(Result<WaitingRow> row, AuditDone done) {
    Status status = row ? OkStatus() : row.error();
    if (row) {
      row->done = done;
      status = Enqueue(*row);
    }
    if (status.ok()) return;
    {
      std::lock_guard lock(mutex_);
      settled_.emplace_back(std::move(done), Error(std::move(status)));
    }
    settled_ready_.notify_one();
  }

  int64_t n_rows() const override { return n_rows_.load(); }
  bool failed() const override { return failed_.load(); }

  Result<AuditRow> Find(std::string_view kind, std::string_view id) const override {
    std::optional<int64_t> offset;
    int64_t unknown_before = 0;
    {
      std::lock_guard lock(index_mutex_);
      offset = index_.Find(kind, id);
      unknown_before = index_.complete_from();
    }
    if (!offset && unknown_before > 0) {
      SURETY_ASSIGN_OR_RETURN(offset, Search(kind, id, unknown_before));
    }
    if (!offset) {
      return Error(NotFoundError(fmt::format("'{}' holds no row of kind {} for '{}'", options_.path, kind, id)));
    }
    return ReadRow(*offset);
  }

 private:
  // What is there at one moment, for readers beside the writer.
  struct Files {
    std::vector<AuditSegment> segments;    // the newest is the last
    std::shared_ptr<const AuditFile> newest;
  };
  Status OpenFile();
  Status FinishRotation();
  Status ReadWhatIsThere();
  Status CutTail(const AuditReader& reader);
  static Result<WaitingRow> MakeRow(std::string_view kind, boost::json::object body);
  static Result<WaitingRow> MakeTextRow(std::string_view kind, Result<std::string> text);
  Status Enqueue(WaitingRow& row);
  void Write();
  Status Commit(std::vector<WaitingRow>& batch);
  bool MustRotate() const;
  Status Rotate();
  Status WriteAll(int fd, std::string_view bytes);
  Status SyncAll(int fd);
  Status SyncFolder();
  Status CheckPlace(int64_t size_bytes) const;
  void Settle(std::vector<WaitingRow>& batch, const Status& status);
  void Fail(const Status& status);
  void CallBack();
  Files SnapFiles() const;
  Result<AuditRow> ReadRow(int64_t offset) const;
  Result<std::optional<int64_t>> Search(std::string_view kind, std::string_view id, int64_t before) const;
  Status Problem(std::string_view what, int error) const;

  const Options options_;
  const Clock& clock_;
  AuditIo& io_;
  std::atomic<int64_t> n_rows_{0};   // on disk
  std::atomic<bool> failed_{false};

  // Of the writer alone, once it runs.
  int fd_ = -1;                      // of file_
  dev_t device_ = 0;
  ino_t inode_ = 0;
  int64_t size_bytes_ = 0;           // of the newest file
  int64_t base_offset_ = 0;          // of the segments before it
  int64_t first_seq_ = 0;            // of the newest file
  int64_t first_time_ns_ = 0;
  std::string last_hash_;

  mutable std::mutex index_mutex_;
  AuditIndex index_;
  std::vector<AuditSegment> closed_;
  std::shared_ptr<const AuditFile> file_;   // with the lock

  mutable std::mutex mutex_;
  std::condition_variable work_, settled_ready_;
  std::deque<WaitingRow> queue_;
  int n_waiting_ = 0;                // in the queue, and taken by the writer
  size_t waiting_bytes_ = 0;
  bool stopping_ = false, settled_all_ = false;
  Status failure_;
  std::deque<std::pair<AuditDone, Result<AuditRow>>> settled_;
  std::thread writer_, caller_;
};

Status FileAuditLog::Problem(std::string_view what, int error) const {
  return IoError(fmt::format("audit log '{}': cannot {}: {}", options_.path, what, std::strerror(error)));
}

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

Status FileAuditLog::Enqueue(WaitingRow& row) {
  {
    std::lock_guard lock(mutex_);
    if (!failure_.ok()) return failure_;
    if (stopping_) return FailedPreconditionError(fmt::format("audit log '{}': it is being closed", options_.path));
    if (n_waiting_ >= options_.max_waiting || waiting_bytes_ + row.text.size() > kAuditWaitingBytes) {
      return ResourceExhaustedError(fmt::format("audit log '{}': {} rows of {} bytes wait for the disk already",
                                                options_.path, n_waiting_, waiting_bytes_));
    }
    ++n_waiting_;
    waiting_bytes_ += row.text.size();
    queue_.push_back(std::move(row));
  }
  work_.notify_one();
  return OkStatus();
}

void FileAuditLog::Write() {
  while (true) {
    std::vector<WaitingRow> batch;
    Status status;
    {
      std::unique_lock lock(mutex_);
      work_.wait(lock, [&] { return stopping_ || !queue_.empty(); });
      if (queue_.empty()) return;
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
  bool calls = false;
  {
    std::lock_guard lock(mutex_);
    for (WaitingRow& waiting : batch) {
      --n_waiting_;
      waiting_bytes_ -= waiting.text.size();
      if (waiting.waiter) continue;
      calls = true;
      if (status.ok()) {
        settled_.emplace_back(std::move(waiting.done), std::move(waiting.row));
      } else {
        settled_.emplace_back(std::move(waiting.done), Error(status));
      }
    }
  }
  if (calls) settled_ready_.notify_one();
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
  while (true) {
    std::deque<std::pair<AuditDone, Result<AuditRow>>> settled;
    {
      std::unique_lock lock(mutex_);
      settled_ready_.wait(lock, [&] { return settled_all_ || !settled_.empty(); });
      if (settled_.empty()) return;
      settled.swap(settled_);
    }
    for (auto& [done, result] : settled) {
      if (done) done(std::move(result));
    }
  }
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

}  // namespace

Result<std::unique_ptr<AuditLog>> OpenAuditLog(AuditLog::Options options, const Clock& clock, AuditIo& io) {
  auto log = std::make_unique<FileAuditLog>(std::move(options), clock, io);
  SURETY_RETURN_IF_ERROR(log->Start());
  return log;
}

Result<std::unique_ptr<AuditLog>> AuditLog::Open(Options options, const Clock& clock) {
  return OpenAuditLog(std::move(options), clock, AuditIo::Real());
}

}  // namespace surety::gateway
