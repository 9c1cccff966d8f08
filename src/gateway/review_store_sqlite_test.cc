#include <fcntl.h>
#include <signal.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <sstream>

#include <fmt/format.h>
#include <gtest/gtest.h>
#include <sqlite3.h>

#include "base/random.h"
#include "gateway/review_service.h"
#include "gateway/sql_connection.h"
#include "gateway/testing/review_cases.h"

namespace surety::gateway {
namespace {

namespace fs = std::filesystem;

class ReviewFolder {
 public:
  ReviewFolder() : path_((fs::temp_directory_path() / "surety-review-XXXXXX").string()) {
    EXPECT_NE(mkdtemp(path_.data()), nullptr);
  }
  ~ReviewFolder() { fs::remove_all(path_); }
  std::string File(const std::string& name) const { return path_ + "/" + name; }
  // Of all files together.
  std::string Bytes() const {
    std::ostringstream out;
    for (const auto& file : fs::directory_iterator(path_)) out << std::ifstream(file.path(), std::ios::binary).rdbuf();
    return out.str();
  }

 private:
  std::string path_;
};

class ReviewStoreSqliteTest : public testing::TestWithParam<ReviewCase> {};
TEST_P(ReviewStoreSqliteTest, Holds) {
  const ReviewFolder folder;
  GetParam().run(folder.File("review.db"));
}
const auto kReviewCaseName = [](const auto& info) { return std::string(info.param.name); };
INSTANTIATE_TEST_SUITE_P(Cases, ReviewStoreSqliteTest, testing::ValuesIn(ReviewCases()), kReviewCaseName);
INSTANTIATE_TEST_SUITE_P(Races, ReviewStoreSqliteTest, testing::ValuesIn(ReviewRaces()), kReviewCaseName);

TEST(ReviewStoreSqliteFileTest, InMemoryWorksToo) {
  for (const ReviewCase& one : ReviewCases()) {
    if (one.name == std::string("AuditRowBeforeTheVoteIsSeen")) continue;  // it looks from a second connection
    SCOPED_TRACE(one.name);
    one.run(":memory:");
  }
}

TEST(ReviewStoreSqliteFileTest, ForgottenBytesAreInNoFile) {
  const ReviewFolder folder;
  ReviewTestClock clock;
  const auto store = ReviewStore::Open(folder.File("review.db"), ReviewTestQueues(), clock).value();
  // Every 16 bytes of what is forgotten hold a mark, over texts from a few bytes to many pages.
  const auto marked = [](const std::string& mark, size_t n) {
    std::string text;
    while (text.size() < n) text += mark;
    return text;
  };
  uint64_t draw = 0;
  const auto random = [&](uint64_t below) { return RandomBits({7, draw++, RandomPurpose::kTest, 0}) % below; };
  for (int i = 0; i < 60; ++i) {
    const bool gone = i % 2 == 0;
    const std::string mark = gone ? "SECRET-7" : "PUBLIC-7";
    Ticket ticket = ReviewDraft(fmt::format("dec_{}", i));
    ticket.subject = gone ? "gone" : "stays";
    ticket.question = marked(mark, random(100));
    ticket.draft = marked(mark, random(3) == 0 ? random(30'000) : random(900));
    ticket.context = {{"passage", marked(mark, random(5'000))}};
    Ticket t = store->Create(ticket).value();
    for (uint64_t edits = random(4); edits > 0; --edits) {
      t = store->LeaseTicket(ReviewPerson("ann"), t.id, t.version).value();
      t = store->Edit(ReviewPerson("ann"), t.id, t.version, marked(mark, 8 + random(12'000)) + "x").value();
    }
    if (random(3) == 0) {
      t = store->LeaseTicket(ReviewPerson("bob"), t.id, t.version).value_or(t);
      (void)store->Reject(ReviewPerson("ann"), t.id, t.version, "c", marked(mark, 200));
    }
  }
  ASSERT_NE(folder.Bytes().find("SECRET-7"), std::string::npos);
  EXPECT_EQ(store->Forget("acme", "gone").value(), 30);
  const std::string left = folder.Bytes();
  for (const char* part : {"SECRET-7", "ECRET-7S", "CRET-7SE"}) EXPECT_EQ(left.find(part), std::string::npos) << part;
  EXPECT_NE(left.find("PUBLIC-7"), std::string::npos);
}

TEST(ReviewStoreSqliteFileTest, AReaderThatKeepsOldBytesAliveIsReported) {
  const ReviewFolder folder;
  ReviewTestClock clock;
  const auto store = ReviewStore::Open(folder.File("review.db"), ReviewTestQueues(), clock).value();
  ASSERT_TRUE(store->Create(ReviewDraft("dec_1")));
  sqlite3* reader = nullptr;
  ASSERT_EQ(sqlite3_open(folder.File("review.db").c_str(), &reader), SQLITE_OK);
  ASSERT_EQ(sqlite3_exec(reader, "BEGIN; SELECT COUNT(*) FROM review_tickets", nullptr, nullptr, nullptr), SQLITE_OK);
  const auto blocked = store->Forget("acme", "author");
  ASSERT_FALSE(blocked);
  EXPECT_EQ(blocked.error().code(), StatusCode::kUnavailable);
  ASSERT_EQ(sqlite3_exec(reader, "COMMIT", nullptr, nullptr, nullptr), SQLITE_OK);
  sqlite3_close(reader);
  EXPECT_EQ(store->Forget("acme", "author").value(), 1);  // only the old copies were left; the count is of both calls
  EXPECT_EQ(store->Forget("acme", "author").value(), 0);
  EXPECT_EQ(folder.Bytes().find("You may."), std::string::npos);
}

TEST(ReviewStoreSqliteFileTest, TheFileIsItsOwnersAlone) {
  const ReviewFolder folder;
  ReviewTestClock clock;
  const auto store = ReviewStore::Open(folder.File("review.db"), ReviewTestQueues(), clock).value();
  for (const char* name : {"review.db", "review.db-wal"}) {
    struct stat facts {};
    ASSERT_EQ(stat(folder.File(name).c_str(), &facts), 0) << name;
    EXPECT_EQ(facts.st_mode & 0777, 0600u) << name;
  }
}

// Closing a second descriptor of the file drops all POSIX locks of the process: another process then takes a write for
// a crashed one's and resets the write-ahead log under it.
TEST(ReviewStoreSqliteFileTest, OpeningTheStoreAgainKeepsTheLocksOfThisProcess) {
  const ReviewFolder folder;
  ReviewTestClock clock;
  const auto store = ReviewStore::Open(folder.File("review.db"), ReviewTestQueues(), clock).value();
  const auto locked = [&] {  // by another process's eyes: is there a lock of this one on the database?
    const pid_t child = fork();
    if (child == 0) {
      const int fd = open(folder.File("review.db").c_str(), O_RDWR | O_CLOEXEC);
      struct flock lock {};
      lock.l_type = F_WRLCK;
      lock.l_whence = SEEK_SET;
      _exit(fd >= 0 && fcntl(fd, F_GETLK, &lock) == 0 && lock.l_type != F_UNLCK ? 1 : 0);
    }
    int status = 0;
    waitpid(child, &status, 0);
    return WIFEXITED(status) && WEXITSTATUS(status) == 1;
  };
  sqlite3* writer = nullptr;
  ASSERT_EQ(sqlite3_open(folder.File("review.db").c_str(), &writer), SQLITE_OK);
  ASSERT_EQ(sqlite3_exec(writer, "BEGIN IMMEDIATE", nullptr, nullptr, nullptr), SQLITE_OK);
  ASSERT_TRUE(locked());
  ASSERT_TRUE(MakeSqliteSource(folder.File("review.db"))->Connect());
  EXPECT_TRUE(locked());
  sqlite3_exec(writer, "ROLLBACK", nullptr, nullptr, nullptr);
  sqlite3_close(writer);
}

TEST(ReviewStoreSqliteFileTest, WhatIsNoDatabaseIsRefused) {
  const ReviewFolder folder;
  ReviewTestClock clock;
  std::ofstream(folder.File("text")) << std::string(5000, 'x');
  const auto text = ReviewStore::Open(folder.File("text"), ReviewTestQueues(), clock);
  ASSERT_FALSE(text);
  EXPECT_EQ(text.error().code(), StatusCode::kDataLoss);
  const auto nowhere = ReviewStore::Open(folder.File("no/folder/review.db"), ReviewTestQueues(), clock);
  ASSERT_FALSE(nowhere);
  EXPECT_EQ(nowhere.error().code(), StatusCode::kIoError);
  EXPECT_FALSE(ReviewStore::Open("", ReviewTestQueues(), clock));
  ASSERT_TRUE(ReviewStore::Open(folder.File("newer"), ReviewTestQueues(), clock));
  sqlite3* raw = nullptr;
  ASSERT_EQ(sqlite3_open(folder.File("newer").c_str(), &raw), SQLITE_OK);
  ASSERT_EQ(sqlite3_exec(raw, "UPDATE review_meta SET value = 99", nullptr, nullptr, nullptr), SQLITE_OK);
  sqlite3_close(raw);
  const auto newer = ReviewStore::Open(folder.File("newer"), ReviewTestQueues(), clock);
  ASSERT_FALSE(newer);
  EXPECT_EQ(newer.error().code(), StatusCode::kFailedPrecondition);
}

// What a child was told is done before it is killed is there afterwards, and at most one step more.
TEST(ReviewStoreSqliteCrashTest, KilledAtAnyTimeTheStoreIsWhole) {
  const ReviewFolder folder;
  int64_t n_acknowledged = 0;
  for (int round = 0; round < 12; ++round) {
    int pipe_ends[2];
    ASSERT_EQ(pipe(pipe_ends), 0);
    const pid_t child = fork();
    if (child == 0) {
      ReviewTestClock clock;
      const auto store = ReviewStore::Open(folder.File("review.db"), ReviewTestQueues(), clock).value();
      for (int i = 0;; ++i) {
        Ticket t = store->Create(ReviewDraft(fmt::format("dec_{}_{}", round, i))).value();
        const auto tell = [&](const Ticket& done) {
          char line[64] = {};
          fmt::format_to(line, "{} {}", done.id, done.version);
          if (write(pipe_ends[1], line, sizeof(line)) != sizeof(line)) _exit(1);
        };
        tell(t);
        tell(t = store->LeaseTicket(ReviewPerson("ann"), t.id, t.version).value());
        tell(t = store->Edit(ReviewPerson("ann"), t.id, t.version, std::string(9000, 'e')).value());
        tell(t = store->Reject(ReviewPerson("ann"), t.id, t.version, "c", "").value());
      }
    }
    close(pipe_ends[1]);
    usleep(static_cast<useconds_t>(30'000 + RandomBits({3, static_cast<uint64_t>(round)}) % 60'000));
    kill(child, SIGKILL);
    ASSERT_EQ(waitpid(child, nullptr, 0), child);
    std::map<std::string, int64_t> told;
    for (char line[64]; read(pipe_ends[0], line, sizeof(line)) == sizeof(line); ++n_acknowledged) {
      const std::string text = line;
      told[text.substr(0, text.find(' '))] = std::atoll(text.c_str() + text.find(' '));
    }
    close(pipe_ends[0]);
    sqlite3* raw = nullptr;
    ASSERT_EQ(sqlite3_open(folder.File("review.db").c_str(), &raw), SQLITE_OK);
    std::string verdict;
    const auto keep = [](void* to, int, char** values, char**) {
      *static_cast<std::string*>(to) += values[0];
      return 0;
    };
    sqlite3_exec(raw, "PRAGMA integrity_check", keep, &verdict, nullptr);
    sqlite3_close(raw);
    EXPECT_EQ(verdict, "ok");
    ReviewTestClock clock;
    const auto store = ReviewStore::Open(folder.File("review.db"), ReviewTestQueues(), clock).value();
    for (const auto& [id, version] : told) {
      const Ticket t = store->Get(ReviewPerson("ann"), id).value();
      EXPECT_GE(t.version, version);
      EXPECT_LE(t.version, version + 1);
      EXPECT_EQ(t.state == TicketState::kRejected, t.version == 4);
      EXPECT_EQ(t.votes.size(), t.version == 4 ? 1u : 0u);
      EXPECT_EQ(t.editors.size(), t.version >= 3 ? 1u : 0u);
    }
  }
  EXPECT_GT(n_acknowledged, 12);
}

// A process that dies between the audit row and the commit leaves a row that had no effect, and can be told by.
TEST(ReviewStoreSqliteCrashTest, ARowWithoutACommitIsHarmlessAndKnown) {
  const ReviewFolder folder;
  ReviewTestClock clock;
  const std::string audit = folder.File("audit");
  const auto append = [&](const ReviewVote& vote) {
    std::ofstream(audit, std::ios::app) << boost::json::serialize(AuditBodyOf(vote)) << std::endl;
    return OkStatus();
  };
  auto store = ReviewStore::Open(folder.File("review.db"), ReviewTestQueues(), clock, append).value();
  Ticket t = store->Create(ReviewDraft("dec_1")).value();
  t = store->LeaseTicket(ReviewPerson("ann"), t.id, t.version).value();
  store.reset();
  const auto die_in_a_vote = [&](const std::string& who) {
    const pid_t child = fork();
    if (child == 0) {
      const auto mortal = ReviewStore::Open(folder.File("review.db"), ReviewTestQueues(), clock,
                                            [&](const ReviewVote& vote) {
                                              (void)append(vote);
                                              kill(getpid(), SIGKILL);
                                              return OkStatus();
                                            }).value();
      (void)mortal->Approve(ReviewPerson(who), t.id, t.version, "c", "");
      _exit(0);
    }
    int status = 0;
    ASSERT_EQ(waitpid(child, &status, 0), child);
    ASSERT_TRUE(WIFSIGNALED(status));
  };
  die_in_a_vote("ann");
  store = ReviewStore::Open(folder.File("review.db"), ReviewTestQueues(), clock, append).value();
  EXPECT_EQ(store->Get(ReviewPerson("ann"), t.id).value().version, t.version);
  // Another change takes the version that the dead vote would have made: it is still not taken for it.
  t = store->Edit(ReviewPerson("ann"), t.id, t.version, "Other.").value();
  t = store->Release(ReviewPerson("ann"), t.id, t.version).value();
  t = store->LeaseTicket(ReviewPerson("bob"), t.id, t.version).value();
  die_in_a_vote("bob");
  t = store->Approve(ReviewPerson("bob"), t.id, t.version, "c", "").value();  // tried again: one effect
  EXPECT_EQ(t.votes.size(), 1u);
  std::vector<boost::json::object> rows;
  std::ifstream lines(audit);
  for (std::string line; std::getline(lines, line);) rows.push_back(boost::json::parse(line).as_object());
  ASSERT_EQ(rows.size(), 3u);
  for (size_t i = 0; i < rows.size(); ++i) {
    bool newest = true;
    for (size_t j = i + 1; j < rows.size(); ++j) newest = newest && rows[j].at("version") != rows[i].at("version");
    EXPECT_EQ(TookEffect(rows[i], t, newest), i == 2) << i;
  }
  EXPECT_EQ(rows[1].at("version"), rows[2].at("version"));
  EXPECT_EQ(rows[0].at("version"), 3);
}

}  // namespace
}  // namespace surety::gateway
