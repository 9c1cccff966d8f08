// What a fallback takes over from the route before it: nothing but what the caller asked and who he is.
#include <gtest/gtest.h>

#include "gateway/governed_backend.h"
#include "gateway/testing/fake_store.h"
#include "gateway/testing/governed_world.h"

namespace surety::gateway {
namespace {

using api::FinishReason;
using api::Outcome;

RouteSpec& FallbackRoute(Policy& policy, std::string_view name) {
  for (RouteSpec& route : policy.routes) {
    if (route.name == name) return route;
  }
  ADD_FAILURE() << "no route " << name;
  return policy.routes.front();
}

std::string FallbackPrompt(const api::GenerationRequest& request) { return boost::json::serialize(request.messages); }

void FallbackTools(GovernedWorld& world) {
  world.tools["rail"] = [](const ToolArguments&) {
    ToolResult result;
    result.value = boost::json::object{{"status", "returned"}, {"case", "of-route-a"}};
    result.digest = "r";
    return result;
  };
  world.tools["core"] = [](const ToolArguments&) {
    ToolResult result;
    result.value = boost::json::object{{"reversed", true}};
    result.digest = "c";
    return result;
  };
}

// Refuses the first request of all, answers the rest.
ScriptedBackend::Script RefusesOnce() {
  auto n = std::make_shared<std::atomic<int>>(0);
  return [n](const api::GenerationRequest&) {
    if ((*n)++ == 0) return ScriptedAnswer{.refusal = api::Refusal{ResourceExhaustedError("full"), "", 1, nullptr}};
    return ScriptedAnswer{.pieces = {"An answer."}};
  };
}

// Whole kind: a passage's text, tools' results, their digests, and what may be cached.
TEST(GovernedFallbackTest, EvidenceOfARouteDoesNotReachItsFallback) {
  Policy policy = WorldPolicy();
  RetrieverSpec handbook;
  handbook.name = "handbook";
  handbook.deadline_ns = 5'000'000'000;
  policy.retrievers["handbook"] = handbook;
  FallbackRoute(policy, "tools").retrieve = "handbook";
  FallbackRoute(policy, "tools").fallback = {{"cached", {}}};
  GovernedWorld world(policy);
  auto parts = world.MakeParts(policy);
  parts->stores["handbook"] = std::make_unique<FakeStore>(std::vector{FakePassage("passage of route A")});
  world.backend->Use(parts);
  FallbackTools(world);
  world.script = RefusesOnce();
  const Reply reply = world.Send("@route=tools Where is my money?");
  EXPECT_EQ(reply.text, "An answer.");
  EXPECT_EQ(reply.decision().route, "cached");
  const auto requests = world.model->requests();
  ASSERT_EQ(requests.size(), 2u);
  EXPECT_NE(FallbackPrompt(requests[0]).find("of-route-a"), std::string::npos);   // the control: route A had both
  EXPECT_NE(FallbackPrompt(requests[0]).find("passage of route A"), std::string::npos);
  EXPECT_EQ(FallbackPrompt(requests[1]).find("of-route-a"), std::string::npos);
  EXPECT_EQ(FallbackPrompt(requests[1]).find("passage of route A"), std::string::npos);
  const DecisionRecord record = world.ledger->records().back();
  EXPECT_TRUE(record.tool_digests.empty());
  EXPECT_TRUE(record.passages.empty());
  // What the fallback stored is what the fallback's route may store.
  EXPECT_EQ(world.Send("@route=cached Where is my money?").decision().cache, "miss");
}

TEST(GovernedFallbackTest, ARepairedAnswersRowNamesNoVerifier) {
  Policy policy = WorldPolicy();
  policy.verifiers["promises"].fail = VerifierSpec::Action::kRepair;
  GovernedWorld world(policy);
  int n = 0;
  world.script = [&](const api::GenerationRequest&) {
    return ScriptedAnswer{.pieces = {n++ == 0 ? "we guarantee" : "we try"}};
  };
  const Reply repaired = world.Send("@route=held Tell me");
  EXPECT_EQ(repaired.text, "we try");
  EXPECT_EQ(repaired.decision().verifier, "");
  EXPECT_EQ(world.ledger->records().back().action, "release");
  world.script = [](const api::GenerationRequest&) { return ScriptedAnswer{.pieces = {"we guarantee"}}; };
  EXPECT_EQ(world.Send("@route=held Tell me").decision().verifier, "promises");  // the control
}

TEST(GovernedFallbackTest, AfterABlockTheFallbacksRowIsItsOwn) {
  Policy policy = WorldPolicy();
  FallbackRoute(policy, "held").fallback = {{"faq", {}}};
  GovernedWorld world(policy);
  world.script = [](const api::GenerationRequest&) { return ScriptedAnswer{.pieces = {"we guarantee"}}; };
  const Reply reply = world.Send("@route=held Tell me");
  EXPECT_EQ(reply.text, "Please call us.");
  EXPECT_EQ(reply.decision().verifier, "");
  const DecisionRecord record = world.ledger->records().back();
  EXPECT_TRUE(record.verdicts.empty());
  EXPECT_EQ(record.action, "");
  EXPECT_EQ(record.model_revision, "");
  EXPECT_EQ(record.seed, "");
  EXPECT_EQ(record.prompt_digest, "");
  EXPECT_EQ(record.attempts.front(), "held:fast:block");
}

TEST(GovernedFallbackTest, AStreamThatNeverBeganIsNoDraft) {
  Policy policy = WorldPolicy();
  FallbackRoute(policy, "stream").fallback = {{"faq", {}}};
  GovernedWorld world(policy);
  world.script = [](const api::GenerationRequest&) {
    return ScriptedAnswer{.refusal = api::Refusal{ResourceExhaustedError("full"), "", 1, nullptr}};
  };
  const Reply reply = world.Send("@route=stream Tell me");
  EXPECT_EQ(reply.text, "Please call us.");
  EXPECT_FALSE(reply.decision().draft);
  policy = WorldPolicy();
  world.backend->Use(world.MakeParts(policy));
  const Reply refused = world.Send("@route=stream Tell me");   // without a fallback
  EXPECT_EQ(refused.decision().outcome, Outcome::kRefused);
  EXPECT_FALSE(refused.decision().draft);
  world.script = [](const api::GenerationRequest&) { return ScriptedAnswer{.pieces = {"An answer."}}; };
  EXPECT_TRUE(world.Send("@route=stream Tell me").decision().draft);  // the control
}

// `surety check` refuses each of these policies; the path does too.
TEST(GovernedFallbackTest, AFallbackThatPromisesLessEndsWithAPerson) {
  const auto outcome = [](const std::function<void(Policy&)>& spoil) {
    Policy policy = WorldPolicy();
    RouteSpec second = FallbackRoute(policy, "held");
    second.name = "second";
    second.when = {{"route", {"second"}, {}, {}, {}}};
    second.model = "other";
    policy.models["fast"].residency = {"eu", "us"};
    policy.models["other"] = policy.models["fast"];
    policy.routes.insert(policy.routes.begin(), second);
    FallbackRoute(policy, "held").fallback = {{"second", {}}};
    FallbackRoute(policy, "reviewed").fallback = {{"second", {}}};
    spoil(policy);
    GovernedWorld world(policy);
    world.script = RefusesOnce();
    const Reply reply = world.Send("@route=held Tell me");
    EXPECT_EQ(world.model->n_requests(), reply.decision().outcome == Outcome::kReview ? 1 : 2);
    return reply.decision().outcome;
  };
  EXPECT_EQ(outcome([](Policy&) {}), Outcome::kHeld);  // the control
  EXPECT_EQ(outcome([](Policy& policy) { FallbackRoute(policy, "second").verify.clear(); }), Outcome::kReview);
  EXPECT_EQ(outcome([](Policy& policy) { policy.models["other"].residency = {"eu", "cn"}; }), Outcome::kReview);
  EXPECT_EQ(outcome([](Policy& policy) { policy.models["other"].residency.clear(); }), Outcome::kReview);
  EXPECT_EQ(outcome([](Policy& policy) { policy.models["other"].residency = {"us"}; }), Outcome::kHeld);
  EXPECT_EQ(outcome([](Policy& policy) {
    FallbackRoute(policy, "second").release = {ReleaseSpec::Audience::kInternal, ReleaseSpec::Mode::kStream, ""};
  }), Outcome::kReview);
}

TEST(GovernedFallbackTest, AFallbackWithoutTheReviewEndsWithAPerson) {
  Policy policy = WorldPolicy();
  FallbackRoute(policy, "reviewed").fallback = {{"held", {}}};
  GovernedWorld world(policy);
  world.script = RefusesOnce();
  const Reply reply = world.Send("@route=reviewed Tell me");
  EXPECT_EQ(reply.text, "");
  EXPECT_EQ(reply.decision().outcome, Outcome::kReview);
  EXPECT_EQ(world.review->GetForDecision(reply.decision().id)->queue, "supervisor");
}

}  // namespace
}  // namespace surety::gateway
