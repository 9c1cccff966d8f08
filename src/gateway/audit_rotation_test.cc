// A log in segments: the chain runs through, whatever is done to a segment is found, and a crash at any point of a
// rotation takes no acknowledged row.
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <atomic>
#include <bit>
#include <cerrno>
#include <filesystem>
#include <map>
#include <set>
#include <thread>

#include <boost/json.hpp>
#include <fmt/format.h>
#include <gtest/gtest.h>

#include "gateway/audit_io.h"
#include "gateway/audit_log.h"
#include "gateway/audit_reader.h"
#include "gateway/audit_segments.h"
#include "gateway/testing/audit_folder.h"

namespace surety::gateway {
namespace {

namespace fs = std::filesystem;

std::string RotationId(int i) { return fmt::format("dec_{}", i); }

// Appends rows `from` to `to`; how many were acknowledged before the first that was not.
int AppendRotating(AuditLog& log, int from, int to, const std::function<void(int)>& told = {}) {
  for (int i = from; i < to; ++i) {
    if (!log.Append("decision", {{"id", RotationId(i)}, {"x", std::string(100, 'x')}})) return i - from;
    if (told) told(i);
  }
  return to - from;
}

// The log's files in the order of the chain, by their names alone.
std::vector<std::string> RotationFiles(const AuditFolder& folder) {
  std::set<std::string> closed;
  for (const auto& entry : fs::directory_iterator(fs::path(folder.path("")))) {
    const std::string name = entry.path().filename().string();
    if (name.starts_with("audit.log.0")) closed.insert(entry.path().string());
  }
  std::vector<std::string> out(closed.begin(), closed.end());
  out.push_back(folder.path("audit.log"));
  return out;
}

class AuditRotationTest : public ::testing::Test {
 protected:
  std::unique_ptr<AuditLog> Open(int64_t rotate_at = 900, int64_t max_indexed_rows = 1000) {
    auto log = OpenAuditLog({.path = path_, .max_indexed_rows = max_indexed_rows, .rotate_at_bytes = rotate_at},
                            Clock::Real(), io_);
    EXPECT_TRUE(log.has_value()) << (log ? "" : log.error().message());
    return log ? *std::move(log) : nullptr;
  }
  void Fill(int n = 20) {
    const auto log = Open();
    ASSERT_EQ(AppendRotating(*log, 0, n), n);
    files_ = RotationFiles(folder_);
    ASSERT_GE(files_.size(), 5u);
  }
  // Verify and Open find it, and say `says`.
  void ExpectFound(const std::string& says, const std::string& what) {
    const auto verified = VerifyAuditLog(path_);
    ASSERT_FALSE(verified.has_value()) << what;
    EXPECT_EQ(verified.error().code(), StatusCode::kDataLoss) << what;
    EXPECT_NE(verified.error().message().find(says), std::string::npos) << what << ": " << verified.error().message();
    const auto opened = OpenAuditLog({.path = path_}, Clock::Real(), io_);
    ASSERT_FALSE(opened.has_value()) << what;
    EXPECT_EQ(opened.error().code(), StatusCode::kDataLoss) << what;
  }

