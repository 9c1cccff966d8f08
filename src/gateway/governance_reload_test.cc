// A policy that is read again: whole or not at all, with queues of people that come, change and go.
#include <atomic>
#include <filesystem>
#include <memory>
#include <string>
#include <thread>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "gateway/governance.h"
#include "gateway/testing/audit_folder.h"
#include "gateway/testing/fake_parts.h"
#include "gateway/testing/governed_world.h"
#include "gateway/testing/scripted_backend.h"

namespace surety::gateway {
namespace {

using ::testing::HasSubstr;

std::string ReloadPolicyText(const std::string& version, const std::string& queue, const std::string& queues) {
  return "policy: {id: bank, version: \"" + version + R"(", effective_from: 2020-01-01T00:00:00Z}
identity:
  tenant: {from: token.claim, claim: tenant, required: true}
models:
  fast: {engine: local, weights: small}
routes:
  - {name: all, when: always, answer: human, queue: )" + queue + "}\nreview:\n" + queues;
}

class GovernanceReloadTest : public ::testing::Test {
 protected:
  void Write(const std::string& text) { ASSERT_TRUE(FileSystem::Real().WriteAll(path_, text).ok()); }
  void Open() {
    Governance::Options options;
    options.policy_path = path_;
    options.n_workers = 2;
    options.load = [](const ModelSpec&) -> Result<std::shared_ptr<api::Backend>> {
      return std::make_shared<ScriptedBackend>([](const api::GenerationRequest&) { return ScriptedAnswer{}; });
    };
    options.files = &FileSystem::Real();
    options.clock = &clock_;
    options.metrics = metrics_.get();
    auto opened = Governance::Open(std::move(options));
    ASSERT_TRUE(opened) << opened.error().message();
    governance_ = *std::move(opened);
  }
  // Sends a request that waits for a person: its ticket.
  std::string Ask() {
    api::GenerationRequest request;
    request.messages.push_back(boost::json::object{{"role", "user"}, {"content", "May I?"}});
    request.has_messages = true;
    request.caller.subject = "anna";
    request.caller.claims = {{"tenant", "acme"}};
    std::promise<std::string> ticket;
    const auto id = governance_->backend()->Submit(std::move(request), [&](api::Event event) {
      if (event.finish != api::FinishReason::kNone) ticket.set_value(event.decision->review_ticket);
    });
    EXPECT_TRUE(id);
    return ticket.get_future().get();
  }
  Result<boost::json::object> Do(const std::string& action, boost::json::object arguments) {
    return governance_->review().Handle({"sven", {"review"}, "acme"}, action, arguments);
  }
  Status Reject(const std::string& ticket) {
    auto seen = Do("get", {{"id", ticket}});
    if (!seen) return seen.error();
    seen = Do("lease", {{"id", ticket}, {"version", seen->at("version")}});
    if (!seen) return seen.error();
    seen = Do("reject", {{"id", ticket}, {"version", seen->at("version")}, {"reason_code", "no"}});
    return seen ? OkStatus() : seen.error();
  }
  std::string Version() { return std::string(governance_->Describe().at("version").as_string()); }

  AuditFolder folder_;
  const std::string path_ = folder_.path("policy.yaml");
  WallClock clock_;
  std::unique_ptr<observe::Registry> metrics_ = observe::Registry::Make();
  std::unique_ptr<Governance> governance_;
};

