// What is judged, by what it is judged, and what follows from it.
#include <thread>

#include <gtest/gtest.h>

#include "gateway/governed_backend.h"
#include "gateway/testing/fake_store.h"
#include "gateway/testing/governed_world.h"
#include "gateway/verifier_set.h"

namespace surety::gateway {
namespace {

using api::FinishReason;
using api::Outcome;

RouteSpec& JudgedRoute(Policy& policy, std::string_view name) {
  for (RouteSpec& route : policy.routes) {
    if (route.name == name) return route;
  }
  ADD_FAILURE() << "no route " << name;
  return policy.routes.front();
}

// Reads all passages for as long as it is told, whatever its deadline; passes or not.
class SlowReader final : public Verifier {
 public:
  SlowReader(VerifierSpec spec, std::shared_ptr<std::atomic<int>> n_running, int64_t sleep_ms)
      : spec_(std::move(spec)), n_running_(std::move(n_running)), sleep_ms_(sleep_ms) {}
  const VerifierSpec& spec() const override { return spec_; }
  std::string version() const override { return "1"; }
  Verdict Check(const AnswerText&, const Evidence& evidence, int64_t) const override {
    ++*n_running_;
    size_t bytes = 0;
    for (int64_t i = 0; i < sleep_ms_; ++i) {
      for (const Passage& passage : evidence.passages) {
        for (const char c : passage.text) bytes += static_cast<unsigned char>(c);
      }
      std::this_thread::sleep_for(std::chrono::milliseconds(1));
    }
    Verdict verdict;
    verdict.outcome = bytes > 0 ? Verdict::Outcome::kPass : Verdict::Outcome::kError;
    --*n_running_;
    return verdict;
  }