  UnsyncedAuditIo io_;
  const AuditFolder folder_;
  const std::string path_ = folder_.path("audit.log");
  std::vector<std::string> files_;
};

TEST_F(AuditRotationTest, TheFilesBehindEachOtherAreOneLogThatAOneFileCheckAccepts) {
  Fill();
  std::string all;
  for (const std::string& file : files_) {
    const std::string bytes = ReadAuditBytes(file);
    if (file != files_.back()) {
      EXPECT_GE(bytes.size(), 900u);
    }
    if (!all.empty()) {
      const auto first = boost::json::parse(bytes.substr(0, bytes.find('\n'))).as_object();
      EXPECT_EQ(first.at("kind").as_string(), "segment");
      const fs::path before = files_[static_cast<size_t>(&file - files_.data()) - 1];
      EXPECT_EQ(first.at("body").at("before").as_string(), before.filename().string());
      if (file != files_.back()) {
        EXPECT_TRUE(file.ends_with(fmt::format(".{:012}", first.at("seq").as_int64())));
      }
    }
    all += bytes;
  }
  const AuditFolder apart;
  WriteAuditBytes(apart.path("one.log"), all);
  const auto one = VerifyAuditLog(apart.path("one.log"));
  ASSERT_TRUE(one.has_value()) << one.error().message();
  EXPECT_EQ(one->n_segments, 1);
  for (const std::string& path : {path_, folder_.path("")}) {
    const auto report = VerifyAuditLog(path);
    ASSERT_TRUE(report.has_value()) << report.error().message();
    EXPECT_EQ(report->n_rows, one->n_rows);
    EXPECT_EQ(report->n_rows, 20 + static_cast<int64_t>(files_.size()) - 1);
    EXPECT_EQ(report->last_hash, one->last_hash);
    EXPECT_EQ(report->n_segments, static_cast<int64_t>(files_.size()));
    EXPECT_EQ(report->first_seq, 0);
  }
}

TEST_F(AuditRotationTest, RowsOfEverySegmentAreFoundWithTheIndexAndWithoutAndAfterAnotherStart) {
  Fill();
  for (const int64_t max_indexed_rows : {1000, 4}) {
    const auto log = Open(900, max_indexed_rows);
    ASSERT_NE(log, nullptr);
    ASSERT_EQ(AppendRotating(*log, 20, 24), 4);
    for (int i = 0; i < 24; ++i) {
      const auto row = log->Find("decision", RotationId(i));
      ASSERT_TRUE(row.has_value()) << i << ": " << row.error().message();
      EXPECT_EQ(row->body.at("id").as_string(), RotationId(i));
    }
    EXPECT_EQ(log->Find("decision", "dec_99").error().code(), StatusCode::kNotFound);
  }
  int64_t n = 0;
  EXPECT_TRUE(ReadAuditLog(path_, [&](const AuditRow& row) { return row.seq == n++; }).ok());
  EXPECT_GT(n, 28);
}

TEST_F(AuditRotationTest, ALogOfOneFileIsTakenUpAndRotated) {
  {
    const auto log = Open(0);
    ASSERT_EQ(AppendRotating(*log, 0, 10), 10);
  }
  EXPECT_EQ(RotationFiles(folder_).size(), 1u);
  const auto log = Open(1000);
  ASSERT_EQ(AppendRotating(*log, 10, 11), 1);
  EXPECT_EQ(RotationFiles(folder_).size(), 2u);
  EXPECT_EQ(log->n_rows(), 12);
  EXPECT_TRUE(VerifyAuditLog(path_).has_value());
  EXPECT_EQ(OpenAuditLog({.path = path_}, Clock::Real(), io_).error().code(), StatusCode::kFailedPrecondition)
      << "the lock went with the file that was closed";
}

class RotationClock final : public Clock {
 public:
  int64_t NowNanos() const override { return now_ns.load(); }
  int64_t WallNanos() const override { return now_ns.load(); }
  void SleepNanos(int64_t) override {}
  std::atomic<int64_t> now_ns{0};
};

TEST_F(AuditRotationTest, ADayEndsAtMidnightAndAnEmptyDayMakesNoFile) {
  constexpr int64_t kDay = 86400LL * 1'000'000'000;
  RotationClock clock;
  clock.now_ns = 20000 * kDay + kDay / 2;
  const auto open = [&] {
    return *OpenAuditLog({.path = path_, .rotate_every_ns = kDay}, clock, io_);
  };
  auto log = open();
  const auto files_after = [&](int64_t now_ns, int i) {
    clock.now_ns = now_ns;
    EXPECT_EQ(AppendRotating(*log, i, i + 1), 1);
    return RotationFiles(folder_).size();
  };
  EXPECT_EQ(files_after(20000 * kDay + kDay / 2, 0), 1u);
  EXPECT_EQ(files_after(20001 * kDay - 1, 1), 1u);
  EXPECT_EQ(files_after(20001 * kDay, 2), 2u);
  EXPECT_EQ(files_after(20001 * kDay - 5, 3), 2u);   // the clock was set back
  EXPECT_EQ(files_after(20005 * kDay, 4), 3u);       // nothing was written for days
  log.reset();
  log = open();                                      // what began when is read from the file
  EXPECT_EQ(files_after(20005 * kDay + 1, 5), 3u);
  EXPECT_EQ(files_after(20006 * kDay, 6), 4u);
  EXPECT_TRUE(VerifyAuditLog(path_).has_value());
}

TEST_F(AuditRotationTest, EveryMissingSwappedOrRenamedSegmentIsFound) {
  Fill();
  const auto named = [](const std::string& file) { return file + ".away"; };
  for (size_t i = 1; i + 1 < files_.size(); ++i) {
    fs::rename(files_[i], named(files_[i]));
    ExpectFound("missing", "without " + files_[i]);
    fs::rename(named(files_[i]), files_[i]);
    for (size_t j = 0; j < i; ++j) {
      const std::string one = ReadAuditBytes(files_[i]), two = ReadAuditBytes(files_[j]);
      WriteAuditBytes(files_[i], two);
      WriteAuditBytes(files_[j], one);
      ExpectFound("swapped or renamed", fmt::format("{} and {} swapped", i, j));
      WriteAuditBytes(files_[j], two);
      ExpectFound("", fmt::format("{} stands twice", j));
      WriteAuditBytes(files_[i], one);
    }
  }
  ASSERT_TRUE(VerifyAuditLog(path_).has_value());
  fs::rename(files_[0], AuditSegmentPath(path_, 1));   // the oldest under another number
  ExpectFound("swapped or renamed", "renamed");
  fs::rename(AuditSegmentPath(path_, 1), files_[0]);
  fs::rename(path_, named(path_));
  EXPECT_EQ(OpenAuditLog({.path = path_}, Clock::Real(), io_).error().code(), StatusCode::kDataLoss);
  EXPECT_FALSE(fs::exists(path_)) << "an empty file would hide that the newest was lost";
  fs::rename(named(path_), path_);
  EXPECT_TRUE(VerifyAuditLog(path_).has_value());
}

TEST_F(AuditRotationTest, EveryTruncationOfAClosedSegmentIsFound) {
  Fill();
  for (const size_t i : {size_t{0}, files_.size() - 2}) {
    const std::string bytes = ReadAuditBytes(files_[i]);
    for (size_t length = 0; length < bytes.size(); ++length) {
      WriteAuditBytes(files_[i], std::string_view(bytes).substr(0, length));
      ASSERT_EQ(VerifyAuditLog(path_).error().code(), StatusCode::kDataLoss) << "segment " << i << ", " << length;
      if (length % 50 == 0) ExpectFound("", fmt::format("segment {} cut at {}", i, length));
    }
    WriteAuditBytes(files_[i], bytes);
  }
  const std::string newest = ReadAuditBytes(path_);
  const size_t first = newest.find('\n');
  for (size_t length = 0; length <= first; ++length) {
    WriteAuditBytes(path_, std::string_view(newest).substr(0, length));
    ASSERT_EQ(VerifyAuditLog(path_).error().code(), StatusCode::kDataLoss) << length;
  }
  WriteAuditBytes(path_, newest);
  ASSERT_TRUE(VerifyAuditLog(path_).has_value());
}

TEST_F(AuditRotationTest, WhatWasArchivedIsToldAndHeldAgainstItsLastHash) {
  Fill();
  const AuditFolder archive;
  const std::string away = archive.path(fs::path(files_[0]).filename().string());
  const auto whole = VerifyAuditLog(path_);
  const auto log = Open();
  fs::rename(files_[0], away);
  fs::rename(files_[1], archive.path(fs::path(files_[1]).filename().string()));
  EXPECT_EQ(log->Find("decision", RotationId(0)).error().code(), StatusCode::kUnavailable) << "it did happen";
  EXPECT_TRUE(log->Find("decision", RotationId(19)).has_value());
  const auto rest = VerifyAuditLog(path_);
  ASSERT_TRUE(rest.has_value()) << rest.error().message();
  const auto archived = VerifyAuditLog(archive.path(""));
  ASSERT_TRUE(archived.has_value()) << archived.error().message();
  EXPECT_TRUE(archived->newest_missing);
  EXPECT_EQ(rest->first_seq, archived->n_rows);
  EXPECT_EQ(rest->first_prev, archived->last_hash);
  EXPECT_EQ(rest->n_rows + archived->n_rows, whole->n_rows);
  EXPECT_EQ(rest->last_hash, whole->last_hash);
  const auto expect_first = [&](const std::string& hash) {
    return VerifyAuditChain(path_, {.expect = {}, .expect_first = hash, .progress = {}});
  };
  EXPECT_TRUE(expect_first(archived->last_hash).has_value());
  EXPECT_EQ(expect_first(AuditChainStart()).error().code(), StatusCode::kDataLoss);
  EXPECT_EQ(expect_first(whole->last_hash).error().code(), StatusCode::kDataLoss);
  EXPECT_TRUE(VerifyAuditChain(path_, {.expect = archived->last_hash, .expect_first = {}, .progress = {}}).has_value());
  // One closed segment alone.
  EXPECT_EQ(VerifyAuditLog(away)->first_seq, 0);
  const int64_t n_rows = log->n_rows();
  ASSERT_EQ(AppendRotating(*log, 20, 30), 10);
  EXPECT_GE(log->n_rows(), n_rows + 10);
  EXPECT_TRUE(VerifyAuditLog(path_).has_value());
}

TEST_F(AuditRotationTest, ALogWhoseFirstRowsWereCutDoesNotPassForAnArchivedOne) {
  Fill();
  const std::string bytes = ReadAuditBytes(files_[1]);
  for (size_t from = bytes.find('\n') + 1; from < bytes.size(); from = bytes.find('\n', from) + 1) {
    WriteAuditBytes(folder_.path("cut.log"), std::string_view(bytes).substr(from));
    EXPECT_EQ(VerifyAuditLog(folder_.path("cut.log")).error().code(), StatusCode::kDataLoss) << from;
  }
  WriteAuditBytes(folder_.path("cut.log"), bytes);   // from a segment's own first row on, as archiving leaves it
  EXPECT_TRUE(VerifyAuditLog(folder_.path("cut.log")).has_value());
}

TEST_F(AuditRotationTest, ReadersBesideTheWriterSeeAWholeLog) {
  const auto log = Open(300);
  std::atomic<bool> ended{false};
  std::thread reader([&] {
    while (!ended) {
      const auto report = VerifyAuditLog(path_);
      ASSERT_TRUE(report.has_value()) << report.error().message();
      ASSERT_EQ(report->first_seq, 0);
    }
  });
  std::thread finder([&] {
    while (!ended) {
      const bool any = log->n_rows() > 0;
      ASSERT_TRUE(!any || log->Find("decision", RotationId(0)).has_value());
    }
  });
  EXPECT_EQ(AppendRotating(*log, 0, 300), 300);
  ended = true;
  reader.join();
  finder.join();
  EXPECT_GT(RotationFiles(folder_).size(), 100u);
}

// ---- Crashes.

// At the nth call of any kind: fails, with or without having done what it was asked for, or ends the process.
class CrashingAuditIo final : public AuditIo {
 public:
  enum class What { kFailBefore, kFailAfter, kEndBefore, kEndAfter };
  CrashingAuditIo(int at, What what) : at_(at), what_(what) {}
  ssize_t Write(int fd, std::string_view bytes) override {
    return Do<ssize_t>([&] { return AuditIo::Write(fd, bytes); });
  }
  int Sync(int) override { return Do<int>([] { return 0; }); }
  int SyncDirectory(const std::string&) override { return Do<int>([] { return 0; }); }
  int Cut(int fd, int64_t size) override { return Do<int>([&] { return AuditIo::Cut(fd, size); }); }
  int Create(const std::string& path) override { return Do<int>([&] { return AuditIo::Create(path); }); }
  int Link(const std::string& from, const std::string& to) override {
    return Do<int>([&] { return AuditIo::Link(from, to); });
  }
  int Rename(const std::string& from, const std::string& to) override {
    return Do<int>([&] { return AuditIo::Rename(from, to); });
  }
  int Remove(const std::string& path) override { return Do<int>([&] { return AuditIo::Remove(path); }); }
  bool reached() const { return calls_ >= at_; }

