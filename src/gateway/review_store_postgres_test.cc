// The conformance suite on a real PostgreSQL server, and what only a server can do: go away, hang, cut connections.
#include <signal.h>

#include <chrono>
#include <cstdlib>
#include <thread>

#include <fmt/format.h>
#include <gtest/gtest.h>

#include "gateway/sql_pool.h"
#include "gateway/testing/postgres_server.h"
#include "gateway/testing/review_cases.h"

namespace surety::gateway {
namespace {

// One server for all tests of a process.
class ReviewStorePostgresTest : public testing::Test {
 protected:
  static void SetUpTestSuite() {
    auto started = PostgresServer::Start();
    if (started) {
      server_ = *std::move(started);
    } else {
      why_ = started.error();
    }
  }
  static void TearDownTestSuite() { server_.reset(); }
  void SetUp() override {
    const bool needed = std::getenv("SURETY_NEED_POSTGRES") != nullptr;
    if (why_.code() == StatusCode::kNotFound && !needed) GTEST_SKIP() << why_.message();
    ASSERT_NE(server_, nullptr) << why_.ToString();
  }
  static std::string Fresh() { return server_->Address(fmt::format("fresh{}", ++n_schemas_)); }

  static inline std::unique_ptr<PostgresServer> server_;
  static inline Status why_;
  static inline int n_schemas_ = 0;
};

TEST_F(ReviewStorePostgresTest, PassesTheConformanceSuite) {
  for (const ReviewCase& one : ReviewCases()) {
    SCOPED_TRACE(one.name);
    one.run(Fresh());
  }
}

TEST_F(ReviewStorePostgresTest, PassesTheRaces) {
  for (const ReviewCase& one : ReviewRaces()) {
    SCOPED_TRACE(one.name);
    one.run(Fresh());
  }
}

TEST_F(ReviewStorePostgresTest, GoesOnWhenTheServerComesBack) {
  ReviewTestClock clock;
  const auto store = ReviewStore::Open(Fresh(), ReviewTestQueues(), clock).value();
  Ticket t = store->Create(ReviewDraft("dec_1")).value();
  ASSERT_TRUE(server_->Stop().ok());
  const auto away = store->LeaseTicket(ReviewPerson("ann"), t.id, t.version);
  ASSERT_FALSE(away);
  EXPECT_EQ(away.error().code(), StatusCode::kUnavailable);
  ASSERT_TRUE(server_->Restart().ok());
  t = store->LeaseTicket(ReviewPerson("ann"), t.id, t.version).value();
  // Killed, it comes back with all that was committed, and the first call after it already works.
  server_->Crash();
  ASSERT_TRUE(server_->Restart().ok());
  t = store->Approve(ReviewPerson("ann"), t.id, t.version, "c", "").value();
  EXPECT_EQ(t.state, TicketState::kApproved);
}

TEST_F(ReviewStorePostgresTest, ACutConnectionIsReplaced) {
  ReviewTestClock clock;
  const std::string address = Fresh();
  const auto store = ReviewStore::Open(address, ReviewTestQueues(), clock).value();
  const Ticket made = store->Create(ReviewDraft("dec_1")).value();
  const auto other = MakePostgresSource(address).value()->Connect().value();
  const auto cut = other->Run("SELECT COUNT(pg_terminate_backend(pid, 5000)) FROM pg_stat_activity WHERE "
                              "application_name = 'surety' AND pid <> pg_backend_pid()");
  ASSERT_TRUE(cut) << cut.error().message();
  EXPECT_GE(cut->rows.at(0).Int(0), 1);
  EXPECT_EQ(store->Get(ReviewPerson("ann"), made.id).value().id, made.id);
}

TEST_F(ReviewStorePostgresTest, ALostConnectionInsideATransactionCommitsNothing) {
  const std::string address = Fresh();
  ReviewTestClock clock;
  const auto other = MakePostgresSource(address).value()->Connect().value();
  const auto cut = [&](const ReviewVote&) {
    (void)other->Run("SELECT COUNT(pg_terminate_backend(pid, 5000)) FROM pg_stat_activity WHERE state = 'idle in "
                     "transaction' AND pid <> pg_backend_pid()");
    return OkStatus();
  };
  bool cuts = true;
  const auto store = ReviewStore::Open(address, ReviewTestQueues(), clock,
                                       [&](const ReviewVote& vote) { return cuts ? cut(vote) : OkStatus(); }).value();
  Ticket t = store->Create(ReviewDraft("dec_1")).value();
  t = store->LeaseTicket(ReviewPerson("ann"), t.id, t.version).value();
  const auto lost = store->Approve(ReviewPerson("ann"), t.id, t.version, "c", "");
  ASSERT_FALSE(lost);
  EXPECT_EQ(lost.error().code(), StatusCode::kUnavailable);
  EXPECT_NE(lost.error().message().find("may have taken effect"), std::string::npos) << lost.error().message();
  EXPECT_EQ(store->Get(ReviewPerson("ann"), t.id).value().version, t.version);
  cuts = false;
  EXPECT_EQ(store->Approve(ReviewPerson("ann"), t.id, t.version, "c", "").value().votes.size(), 1u);
}

TEST_F(ReviewStorePostgresTest, ATransactionThatKeepsOldRowsIsReported) {
  ReviewTestClock clock;
  const std::string address = Fresh();
  const auto store = ReviewStore::Open(address, ReviewTestQueues(), clock).value();
  ASSERT_TRUE(store->Create(ReviewDraft("dec_1")));
  const auto reader = MakePostgresSource(address).value()->Connect().value();
  ASSERT_TRUE(reader->Begin(SqlConnection::Mode::kRead).ok());
  ASSERT_TRUE(reader->Run("SELECT COUNT(*) FROM review_tickets"));
  const auto blocked = store->Forget("acme", "author");
  ASSERT_FALSE(blocked);
  EXPECT_EQ(blocked.error().code(), StatusCode::kUnavailable) << blocked.error().message();
  ASSERT_TRUE(reader->Commit().ok());
  EXPECT_EQ(store->Forget("acme", "author").value(), 1);
  EXPECT_EQ(store->Forget("acme", "author").value(), 0);
}

TEST_F(ReviewStorePostgresTest, WaitingHasAnEnd) {
  PostgresTimeouts timeouts;
  timeouts.lock_ns = timeouts.statement_ns = timeouts.grace_ns = 200'000'000;
  const auto source = MakePostgresSource(Fresh(), timeouts).value();
  // A statement that takes too long: ended by the server, and the connection lives on.
  const auto connection = source->Connect().value();
  const auto slow = connection->Run("SELECT COUNT(pg_sleep(30))");
  ASSERT_FALSE(slow);
  EXPECT_EQ(slow.error().code(), StatusCode::kUnavailable);
  EXPECT_TRUE(connection->alive());
  EXPECT_TRUE(connection->Run("SELECT CAST(1 AS BIGINT)"));
  // A server that hangs: given up on this side.
  const int64_t pid = connection->Run("SELECT CAST(pg_backend_pid() AS BIGINT)").value().rows.at(0).Int(0);
  ASSERT_EQ(kill(static_cast<pid_t>(pid), SIGSTOP), 0);
  const int64_t before = Clock::Real().NowNanos();
  const auto hung = connection->Run("SELECT CAST(1 AS BIGINT)");
  kill(static_cast<pid_t>(pid), SIGCONT);
  ASSERT_FALSE(hung);
  EXPECT_EQ(hung.error().code(), StatusCode::kUnavailable);
  EXPECT_FALSE(connection->alive());
  EXPECT_LT(Clock::Real().NowNanos() - before, 10'000'000'000);
}

TEST_F(ReviewStorePostgresTest, ALockedTicketIsPassedOverAndNotForgotten) {
  const std::string address = Fresh();
  ReviewTestClock clock;
  const auto store = ReviewStore::Open(address, ReviewTestQueues(), clock).value();
  const Ticket first = store->Create(ReviewDraft("dec_1")).value();
  clock.SleepNanos(1);
  const Ticket second = store->Create(ReviewDraft("dec_2")).value();
  const auto other = MakePostgresSource(address).value()->Connect().value();
  ASSERT_TRUE(other->Begin(SqlConnection::Mode::kWrite).ok());
  ASSERT_TRUE(other->Run("SELECT id FROM review_tickets t WHERE id = $1 FOR UPDATE OF t", {first.id}));
  EXPECT_EQ(store->Lease(ReviewPerson("ann"), "plain").value().id, second.id);
  // Only the locked one is left: it is waited for, and "none" is not said while there is one.
  std::thread later([&] {
    std::this_thread::sleep_for(std::chrono::milliseconds(200));
    other->Rollback();
  });
  const auto waited = store->Lease(ReviewPerson("ann"), "plain");
  later.join();
  EXPECT_EQ(waited.value_or(Ticket{}).id, first.id) << (waited ? "" : waited.error().message());
}

TEST_F(ReviewStorePostgresTest, NoMessageHoldsThePassword) {
  ReviewTestClock clock;
  std::string wrong = server_->Address("");
  const std::string secret = "not-the-right-one";
  wrong.replace(wrong.find(PostgresServer::kPassword), std::string(PostgresServer::kPassword).size(), secret);
  const auto refused = ReviewStore::Open(wrong, ReviewTestQueues(), clock);
  ASSERT_FALSE(refused);
  EXPECT_EQ(refused.error().code(), StatusCode::kUnavailable);
  EXPECT_NE(refused.error().message().find("surety@"), std::string::npos) << refused.error().message();
  EXPECT_EQ(refused.error().message().find(secret), std::string::npos) << refused.error().message();
  EXPECT_TRUE(ReviewStore::Open(server_->Address("correct"), ReviewTestQueues(), clock));  // the right one opens
}

TEST(ReviewPostgresAddressTest, NoMessageHoldsThePassword) {
  ReviewTestClock clock;
  for (const std::string address :
       {"postgresql://u:SeCrEt%zz@/db", "postgresql://u:SeCrEt@[::1/db", "postgresql://u:SeCrEt@127.0.0.1:1/db",
        "postgresql://u@127.0.0.1:1/db?password=SeCrEt", "postgresql://u:SeCrEt@/db?host=/SeCrEt/none",
        "postgresql://u:SeCrEt@127.0.0.1:1/db?nonsense=SeCrEt"}) {
    const auto opened = ReviewStore::Open(address, ReviewTestQueues(), clock);
    ASSERT_FALSE(opened) << address;
    EXPECT_EQ(opened.error().message().find("SeCrEt"), std::string::npos) << opened.error().message();
  }
}

}  // namespace
}  // namespace surety::gateway
