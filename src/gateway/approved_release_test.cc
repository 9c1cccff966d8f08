#include "gateway/approved_release.h"

#include <atomic>
#include <thread>

#include <boost/json.hpp>
#include <gtest/gtest.h>

#include "gateway/testing/governed_world.h"
#include "gateway/tool_write.h"

namespace surety::gateway {
namespace {

namespace json = boost::json;

class CountingLedger final : public Ledger {
 public:
  void Record(const DecisionRecord&) override {}
  void Record(const ReviewOutcome& outcome) override {
    ++n_reviews;
    approved = outcome.approved;
  }
  void Record(const ShadowOutcome&) override {}
  void UsePolicy(const Policy&) override {}
  json::object Report() const override { return {}; }
  std::atomic<int> n_reviews = 0;
  std::atomic<bool> approved = false;
};

// Writes by the real rules; what the other side does is told by the test.
class ScriptedTools final : public ToolRunner {
 public:
  explicit ScriptedTools(std::function<std::pair<ToolResult, ToolEffect>()> call) : call_(std::move(call)) {}
  std::vector<ToolResult> Gather(const std::vector<std::string>&, const ToolArguments&, int64_t) override { return {}; }
  ToolResult Write(const std::string& name, const std::string& case_id, const std::string& step,
                   const ToolArguments& arguments, const std::vector<std::string>& approvers,
                   AuditLog& audit) override {
    return writer_.Write({name, case_id, step, arguments, approvers}, audit,
                         [&](const std::string&) { return call_(); });
  }

 private:
  ToolWriter writer_;
  std::function<std::pair<ToolResult, ToolEffect>()> call_;
};

class ApprovedReleaseTest : public testing::Test {
 protected:
  ApprovedReleaseTest() {
    Policy policy = WorldPolicy();
    VerifierSpec soft;
    soft.name = "soft";
    soft.fail = VerifierSpec::Action::kReview;
    policy.verifiers["soft"] = soft;
    for (RouteSpec& route : policy.routes) {
      if (route.name == "reviewed") route.verify = {"promises", "soft"};
    }
    world_.checks["soft"] = [](const AnswerText&) { return Verdict::Outcome::kFail; };
    policy_ = policy;
    Reload();
  }
  void Reload() {
    auto runtime = std::const_pointer_cast<PolicyRuntime>(world_.MakeParts(policy_));
    runtime->tools = std::make_unique<ScriptedTools>([this] {
      ++n_calls_;
      if (during_call_) during_call_();
      ToolResult result;
      result.tool = "refund";
      if (effect_ != ToolEffect::kDone) result.status = UnavailableError("refund: it did not go well");
      result.value = json::object{{"paid", true}};
      return std::pair(result, effect_.load());
    });
    const std::lock_guard lock(mutex_);
    runtime_ = runtime;
  }
  static Ticket Approved(int n_writes = 1) {
    Ticket ticket;
    ticket.id = "rev_1";
    ticket.decision = "dec_1";
    ticket.route = "reviewed";
    ticket.queue = "supervisor";
    ticket.text = "Your refund was sent.";
    ticket.state = TicketState::kApproved;
    ticket.approvers = {"sven"};
    json::array writes;
    for (int i = 0; i < n_writes; ++i) {
      writes.push_back(json::object{{"tool", "refund"}, {"arguments", {{"amount", "5"}}}, {"four_eyes", false}});
    }
    ticket.context["writes"] = std::move(writes);
    return ticket;
  }
  void WriteDecision() { ASSERT_TRUE(audit_.Append("decision", {{"id", "dec_1"}})); }
  size_t n_rows(const char* kind) const { return audit_.rows(kind).size(); }