 private:
  const VerifierSpec spec_;
  const std::shared_ptr<std::atomic<int>> n_running_;
  const int64_t sleep_ms_;
};

struct SlowWorld {
  explicit SlowWorld(const std::function<void(Policy&)>& change, int64_t sleep_ms) {
    policy = WorldPolicy();
    RetrieverSpec handbook;
    handbook.name = "handbook";
    handbook.deadline_ns = 5'000'000'000;
    policy.retrievers["handbook"] = handbook;
    JudgedRoute(policy, "held").retrieve = "handbook";
    change(policy);
    world = std::make_unique<GovernedWorld>(policy);
    auto parts = world->MakeParts(policy);
    std::vector<Passage> passages(40, FakePassage(std::string(1000, 'p')));
    parts->stores["handbook"] = std::make_unique<FakeStore>(passages);
    std::vector<std::unique_ptr<Verifier>> verifiers;
    verifiers.push_back(std::make_unique<SlowReader>(policy.verifiers.at("promises"), n_running, sleep_ms));
    parts->verifiers = MakeVerifierSet(std::move(verifiers), world->clock);
    world->backend->Use(parts);
  }
  Policy policy;
  std::shared_ptr<std::atomic<int>> n_running = std::make_shared<std::atomic<int>>(0);
  std::unique_ptr<GovernedWorld> world;
};

// Under AddressSanitizer or ThreadSanitizer this is the finding itself; without them it must still end well.
TEST(GovernedJudgementTest, ALateVerifierReadsOnWhileTheRepairIsMade) {
  SlowWorld slow([](Policy& policy) {
    policy.verifiers["promises"].error = VerifierSpec::Action::kRepair;
    policy.verifiers["promises"].deadline_ns = 100'000'000;
    policy.contexts["small"].max_input_tokens = 60'000;   // some of the passages fit
    policy.contexts["small"].name = "small";
    JudgedRoute(policy, "held").context = "small";
  }, 800);
  std::atomic<int> late_at_repair = -1;
  int n = 0;
  slow.world->script = [&](const api::GenerationRequest&) {
    if (n++ == 1) late_at_repair = slow.n_running->load();
    return ScriptedAnswer{.pieces = {"An answer."}};
  };
  const Reply reply = slow.world->Send("@route=held Tell me");
  EXPECT_EQ(reply.decision().outcome, Outcome::kReview);
  EXPECT_EQ(reply.decision().attempts, 2);
  EXPECT_EQ(late_at_repair, 1);   // so it did read while the second prompt was built
}

TEST(GovernedJudgementTest, VerifiersDoNotOutlastTheCallersTime) {
  SlowWorld slow([](Policy& policy) {
    policy.verifiers["promises"].deadline_ns = 20'000'000'000;
    JudgedRoute(policy, "held").fallback = {{"faq", {}}};
  }, 1500);
  api::GenerationRequest request = slow.world->Ask("@route=held Tell me");
  request.timeout_ms = 200;
  const Reply reply = slow.world->Send(request);
  EXPECT_EQ(slow.n_running->load(), 1);   // the answer did not wait for it
  EXPECT_EQ(reply.text, "Please call us.");
  request.timeout_ms = 60'000;
  EXPECT_EQ(slow.world->Send(request).text, "An answer.");  // the control
}

// The text that leaves, and the text with what ended it: either may be the false one.
TEST(GovernedJudgementTest, BothTheDeliveredTextAndTheOneWithItsStopTextMustPass) {
  GovernedWorld world;
  const auto send = [&](const std::string& text, const std::string& stop) {
    world.script = [=](const api::GenerationRequest&) { return ScriptedAnswer{.pieces = {text}, .stop_text = stop}; };
    return world.Send("@route=held Tell me");
  };
  // "we guaranteed" is allowed here, "we guarantee" is not, and that is what would be delivered.
  world.checks["promises"] = [](const AnswerText& answer) {
    const bool bad = answer.text.ends_with("we guarantee");
    return bad ? Verdict::Outcome::kFail : Verdict::Outcome::kPass;
  };
  const Reply cut = send("Yes, we guarantee", "d");
  EXPECT_EQ(cut.text, "");
  EXPECT_EQ(cut.last.finish, FinishReason::kFiltered);
  EXPECT_EQ(cut.decision().verifier, "promises");
  EXPECT_EQ(send("Yes, we ", "guarantee").text, "");
  EXPECT_EQ(send("Yes, we guaranteed", "").text, "Yes, we guaranteed");
  EXPECT_EQ(send("Yes, we guarantee", "").text, "");
  // A number that the stop text cuts short.
  world.checks["promises"] = [](const AnswerText& answer) {
    const bool true_fee = answer.text == "The fee is 100";
    return true_fee ? Verdict::Outcome::kPass : Verdict::Outcome::kFail;
  };
  EXPECT_EQ(send("The fee is 1", "00").text, "");
  EXPECT_EQ(send("The fee is 100", "").text, "The fee is 100");
}

TEST(GovernedJudgementTest, WhatNoVerifierSawPassedIsReleasedOnceAndNotKept) {
  Policy policy = WorldPolicy();
  policy.verifiers["promises"].open_on_error = true;
  GovernedWorld world(policy);
  world.checks["promises"] = [](const AnswerText&) { return Verdict::Outcome::kError; };
  for (int i = 0; i < 2; ++i) {
    const Reply reply = world.Send("@route=cached What is it?");
    EXPECT_EQ(reply.text, "An answer.");
    EXPECT_EQ(reply.decision().cache, "miss");
  }
  world.checks["promises"] = [](const AnswerText&) { return Verdict::Outcome::kPass; };
  EXPECT_EQ(world.Send("@route=cached What is it?").decision().cache, "miss");
  EXPECT_EQ(world.Send("@route=cached What is it?").decision().cache, "hit");   // the control
}

TEST(GovernedJudgementTest, AnAnswerIsNotFoundAgainAtAnotherRisk) {
  // The same words at another risk: of who asks.
  class RiskOfCaller final : public SignalReader {
   public:
    Signals Read(std::string_view, std::string_view, const api::Caller& caller) const override {
      Signals signals;
      signals.values["route"].label = "cached";
      signals.risk = caller.metadata.contains("risky") ? Level::kMedium : Level::kLow;
      return signals;
    }
  };
  Policy policy = WorldPolicy();
  policy.verifiers["promises"].open_on_error = true;
  GovernedWorld world(policy);
  auto parts = world.MakeParts(policy);
  parts->signals = std::make_unique<RiskOfCaller>();
  world.backend->Use(parts);
  api::Caller risky = GovernedWorld::Anna();
  risky.metadata["risky"] = "yes";
  EXPECT_EQ(world.Send("What is it?").decision().cache, "miss");
  EXPECT_EQ(world.Send("What is it?", risky).decision().cache, "miss");
  EXPECT_EQ(world.Send("What is it?").decision().cache, "hit");   // the control
  EXPECT_EQ(world.Send("What is it?", risky).decision().cache, "hit");
}

TEST(GovernedJudgementTest, ADraftThatIsKeptBackOrBreaksOffIsNotCalledReleased) {
  GovernedWorld world;
  world.script = [](const api::GenerationRequest&) { return ScriptedAnswer{.pieces = {"we ", "guarantee"}}; };
  const Reply blocked = world.Send("@route=stream Tell me");
  ASSERT_NE(blocked.events.front().decision, nullptr);
  EXPECT_EQ(blocked.events.front().decision->outcome, Outcome::kStreamed);   // as the first piece leaves
  EXPECT_EQ(blocked.decision().outcome, Outcome::kRefused);
  EXPECT_TRUE(blocked.decision().draft);
  world.script = [](const api::GenerationRequest&) {
    return ScriptedAnswer{.pieces = {"An "}, .finish = FinishReason::kError, .error = UnavailableError("gone")};
  };
  const Reply broken = world.Send("@route=stream Tell me");
  EXPECT_EQ(broken.last.finish, FinishReason::kError);
  EXPECT_EQ(broken.decision().outcome, Outcome::kRefused);
  EXPECT_TRUE(broken.decision().draft);
  world.script = [](const api::GenerationRequest&) { return ScriptedAnswer{.pieces = {"An ", "answer."}}; };
  EXPECT_EQ(world.Send("@route=stream Tell me").decision().outcome, Outcome::kStreamed);  // the control
}

TEST(GovernedJudgementTest, AReviewerSeesTheCallsOfTools) {
  GovernedWorld world;
  world.script = [](const api::GenerationRequest&) {
    return ScriptedAnswer{.calls = {{0, "refund", R"({"amount":)"}, {0, "", "35}"}}};
  };
  const Reply reply = world.Send("@route=reviewed Pay me back");
  EXPECT_EQ(reply.arguments, "");
  const auto ticket = world.review->GetForDecision(reply.decision().id);
  ASSERT_TRUE(ticket.has_value());
  const boost::json::array expected = {boost::json::object{{"name", "refund"}, {"arguments", R"({"amount":35})"}}};
  EXPECT_EQ(ticket->context.at("calls"), boost::json::value(expected));
}

}  // namespace
}  // namespace surety::gateway