TEST_F(GovernanceReloadTest, QueuesComeChangeAndGoButNeverWithOpenTickets) {
  Write(ReloadPolicyText("1", "desk",
                         "  desk: {permission: review, reasons_required: false}\n  old: {permission: review}\n"));
  Open();
  const std::string at_desk = Ask();
  // "old" is empty and may go, "new" comes, and "desk" changes its rule for the ticket that it holds, too.
  Write(ReloadPolicyText(
      "2", "new", "  desk: {permission: review, reasons_required: true, approvals: 2}\n  new: {permission: review}\n"));
  auto now = governance_->Reload();
  ASSERT_TRUE(now) << now.error().message();
  EXPECT_EQ(Version(), "2");
  EXPECT_EQ(Do("get", {{"id", at_desk}}).value().at("approvals_required"), 2);
  const std::string at_new = Ask();
  EXPECT_EQ(Do("get", {{"id", at_new}}).value().at("queue"), "new");
  // Now "desk" may not go: its ticket would wait for nobody.
  Write(ReloadPolicyText("3", "new", "  new: {permission: review}\n"));
  now = governance_->Reload();
  ASSERT_FALSE(now);
  EXPECT_EQ(now.error().code(), StatusCode::kFailedPrecondition);
  EXPECT_THAT(now.error().message(), HasSubstr(at_desk));
  EXPECT_THAT(now.error().message(), HasSubstr("desk"));
  EXPECT_EQ(Version(), "2");
  EXPECT_TRUE(Reject(at_desk).ok());
  ASSERT_TRUE(governance_->Reload());
  EXPECT_EQ(Version(), "3");
  EXPECT_TRUE(Reject(at_new).ok());
}

// A request that began under the old policy sends its ticket to a queue that is no more.
TEST_F(GovernanceReloadTest, ATicketOfAQueueThatWentMeanwhileCanBeDecided) {
  auto store = ReviewStore::Open(":memory:", {{"desk", {}}}, clock_);
  ASSERT_TRUE(store);
  (*store)->UseQueues({{"new", {}}});
  Ticket ticket;
  ticket.decision = "dec_1";
  ticket.queue = "desk";
  ticket.tenant = "acme";
  ticket.subject = "anna";
  const auto made = (*store)->Create(std::move(ticket));
  ASSERT_TRUE(made) << made.error().message();
  const Reviewer sven{"sven", {}, "acme"};
  EXPECT_EQ((*store)->List(sven, "", TicketState::kOpen, 10).value().size(), 1u);
  const auto leased = (*store)->LeaseTicket(sven, made->id, made->version);
  ASSERT_TRUE(leased);
  EXPECT_TRUE((*store)->Reject(sven, made->id, leased->version, "no", ""));
}

TEST_F(GovernanceReloadTest, AFaultLeavesEverythingInForce) {
  Write(ReloadPolicyText("1", "desk", "  desk: {permission: review}\n"));
  Open();
  for (const std::string& text :
       {std::string("routes: ["), ReloadPolicyText("2", "nobody", "  desk: {permission: review}\n"),
        ReloadPolicyText("2", "desk", "  desk: {permission: review}\nstate: {directory: elsewhere}\n")}) {
    Write(text);
    EXPECT_FALSE(governance_->Reload()) << text;
    EXPECT_EQ(Version(), "1");
    EXPECT_FALSE(Ask().empty());
  }
  Write(ReloadPolicyText("2", "desk", "  desk: {permission: review}\n"));
  EXPECT_TRUE(governance_->Reload());  // the control
  EXPECT_EQ(Version(), "2");
}

TEST_F(GovernanceReloadTest, ReloadsWhileRequestsRunLoseNoTicket) {
  Write(ReloadPolicyText("0", "a", "  a: {}\n  b: {}\n"));
  Open();
  std::atomic<bool> stop = false;
  std::atomic<int> n_asked = 0, n_lost = 0;
  std::vector<std::thread> callers;
  for (int i = 0; i < 3; ++i) {
    callers.emplace_back([&] {
      while (!stop) {
        if (Ask().empty()) ++n_lost;
        ++n_asked;
      }
    });
  }
  for (int i = 1; i <= 10; ++i) {
    Write(ReloadPolicyText(std::to_string(i), i % 2 ? "b" : "a", "  a: {}\n  b: {}\n"));
    EXPECT_TRUE(governance_->Reload());
  }
  while (n_asked < 20) std::this_thread::yield();
  stop = true;
  for (std::thread& caller : callers) caller.join();
  EXPECT_EQ(n_lost, 0);
}

}  // namespace
}  // namespace surety::gateway
