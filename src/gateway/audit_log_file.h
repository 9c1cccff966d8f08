// The audit log in files, for its own sources alone: audit_log.cc writes, audit_log_open.cc opens and reads.
//
// Threads, owns, errors: audit_log.h.
#pragma once

#include <sys/types.h>
#include <unistd.h>

#include <atomic>
#include <condition_variable>
#include <cstdint>
#include <deque>
#include <functional>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <string_view>
#include <thread>
#include <utility>
#include <vector>

#include <boost/json/object.hpp>

#include "gateway/audit_index.h"
#include "gateway/audit_io.h"
#include "gateway/audit_log.h"
#include "gateway/audit_reader.h"
#include "gateway/audit_segments.h"

namespace surety::gateway {

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
    SURETY_ASSIGN_OR_RETURN(const bool leads, Enqueue(row));
    if (leads) Lead(/*calls=*/false);   // its caller may be in the middle of something
    std::unique_lock lock(waiter->mutex);
    waiter->ready.wait(lock, [&] { return waiter->result.has_value(); });
    return *std::move(waiter->result);
  }

  void AppendAsync(std::string_view kind, boost::json::object body, AuditDone done) override {
    Add(MakeRow(kind, std::move(body)), std::move(done), /*here=*/false);
  }
  void AppendTextHere(std::string_view kind, std::string body, AuditDone done) override {
    Add(MakeTextRow(kind, AuditBodyText(std::move(body))), std::move(done), /*here=*/true);
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
  void Add(Result<WaitingRow> row, AuditDone done, bool here) {
    Status status = row ? OkStatus() : row.error();
    if (row) {
      row->done = done;
      const Result<bool> leads = Enqueue(*row);
      // Within a call that would hold up those that follow.
      if (leads && *leads) here && !in_call_ ? Lead(/*calls=*/true) : PassOn();
      if (leads) return;
      status = leads.error();
    }
    {
      std::lock_guard lock(mutex_);
      settled_.emplace_back(std::move(done), Error(std::move(status)));
    }
    settled_ready_.notify_one();
  }

  Status OpenFile();
  Status FinishRotation();
  Status ReadWhatIsThere();
  Status CutTail(const AuditReader& reader);
  static Result<WaitingRow> MakeRow(std::string_view kind, boost::json::object body);
  static Result<WaitingRow> MakeTextRow(std::string_view kind, Result<std::string> text);
  Result<bool> Enqueue(WaitingRow& row);   // true: nobody writes, and the caller must Lead or PassOn
  void Lead(bool calls);
  void PassOn();
  void Write();
  void WriteBatch();
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
  void CallSettled(std::unique_lock<std::mutex>& lock);
  Files SnapFiles() const;
  Result<AuditRow> ReadRow(int64_t offset) const;
  Result<std::optional<int64_t>> Search(std::string_view kind, std::string_view id, int64_t before) const;
  Status Problem(std::string_view what, int error) const;

  const Options options_;
  const Clock& clock_;
  AuditIo& io_;
  std::atomic<int64_t> n_rows_{0};   // on disk
  std::atomic<bool> failed_{false};

  // Of the thread that writes: who set writing_, until it passed that on or took it back.
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
  bool writing_ = false;             // a thread writes: whatever is in the queue has one
  bool passed_on_ = false;           // that is the writer's thread from now on
  static thread_local bool in_call_; // this thread calls what has settled
  bool calling_ = false;             // a thread calls what has settled: one at a time, in the order of the rows
  bool stopping_ = false, settled_all_ = false;
  Status failure_;
  std::deque<std::pair<AuditDone, Result<AuditRow>>> settled_;
  std::thread writer_, caller_;
};

}  // namespace surety::gateway
