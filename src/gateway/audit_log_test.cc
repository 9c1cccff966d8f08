#include "gateway/audit_log.h"

#include <sys/stat.h>

#include <algorithm>
#include <atomic>
#include <cerrno>
#include <filesystem>
#include <fstream>
#include <latch>
#include <map>
#include <mutex>
#include <set>
#include <sstream>
#include <thread>
#include <vector>

#include <boost/json.hpp>
#include <fmt/format.h>
#include <gtest/gtest.h>
#include <openssl/sha.h>

#include "gateway/audit_index.h"
#include "gateway/audit_io.h"
#include "gateway/audit_reader.h"
#include "gateway/audit_row.h"
#include "gateway/testing/audit_folder.h"

namespace surety::gateway {
namespace {

using boost::json::object;

std::unique_ptr<AuditLog> OpenAudit(const std::string& path) {
  auto log = AuditLog::Open({.path = path}, Clock::Real());
  EXPECT_TRUE(log.has_value()) << (log ? "" : log.error().ToString());
  return log ? *std::move(log) : nullptr;
}

object AuditBody(std::string id, int64_t n = 0) { return {{"id", std::move(id)}, {"n", n}, {"nested", {1, "\"}"}}}; }

// A small log of different rows, one of them with what a careless reader of JSON stumbles over.
std::string MakeSmallAudit(const std::string& path, int n_rows) {
  const auto log = OpenAudit(path);
  for (int i = 0; i < n_rows; ++i) {
    object body = AuditBody(fmt::format("dec_{}", i), i);
    if (i == 1) body["text"] = "} \" \\ \n ,\"hash\":\"";
    EXPECT_TRUE(log->Append(i % 2 == 0 ? "decision" : "review", std::move(body)).has_value());
  }
  return ReadAuditBytes(path);
}

// The chain, checked by other code: a JSON library for the members, OpenSSL's own function for the digest.
void ExpectChainByOtherMeans(const std::string& bytes) {
  std::istringstream lines(bytes);
  std::string prev(64, '0');
  int64_t seq = 0;
  for (std::string line; std::getline(lines, line); ++seq) {
    const object row = boost::json::parse(line).as_object();
    ASSERT_EQ(row.at("seq").as_int64(), seq);
    ASSERT_EQ(row.at("prev").as_string(), prev);
    const std::string hash(row.at("hash").as_string());
    std::string canonical = line;
    canonical.erase(canonical.rfind(",\"hash\":\"" + hash + "\""), 9 + 64 + 1);
    unsigned char digest[SHA256_DIGEST_LENGTH];
    SHA256(reinterpret_cast<const unsigned char*>(canonical.data()), canonical.size(), digest);
    std::string hex;
    for (const unsigned char byte : digest) hex += fmt::format("{:02x}", byte);
    ASSERT_EQ(hash, hex);
    prev = hash;
  }
}

TEST(AuditRowTest, ARowIsAFixedLineWhoseHashAnyProgramComputes) {
  std::string hash;
  const std::string line = AuditLine({7, 1234, AuditChainStart(), "decision", R"({"id":"dec_1"})", {}}, hash);
  EXPECT_EQ(line, R"({"seq":7,"time":1234,"prev":")" + std::string(64, '0') +
                      R"(","kind":"decision","body":{"id":"dec_1"},"hash":")" + hash + "\"}");
  // printf '%s' '{"seq":7,...,"body":{"id":"dec_1"}}' | sha256sum
  EXPECT_EQ(hash, "433daff5ed9ef39912539927db69cec163328937aa3887ad654227fe33b25161");
  const auto parsed = ParseAuditLine(line);
  ASSERT_TRUE(parsed.has_value());
  EXPECT_EQ(parsed->seq, 7);
  EXPECT_EQ(parsed->body, R"({"id":"dec_1"})");
}

TEST(AuditRowTest, AMemberIsFoundAtTheTopOfTheBodyOnly) {
  EXPECT_EQ(AuditTextMember(R"({"a":{"id":"inner"},"b":["id"],"c":"id","id":"out\"er\u00e9"})", "id"), "out\"er\u00e9");
  EXPECT_EQ(AuditTextMember(R"({"a":{"id":"inner"}})", "id"), "");
  EXPECT_EQ(AuditTextMember(R"({"id":5})", "id"), "");
  EXPECT_EQ(AuditTextMember(R"({"a":"\\","b":"\\\"\\","id":"x\\"})", "id"), "x\\");
  EXPECT_EQ(AuditTextMember(R"({"a":"\\\\\"","":"","id":""})", "id"), "");
  EXPECT_EQ(AuditTextMember(R"({"id":"cut \)", "id"), "");
  EXPECT_EQ(AuditTextMember(R"({"x":"\"id\":\"no\"","id":""})", "id"), "");
}

TEST(AuditRowTest, ABodyThatCouldNotBeReadAgainIsRefused) {
  object deep;
  for (int i = 0; i < kMaxAuditBodyDepth + 1; ++i) deep = object{{"d", std::move(deep)}};
  EXPECT_EQ(AuditBodyText(deep).error().code(), StatusCode::kInvalidArgument);
  EXPECT_EQ(AuditBodyText({{"text", std::string(kMaxAuditRowBytes, 'x')}}).error().code(),
            StatusCode::kInvalidArgument);
  EXPECT_EQ(*AuditBodyText({{"t", "a\xFF" "b\xC3\xA9"}}), "{\"t\":\"a\xEF\xBF\xBD" "b\xC3\xA9\"}");
  const AuditFolder folder;
  const auto log = OpenAudit(folder.path("audit.log"));
  object allowed;
  for (int i = 0; i < kMaxAuditBodyDepth - 1; ++i) allowed = object{{"d", std::move(allowed)}};
  EXPECT_TRUE(log->Append("decision", allowed).has_value());
  EXPECT_TRUE(ReadAuditLog(folder.path("audit.log"), [](const AuditRow&) { return true; }).ok());
  EXPECT_EQ(log->Append("Decision\"", {}).error().code(), StatusCode::kInvalidArgument);
  EXPECT_EQ(log->n_rows(), 1);
}

TEST(AuditLogTest, RowsComeBackAsTheyWereAndOtherCodeFindsTheChainWhole) {
  const AuditFolder folder;
  const std::string bytes = MakeSmallAudit(folder.path("audit.log"), 5);
  ExpectChainByOtherMeans(bytes);
  int64_t n = 0;
  EXPECT_TRUE(ReadAuditLog(folder.path("audit.log"), [&](const AuditRow& row) {
                EXPECT_EQ(row.seq, n);
                EXPECT_EQ(row.body.at("id").as_string(), fmt::format("dec_{}", n));
                EXPECT_EQ(row.body.at("n").to_number<int64_t>(), n);
                return ++n < 4;
              }).ok());
  EXPECT_EQ(n, 4);
  const auto report = VerifyAuditLog(folder.path("audit.log"));
  ASSERT_TRUE(report.has_value());
  EXPECT_EQ(report->n_rows, 5);
  EXPECT_FALSE(report->torn_tail);
}

TEST(AuditLogTest, ALogThatIsOpenedAgainGoesOn) {
  const AuditFolder folder;
  const std::string path = folder.path("audit.log");
  for (int i = 0; i < 3; ++i) {
    const auto log = OpenAudit(path);
    EXPECT_EQ(log->n_rows(), i);
    const auto row = log->Append("decision", AuditBody("same", i));
    ASSERT_TRUE(row.has_value());
    EXPECT_EQ(row->seq, i);
    EXPECT_EQ(log->Find("decision", "same")->body.at("n").to_number<int>(), i);
  }
  ExpectChainByOtherMeans(ReadAuditBytes(path));
  struct stat info {};
  ASSERT_EQ(::stat(path.c_str(), &info), 0);
  EXPECT_EQ(info.st_mode & 0777, 0600u);
}

TEST(AuditLogTest, ASecondOpenerIsRefusedWhileTheFirstLives) {
  const AuditFolder folder;
  const std::string path = folder.path("audit.log");
  {
    const auto log = OpenAudit(path);
    EXPECT_EQ(AuditLog::Open({.path = path}, Clock::Real()).error().code(), StatusCode::kFailedPrecondition);
  }
  EXPECT_NE(OpenAudit(path), nullptr);
  EXPECT_EQ(AuditLog::Open({.path = folder.path("no/audit.log")}, Clock::Real()).error().code(),
            StatusCode::kNotFound);
  EXPECT_EQ(AuditLog::Open({.path = "/dev/null"}, Clock::Real()).error().code(), StatusCode::kInvalidArgument);
}

TEST(AuditLogTest, FindKnowsTheNewestRowOfAKindAndId) {
  const AuditFolder folder;
  const std::string path = folder.path("audit.log");
  const auto check = [](const AuditLog& log) {
    for (int i = 0; i < 40; ++i) {
      const std::string id = fmt::format("dec_{}", i);
      ASSERT_TRUE(log.Find("decision", id).has_value()) << i;
      EXPECT_EQ(log.Find("decision", id)->body.at("n").to_number<int>(), i + (i < 10 ? 1000 : 0));
      EXPECT_EQ(log.Find("review", id).has_value(), i % 2 == 0);
    }
    EXPECT_EQ(log.Find("decision", "dec_40").error().code(), StatusCode::kNotFound);
    EXPECT_EQ(log.Find("decision", "").error().code(), StatusCode::kNotFound);
  };
  // All in memory; a part; two rows.
  for (const int64_t indexed : {int64_t{4'000'000}, int64_t{30}, int64_t{2}}) {
    std::filesystem::remove(path);
    {
      auto log = AuditLog::Open({.path = path, .max_indexed_rows = indexed}, Clock::Real());
      ASSERT_TRUE(log.has_value());
      for (int i = 0; i < 40; ++i) {
        ASSERT_TRUE((*log)->Append("decision", AuditBody(fmt::format("dec_{}", i), i)).has_value());
        if (i % 2 == 0) {
          ASSERT_TRUE((*log)->Append("review", AuditBody(fmt::format("dec_{}", i), i)).has_value());
        }
      }
      for (int i = 0; i < 10; ++i) {
        ASSERT_TRUE((*log)->Append("decision", AuditBody(fmt::format("dec_{}", i), i + 1000)).has_value());
      }
      check(**log);
    }
    auto log = AuditLog::Open({.path = path, .max_indexed_rows = indexed}, Clock::Real());
    ASSERT_TRUE(log.has_value());
    check(**log);
  }
}

TEST(AuditIndexTest, HoldsWhatAMapHoldsInBoundedMemory) {
  AuditIndex index(10'000);
  std::map<std::string, int64_t> model;
  for (int64_t i = 0; i < 100'000; ++i) {
    const std::string id = std::to_string(i * 7919 % 30'011);
    index.Add("decision", id, i);
    model[id] = i;
  }
  int64_t known = 0;
  for (const auto& [id, offset] : model) {
    const auto found = index.Find("decision", id);
    EXPECT_TRUE(found == offset || (!found && offset < index.complete_from())) << id;
    known += found ? 1 : 0;
    EXPECT_EQ(index.Find("review", id), std::nullopt);
  }
  EXPECT_GE(known, 5'000);
  EXPECT_LE(known, 10'000);
  EXPECT_LE(index.size_bytes(), 10'000 * 43);
}

TEST(AuditLogTest, ManyThreadsShareTheChain) {
  const AuditFolder folder;
  const std::string path = folder.path("audit.log");
  std::set<int64_t> seqs;
  {
    const auto log = OpenAudit(path);
    std::mutex mutex;
    std::vector<std::thread> threads;
    for (int t = 0; t < 8; ++t) {
      threads.emplace_back([&, t] {
        for (int i = 0; i < 25; ++i) {
          const auto row = log->Append("decision", AuditBody(fmt::format("dec_{}_{}", t, i), i));
          ASSERT_TRUE(row.has_value());
          ASSERT_TRUE(log->Find("decision", fmt::format("dec_{}_{}", t, i)).has_value());
          std::lock_guard lock(mutex);
          seqs.insert(row->seq);
        }
      });
    }
    for (std::thread& thread : threads) thread.join();
  }
  EXPECT_EQ(seqs.size(), 200u);
  EXPECT_EQ(*seqs.rbegin(), 199);
  ExpectChainByOtherMeans(ReadAuditBytes(path));
}

TEST(AuditLogTest, TheDestructorWritesWhatWaits) {
  const AuditFolder folder;
  const std::string path = folder.path("audit.log");
  std::atomic<int> called{0}, good{0};
  {
    const auto log = OpenAudit(path);
    for (int i = 0; i < 500; ++i) {
      log->AppendAsync("decision", AuditBody(fmt::format("dec_{}", i)), [&](Result<AuditRow> row) {
        ++called;
        if (row) ++good;
      });
    }
  }
  EXPECT_EQ(called, 500);
  EXPECT_EQ(good, 500);
  EXPECT_EQ(VerifyAuditLog(path)->n_rows, 500);
}

class StandingClock final : public Clock {
 public:
  int64_t NowNanos() const override { return 1; }
  int64_t WallNanos() const override { return 1'800'000'000'123'456'789; }
  void SleepNanos(int64_t) override {}
};

// The same bodies as objects and as their text: the same bytes, the same refusals, the same index.
TEST(AuditLogTest, ABodyThatIsTextIsWrittenAsTheObjectWouldBe) {
  const AuditFolder folder;
  const StandingClock clock;
  object deep;
  for (int i = 0; i < kMaxAuditBodyDepth + 1; ++i) deep = object{{"d", std::move(deep)}};
  const std::vector<object> bodies = {AuditBody("dec_1", 1),
                                      {{"id", "a\xFF\xC3\xA9\"\\\n"}, {"n", 0.1}},
                                      {{"n", 1}},
                                      deep,
                                      {{"id", "long"}, {"text", std::string(kMaxAuditRowBytes, 'x')}},
                                      AuditBody("dec_2", 2)};
  std::vector<std::string> bytes;
  std::vector<std::vector<StatusCode>> codes(2);
  for (const bool as_text : {false, true}) {
    const std::string path = folder.path(as_text ? "text.log" : "object.log");
    UnsyncedAuditIo io;
    {
      const auto log = OpenAuditLog({.path = path}, clock, io);
      ASSERT_TRUE(log);
      for (const object& body : bodies) {
        std::latch done(1);
        const auto note = [&](Result<AuditRow> row) {
          codes[as_text].push_back(row ? StatusCode::kOk : row.error().code());
          done.count_down();
        };
        as_text ? (*log)->AppendTextHere("decision", boost::json::serialize(body), note)
                : (*log)->AppendAsync("decision", body, note);
        done.wait();
      }
      EXPECT_EQ((*log)->Find("decision", "dec_2")->body, bodies.back());
      EXPECT_EQ((*log)->Find("decision", "long").error().code(), StatusCode::kNotFound);
    }
    bytes.push_back(ReadAuditBytes(path));
  }
  EXPECT_EQ(bytes[0], bytes[1]);
  EXPECT_EQ(codes[0], codes[1]);
  EXPECT_EQ(std::ranges::count(codes[1], StatusCode::kInvalidArgument), 2);
  EXPECT_EQ(std::ranges::count(codes[1], StatusCode::kOk), 4);
}

TEST(AuditLogTest, ACallbackMayAppend) {
  const AuditFolder folder;
  std::latch done(2);
  const auto log = OpenAudit(folder.path("audit.log"));
  log->AppendAsync("decision", AuditBody("one"), [&](Result<AuditRow> row) {
    EXPECT_TRUE(row.has_value());
    EXPECT_TRUE(log->Append("decision", AuditBody("two")).has_value());
    log->AppendAsync("decision", AuditBody("three"), [&](Result<AuditRow>) { done.count_down(); });
    done.count_down();
  });
  done.wait();
  EXPECT_EQ(log->n_rows(), 3);
}

// A disk that takes its time until it is told to go on.
class SlowAuditIo final : public AuditIo {
 public:
  int Sync(int fd) override {
    if (armed) {
      entered.count_down();
      go_on.wait();
      if (fails) return -EIO;
    }
    return AuditIo::Sync(fd);
  }
  std::atomic<bool> armed{false}, fails{false};
  std::latch entered{1}, go_on{1};
};

TEST(AuditLogTest, NoMoreRowsWaitThanAllowedAndRefusalsComeAtOnce) {
  const AuditFolder folder;
  SlowAuditIo io;
  auto log = OpenAuditLog({.path = folder.path("audit.log"), .max_waiting = 3}, Clock::Real(), io);
  ASSERT_TRUE(log.has_value());
  io.armed = true;
  std::atomic<int> good{0};
  const auto count = [&](Result<AuditRow> row) { good += row ? 1 : 0; };
  (*log)->AppendAsync("decision", AuditBody("1"), count);
  io.entered.wait();
  io.armed = false;
  (*log)->AppendAsync("decision", AuditBody("2"), count);
  (*log)->AppendAsync("decision", AuditBody("3"), count);
  EXPECT_EQ((*log)->Append("decision", AuditBody("4")).error().code(), StatusCode::kResourceExhausted);
  std::latch refused(1);
  (*log)->AppendAsync("decision", AuditBody("5"), [&](Result<AuditRow> row) {
    EXPECT_EQ(row.error().code(), StatusCode::kResourceExhausted);
    refused.count_down();
  });
  refused.wait();  // while the disk still stands
  EXPECT_FALSE((*log)->failed());
  EXPECT_EQ((*log)->Find("decision", "1").error().code(), StatusCode::kNotFound);  // not yet on disk
  io.go_on.count_down();
  while ((*log)->n_rows() < 3) std::this_thread::yield();
  EXPECT_FALSE((*log)->failed());
  log->reset();
  EXPECT_EQ(good, 3);
  EXPECT_EQ(VerifyAuditLog(folder.path("audit.log"))->n_rows, 3);
}

// Who comes while another writes is not held up; in the file and in the calls there is one order.
TEST(AuditLogTest, WhoFindsNobodyWritingWritesHereAndOthersGoOn) {
  const AuditFolder folder;
  SlowAuditIo io;
  auto log = OpenAuditLog({.path = folder.path("audit.log")}, Clock::Real(), io);
  ASSERT_TRUE(log.has_value());
  std::mutex mutex;
  std::vector<int64_t> called;
  std::vector<std::thread::id> callers;
  const auto note = [&](Result<AuditRow> row) {
    ASSERT_TRUE(row.has_value());
    const std::lock_guard lock(mutex);
    called.push_back(row->seq);
    callers.push_back(std::this_thread::get_id());
  };
  (*log)->AppendTextHere("decision", boost::json::serialize(AuditBody("0")), note);
  EXPECT_EQ(callers, std::vector{std::this_thread::get_id()});   // on disk before it returned
  EXPECT_EQ((*log)->n_rows(), 1);
  io.armed = true;
  std::thread slow([&] { (*log)->AppendTextHere("decision", boost::json::serialize(AuditBody("1")), note); });
  io.entered.wait();
  io.armed = false;
  for (const char* id : {"2", "3", "4"}) {
    (*log)->AppendTextHere("decision", boost::json::serialize(AuditBody(id)), note);
  }
  EXPECT_EQ((*log)->n_rows(), 1);   // they wait, but not their caller
  io.go_on.count_down();
  slow.join();
  while ((*log)->n_rows() < 5) std::this_thread::yield();
  log->reset();
  EXPECT_EQ(called, (std::vector<int64_t>{0, 1, 2, 3, 4}));
  EXPECT_EQ(VerifyAuditLog(folder.path("audit.log"))->n_rows, 5);
}

TEST(AuditLogTest, OfManyThreadsEachRowIsCalledOnceAndInOrder) {
  const AuditFolder folder;
  auto log = AuditLog::Open({.path = folder.path("audit.log")}, Clock::Real());
  ASSERT_TRUE(log.has_value());
  constexpr int kThreads = 6, kRows = 200;
  std::vector<int64_t> called;   // one thread at a time: no mutex
  std::vector<std::thread> threads;
  for (int t = 0; t < kThreads; ++t) {
    threads.emplace_back([&, t] {
      for (int i = 0; i < kRows; ++i) {
        const auto note = [&](Result<AuditRow> row) { called.push_back(row ? row->seq : -1); };
        const std::string id = std::to_string(t) + "_" + std::to_string(i);
        if (i % 3 == 0) {
          (*log)->AppendAsync("decision", AuditBody(id), note);
        } else if (i % 3 == 1) {
          (*log)->AppendTextHere("decision", boost::json::serialize(AuditBody(id)), note);
        } else {
          EXPECT_TRUE((*log)->Append("review", AuditBody(id)));
        }
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
  log->reset();
  EXPECT_EQ(called.size(), static_cast<size_t>(kThreads * (kRows - kRows / 3)));
  EXPECT_TRUE(std::ranges::is_sorted(called));
  EXPECT_EQ(std::ranges::count(called, -1), 0);
  EXPECT_EQ(VerifyAuditLog(folder.path("audit.log"))->n_rows, kThreads * kRows);
}

// As the governed path does where a row with its texts is too long.
TEST(AuditLogTest, WhatIsCalledMayAppendAgain) {
  const AuditFolder folder;
  auto log = AuditLog::Open({.path = folder.path("audit.log")}, Clock::Real());
  ASSERT_TRUE(log.has_value());
  std::latch done(2);
  std::function<void(Result<AuditRow>)> again = [&](Result<AuditRow> row) {
    ASSERT_TRUE(row.has_value());
    done.count_down();
    if (row->seq == 0) (*log)->AppendTextHere("decision", boost::json::serialize(AuditBody("second")), again);
  };
  (*log)->AppendTextHere("decision", boost::json::serialize(AuditBody("first")), again);
  done.wait();
  EXPECT_EQ((*log)->n_rows(), 2);
}

TEST(AuditLogTest, RowsThatWaitBehindAFailedSyncFailToo) {
  const AuditFolder folder;
  SlowAuditIo io;
  auto log = OpenAuditLog({.path = folder.path("audit.log")}, Clock::Real(), io);
  ASSERT_TRUE(log.has_value());
  io.armed = io.fails = true;
  std::atomic<int> good{0}, bad{0};
  const auto count = [&](Result<AuditRow> row) { ++(row ? good : bad); };
  (*log)->AppendAsync("decision", AuditBody("1"), count);
  io.entered.wait();
  for (int i = 0; i < 5; ++i) (*log)->AppendAsync("decision", AuditBody("behind"), count);
  io.armed = false;  // the disk is well again: it has lost what it lost
  io.go_on.count_down();
  log->reset();
  EXPECT_EQ(good, 0);
  EXPECT_EQ(bad, 6);
  EXPECT_EQ(VerifyAuditLog(folder.path("audit.log"))->n_rows, 0);
}

TEST(AuditLogTest, AFileThatIsTakenAwayOrCutUnderTheLogFailsTheNextAppend) {
  const AuditFolder folder;
  const std::string path = folder.path("audit.log");
  const auto after = [&](auto meddle) {
    std::filesystem::remove(path);
    auto log = OpenAudit(path);
    EXPECT_TRUE(log->Append("decision", AuditBody("1")).has_value());
    meddle();
    EXPECT_EQ(log->Append("decision", AuditBody("2")).error().code(), StatusCode::kIoError);
    EXPECT_TRUE(log->failed());
    EXPECT_EQ(log->Append("decision", AuditBody("3")).error().code(), StatusCode::kIoError);
  };
  after([&] { std::filesystem::rename(path, path + ".1"); });
  after([&] { std::filesystem::remove(path); });
  after([&] { std::filesystem::resize_file(path, 10); });
  after([&] { std::ofstream(path, std::ios::app) << "x"; });
}

}  // namespace
}  // namespace surety::gateway
