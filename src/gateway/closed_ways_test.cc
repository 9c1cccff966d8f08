// The running side: what is unknown, unnamed or unsaid does not open a way.
#include <string>

#include <boost/json.hpp>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "gateway/review_rules.h"
#include "gateway/testing/governed_world.h"

namespace surety::gateway {
namespace {

using ::testing::HasSubstr;

ToolResult ClosedWayResult(const std::string& tool, const std::string& value) {
  ToolResult result;
  result.tool = tool;
  result.value = boost::json::parse(value);
  return result;
}

size_t ConflictsOf(const std::string& when, const std::string& require, const std::vector<ToolResult>& results) {
  const auto conflicts = FindConflicts({{"rule", when, require, 0}}, results);
  return conflicts ? conflicts->size() : 99;
}

TEST(ClosedWaysTest, AConditionThatCannotBeToldIsAConflict) {
  const std::vector<ToolResult> known = {ClosedWayResult("rail", R"({"status": "settled"})"),
                                         ClosedWayResult("core", R"({"reversed": false})")};
  EXPECT_EQ(ConflictsOf("rail.status == returned", "core.reversed", known), 0U);
  for (const char* rail : {"{}", R"({"status": null})", R"({"state": "returned"})", R"({"status": ["returned"]})"}) {
    EXPECT_EQ(ConflictsOf("rail.status == returned", "core.reversed",
                          {ClosedWayResult("rail", rail), known[1]}), 1U) << rail;
    // Whether it applies or not, it is kept.
    EXPECT_EQ(ConflictsOf("rail.status == returned", "not core.reversed",
                          {ClosedWayResult("rail", rail), known[1]}), 0U) << rail;
  }
  EXPECT_EQ(ConflictsOf("rail.status == returned", "core.reversed", {known[1]}), 1U) << "the tool was not asked";
  EXPECT_EQ(ConflictsOf("core.reversed and rail.status == returned", "core.reversed", {known[1]}), 0U)
      << "known to be false, whatever the rest is";
  const auto tools = ToolsOfInvariant("not (a.x == 1 or b.y.z > c.w)");
  ASSERT_TRUE(tools);
  EXPECT_THAT(*tools, ::testing::ElementsAre("a", "b", "c"));
  EXPECT_FALSE(ToolsOfInvariant("a.x =="));
}

TEST(ClosedWaysTest, NobodyIsGuessedToBeTheOneWhoDecides) {
  for (const bool named : {true, false}) {
    Policy policy = WorldPolicy();
    policy.review["aaa"] = policy.review["supervisor"];
    policy.review["aaa"].name = "aaa";
    if (!named) std::ranges::find(policy.routes, "held", &RouteSpec::name)->queue = "";
    GovernedWorld world(policy);
    world.checks["promises"] = [](const AnswerText&) { return Verdict::Outcome::kError; };
    const Reply reply = world.Send("@route=held @risk=high Tell me");
    EXPECT_EQ(reply.text, "");
    if (named) {
      EXPECT_EQ(reply.decision().outcome, api::Outcome::kReview);
      const auto ticket = world.review->GetForDecision(reply.decision().id);
      ASSERT_TRUE(ticket);
      EXPECT_EQ(ticket->queue, "supervisor");
    } else {
      EXPECT_EQ(reply.decision().outcome, api::Outcome::kRefused);
      EXPECT_THAT(reply.last.error.message(), HasSubstr("route 'held' names no review queue"));
      EXPECT_FALSE(world.review->GetForDecision(reply.decision().id));
    }
  }
}

TEST(ClosedWaysTest, ToolsHearOfDimensionsFromThePolicysSourcesAlone) {
  for (const bool has_region : {true, false}) {
    Policy policy = WorldPolicy();
    policy.tools["core"].arguments = {"subject", "tenant", "region", "case"};
    DimensionSource& eligibility = policy.identity[static_cast<size_t>(Dimension::kEligibility)];
    eligibility.from = DimensionSource::From::kTool;
    eligibility.name = "core";
    eligibility.field = "class";
    GovernedWorld world(policy);
    std::vector<ToolArguments> heard;
    world.tools["core"] = [&](const ToolArguments& arguments) {
      heard.push_back(arguments);
      return ClosedWayResult("core", R"({"class": "gold", "reversed": true})");
    };
    world.tools["rail"] = [](const ToolArguments&) { return ClosedWayResult("rail", R"({"status": "settled"})"); };
    api::Caller caller = GovernedWorld::Anna();
    const std::string region(std::string_view(caller.claims.at("region").as_string()));
    if (!has_region) caller.claims.erase("region");
    caller.metadata["region"] = "US-XX";
    caller.metadata["subject"] = "somebody";
    caller.metadata["tenant"] = "other";
    caller.metadata["case"] = "c-1";
    world.Send("@route=tools Tell me", caller);
    ASSERT_GE(heard.size(), 1U);
    for (const ToolArguments& arguments : heard) {
      EXPECT_EQ(arguments.at("subject"), "anna");
      EXPECT_NE(arguments.at("tenant"), "other");
      EXPECT_EQ(arguments.at("case"), "c-1");
      EXPECT_EQ(arguments.contains("region"), has_region);
      EXPECT_EQ(has_region ? arguments.at("region") : region, region);
    }
  }
}

TEST(ClosedWaysTest, AQueueOfAdministratorsIsTheirs) {
  ReviewQueueSpec queue;
  queue.permission = kAdministratorsAlone;
  EXPECT_FALSE(HasPermission({"ann", {std::string(kAdministratorsAlone)}, "bank"}, queue));
  EXPECT_TRUE(HasPermission({"root", {}, "*"}, queue));
  queue.permission = "supervise";
  EXPECT_TRUE(HasPermission({"ann", {"supervise"}, "bank"}, queue));
  EXPECT_FALSE(HasPermission({"ann", {"other"}, "bank"}, queue));
}

}  // namespace
}  // namespace surety::gateway