  GovernedWorld world_;
  Policy policy_;
  FakeAudit audit_;
  CountingLedger ledger_;
  std::atomic<int> n_calls_ = 0;
  std::atomic<ToolEffect> effect_ = ToolEffect::kDone;
  std::function<void()> during_call_;
  std::mutex mutex_;
  std::shared_ptr<const PolicyRuntime> runtime_;
  ApprovedRelease release_{audit_, ledger_, [this] {
                             const std::lock_guard lock(mutex_);
                             return runtime_;
                           }};
};

TEST_F(ApprovedReleaseTest, TheTextIsReleasedOnceItsWritesAreDone) {
  WriteDecision();
  for (int i = 0; i < 3; ++i) {
    const auto outcome = release_.Finish(Approved(2));
    ASSERT_TRUE(outcome);
    EXPECT_EQ(outcome->state, ReleaseState::kReleased);
    EXPECT_EQ(outcome->text_sha256, TextSha256("Your refund was sent."));
    EXPECT_EQ(outcome->writes.size(), 2u);
  }
  EXPECT_EQ(n_calls_, 2);
  EXPECT_EQ(n_rows("release"), 1u);
  EXPECT_EQ(ledger_.n_reviews, 1);
  EXPECT_TRUE(ledger_.approved);
  EXPECT_TRUE(release_.Unfinished().empty());
}

// The text tells of a refund; without one it must not be read.
TEST_F(ApprovedReleaseTest, NothingIsReleasedForAWriteThatIsNotDone) {
  WriteDecision();
  effect_ = ToolEffect::kUnknown;
  for (int i = 0; i < 2; ++i) {
    const auto outcome = release_.Finish(Approved(2));
    ASSERT_TRUE(outcome);
    EXPECT_EQ(outcome->state, ReleaseState::kReconcile);
    EXPECT_EQ(outcome->writes.size(), 1u);  // the one after it was not begun
  }
  EXPECT_EQ(n_calls_, 1);                   // nor was the first tried again
  EXPECT_EQ(n_rows("release"), 0u);
  EXPECT_EQ(ledger_.n_reviews, 0);
  ASSERT_EQ(release_.Unfinished().size(), 1u);
  EXPECT_EQ(release_.Unfinished()[0].at("state"), "reconcile");
}

TEST_F(ApprovedReleaseTest, ARefusedWriteEndsTheDecisionWithoutItsText) {
  WriteDecision();
  effect_ = ToolEffect::kRefused;
  for (int i = 0; i < 2; ++i) EXPECT_EQ(release_.Finish(Approved())->state, ReleaseState::kWriteFailed);
  EXPECT_EQ(n_calls_, 1);
  ASSERT_EQ(n_rows("release"), 1u);
  EXPECT_EQ(audit_.rows("release")[0].body.at("state"), "write_failed");
  EXPECT_EQ(ledger_.n_reviews, 1);
  EXPECT_FALSE(ledger_.approved);
}

TEST_F(ApprovedReleaseTest, AWriteThatWasNeverSentIsTriedAgainUntilItIsDone) {
  WriteDecision();
  effect_ = ToolEffect::kNotSent;
  EXPECT_EQ(release_.Finish(Approved())->state, ReleaseState::kWaiting);
  EXPECT_EQ(n_rows("release"), 0u);
  effect_ = ToolEffect::kDone;
  EXPECT_EQ(release_.Finish(Approved())->state, ReleaseState::kReleased);
  EXPECT_EQ(release_.Finish(Approved())->state, ReleaseState::kReleased);
  EXPECT_EQ(n_calls_, 2);
  EXPECT_EQ(n_rows("release"), 1u);
}


TEST_F(ApprovedReleaseTest, AnOperatorSettlesWhatIsUnknownAndNothingElse) {
  WriteDecision();
  effect_ = ToolEffect::kUnknown;
  EXPECT_EQ(release_.Finish(Approved())->state, ReleaseState::kReconcile);
  EXPECT_EQ(release_.Settle(Approved(), 0, "perhaps", "root", "saw it").code(), StatusCode::kInvalidArgument);
  EXPECT_EQ(release_.Settle(Approved(), 1, "done", "root", "saw it").code(), StatusCode::kNotFound);
  ASSERT_TRUE(release_.Settle(Approved(), 0, "done", "root", "it is in the ledger of the core").ok());
  EXPECT_EQ(release_.Finish(Approved())->state, ReleaseState::kReleased);
  EXPECT_EQ(n_calls_, 1);
  EXPECT_EQ(release_.Settle(Approved(), 0, "refused", "root", "no").code(), StatusCode::kFailedPrecondition);
  EXPECT_EQ(audit_.rows("tool_outcome").back().body.at("settled_by"), "root");
}

TEST_F(ApprovedReleaseTest, SettledAsNotSentItIsTriedAgainAndAsRefusedItFails) {
  WriteDecision();
  effect_ = ToolEffect::kUnknown;
  EXPECT_EQ(release_.Finish(Approved())->state, ReleaseState::kReconcile);
  ASSERT_TRUE(release_.Settle(Approved(), 0, "not_sent", "root", "the line was cut before").ok());
  EXPECT_EQ(release_.Finish(Approved())->state, ReleaseState::kReconcile);  // unknown again
  EXPECT_EQ(n_calls_, 2);
  ASSERT_TRUE(release_.Settle(Approved(), 0, "refused", "root", "the account is closed").ok());
  EXPECT_EQ(release_.Finish(Approved())->state, ReleaseState::kWriteFailed);
  EXPECT_EQ(n_calls_, 2);
}

// The reviewer's call and the caller's poll, with a reload in between.
TEST_F(ApprovedReleaseTest, ManyAtOnceWriteAndReleaseOnce) {
  WriteDecision();
  during_call_ = [] { std::this_thread::sleep_for(std::chrono::milliseconds(30)); };
  std::vector<std::thread> threads;
  std::atomic<int> n_released = 0;
  for (int i = 0; i < 8; ++i) {
    threads.emplace_back([&, i] {
      if (i == 4) Reload();
      const auto outcome = release_.Finish(Approved());
      n_released += outcome && outcome->state == ReleaseState::kReleased;
    });
  }
  for (std::thread& thread : threads) thread.join();
  EXPECT_EQ(n_released, 8);
  EXPECT_EQ(n_calls_, 1);
  EXPECT_EQ(n_rows("tool_intent"), 1u);
  EXPECT_EQ(n_rows("release"), 1u);
  EXPECT_EQ(ledger_.n_reviews, 1);
}

// A crash between ticket and row leaves a ticket without a decision.
TEST_F(ApprovedReleaseTest, ATicketWithoutADecisionOnRecordIsNotApprovedAndWritesNothing) {
  ReviewVote vote{Approved(), "sven", true};
  EXPECT_EQ(release_.MayDecide(vote).code(), StatusCode::kFailedPrecondition);
  EXPECT_FALSE(release_.Finish(Approved()));
  EXPECT_EQ(n_calls_, 0);
  vote.approval = false;
  EXPECT_TRUE(release_.MayDecide(vote).ok());  // it can be put away
  WriteDecision();
  vote.approval = true;
  EXPECT_TRUE(release_.MayDecide(vote).ok());
  EXPECT_EQ(release_.Finish(Approved())->state, ReleaseState::kReleased);
}

TEST_F(ApprovedReleaseTest, AnEditedTextIsLookedAtByWhatBlocksAndNotByWhatAPersonMayOverrule) {
  Ticket ticket = Approved();
  EXPECT_TRUE(release_.MayApprove(ticket).ok());  // "soft" fails, and is the person's to overrule
  ticket.text = "Of course we guarantee it.";
  const Status refused = release_.MayApprove(ticket);
  EXPECT_EQ(refused.code(), StatusCode::kPermissionDenied);
  EXPECT_NE(refused.message().find("promises"), std::string::npos);
  world_.checks["promises"] = [](const AnswerText&) { return Verdict::Outcome::kError; };
  EXPECT_EQ(release_.MayApprove(Approved()).code(), StatusCode::kUnavailable);
  ticket.route = "gone";
  EXPECT_EQ(release_.MayApprove(ticket).code(), StatusCode::kFailedPrecondition);
}

TEST_F(ApprovedReleaseTest, ARejectedTicketReleasesNothing) {
  WriteDecision();
  Ticket ticket = Approved();
  ticket.state = TicketState::kRejected;
  EXPECT_EQ(release_.Finish(ticket)->state, ReleaseState::kRejected);
  EXPECT_EQ(release_.Finish(ticket)->state, ReleaseState::kRejected);
  EXPECT_EQ(n_calls_, 0);
  EXPECT_EQ(n_rows("release"), 1u);
}

TEST(OpenApprovedTest, OnlyTheTextThatWasApprovedComesOutAndOnlyOfItsDecision) {
  const std::string digest = TextSha256("Approved.");
  EXPECT_EQ(OpenApproved(ReleaseToken::ForApproval("dec_1", digest), "dec_1", "Approved.").value(), "Approved.");
  EXPECT_FALSE(OpenApproved(ReleaseToken::ForApproval("dec_1", digest), "dec_1", "Changed."));
  EXPECT_FALSE(OpenApproved(ReleaseToken::ForApproval("dec_2", digest), "dec_1", "Approved."));
  ReleaseToken token = ReleaseToken::ForApproval("dec_1", digest);
  EXPECT_TRUE(OpenApproved(std::move(token), "dec_1", "Approved."));
  EXPECT_FALSE(OpenApproved(std::move(token), "dec_1", "Approved."));  // NOLINT: used twice on purpose
}

}  // namespace
}  // namespace surety::gateway
