// Budgets on the whole path: what is spent never passes what they allow, by whichever route.
#include <gtest/gtest.h>

#include "gateway/governed_backend.h"
#include "gateway/ledger_sums.h"
#include "gateway/testing/governed_world.h"

namespace surety::gateway {
namespace {

using api::Outcome;

RouteSpec& BudgetRoute(Policy& policy, std::string_view name) {
  for (RouteSpec& route : policy.routes) {
    if (route.name == name) return route;
  }
  ADD_FAILURE() << "no route " << name;
  return policy.routes.front();
}

// A model that bills what it is given: a token a byte, as the scripted tokenizer has it.
ScriptedBackend::Script BillsAll(int output_tokens) {
  return [output_tokens](const api::GenerationRequest& request) {
    ScriptedAnswer answer{.pieces = {"An answer."}};
    for (const auto& message : request.messages) {
      answer.usage.prompt_tokens += static_cast<int>(message.at("content").as_string().size());
    }
    answer.usage.output_tokens = output_tokens;
    return answer;
  };
}

double SpentOf(GovernedWorld& world) {
  const auto state = world.backend->DebugState();
  double spent = 0;
  for (const auto& line : state.at("budgets").as_array()) {
    if (line.at("limit_name").as_string() == "max_budget") spent += line.at("used").to_number<double>();
  }
  return spent;
}

// The instruction is 20 times the caller's text, so a reservation by the caller's text lets all of them in.
TEST(GovernedBudgetTest, WhatIsSpentStaysWithinTheBudgetWhateverTheInstruction) {
  Policy policy = WorldPolicy();
  BudgetRoute(policy, "held").system = std::string(1000, 's');
  BudgetRoute(policy, "held").context = "small";
  BudgetRoute(policy, "held").max_output_tokens = 10;
  policy.contexts["small"].name = "small";
  policy.contexts["small"].max_input_tokens = 1100;
  BudgetSpec budget;
  budget.max_budget = 10 * 2 * (1100 * 0.001 + 10 * 0.01);   // ten requests of two attempts each
  policy.budgets.push_back(budget);
  GovernedWorld world(policy);
  world.script = [script = BillsAll(10)](const api::GenerationRequest& request) {
    ScriptedAnswer answer = script(request);
    answer.delay_ms = 200;
    return answer;
  };
  std::atomic<int> n_answered = 0, n_refused = 0;
  std::vector<std::thread> callers;
  for (int i = 0; i < 40; ++i) {
    callers.emplace_back([&] {
      const Reply reply = world.Send("@route=held Tell me");
      if (reply.text == "An answer.") ++n_answered;
      if (reply.last.error.code() == StatusCode::kResourceExhausted) ++n_refused;
    });
  }
  for (std::thread& caller : callers) caller.join();
  EXPECT_EQ(n_answered + n_refused, 40);
  EXPECT_GE(n_answered, 10);
  EXPECT_GT(SpentOf(world), 0);
  EXPECT_LE(SpentOf(world), *budget.max_budget);
}

TEST(GovernedBudgetTest, WithoutALimitOfTheContextTheModelsContextIsReserved) {
  Policy policy = WorldPolicy();
  BudgetSpec budget;
  budget.tpm_limit = (1 << 16) - 1;   // the scripted model takes 1 << 16
  policy.budgets.push_back(budget);
  GovernedWorld world(policy);
  EXPECT_EQ(world.Send("@route=held Tell me").last.error.code(), StatusCode::kResourceExhausted);
  EXPECT_EQ(world.model->n_requests(), 0);
  policy.budgets[0].tpm_limit = 2 * ((1 << 16) + 1024);   // two attempts
  world.backend->Use(world.MakeParts(policy));
  EXPECT_EQ(world.Send("@route=held Tell me").text, "An answer.");   // the control
}

// Over budget, to a template that has no text for it, to that one's own fallback, a model.
TEST(GovernedBudgetTest, NoWayThroughFallbacksReachesAModelWithoutAReservation) {
  Policy policy = WorldPolicy();
  TemplateSpec empty;
  empty.name = "empty";
  empty.version = "1";
  empty.texts = {{"hours", "We are open."}};
  policy.templates["empty"] = empty;
  RouteSpec silent = BudgetRoute(policy, "faq");
  silent.name = "silent";
  silent.when = {{"route", {"silent"}, {}, {}, {}}};
  silent.template_name = "empty";
  silent.fallback = {{"cached", {}}};
  policy.routes.insert(policy.routes.begin(), silent);
  BudgetRoute(policy, "held").fallback = {{"silent", {}}};
  BudgetRoute(policy, "held").verify.clear();
  BudgetSpec budget;
  budget.max_budget = 0;
  policy.budgets.push_back(budget);
  GovernedWorld world(policy);
  const Reply reply = world.Send("@route=held Tell me");
  EXPECT_EQ(reply.last.error.code(), StatusCode::kResourceExhausted);
  EXPECT_EQ(world.model->n_requests(), 0);
  EXPECT_EQ(SpentOf(world), 0);
  policy.budgets.clear();
  world.backend->Use(world.MakeParts(policy));
  EXPECT_EQ(world.Send("@route=silent Tell me").text, "An answer.");   // the control: without a budget that way is open
}

TEST(GovernedBudgetTest, TheBudgetsOfAFallbacksModelAndRouteCount) {
  for (const auto scope : {BudgetSpec::Scope::kModel, BudgetSpec::Scope::kRoute}) {
    Policy policy = WorldPolicy();
    policy.models["big"] = policy.models["fast"];
    RouteSpec second = BudgetRoute(policy, "held");
    second.name = "second";
    second.when = {{"route", {"second"}, {}, {}, {}}};
    second.model = "big";
    policy.routes.insert(policy.routes.begin(), second);
    BudgetRoute(policy, "limited").fallback = {{"second", {}}};
    BudgetRoute(policy, "limited").deadline_ns = 60'000'000'000;
    BudgetSpec budget;
    budget.scope = scope;
    budget.only = scope == BudgetSpec::Scope::kModel ? "big" : "second";
    budget.rpm_limit = 1;
    policy.budgets.push_back(budget);
    GovernedWorld world(policy);
    int n = 0;
    world.script = [&](const api::GenerationRequest&) {
      if (n++ % 2 == 0) return ScriptedAnswer{.refusal = api::Refusal{ResourceExhaustedError("full"), "", 1, nullptr}};
      return ScriptedAnswer{.pieces = {"An answer."}};
    };
    EXPECT_EQ(world.Send("@route=limited Tell me").text, "An answer.");   // the control
    const Reply second_time = world.Send("@route=limited Tell me");
    EXPECT_EQ(second_time.text, "");
    EXPECT_EQ(second_time.last.error.code(), StatusCode::kResourceExhausted);
    EXPECT_EQ(world.model->n_requests(), 3);
  }
}

TEST(GovernedBudgetTest, AllThatAnAttemptUsedIsSettledWhenItFallsBack) {
  Policy policy = WorldPolicy();
  BudgetRoute(policy, "limited").fallback = {{"held", {}}};
  BudgetRoute(policy, "limited").deadline_ns = 60'000'000'000;
  BudgetSpec budget;
  budget.max_budget = 1e9;
  policy.budgets.push_back(budget);
  GovernedWorld world(policy);
  int n = 0;
  world.script = [&](const api::GenerationRequest& request) {
    ScriptedAnswer answer = BillsAll(10)(request);
    if (n++ == 0) answer.finish = api::FinishReason::kTimeout;
    return answer;
  };
  const Reply reply = world.Send("@route=limited Tell me");
  EXPECT_EQ(reply.text, "An answer.");
  EXPECT_GT(reply.decision().cost, 2 * 10 * 0.01);   // of both
  EXPECT_NEAR(SpentOf(world), reply.decision().cost, 1e-9);
}

// What a caller may not spend is no failure of the service; a full model is.
TEST(GovernedBudgetTest, ADeniedBudgetAndAConflictAreNoServiceFailure) {
  Policy policy = WorldPolicy();
  BudgetSpec budget;
  budget.max_budget = 0;
  policy.budgets.push_back(budget);
  GovernedWorld world(policy);
  EXPECT_EQ(world.Send("@route=held Tell me").last.error.code(), StatusCode::kResourceExhausted);
  EXPECT_FALSE(ServiceFailed(world.ledger->records().back()));
  policy.budgets.clear();
  world.backend->Use(world.MakeParts(policy));
  world.script = [](const api::GenerationRequest&) {
    return ScriptedAnswer{.refusal = api::Refusal{ResourceExhaustedError("full"), "", 1, nullptr}};
  };
  EXPECT_EQ(world.Send("@route=held Tell me").last.error.code(), StatusCode::kResourceExhausted);
  EXPECT_TRUE(ServiceFailed(world.ledger->records().back()));   // the control

  world.tools["rail"] = world.tools["core"] = [](const ToolArguments&) {
    ToolResult result;
    result.value = boost::json::object{{"status", "returned"}};
    return result;
  };
  EXPECT_EQ(world.Send("@route=tools Where is it?").decision().outcome, Outcome::kReview);
  const DecisionRecord record = world.ledger->records().back();
  EXPECT_EQ(ErrorCodeOf(record), "FAILED_PRECONDITION");
  EXPECT_FALSE(ServiceFailed(record));
  DecisionRecord text;
  text.error = "what a customer said: 4711";
  EXPECT_EQ(ErrorCodeOf(text), "INTERNAL");   // no text becomes a label
}

}  // namespace
}  // namespace surety::gateway
