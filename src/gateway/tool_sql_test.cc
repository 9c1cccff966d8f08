// Tools over SQL: what a query may do, what arguments can never do, and what rows become.
#include <sqlite3.h>

#include <boost/json.hpp>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "base/clock.h"
#include "gateway/testing/test_certificates.h"
#include "gateway/tool_call.h"

namespace surety::gateway {
namespace {

namespace json = boost::json;
using ::testing::ElementsAre;
using ::testing::HasSubstr;

class ToolSqliteTest : public ::testing::Test {
 protected:
  void SetUp() override {
    Execute("CREATE TABLE cases(id TEXT PRIMARY KEY, amount INTEGER, rate REAL, note TEXT, blob BLOB);"
            "INSERT INTO cases VALUES('1', 100, 0.5, 'first', x'00ff'), ('2', 9007199254740993, 1.0, NULL, NULL);"
            "CREATE TABLE secrets(word TEXT); INSERT INTO secrets VALUES('hidden');");
  }
  void Execute(const char* sql) {
    sqlite3* database = nullptr;
    ASSERT_EQ(sqlite3_open((folder_.path() + "/bank.db").c_str(), &database), SQLITE_OK);
    ASSERT_EQ(sqlite3_exec(database, sql, nullptr, nullptr, nullptr), SQLITE_OK) << sqlite3_errmsg(database);
    sqlite3_close(database);
  }
  ToolCall CallOf(const std::string& query, ToolArguments arguments = {}, int64_t ms = 5000) const {
    ToolCall call;
    call.spec.name = "t";
    call.spec.by = ToolSpec::By::kSql;
    call.spec.database = "bank.db";
    call.spec.query = query;
    for (const auto& [name, value] : arguments) call.spec.arguments.push_back(name);
    call.arguments = std::move(arguments);
    call.directory = folder_.path();
    call.idempotency_key = "key-1";
    call.deadline_ns = Clock::Real().NowNanos() + ms * 1'000'000;
    return call;
  }
  // The result's JSON, or its status.
  static std::string TextOf(const ToolOutcome& outcome) {
    return outcome.value ? CanonicalJson(*outcome.value) : outcome.value.error().ToString();
  }
  std::string Ask(const std::string& query, ToolArguments arguments = {}) const {
    return TextOf(CallSqliteTool(CallOf(query, std::move(arguments))));
  }

