#include "gateway/governed_backend.h"

#include <array>
#include <thread>

#include <boost/json.hpp>
#include <gtest/gtest.h>

#include "gateway/testing/governed_world.h"

namespace surety::gateway {
namespace {

using api::FinishReason;
using api::Outcome;

TEST(GovernedBackendTest, ATemplateAnswersWithoutAModel) {
  GovernedWorld world;
  const Reply reply = world.Send("@route=faq @intent=hours When are you open?");
  EXPECT_EQ(reply.text, "We are open from 9 to 5 in US-NY.");
  EXPECT_EQ(reply.last.finish, FinishReason::kStop);
  EXPECT_EQ(reply.decision().outcome, Outcome::kTemplate);
  EXPECT_EQ(reply.decision().route, "faq");
  EXPECT_EQ(world.model->n_requests(), 0);
  ASSERT_EQ(world.audit->rows("decision").size(), 1u);
}

TEST(GovernedBackendTest, AHeldAnswerLeavesWholeAfterItsChecks) {
  GovernedWorld world;
  const Reply reply = world.Send("@route=held What is it?");
  ASSERT_EQ(reply.events.size(), 1u);  // nothing before the last
  EXPECT_EQ(reply.text, "An answer.");
  EXPECT_EQ(reply.decision().outcome, Outcome::kHeld);
}

// governance.md, acceptance test 2: in text and in arguments of tool calls, whatever the pieces.
TEST(GovernedBackendTest, OfAForbiddenSentenceNoByteLeavesHoweverItIsSplit) {
  GovernedWorld world;
  const std::string forbidden = "Yes, we guarantee it.";
  for (const bool in_call : {false, true}) {
    for (size_t first = 0; first <= forbidden.size(); ++first) {
      for (size_t second = first; second <= forbidden.size(); second += 7) {
        const std::array<std::string, 3> parts = {forbidden.substr(0, first), forbidden.substr(first, second - first),
                                                  forbidden.substr(second)};
        world.script = [&](const api::GenerationRequest&) {
          ScriptedAnswer answer;
          if (!in_call) answer.pieces.assign(parts.begin(), parts.end());
          for (const std::string& part : parts) {
            if (in_call) answer.calls.push_back({0, answer.calls.empty() ? "send" : "", part});
          }
          return answer;
        };
        const Reply reply = world.Send("@route=held Is it sure?");
        ASSERT_EQ(reply.text, "");
        ASSERT_EQ(reply.arguments, "");
        ASSERT_EQ(reply.last.finish, FinishReason::kFiltered);
        ASSERT_EQ(reply.decision().verifier, "promises");
      }
    }
  }
  world.script = [](const api::GenerationRequest&) { return ScriptedAnswer{.pieces = {"Yes, we try."}}; };
  EXPECT_EQ(world.Send("@route=held Is it sure?").text, "Yes, we try.");
}

TEST(GovernedBackendTest, AStopTextThatCompletesAForbiddenSentenceIsChecked) {
  GovernedWorld world;
  world.script = [](const api::GenerationRequest&) {
    return ScriptedAnswer{.pieces = {"Yes, we "}, .stop_text = "guarantee"};
  };
  const Reply reply = world.Send("@route=held Is it sure?");
  EXPECT_EQ(reply.last.finish, FinishReason::kFiltered);
  EXPECT_EQ(reply.text + reply.last.stop_text, "");
}

TEST(GovernedBackendTest, InternalReadersGetADraftAndLearnAtTheEndWhetherItHolds) {
  GovernedWorld world;
  Reply reply = world.Send("@route=stream Tell me");
  EXPECT_EQ(reply.text, "An answer.");
  EXPECT_GE(reply.events.size(), 3u);
  ASSERT_NE(reply.events.front().decision, nullptr);
  EXPECT_TRUE(reply.events.front().decision->draft);
  EXPECT_EQ(reply.last.finish, FinishReason::kStop);
  EXPECT_EQ(reply.decision().outcome, Outcome::kStreamed);
  EXPECT_EQ(world.audit->rows("stream_begin").size(), 1u);

  world.script = [](const api::GenerationRequest&) { return ScriptedAnswer{.pieces = {"we ", "guarantee"}}; };
  reply = world.Send("@route=stream Tell me");
  EXPECT_EQ(reply.last.finish, FinishReason::kFiltered);
  EXPECT_EQ(reply.decision().verifier, "promises");
}

// The reader refuses such a policy; the types refuse it too.
TEST(GovernedBackendTest, CustomersAndHighRiskAreNeverStreamedWhateverTheRouteSays) {
  Policy policy = WorldPolicy();
  for (RouteSpec& route : policy.routes) {
    if (route.name == "held") route.release.mode = ReleaseSpec::Mode::kStream;  // to customers
  }
  GovernedWorld world(policy);
  world.script = [](const api::GenerationRequest&) { return ScriptedAnswer{.pieces = {"we ", "guarantee"}}; };
  EXPECT_EQ(world.Send("@route=held Tell me").text, "");
  EXPECT_EQ(world.Send("@route=stream @risk=high Tell me").text, "");
  EXPECT_EQ(world.Send("@route=stream @risk=low Tell me").text, "we guarantee");  // the control: a draft is let out
}

TEST(GovernedBackendTest, TheRowIsWrittenBeforeTheAnswerLeaves) {
  GovernedWorld world;
  std::atomic<int> n_left = 0, n_left_at_row = -1;
  world.audit->before = [&](std::string_view kind) {
    if (kind == "decision") n_left_at_row = n_left.load();
  };
  std::promise<void> ended;
  const auto id = world.backend->Submit(world.Ask("@route=held Tell me"), [&](api::Event event) {
    ++n_left;
    if (event.finish != FinishReason::kNone) ended.set_value();
  });
  ASSERT_TRUE(id);
  ended.get_future().wait();
  EXPECT_EQ(n_left_at_row, 0);
  EXPECT_EQ(n_left, 1);
}

TEST(GovernedBackendTest, WithoutARowNothingIsReleased) {
  GovernedWorld world;
  world.audit->fails = true;
  for (const char* question : {"@route=held Tell me", "@route=faq Tell me", "@route=stream Tell me"}) {
    const Reply reply = world.Send(question);
    EXPECT_EQ(reply.text, "") << question;
    EXPECT_EQ(reply.last.finish, FinishReason::kError);
    EXPECT_EQ(reply.last.error.code(), StatusCode::kUnavailable);
  }
  const auto counted = [&] {  // a request has ended a moment after its last event
    for (int i = 0; i < 5000 && world.backend->decisions_without_row() != 3; ++i) {
      std::this_thread::sleep_for(std::chrono::milliseconds(1));
    }
    return world.backend->decisions_without_row();
  };
  EXPECT_EQ(counted(), 3);
  world.audit->fails = false;
  EXPECT_EQ(world.Send("@route=held Tell me").text, "An answer.");
  EXPECT_EQ(counted(), 3);
}

TEST(GovernedBackendTest, AReviewedAnswerWaitsForAPerson) {
  GovernedWorld world;
  const Reply reply = world.Send("@route=reviewed @risk=high Dispute");
  EXPECT_EQ(reply.text, "");
  EXPECT_EQ(reply.decision().outcome, Outcome::kReview);
  const auto ticket = world.review->GetForDecision(reply.decision().id);
  ASSERT_TRUE(ticket);
  EXPECT_EQ(ticket->id, reply.decision().review_ticket);
  EXPECT_EQ(ticket->draft, "An answer.");
  EXPECT_EQ(ticket->queue, "supervisor");
  EXPECT_EQ(ticket->subject, "anna");
  EXPECT_EQ(ticket->question, "@route=reviewed @risk=high Dispute");
}

// governance.md, acceptance test 3.
TEST(GovernedBackendTest, AVerifierThatCannotTellSendsToAPerson) {
  GovernedWorld world;
  world.checks["promises"] = [](const AnswerText&) { return Verdict::Outcome::kError; };
  const Reply reply = world.Send("@route=held @risk=high Tell me");
  EXPECT_EQ(reply.text, "");
  EXPECT_EQ(reply.decision().outcome, Outcome::kReview);
}

TEST(GovernedBackendTest, OneRepairThenAPerson) {
  Policy policy = WorldPolicy();
  policy.verifiers["promises"].fail = VerifierSpec::Action::kRepair;
  GovernedWorld world(policy);
  int n = 0;
  world.script = [&](const api::GenerationRequest&) {
    return ScriptedAnswer{.pieces = {n++ == 0 ? "we guarantee" : "we try"}};
  };
  const Reply repaired = world.Send("@route=held Tell me");
  EXPECT_EQ(repaired.text, "we try");
  EXPECT_EQ(repaired.decision().attempts, 2);
  world.script = [](const api::GenerationRequest&) { return ScriptedAnswer{.pieces = {"we guarantee"}}; };
  const Reply given_up = world.Send("@route=held Tell me");
  EXPECT_EQ(given_up.text, "");
  EXPECT_EQ(given_up.decision().attempts, 2);
  EXPECT_EQ(given_up.decision().outcome, Outcome::kReview);
}

// governance.md, acceptance test 1, through the whole path: answers, and the scope under which KV is shared.
TEST(GovernedBackendTest, NoDimensionIsSharedInCacheOrPrefix) {
  GovernedWorld world;
  const std::string question = "@route=cached What is it?";
  EXPECT_EQ(world.Send(question).decision().cache, "miss");
  const Reply again = world.Send(question);
  EXPECT_EQ(again.decision().cache, "hit");
  EXPECT_EQ(again.text, "An answer.");
  EXPECT_EQ(again.last.usage.output_tokens, 0);
  api::Caller bert = GovernedWorld::Anna();
  bert.subject = "bert";
  EXPECT_EQ(world.Send(question, bert).decision().cache, "hit");  // declared to be for all subjects

  std::vector<api::Caller> others;
  for (const char* name : {"tenant", "region", "product", "language", "eligibility"}) {
    api::Caller other = GovernedWorld::Anna();
    other.claims[name] = "other";
    others.push_back(other);
  }
  api::Caller dated = GovernedWorld::Anna();
  dated.claims["effective_date"] = "2025-11-29";
  others.push_back(dated);
  api::Caller allowed = GovernedWorld::Anna();
  allowed.claims["permissions"] = boost::json::array{"cases", "sar"};
  others.push_back(allowed);
  for (const api::Caller& other : others) {
    EXPECT_EQ(world.Send(question, other).decision().cache, "miss") << other.claims;
    EXPECT_EQ(world.Send(question, other).decision().cache, "hit") << other.claims;
  }
  Policy newer = WorldPolicy();
  newer.version = "2026.2";
  newer.digest = "digest-of-2026.2";
  world.backend->Use(world.MakeParts(newer));
  EXPECT_EQ(world.Send(question).decision().cache, "miss");

  const auto requests = world.model->requests();
  ASSERT_EQ(requests.size(), others.size() + 2);
  for (size_t i = 0; i < requests.size(); ++i) {
    for (size_t k = 0; k < i; ++k) EXPECT_NE(requests[i].scope, requests[k].scope);
  }
}

TEST(GovernedBackendTest, AMissingDimensionKeepsTheAnswerOutOfTheCacheAndItsPrefixAlone) {
  GovernedWorld world;
  api::Caller caller = GovernedWorld::Anna();
  caller.claims.erase("eligibility");
  for (int i = 0; i < 2; ++i) {
    EXPECT_EQ(world.Send("@route=cached What is it?", caller).decision().cache, "bypass:no_partition");
  }
  const auto requests = world.model->requests();
  ASSERT_EQ(requests.size(), 2u);
  EXPECT_NE(requests[0].scope, requests[1].scope);
}

TEST(GovernedBackendTest, ACallerWithoutARequiredDimensionIsDenied) {
  GovernedWorld world;
  api::Caller caller = GovernedWorld::Anna();
  caller.claims.erase("tenant");
  const Reply reply = world.Send("@route=held Tell me", caller);
  EXPECT_EQ(reply.last.error.code(), StatusCode::kPermissionDenied);
  EXPECT_EQ(world.model->n_requests(), 0);
  EXPECT_EQ(world.audit->rows("decision").size(), 1u);
}

// governance.md, acceptance test 7.
TEST(GovernedBackendTest, ToolsThatContradictEachOtherMakeAnEvidencePackAndNoModelIsAsked) {
  GovernedWorld world;
  const auto says = [](boost::json::object value) {
    return [value](const ToolArguments&) {
      ToolResult result;
      result.value = value;
      result.digest = "d";
      return result;
    };
  };
  world.tools["rail"] = says({{"status", "returned"}});
  world.tools["core"] = says({{"reversed", false}});
  const Reply reply = world.Send("@route=tools Where is my money?");
  EXPECT_EQ(reply.decision().outcome, Outcome::kReview);
  EXPECT_EQ(world.model->n_requests(), 0);
  const auto ticket = world.review->GetForDecision(reply.decision().id);
  ASSERT_TRUE(ticket);
  EXPECT_EQ(ticket->draft, "");
  ASSERT_EQ(ticket->context.at("conflicts").as_array().size(), 1u);
  EXPECT_EQ(ticket->context.at("tools").as_array().size(), 2u);

  world.tools["core"] = says({{"reversed", true}});  // the control
  EXPECT_EQ(world.Send("@route=tools Where is my money?").text, "An answer.");
  EXPECT_EQ(world.model->n_requests(), 1);
}

TEST(GovernedBackendTest, AMandatoryToolThatFailsGoesToAPerson) {
  GovernedWorld world;
  world.tools["rail"] = [](const ToolArguments&) {
    ToolResult result;
    result.status = Status(StatusCode::kDeadlineExceeded, "late");
    return result;
  };
  world.tools["core"] = [](const ToolArguments&) {
    ToolResult result;
    result.value = boost::json::object{{"reversed", true}};
    return result;
  };
  EXPECT_EQ(world.Send("@route=tools Where is my money?").decision().outcome, Outcome::kReview);
  EXPECT_EQ(world.model->n_requests(), 0);
}

TEST(GovernedBackendTest, OverloadAndTimeFallBack) {
  GovernedWorld world;
  world.script = [](const api::GenerationRequest&) {
    return ScriptedAnswer{.refusal = api::Refusal{ResourceExhaustedError("full"), "", 1, nullptr}};
  };
  Reply reply = world.Send("@route=limited Tell me");
  EXPECT_EQ(reply.text, "Please call us.");
  EXPECT_EQ(reply.decision().route, "faq");
  world.script = [](const api::GenerationRequest&) {
    return ScriptedAnswer{.finish = FinishReason::kTimeout};
  };
  EXPECT_EQ(world.Send("@route=limited Tell me").text, "Please call us.");
  const DecisionRecord record = world.ledger->records().back();
  EXPECT_EQ(record.attempts.front(), "limited:fast:timeout");
}

TEST(GovernedBackendTest, CostsAreThoseOfWhatWasComputed) {
  GovernedWorld world;
  world.script = [](const api::GenerationRequest&) {
    ScriptedAnswer answer{.pieces = {"An answer."}};
    answer.usage = {100, 40, 10, 0, 0};
    return answer;
  };
  const Reply reply = world.Send("@route=cached Tell me");
  EXPECT_DOUBLE_EQ(reply.decision().cost, 60 * 0.001 + 40 * 0.0001 + 10 * 0.01);
  const Reply hit = world.Send("@route=cached Tell me");
  EXPECT_EQ(hit.decision().cost, 0);
  EXPECT_DOUBLE_EQ(world.ledger->records().back().avoided_cost, reply.decision().cost);
}

// governance.md, acceptance test 5.
TEST(GovernedBackendTest, ConcurrentCallersCannotPassTheSameBudgetTwice) {
  Policy policy = WorldPolicy();
  BudgetSpec budget;
  budget.max_parallel_requests = 10;
  policy.budgets.push_back(budget);
  GovernedWorld world(policy);
  world.script = [](const api::GenerationRequest&) { return ScriptedAnswer{.pieces = {"x"}, .delay_ms = 300}; };
  std::atomic<int> n_answered = 0, n_refused = 0;
  std::vector<std::thread> callers;
  for (int i = 0; i < 200; ++i) {
    callers.emplace_back([&] {
      const Reply reply = world.Send("@route=held Tell me");
      if (reply.text == "x") ++n_answered;
      if (reply.last.error.code() == StatusCode::kResourceExhausted) ++n_refused;
    });
  }
  for (std::thread& caller : callers) caller.join();
  EXPECT_EQ(n_answered + n_refused, 200);
  EXPECT_GE(n_answered, 10);
  EXPECT_LE(world.model->n_requests(), n_answered);
}

TEST(GovernedBackendTest, WhatIsLeftOfABudgetIsToldWithAnswersAndRefusals) {
  Policy policy = WorldPolicy();
  BudgetSpec budget;
  budget.scope = BudgetSpec::Scope::kSubject;
  budget.rpm_limit = 2;
  budget.tpm_limit = 10'000'000;
  policy.budgets.push_back(budget);
  GovernedWorld world(policy);
  world.script = [](const api::GenerationRequest&) {
    ScriptedAnswer answer{.pieces = {"An answer."}};
    answer.usage = {100, 0, 10, 0, 0};
    return answer;
  };
  api::Decision told = world.Send("@route=held Tell me").decision();
  EXPECT_EQ(told.requests.limit, 2);
  EXPECT_EQ(told.requests.remaining, 1);
  EXPECT_EQ(told.tokens.remaining, 10'000'000 - 110);  // settled, no longer the worst case
  world.Send("@route=held Tell me");
  const Reply refused = world.Send("@route=held Tell me");
  EXPECT_EQ(refused.last.error.code(), StatusCode::kResourceExhausted);
  EXPECT_EQ(refused.decision().requests.remaining, 0);
  EXPECT_GT(refused.decision().requests.reset_s, 0);
  GovernedWorld without;
  EXPECT_LT(without.Send("@route=held Tell me").decision().requests.limit, 0);
}

TEST(GovernedBackendTest, WhatAPathCannotHonourIsRefusedAndNamed) {
  GovernedWorld world;
  api::GenerationRequest request = world.Ask("@route=held x");
  request.n_choices = 2;
  EXPECT_EQ(world.Send(request).refusal->param, "n_choices");
  request = world.Ask("@route=held x");
  request.n_logprobs = 0;
  EXPECT_EQ(world.Send(request).refusal->param, "n_logprobs");
  request = world.Ask("@route=held x");
  request.has_tokens = true;
  EXPECT_EQ(world.Send(request).refusal->param, "tokens");
}

TEST(GovernedBackendTest, ACancelledRequestEndsOnceAndIsRecorded) {
  GovernedWorld world;
  world.script = [](const api::GenerationRequest&) { return ScriptedAnswer{.pieces = {"x"}, .delay_ms = 60'000}; };
  std::promise<FinishReason> ended;
  const auto id = world.backend->Submit(world.Ask("@route=held x"), [&](api::Event event) {
    if (event.finish != FinishReason::kNone) ended.set_value(event.finish);
  });
  ASSERT_TRUE(id);
  while (world.model->n_requests() == 0) std::this_thread::yield();
  world.backend->Cancel(*id);
  EXPECT_EQ(ended.get_future().get(), FinishReason::kCancelled);
  EXPECT_EQ(world.audit->rows("decision").size(), 1u);
}

TEST(GovernedBackendTest, DrainingEndsWhatRunsAndTakesNothingNew) {
  GovernedWorld world;
  world.script = [](const api::GenerationRequest&) { return ScriptedAnswer{.pieces = {"x"}, .delay_ms = 60'000}; };
  std::promise<FinishReason> ended;
  ASSERT_TRUE(world.backend->Submit(world.Ask("@route=held x"), [&](api::Event event) {
    if (event.finish != FinishReason::kNone) ended.set_value(event.finish);
  }));
  while (world.model->n_requests() == 0) std::this_thread::yield();
  world.backend->Drain(10);
  EXPECT_EQ(ended.get_future().get(), FinishReason::kCancelled);
  EXPECT_EQ(world.Send("@route=faq x").refusal->status.code(), StatusCode::kUnavailable);
}

}  // namespace
}  // namespace surety::gateway
