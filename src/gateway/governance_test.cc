// The parts of the governed path together, on disk: what a crash between them leaves.
#include "gateway/governance.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <fstream>
#include <future>
#include <thread>

#include "gateway/remote_backend.h"
#include "gateway/review_store.h"
#include "gateway/testing/test_certificates.h"

namespace surety::gateway {
namespace {

namespace json = boost::json;
using ::testing::HasSubstr;

constexpr const char* kDeskPolicy = R"(
policy: {id: desk, version: "1", effective_from: 2026-01-01T00:00:00Z, currency: USD}
identity:
  tenant: {from: constant, value: acme}
  policy_version: {from: policy}
  effective_date: {from: clock}
models:
  far: {engine: remote, api_base: "http://127.0.0.1:1/v1", model: m}   # nobody is there, and nobody is asked
routes:
  - {name: otherwise, when: always, answer: human, queue: desk}
review:
  desk: {lease: 10m, permission: review, approvals: 1, exclude: [author], reasons_required: false}
)";

const Reviewer kSven{.name = "sven", .permissions = {"review"}, .tenant = "acme"};

class GovernanceTest : public ::testing::Test {
 protected:
  GovernanceTest() { path_ = folder_.Write("policy.yaml", kDeskPolicy); }

  void Open() {
    Governance::Options options;
    options.policy_path = path_;
    options.n_workers = 2;
    options.load = [](const ModelSpec& spec) -> Result<std::shared_ptr<api::Backend>> {
      SURETY_ASSIGN_OR_RETURN(RemoteOptions remote, RemoteOptionsOf(spec, "."));
      return MakeRemoteBackend(std::move(remote));
    };
    options.files = &FileSystem::Real();
    options.clock = &Clock::Real();
    options.metrics = metrics_.get();
    auto opened = Governance::Open(std::move(options));
    ASSERT_TRUE(opened.has_value()) << opened.error().ToString();
    governance_ = *std::move(opened);
  }

  // The queue beside the governance, as another process has it: without rows, and nobody is told.
  std::unique_ptr<ReviewStore> Store() const {
    ReviewQueueSpec desk;
    desk.name = "desk";
    desk.reasons_required = false;
    auto store = ReviewStore::Open(folder_.path() + "/state/review.db", {{"desk", desk}}, Clock::Real());
    EXPECT_TRUE(store.has_value()) << store.error().ToString();
    return *std::move(store);
  }

  // A ticket as an earlier server left it.
  std::string LeaveTicket(const std::string& decision) {
    const auto store = Store();
    Ticket ticket;
    ticket.decision = decision;
    ticket.queue = "desk";
    ticket.route = "otherwise";
    ticket.tenant = "acme";
    ticket.subject = "anna";
    ticket.risk = "low";
    ticket.question = "?";
    ticket.draft = ticket.text = "An answer.";
    const auto created = store->Create(std::move(ticket));
    EXPECT_TRUE(created.has_value()) << created.error().ToString();
    return created->id;
  }

  Result<json::object> Vote(const std::string& ticket, const std::string& action) {
    const auto shown = governance_->review().Handle(kSven, "get", {{"id", ticket}});
    if (!shown) return shown;
    const auto leased = governance_->review().Handle(kSven, "lease",
                                                          {{"id", ticket}, {"version", shown->at("version")}});
    if (!leased) return leased;
    return governance_->review().Handle(kSven, action, {{"id", ticket}, {"version", leased->at("version")}});
  }

  int Rows(std::string_view kind) const {
    std::ifstream file(folder_.path() + "/state/audit.log");
    int n = 0;
    for (std::string line; std::getline(file, line);) n += json::parse(line).at("kind").as_string() == kind;
    return n;
  }

  const TestFolder folder_;
  std::string path_;
  std::unique_ptr<observe::Registry> metrics_ = observe::Registry::Make();
  std::unique_ptr<Governance> governance_;
};

// The server was killed after the ticket was made and before the decision's row.
TEST_F(GovernanceTest, ATicketWithoutADecisionCannotBeApproved) {
  Open();
  const std::string orphan = LeaveTicket("dec_nobody");
  const auto approved = Vote(orphan, "approve");
  ASSERT_FALSE(approved.has_value());
  EXPECT_EQ(approved.error().code(), StatusCode::kFailedPrecondition);
  EXPECT_THAT(approved.error().message(), HasSubstr("log has no decision"));
  EXPECT_EQ(Rows("review"), 0);
  EXPECT_EQ(Rows("release"), 0);
  EXPECT_TRUE(Vote(orphan, "reject").has_value()) << "it can be cleared away";
}

TEST_F(GovernanceTest, WhoeverAsksWhileItIsReleasedThereIsOneRelease) {
  Open();
  api::GenerationRequest request;
  request.has_messages = true;
  request.messages = {json::object{{"role", "user"}, {"content", "Help"}}};
  request.caller.subject = "anna";
  std::promise<api::Event> ended;
  const auto id = governance_->backend()->Submit(std::move(request), [&](api::Event event) {
    if (event.finish != api::FinishReason::kNone) ended.set_value(std::move(event));
  });
  ASSERT_TRUE(id.has_value()) << id.error().status.ToString();
  const api::Event last = ended.get_future().get();
  ASSERT_NE(last.decision, nullptr);
  ASSERT_FALSE(last.decision->review_ticket.empty());
  // Approved, and the server was killed before the release.
  const auto store = Store();
  const std::string ticket = last.decision->review_ticket;
  const auto version = [&] { return store->Get(kSven, ticket)->version; };
  const Reviewer tina{.name = "tina", .permissions = {}, .tenant = "acme"};
  ASSERT_TRUE(store->LeaseTicket(tina, ticket, version()).has_value());
  ASSERT_TRUE(store->Edit(tina, ticket, version(), "We call you.").has_value());
  ASSERT_TRUE(store->Release(tina, ticket, version()).has_value());
  const auto leased = store->LeaseTicket(kSven, ticket, version());
  ASSERT_TRUE(leased.has_value()) << leased.error().ToString();
  const auto approved = store->Approve(kSven, ticket, leased->version, "", "");
  ASSERT_TRUE(approved.has_value()) << approved.error().ToString();
  EXPECT_EQ(Rows("release"), 0);
  api::Caller admin;
  admin.is_admin = true;
  std::vector<std::thread> threads;
  for (int i = 0; i < 8; ++i) {
    threads.emplace_back([&] { EXPECT_EQ(governance_->StateOf(last.decision->id, admin)->at("state"), "released"); });
  }
  for (std::thread& thread : threads) thread.join();
  EXPECT_EQ(Rows("release"), 1);
}

}  // namespace
}  // namespace surety::gateway