  const TestFolder folder_;
};

TEST_F(ToolSqliteTest, RowsBecomeObjects) {
  EXPECT_EQ(Ask("SELECT amount, rate, note FROM cases WHERE id = :case", {{"case", "1"}}),
            R"({"amount":100,"note":"first","rate":0.5})");
  EXPECT_EQ(Ask("SELECT amount, note FROM cases WHERE id = :case;", {{"case", "2"}}),
            R"({"amount":9007199254740993,"note":null})");
  EXPECT_EQ(Ask("SELECT id FROM cases WHERE id = :case", {{"case", "9"}}), R"({"rows":[]})");
  EXPECT_EQ(Ask("SELECT id FROM cases ORDER BY id"), R"({"rows":[{"id":"1"},{"id":"2"}]})");
  EXPECT_EQ(Ask("WITH x AS (SELECT 1 AS n) SELECT n FROM x"), R"({"n":1})");
  EXPECT_THAT(Ask("SELECT id, id FROM cases"), HasSubstr("two columns"));
  EXPECT_THAT(Ask("SELECT blob FROM cases WHERE id = '1'"), HasSubstr("hex()"));
  EXPECT_THAT(Ask("SELECT nothing FROM cases"), HasSubstr("INVALID_ARGUMENT"));
  EXPECT_THAT(Ask("SELECT id FROM cases WHERE id = :case"), HasSubstr("needs the argument 'case'"));
}

TEST_F(ToolSqliteTest, ReadsCanDoNothingElse) {
  for (const char* bad : {"DELETE FROM cases", "UPDATE cases SET amount = 0", "INSERT INTO cases(id) VALUES('3')",
                          "DROP TABLE cases", "PRAGMA writable_schema = 1", "ATTACH '/tmp/x.db' AS x", "VACUUM",
                          "SELECT 1; DELETE FROM cases", "WITH x AS (SELECT 1) DELETE FROM cases",
                          "CREATE TABLE x(y)", "REINDEX", "BEGIN", "SELECT load_extension('x')"}) {
    EXPECT_THAT(Ask(bad), ::testing::ContainsRegex("INVALID_ARGUMENT|UNAVAILABLE")) << bad;
  }
  EXPECT_EQ(Ask("SELECT count(*) AS n, sum(amount > 0) AS positive FROM cases"), R"({"n":2,"positive":2})");
}

TEST_F(ToolSqliteTest, ArgumentsAreBoundNeverSpliced) {
  for (const char* hostile : {"' OR '1'='1", "1'; DROP TABLE cases; --", "1' UNION SELECT word FROM secrets --",
                              "\" OR 1=1", ":case", "\\'", "1;"}) {
    EXPECT_EQ(Ask("SELECT id FROM cases WHERE id = :case", {{"case", hostile}}), R"({"rows":[]})") << hostile;
    EXPECT_EQ(Ask("SELECT :case AS given", {{"case", hostile}}),
              CanonicalJson(json::object{{"given", hostile}})) << hostile;
  }
  EXPECT_EQ(Ask("SELECT id FROM cases WHERE id = :case", {{"case", "1"}}), R"({"id":"1"})");
}

TEST_F(ToolSqliteTest, EndlessQueriesAndLocksEndAtTheDeadline) {
  const char* endless = "WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n) SELECT count(*) AS c FROM n";
  int64_t begun = Clock::Real().NowNanos();
  const ToolOutcome outcome = CallSqliteTool(CallOf(endless, {}, 100));
  EXPECT_EQ(outcome.value.error().code(), StatusCode::kDeadlineExceeded) << TextOf(outcome);
  EXPECT_LT(Clock::Real().NowNanos() - begun, 2'000'000'000);
  EXPECT_THAT(Ask("WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n) SELECT i FROM n"),
              HasSubstr("more than 1000 rows"));
  sqlite3* other = nullptr;
  sqlite3_open((folder_.path() + "/bank.db").c_str(), &other);
  sqlite3_exec(other, "BEGIN EXCLUSIVE", nullptr, nullptr, nullptr);
  ToolCall write = CallOf("UPDATE cases SET amount = 1", {}, 100);
  write.spec.kind = ToolSpec::Kind::kWrite;
  begun = Clock::Real().NowNanos();
  const ToolOutcome locked = CallSqliteTool(write);
  EXPECT_EQ(locked.value.error().code(), StatusCode::kDeadlineExceeded) << TextOf(locked);
  EXPECT_EQ(locked.effect, ToolEffect::kNotSent);
  EXPECT_LT(Clock::Real().NowNanos() - begun, 2'000'000'000);
  sqlite3_close(other);
}

TEST_F(ToolSqliteTest, WritesAreOneStatementWithTheirKey) {
  ToolCall write = CallOf("INSERT INTO cases(id, note) VALUES(:case, :idempotency_key)", {{"case", "3"}});
  write.spec.kind = ToolSpec::Kind::kWrite;
  ToolOutcome outcome = CallSqliteTool(write);
  EXPECT_EQ(TextOf(outcome), R"({"changed":1})");
  EXPECT_EQ(outcome.effect, ToolEffect::kDone);
  EXPECT_EQ(Ask("SELECT note FROM cases WHERE id = '3'"), R"({"note":"key-1"})");
  outcome = CallSqliteTool(write);
  EXPECT_EQ(outcome.effect, ToolEffect::kRefused) << "the primary key is taken: nothing was done";
  ToolCall returning = CallOf("UPDATE cases SET amount = 7 WHERE id = '3' RETURNING amount");
  returning.spec.kind = ToolSpec::Kind::kWrite;
  EXPECT_EQ(TextOf(CallSqliteTool(returning)), R"({"amount":7})");
  ToolCall drop = CallOf("DROP TABLE cases");
  drop.spec.kind = ToolSpec::Kind::kWrite;
  EXPECT_FALSE(CallSqliteTool(drop).value.has_value());
}

TEST_F(ToolSqliteTest, AMissingFileIsNotMade) {
  ToolCall call = CallOf("SELECT 1 AS one");
  call.spec.database = "none.db";
  EXPECT_EQ(CallSqliteTool(call).value.error().code(), StatusCode::kUnavailable);
  EXPECT_EQ(CallSqliteTool(call).value.error().code(), StatusCode::kUnavailable);
}

TEST(SqlStatementTest, NamesBecomeNumbersOutsideOfTextsAndComments) {
  const auto statement = ReadSqlStatement(
      " select :a, ':no', \"x:no\", b::text, :b_2 -- :no\n /* :no */ from t where a = :a ; ");
  ASSERT_TRUE(statement.has_value()) << statement.error().ToString();
  EXPECT_THAT(statement->parameters, ElementsAre("a", "b_2"));
  EXPECT_EQ(statement->first_word, "SELECT");
  EXPECT_THAT(statement->text, HasSubstr("select $1, ':no', \"x:no\", b::text, $2 -- :no"));
  EXPECT_THAT(statement->text, HasSubstr("where a = $1"));
  for (const char* bad : {"", "  ", "-- only", "select 1; select 2", "select 'open", "select /* open", "select $1",
                          "select ?", "select @a", "select :", "select 'a\\'", "select $$a$$"}) {
    EXPECT_FALSE(ReadSqlStatement(bad).has_value()) << bad;
  }
}

TEST(SqlStatementTest, SpecsAreChecked) {
  const auto code = [](ToolSpec::Kind kind, const char* query, std::vector<std::string> arguments = {}) {
    ToolSpec spec;
    spec.kind = kind;
    spec.database = "x.db";
    spec.query = query;
    spec.arguments = std::move(arguments);
    return CheckSqlTool(spec).code();
  };
  using Kind = ToolSpec::Kind;
  EXPECT_EQ(code(Kind::kRead, "SELECT :a", {"a"}), StatusCode::kOk);
  EXPECT_EQ(code(Kind::kRead, "with x as (select 1) select * from x"), StatusCode::kOk);
  EXPECT_EQ(code(Kind::kWrite, "insert into t values (:idempotency_key)"), StatusCode::kOk);
  EXPECT_EQ(code(Kind::kRead, "SELECT :a", {"b"}), StatusCode::kInvalidArgument);
  EXPECT_EQ(code(Kind::kRead, "DELETE FROM t"), StatusCode::kInvalidArgument);
  EXPECT_EQ(code(Kind::kRead, "PRAGMA x"), StatusCode::kInvalidArgument);
  EXPECT_EQ(code(Kind::kRead, "SELECT 1; SELECT 2"), StatusCode::kInvalidArgument);
  EXPECT_EQ(code(Kind::kRead, "SELECT :idempotency_key"), StatusCode::kInvalidArgument);
  EXPECT_EQ(code(Kind::kWrite, "DROP TABLE t"), StatusCode::kInvalidArgument);
}

}  // namespace
}  // namespace surety::gateway