 private:
  template <typename T, typename Fn>
  T Do(Fn&& done) {
    const bool now = ++calls_ == at_;
    if (now && what_ == What::kEndBefore) ::_exit(7);
    if (now && what_ == What::kFailBefore) return -EIO;
    const T result = done();
    if (now && what_ == What::kEndAfter) ::_exit(7);
    return now ? -EIO : result;
  }
  const int at_;
  const What what_;
  int calls_ = 0;
};

void ExpectTakenUp(const std::string& path, const std::set<int>& acknowledged, const std::string& what) {
  UnsyncedAuditIo good;
  const auto log = OpenAuditLog({.path = path, .rotate_at_bytes = 600}, Clock::Real(), good);
  ASSERT_TRUE(log.has_value()) << what << ": " << log.error().message();
  for (const int i : acknowledged) {
    ASSERT_TRUE((*log)->Find("decision", RotationId(i)).has_value()) << what << ": " << i;
  }
  ASSERT_EQ(AppendRotating(**log, 100, 106), 6) << what;
  const auto report = VerifyAuditLog(path);
  ASSERT_TRUE(report.has_value()) << what << ": " << report.error().message();
  EXPECT_EQ(report->first_seq, 0) << what;
  EXPECT_FALSE(fs::exists(AuditNextPath(path))) << what;
}

TEST(AuditRotationCrashTest, WhicheverCallFailsNoAcknowledgedRowIsLost) {
  for (const auto what : {CrashingAuditIo::What::kFailBefore, CrashingAuditIo::What::kFailAfter}) {
    int at = 1;
    for (bool reached = true; reached; ++at) {
      const AuditFolder folder;
      std::set<int> acknowledged;
      CrashingAuditIo io(at, what);
      {
        const auto log = OpenAuditLog({.path = folder.path("audit.log"), .rotate_at_bytes = 600}, Clock::Real(), io);
        if (log) AppendRotating(**log, 0, 7, [&](int i) { acknowledged.insert(i); });
        EXPECT_EQ(log.has_value() && !(*log)->failed(), !io.reached()) << at;
      }
      reached = io.reached();
      EXPECT_TRUE(reached || acknowledged.size() == 7u);
      ASSERT_NO_FATAL_FAILURE(ExpectTakenUp(folder.path("audit.log"), acknowledged, fmt::format("call {}", at)));
    }
    EXPECT_GT(at, 30);   // seven rows of two calls, and two rotations of eight
  }
}

TEST(AuditRotationCrashTest, AProcessThatEndsAtAnyCallLosesNoAcknowledgedRow) {
  for (const auto what : {CrashingAuditIo::What::kEndBefore, CrashingAuditIo::What::kEndAfter}) {
    int at = 1;
    for (bool reached = true; reached; ++at) {
      const AuditFolder folder;
      int ends[2];
      ASSERT_EQ(::pipe(ends), 0);
      const pid_t child = ::fork();
      if (child == 0) {
        ::alarm(60);
        CrashingAuditIo io(at, what);
        const auto log = OpenAuditLog({.path = folder.path("audit.log"), .rotate_at_bytes = 600}, Clock::Real(), io);
        if (!log) ::_exit(1);
        AppendRotating(**log, 0, 7, [&](int i) {
          if (::write(ends[1], &i, sizeof(i)) != sizeof(i)) ::_exit(2);
        });
        ::_exit(0);
      }
      ::close(ends[1]);
      std::set<int> acknowledged;
      for (int i = 0; ::read(ends[0], &i, sizeof(i)) == sizeof(i);) acknowledged.insert(i);
      ::close(ends[0]);
      int status = 0;
      ::waitpid(child, &status, 0);
      ASSERT_TRUE(WIFEXITED(status));
      reached = WEXITSTATUS(status) == 7;
      ASSERT_TRUE(reached || WEXITSTATUS(status) == 0) << WEXITSTATUS(status);
      ASSERT_NO_FATAL_FAILURE(ExpectTakenUp(folder.path("audit.log"), acknowledged, fmt::format("call {}", at)));
    }
    EXPECT_GT(at, 30);
  }
}

// What is on disk for certain, names and bytes, and what a loss of power may leave of the rest: any of the names that
// changed since the folder was synced, and of each file what was synced or all of it.
class RotationDisk final : public UnsyncedAuditIo {
 public:
  struct Moment {
    std::map<std::string, ino_t> names;                                     // as the last sync of the folder left them
    std::vector<std::map<std::string, ino_t>> pending;                      // changes since then; 0: removed
    std::map<ino_t, std::pair<std::string, size_t>> files;                  // bytes, and how many of them are synced
    int n_acknowledged = 0;
  };
  RotationDisk(std::string folder, bool folder_lies) : folder_(std::move(folder)), folder_lies_(folder_lies) {}
  ssize_t Write(int fd, std::string_view bytes) override {
    const ssize_t n = AuditIo::Write(fd, bytes);
    now_.files[InodeOf(fd)].first.append(bytes.substr(0, static_cast<size_t>(n)));
    return Note(n);
  }
  int Sync(int fd) override {
    auto& [bytes, synced] = now_.files[InodeOf(fd)];
    synced = bytes.size();
    return Note(0);
  }
  int SyncDirectory(const std::string&) override {
    if (folder_lies_ && !now_.names.empty()) return Note(0);
    now_.names.clear();
    now_.pending.clear();
    for (const auto& entry : fs::directory_iterator(folder_)) now_.names[entry.path().string()] = InodeOf(entry.path());
    return Note(0);
  }
  int Create(const std::string& path) override {
    const int fd = AuditIo::Create(path);
    now_.files[InodeOf(fd)] = {};   // the number may have been another file's
    now_.pending.push_back({{path, InodeOf(fd)}});
    return Note(fd);
  }
  int Link(const std::string& from, const std::string& to) override {
    now_.pending.push_back({{to, InodeOf(from)}});
    return Note(AuditIo::Link(from, to));
  }
  int Rename(const std::string& from, const std::string& to) override {
    now_.pending.push_back({{to, InodeOf(from)}, {from, 0}});
    return Note(AuditIo::Rename(from, to));
  }
  int Remove(const std::string& path) override {
    if (fs::exists(path)) now_.pending.push_back({{path, 0}});
    return Note(AuditIo::Remove(path));
  }
  std::atomic<int> n_acknowledged{0};
  std::vector<Moment> moments;

