// Invariants over tools' results: the grammar, three-valued logic, and what a person is told.
#include <boost/json.hpp>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "gateway/tools.h"

namespace surety::gateway {
namespace {

namespace json = boost::json;
using ::testing::ElementsAre;
using ::testing::HasSubstr;

ToolResult ResultOf(std::string tool, std::string_view text) {
  ToolResult result;
  result.tool = std::move(tool);
  result.value = json::parse(text);
  result.observed_at_ns = 1'796'032'800'000'000'000;  // 2026-11-30T10:00:00Z
  return result;
}

// "conflict", "none", or what is wrong with the expression.
std::string Judge(const std::string& when, const std::string& require, const std::vector<ToolResult>& results) {
  const auto conflicts = FindConflicts({{"rule", when, require, 0}}, results);
  if (!conflicts) return conflicts.error().ToString();
  return conflicts->empty() ? "none" : "conflict";
}

TEST(ConflictsTest, APlantedContradictionIsFoundWithItsEvidenceAndNoCause) {
  const std::vector<ToolResult> results = {ResultOf("rail", R"({"status":"returned","code":"R03"})"),
                                           ResultOf("core", R"({"reversed":false})")};
  const auto conflicts = FindConflicts(
      {{"returned_implies_reversed", "rail.status == returned", "core.reversed", 0},
       {"fine", "rail.status == settled", "core.reversed", 0}}, results);
  ASSERT_TRUE(conflicts.has_value());
  ASSERT_EQ(conflicts->size(), 1u);
  EXPECT_EQ((*conflicts)[0].invariant, "returned_implies_reversed");
  EXPECT_THAT((*conflicts)[0].violated_by,
              ElementsAre("rail.status = \"returned\" (observed 2026-11-30T10:00:00Z)",
                          "core.reversed = false (observed 2026-11-30T10:00:00Z)"));
  EXPECT_EQ(Judge("rail.status == returned", "core.reversed",
                  {ResultOf("rail", R"({"status":"returned"})"), ResultOf("core", R"({"reversed":true})")}), "none");
}

TEST(ConflictsTest, MissingResultsNeverSatisfyARequirement) {
  ToolResult late;
  late.tool = "core";
  late.status = Status(StatusCode::kDeadlineExceeded, "late");
  const ToolResult rail = ResultOf("rail", R"({"status":"returned","none":null})");
  EXPECT_EQ(Judge("rail.status == returned", "core.reversed", {rail, late}), "conflict");
  EXPECT_EQ(Judge("rail.status == returned", "core.reversed", {rail}), "conflict");
  EXPECT_EQ(Judge("rail.status == returned", "rail.none", {rail}), "conflict");
  EXPECT_EQ(Judge("rail.status == returned", "not core.reversed", {rail, late}), "conflict");
  EXPECT_EQ(Judge("core.reversed", "rail.status == other", {rail, late}), "conflict") << "it may apply";
  EXPECT_EQ(Judge("core.reversed", "rail.status == returned", {rail, late}), "none") << "it is kept, applies or not";
  EXPECT_EQ(Judge("rail.status == other", "core.reversed", {rail, late}), "none") << "the condition does not hold";
  EXPECT_EQ(Judge("", "core.reversed", {rail, late}), "conflict") << "no condition: always";
  const auto conflicts = FindConflicts({{"r", "rail.status == returned", "core.reversed", 0}}, {rail, late});
  EXPECT_THAT((*conflicts)[0].violated_by[1], HasSubstr("core.reversed is missing (DEADLINE_EXCEEDED: late)"));
}

// All pairs of truth values against Kleene's tables, written out as minimum, maximum and mirror.
TEST(ConflictsTest, ConnectivesFollowKleene) {
  const ToolResult tool = ResultOf("t", R"({"yes":true,"no":false})");
  const std::pair<const char*, int> values[] = {{"t.no", 0}, {"t.what", 1}, {"t.yes", 2}};
  const auto value_of = [&](const std::string& expression) {
    if (Judge("", expression, {tool}) == "none") return 2;
    return Judge("", "not (" + expression + ")", {tool}) == "none" ? 0 : 1;
  };
  for (const auto& [a, x] : values) {
    EXPECT_EQ(value_of(a), x);
    EXPECT_EQ(value_of(std::string("not ") + a), 2 - x);
    for (const auto& [b, y] : values) {
      EXPECT_EQ(value_of(std::string(a) + " and " + b), std::min(x, y)) << a << b;
      EXPECT_EQ(value_of(std::string(a) + " or " + b), std::max(x, y)) << a << b;
    }
  }
  EXPECT_EQ(value_of("t.no and t.no or t.yes"), 2) << "and binds more than or";
  EXPECT_EQ(value_of("t.no and (t.no or t.yes)"), 0);
  EXPECT_EQ(value_of("not t.no and t.no"), 0) << "not binds more than and";
}

TEST(ConflictsTest, ComparisonsOfNumbersTextsAndKinds) {
  const std::vector<ToolResult> results = {
      ResultOf("a", R"({"n":100,"d":100.0,"s":"100","neg":-1,"big":18446744073709551615,"date":"2026-02-01","b":true,
                       "list":[1],"deep":{"x":1.5},"text":"Returned"})"),
      ResultOf("b", R"({"n":100,"s":"100"})")};
  const auto holds = [&](const std::string& expression) {
    const std::string judged = Judge("", expression, results);
    return judged == "none" ? "yes" : judged != "conflict" ? judged
                                    : Judge("", "not (" + expression + ")", results) == "none" ? "no" : "unknown";
  };
  for (const char* yes : {"a.n == 100", "a.n == 1e2", "a.n == a.d", "a.n == b.n", "a.s == b.s", "a.s == \"100\"",
                          "a.n >= 100", "a.n <= 100", "a.n < 100.5", "a.n > -1", "a.neg < a.n", "a.neg < a.big",
                          "a.big > a.d", "a.date < 2026-03-01", "a.b == true", "a.b != false", "a.b",
                          "a.deep.x > 1", "a.text == Returned", "a.s != a.n", "a.n != \"100\"", "100 == a.n"}) {
    EXPECT_STREQ(holds(yes).c_str(), "yes") << yes;
  }
  for (const char* no : {"a.n == 101", "a.s == 100", "a.n == b.s", "a.n > 100", "a.text == returned", "a.b == false",
                         "a.n != 100", "a.b == 1"}) {
    EXPECT_STREQ(holds(no).c_str(), "no") << no;
  }
  for (const char* unknown : {"a.s < 200", "a.n < \"200\"", "a.b < true", "a.list == 1", "a.deep == 1", "a.none == 1",
                              "a.none != 1", "c.x == 1", "a.n", "a.s", "a.n.x == 1"}) {
    EXPECT_STREQ(holds(unknown).c_str(), "unknown") << unknown;
  }
}

TEST(ConflictsTest, ExpressionsThatDoNotParseAreRefused) {
  const std::map<std::string, ToolSpec> tools = {{"rail_status", {}}, {"core", {}}};
  for (const char* good : {"core.x", "core.x == 1", "not core.x and (core.y or rail_status.z != \"a b\")",
                           "core.a.b.c <= rail_status.d"}) {
    EXPECT_TRUE(CheckInvariantExpression(good, tools).ok()) << CheckInvariantExpression(good, tools).ToString();
  }
  for (const char* bad : {"", "core", "core.x = 1", "core.x ==", "== 1", "core.x == 1 2", "core.x == == 1", "core..x",
                          "core.", ".x == 1", "core.x & core.y", "(core.x", "core.x)", "core.x == \"open", "1 == 1",
                          "true", "\"x\"", "not", "core.x and", "core.x or or core.y", "core.x; drop", "core.x == 'a'",
                          "core.x == 1 == 2", "!core.x"}) {
    EXPECT_EQ(CheckInvariantExpression(bad, tools).code(), StatusCode::kInvalidArgument) << bad;
    EXPECT_NE(Judge("", bad, {}), "none") << bad;
  }
  EXPECT_THAT(CheckInvariantExpression("rail_statsu.x", tools).message(), HasSubstr("did you mean 'rail_status'?"));
  EXPECT_FALSE(CheckInvariantExpression(std::string(100, '(') + "core.x" + std::string(100, ')'), tools).ok());
  std::string nots;
  for (int i = 0; i < 100'000; ++i) nots += "not ";
  EXPECT_FALSE(CheckInvariantExpression(nots + "core.x", tools).ok()) << "depth is bounded";
  EXPECT_FALSE(FindConflicts({{"r", "core.x", "oops", 0}}, {ResultOf("core", R"({"x":true})")}).has_value());
}

}  // namespace
}  // namespace surety::gateway
