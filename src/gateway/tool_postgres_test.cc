// Tools over a real PostgreSQL server of the test's own; skipped where none is installed, unless SURETY_NEED_POSTGRES
// is set. And against servers that are none.
#include <fcntl.h>
#include <grp.h>
#include <pwd.h>
#include <signal.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include <boost/json.hpp>
#include <cstdlib>
#include <filesystem>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <thread>

#include "base/clock.h"
#include "gateway/testing/scripted_server.h"
#include "gateway/testing/test_certificates.h"
#include "gateway/tool_call.h"

namespace surety::gateway {
namespace {

namespace json = boost::json;
using ::testing::HasSubstr;

ToolCall PostgresCall(const std::string& database, const std::string& query, ToolArguments arguments = {},
                      int64_t ms = 10'000) {
  ToolCall call;
  call.spec.name = "t";
  call.spec.by = ToolSpec::By::kSql;
  call.spec.database = database;
  call.spec.query = query;
  call.arguments = std::move(arguments);
  call.idempotency_key = "key-1";
  call.spec.deadline_ns = ms * 1'000'000;
  call.deadline_ns = Clock::Real().NowNanos() + call.spec.deadline_ns;
  return call;
}

std::string PostgresText(const ToolOutcome& outcome) {
  return outcome.value ? CanonicalJson(*outcome.value) : outcome.value.error().ToString();
}

// Runs a program as the account of the server, which refuses to be root's.
pid_t StartAsPostgres(std::vector<std::string> words) {
  const passwd* account = ::geteuid() == 0 ? ::getpwnam("postgres") : nullptr;
  std::vector<char*> arguments;
  for (std::string& word : words) arguments.push_back(word.data());
  arguments.push_back(nullptr);
  const pid_t parent = ::getpid(), pid = ::fork();
  if (pid != 0) return pid;
  const int quiet = ::open("/dev/null", O_RDWR);
  for (int fd = 0; fd < 3; ++fd) ::dup2(quiet, fd);
  if (account != nullptr &&
      (::setgroups(0, nullptr) != 0 || ::setgid(account->pw_gid) != 0 || ::setuid(account->pw_uid) != 0)) {
    ::_exit(126);
  }
  ::prctl(PR_SET_PDEATHSIG, SIGQUIT);
  if (::getppid() != parent || ::chdir("/") != 0) ::_exit(126);
  ::execv(arguments[0], arguments.data());
  ::_exit(127);
}

class ToolPostgresTest : public ::testing::Test {
 protected:
  static void SetUpTestSuite() {
    std::error_code ignored;
    std::string bin;
    for (const auto& entry : std::filesystem::directory_iterator("/usr/lib/postgresql", ignored)) {
      if (std::filesystem::exists(entry.path() / "bin/initdb")) bin = (entry.path() / "bin").string();
    }
    const passwd* account = ::getpwnam("postgres");
    if (bin.empty() || (::geteuid() == 0 && account == nullptr)) return;
    folder_ = std::make_unique<TestFolder>();
    ASSERT_TRUE(::geteuid() != 0 || ::chown(folder_->path().c_str(), account->pw_uid, account->pw_gid) == 0);
    const std::string data = folder_->path() + "/data";
    int status = 0;
    ::waitpid(StartAsPostgres({bin + "/initdb", "-D", data, "-U", "bank", "-A", "trust", "-E", "UTF8", "--locale=C",
                               "--no-sync"}), &status, 0);
    ASSERT_EQ(status, 0) << "initdb";
    server_ = StartAsPostgres({bin + "/postgres", "-D", data, "-k", folder_->path(), "-c", "listen_addresses=", "-c",
                               "fsync=off", "-c", "shared_buffers=16MB"});
    for (int i = 0; i < 400 && Ask("SELECT 1 AS one") != R"({"one":1})"; ++i) {
      std::this_thread::sleep_for(std::chrono::milliseconds(50));
    }
    ASSERT_EQ(Ask("SELECT 1 AS one"), R"({"one":1})");
  }
  static void TearDownTestSuite() {
    if (server_ > 0) {
      ::kill(server_, SIGQUIT);
      ::waitpid(server_, nullptr, 0);
    }
    folder_.reset();
  }
  void SetUp() override {
    if (server_ == 0 && std::getenv("SURETY_NEED_POSTGRES") == nullptr) GTEST_SKIP() << "PostgreSQL is not installed";
    ASSERT_GT(server_, 0);
  }

  static std::string Database() {
    std::string host;
    for (const char c : folder_->path()) host += c == '/' ? std::string("%2F") : std::string(1, c);
    return "postgresql://bank@/postgres?host=" + host;
  }
  static std::string Ask(const std::string& query, ToolArguments arguments = {}) {
    return PostgresText(CallPostgresTool(PostgresCall(Database(), query, std::move(arguments))));
  }
  static ToolOutcome Write(const std::string& query, ToolArguments arguments = {}, int64_t ms = 10'000) {
    ToolCall call = PostgresCall(Database(), query, std::move(arguments), ms);
    call.spec.kind = ToolSpec::Kind::kWrite;
    return CallPostgresTool(call);
  }