 private:
  static ino_t InodeOf(int fd) {
    struct stat info {};
    EXPECT_EQ(::fstat(fd, &info), 0);
    return info.st_ino;
  }
  static ino_t InodeOf(const fs::path& path) {
    struct stat info {};
    EXPECT_EQ(::stat(path.c_str(), &info), 0);
    return info.st_ino;
  }
  template <typename T>
  T Note(T result) {
    now_.n_acknowledged = n_acknowledged;
    moments.push_back(now_);
    return result;
  }
  const std::string folder_;
  const bool folder_lies_;
  Moment now_;
};

// How often, over all moments and all that they may leave, the log cannot be opened or lacks an acknowledged row.
int RotationsLostToPower(bool folder_lies) {
  const AuditFolder folder;
  RotationDisk disk(folder.path(""), folder_lies);
  {
    const auto log = OpenAuditLog({.path = folder.path("audit.log"), .rotate_at_bytes = 600}, Clock::Real(), disk);
    EXPECT_TRUE(log.has_value());
    AppendRotating(**log, 0, 5, [&](int) { ++disk.n_acknowledged; });
  }
  UnsyncedAuditIo good;
  int lost = 0, n_states = 0;
  for (const RotationDisk::Moment& moment : disk.moments) {
    const size_t n_pending = moment.pending.size();
    for (unsigned kept = 0; kept < 1U << n_pending; ++kept) {
      // Only a folder that is never synced has many names waiting; there one or none of them is lost or kept.
      const int n_kept = std::popcount(kept);
      if (n_pending > 4 && n_kept > 1 && n_kept + 1 < static_cast<int>(n_pending)) continue;
      auto names = moment.names;
      for (size_t i = 0; i < n_pending; ++i) {
        if ((kept >> i & 1) == 0) continue;
        for (const auto& [name, inode] : moment.pending[i]) names[name] = inode;
      }
      for (const bool all_bytes : {false, true}) {
        const AuditFolder after;
        std::map<ino_t, std::string> made;
        for (const auto& [name, inode] : names) {
          if (inode == 0) continue;
          const std::string path = after.path(fs::path(name).filename().string());
          if (made.contains(inode)) {
            fs::create_hard_link(made[inode], path);
            continue;
          }
          const auto file = moment.files.find(inode);
          if (file == moment.files.end()) {
            WriteAuditBytes(path, "");
          } else {
            WriteAuditBytes(path, all_bytes ? file->second.first : file->second.first.substr(0, file->second.second));
          }
          made[inode] = path;
        }
        ++n_states;
        const auto log = OpenAuditLog({.path = after.path("audit.log")}, Clock::Real(), good);
        bool whole = log.has_value();
        for (int i = 0; whole && i < moment.n_acknowledged; ++i) {
          whole = (*log)->Find("decision", RotationId(i)).has_value();
        }
        EXPECT_TRUE(whole || folder_lies) << "moment " << &moment - disk.moments.data() << ", names " << kept
                                          << (log ? "" : ": " + log.error().message());
        if (!whole) ++lost;
      }
    }
  }
  EXPECT_GT(n_states, 100);
  return lost;
}

TEST(AuditRotationCrashTest, NoLossOfPowerTakesAnAcknowledgedRow) {
  EXPECT_EQ(RotationsLostToPower(false), 0);
  EXPECT_GT(RotationsLostToPower(true), 0) << "a folder that is not synced is not noticed by this test";
}

}  // namespace
}  // namespace surety::gateway