  static inline std::unique_ptr<TestFolder> folder_;
  static inline pid_t server_ = 0;
};

TEST_F(ToolPostgresTest, TypesBecomeJson) {
  EXPECT_EQ(Ask("SELECT true AS b, 7::int2 AS s, 9007199254740993 AS big, 1.5::float8 AS d, 10.25::numeric AS amount,"
                " 1234567890123456.78::numeric AS wide, 'x' AS t, NULL::text AS n, '{\"k\":[1]}'::jsonb AS j,"
                " DATE '2026-11-30' AS day"),
            R"({"amount":10.25,"b":true,"big":9007199254740993,"d":1.5,"day":"2026-11-30","j":{"k":[1]},"n":null,)"
            R"("s":7,"t":"x","wide":"1234567890123456.78"})");
  EXPECT_EQ(Ask("SELECT i FROM generate_series(1, 2) AS i"), R"({"rows":[{"i":1},{"i":2}]})");
  EXPECT_EQ(Ask("SELECT 1 AS x WHERE false"), R"({"rows":[]})");
  EXPECT_THAT(Ask("SELECT i FROM generate_series(1, 5000) AS i"), HasSubstr("more than 1000 rows"));
  EXPECT_THAT(Ask("SELECT 1 AS x, 2 AS x"), HasSubstr("two columns"));
}

TEST_F(ToolPostgresTest, ArgumentsAreBoundAndReadsChangeNothing) {
  ASSERT_EQ(PostgresText(Write("CREATE TABLE cases(id text PRIMARY KEY, amount int)")), R"({"changed":0})");
  ASSERT_EQ(PostgresText(Write("INSERT INTO cases VALUES ('1', 100)")), R"({"changed":1})");
  for (const char* hostile : {"' OR '1'='1", "1'; DROP TABLE cases; --", "$1", ":case", "\\'", "E'\\''"}) {
    EXPECT_EQ(Ask("SELECT id FROM cases WHERE id = :case", {{"case", hostile}}), R"({"rows":[]})") << hostile;
    EXPECT_EQ(Ask("SELECT :case::text AS given", {{"case", hostile}}),
              CanonicalJson(json::object{{"given", hostile}}));
  }
  EXPECT_EQ(Ask("SELECT amount FROM cases WHERE id = :case AND :case <> ''", {{"case", "1"}}), R"({"amount":100})");
  EXPECT_THAT(Ask("SELECT :case AS x", {{"case", std::string("a\0b", 3)}}), HasSubstr("zero byte"));
  for (const char* bad : {"DELETE FROM cases", "WITH x AS (DELETE FROM cases RETURNING 1) SELECT 1",
                          "SELECT id FROM cases FOR UPDATE", "SELECT 1; DELETE FROM cases", "DROP TABLE cases",
                          "SELECT nothing FROM cases", "COPY cases TO STDOUT"}) {
    EXPECT_THAT(Ask(bad), ::testing::ContainsRegex("INVALID_ARGUMENT|UNAVAILABLE")) << bad;
  }
  EXPECT_EQ(Ask("SELECT count(*) AS n FROM cases"), R"({"n":1})");
  const ToolOutcome twice = Write("INSERT INTO cases VALUES ('1', 1)");
  EXPECT_EQ(twice.effect, ToolEffect::kRefused);
  EXPECT_EQ(PostgresText(Write("INSERT INTO cases VALUES (:idempotency_key, 1) RETURNING id")), R"({"id":"key-1"})");
}

TEST_F(ToolPostgresTest, DetailsWithContentsOfRowsAreInNoMessage) {
  ASSERT_EQ(PostgresText(Write("CREATE TABLE people(name text PRIMARY KEY)")), R"({"changed":0})");
  ASSERT_EQ(PostgresText(Write("INSERT INTO people VALUES (:name)", {{"name", "MARKER-77"}})), R"({"changed":1})");
  const std::string twice = PostgresText(Write("INSERT INTO people VALUES (:name)", {{"name", "MARKER-77"}}));
  EXPECT_THAT(twice, HasSubstr("duplicate key"));
  EXPECT_THAT(twice, ::testing::Not(HasSubstr("MARKER-77")));
}

// What a query would give is far more than this process may hold.
TEST_F(ToolPostgresTest, OfALargeResultNoMoreThanTheLimitIsHeld) {
  const auto peak_kib = [] {
    rusage usage{};
    ::getrusage(RUSAGE_SELF, &usage);
    return usage.ru_maxrss;
  };
  (void)Ask("SELECT 1 AS x");
  const int64_t before = peak_kib();
  EXPECT_THAT(Ask("SELECT repeat('x', 10000) AS x FROM generate_series(1, 30000)"), HasSubstr("1 MiB"));
  ASSERT_EQ(PostgresText(Write("CREATE TABLE many(x text)")), R"({"changed":0})");
  const ToolOutcome written =
      Write("INSERT INTO many SELECT repeat('x', 10000) FROM generate_series(1, 20000) RETURNING x", {}, 60'000);
  EXPECT_THAT(PostgresText(written), HasSubstr("1 MiB"));
  EXPECT_EQ(written.effect, ToolEffect::kDone);
  EXPECT_EQ(Ask("SELECT count(*) AS n FROM many"), R"({"n":20000})");
#if !defined(__SANITIZE_ADDRESS__) && !defined(__SANITIZE_THREAD__)  // what was freed stays in quarantine there
  EXPECT_LT(peak_kib() - before, 100 << 10);
#endif
}

TEST_F(ToolPostgresTest, SlowQueriesEndAtTheDeadlineOnBothSides) {
  const int64_t begun = Clock::Real().NowNanos();
  const ToolOutcome read = CallPostgresTool(PostgresCall(Database(), "SELECT pg_sleep(30) AS x", {}, 300));
  EXPECT_EQ(read.value.error().code(), StatusCode::kDeadlineExceeded) << PostgresText(read);
  const ToolOutcome write = Write("SELECT pg_sleep(30)", {}, 300);
  EXPECT_EQ(write.value.error().code(), StatusCode::kDeadlineExceeded);
  EXPECT_LT(Clock::Real().NowNanos() - begun, 10'000'000'000);
  for (int i = 0; i < 100 && Ask("SELECT count(*) AS n FROM pg_stat_activity WHERE query LIKE '%pg_sleep(30)%' AND"
                                 " pid <> pg_backend_pid() AND state = 'active'") != R"({"n":0})"; ++i) {
    std::this_thread::sleep_for(std::chrono::milliseconds(50));
  }
  EXPECT_EQ(Ask("SELECT count(*) AS n FROM pg_stat_activity WHERE query LIKE '%pg_sleep(30)%' AND"
                " pid <> pg_backend_pid() AND state = 'active'"), R"({"n":0})") << "the server has stopped it";
}

TEST(ToolPostgresAwayTest, NoPartOfAPasswordReachesAMessage) {
  for (const char* bad : {"postgresql://u:se%zzcret@h/x", "postgresql://u:secret@[h/x",
                          "postgresql://h/x?password=secret&nothing=1"}) {
    ToolSpec spec = PostgresCall(bad, "SELECT 1").spec;
    const Status checked = CheckSqlTool(spec);
    EXPECT_EQ(checked.code(), StatusCode::kInvalidArgument) << bad;
    EXPECT_THAT(checked.message() + PostgresText(CallPostgresTool(PostgresCall(bad, "SELECT 1"))),
                ::testing::Not(HasSubstr("cret"))) << bad;
  }
  EXPECT_TRUE(CheckSqlTool(PostgresCall("postgresql://u:secret@h/x", "SELECT 1").spec).ok());
  EXPECT_EQ(ShownDatabase("postgresql://u:secret@h:5/x"), "postgresql://u:***@h:5/x");
  EXPECT_EQ(ShownDatabase("postgresql://u:se@cret@h/x"), "postgresql://u:***@h/x");
  EXPECT_EQ(ShownDatabase("postgresql://h/x?password=secret&sslpassword=secret"),
            "postgresql://h/x?password=***&sslpassword=***");
  EXPECT_EQ(ShownDatabase("postgresql://u@h/x"), "postgresql://u@h/x");
  EXPECT_EQ(ShownDatabase("cases.db"), "cases.db");
}

TEST(ToolPostgresAwayTest, ADatabaseMayStandInAVariable) {
  ::setenv("SURETY_TEST_DATABASE", "postgresql://u:secret@h/x", 1);
  EXPECT_EQ(DatabaseOf("os.environ/SURETY_TEST_DATABASE").value(), "postgresql://u:secret@h/x");
  ::unsetenv("SURETY_TEST_DATABASE");
  const auto missing = DatabaseOf("os.environ/SURETY_TEST_DATABASE");
  ASSERT_FALSE(missing);
  EXPECT_EQ(missing.error().code(), StatusCode::kFailedPrecondition);
  EXPECT_EQ(DatabaseOf("cases.db").value(), "cases.db");
}

TEST(ToolPostgresAwayTest, NoServerIsUnavailableAndASilentOneLate) {
  ScriptedServer silent([](ScriptedConnection& connection) { (void)connection.WaitForClose(5000); });
  const std::string address = "postgresql://u@127.0.0.1:" + std::to_string(silent.port()) + "/x?sslmode=disable";
  const int64_t begun = Clock::Real().NowNanos();
  ToolCall call = PostgresCall(address, "INSERT INTO t VALUES (1)", {}, 150);
  call.spec.kind = ToolSpec::Kind::kWrite;
  const ToolOutcome late = CallPostgresTool(call);
  EXPECT_EQ(late.value.error().code(), StatusCode::kDeadlineExceeded);
  EXPECT_EQ(late.effect, ToolEffect::kNotSent);
  EXPECT_LT(Clock::Real().NowNanos() - begun, 3'000'000'000);
  const ToolOutcome none = CallPostgresTool(PostgresCall("postgresql://u@127.0.0.1:1/x", "SELECT 1"));
  EXPECT_EQ(none.value.error().code(), StatusCode::kUnavailable);
  EXPECT_EQ(none.effect, ToolEffect::kNotSent);
}

}  // namespace
}  // namespace surety::gateway
