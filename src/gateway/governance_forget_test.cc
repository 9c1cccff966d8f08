// Erasure over real stores: audit log, vault, review queue, cache and models, each failing once, and with requests of
// the subject on their way.
#include "gateway/governance.h"

#include <sys/stat.h>
#include <unistd.h>

#include <atomic>
#include <filesystem>
#include <fstream>
#include <future>
#include <iterator>

#include <boost/json.hpp>
#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sqlite3.h>

#include "gateway/testing/fake_parts.h"
#include "gateway/testing/scripted_backend.h"

namespace surety::gateway {
namespace {

namespace json = boost::json;
using ::testing::HasSubstr;

constexpr const char* kForgetPolicy = R"(policy: {id: bank, version: 1, effective_from: 2025-01-01T00:00:00Z}
identity:
  tenant: {from: token.claim, claim: tid, required: true}
  permissions: {from: token.claim, claim: perms}
  region: {from: token.claim, claim: rgn}
  product: {from: token.claim, claim: product}
  language: {from: token.claim, claim: lang}
  eligibility: {from: token.claim, claim: class}
  effective_date: {from: clock, granularity: day}
models:
  fast: {engine: local, weights: WEIGHTS}
  away: {engine: local, weights: other}
tools:
  rail: {kind: read, database: tool.db, query: "SELECT status, note FROM rail", deadline: 20s}
invariants:
  - {name: settled, require: rail.status == settled}
signals:
  topic: {by: metadata, values: [cached, reviewed, tools, away]}
risk: {base: low}
complexity: {base: low}
verifiers:
  promises: {kind: phrases, phrases: [we guarantee MARKER-V], fail: review, deadline: 1s}
routes:
  - name: cached
    when: {topic: cached}
    queue: desk
    model: fast
    verify: [promises]
    cache: {mode: exact, ttl: 1h, subject_bound: true}
    release: {audience: customer}
    deadline: 30s
  - name: reviewed
    when: {topic: reviewed}
    model: fast
    verify: [promises]
    release: {audience: customer, review: desk}
    deadline: 30s
  - name: tools
    when: {topic: tools}
    queue: desk
    model: fast
    tools: [rail]
    invariants: [settled]
    verify: [promises]
    release: {audience: customer}
    deadline: 30s
  - name: away
    when: {topic: away}
    queue: desk
    model: away
    verify: [promises]
    release: {audience: customer}
    deadline: 30s
  - {name: otherwise, when: always, answer: human, queue: desk}
review:
  desk: {lease: 5m}
)";

struct ForgetReply {
  std::string text;
  api::Event last;
};

class GovernanceForgetTest : public testing::Test {
 protected:
  void SetUp() override {
    static std::atomic<int> count = 0;
    folder_ = std::filesystem::temp_directory_path() / fmt::format("surety-forget-{}-{}", getpid(), ++count);
    std::filesystem::create_directories(folder_);
    WritePolicy("small");
    Sql("tool.db", "CREATE TABLE rail(status TEXT, note TEXT); INSERT INTO rail VALUES('settled', 'fine')");
    for (const char* weights : {"small", "other", "newer"}) {
      auto model = std::make_shared<ScriptedBackend>([this](const api::GenerationRequest& r) { return script_(r); });
      model->forget = [this, weights](const api::Scope&, api::ForgetExtent) { return forget_(weights); };
      models_[weights] = model;
    }
    OpenGovernance();
  }
  void TearDown() override {
    governance_.reset();
    models_.clear();
    std::filesystem::remove_all(folder_);
  }

  void OpenGovernance() {
    Governance::Options options;
    options.policy_path = (folder_ / "policy.yaml").string();
    options.n_workers = 4;
    options.load = [this](const ModelSpec& spec) -> Result<std::shared_ptr<api::Backend>> {
      return std::shared_ptr<api::Backend>(models_.at(spec.weights));
    };
    options.files = &FileSystem::Real();
    options.clock = &clock_;
    options.metrics = metrics_.get();
    auto opened = Governance::Open(std::move(options));
    ASSERT_TRUE(opened) << opened.error().ToString();
    governance_ = *std::move(opened);
  }
  void WritePolicy(const std::string& weights) {
    std::string text = kForgetPolicy;
    text.replace(text.find("WEIGHTS"), 7, weights);
    std::ofstream(folder_ / "policy.yaml") << text;
  }
  void Sql(const std::string& file, const std::string& statement) {
    sqlite3* db = nullptr;
    ASSERT_EQ(sqlite3_open((folder_ / file).c_str(), &db), SQLITE_OK);
    EXPECT_EQ(sqlite3_exec(db, statement.c_str(), nullptr, nullptr, nullptr), SQLITE_OK) << sqlite3_errmsg(db);
    sqlite3_close(db);
  }

  static api::GenerationRequest Ask(const std::string& topic, const std::string& question,
                                    const std::string& subject = "anna") {
    api::GenerationRequest request;
    request.messages.push_back(json::object{{"role", "user"}, {"content", question}});
    request.has_messages = true;
    request.caller.subject = subject;
    request.caller.claims = {{"tid", "acme"},     {"perms", json::array{"cases"}}, {"rgn", "US"},
                             {"product", "card"}, {"lang", "en"},                  {"class", "retail"}};
    request.caller.metadata = {{"topic", topic}};
    return request;
  }
  std::future<ForgetReply> Begin(api::GenerationRequest request) {
    struct Shared {
      ForgetReply reply;
      std::promise<ForgetReply> ended;
    };
    auto shared = std::make_shared<Shared>();
    auto ended = shared->ended.get_future();
    const auto id = governance_->backend()->Submit(std::move(request), [shared](api::Event event) {
      shared->reply.text += event.text;
      if (event.finish == api::FinishReason::kNone) return;
      shared->reply.last = std::move(event);
      shared->ended.set_value(shared->reply);
    });
    EXPECT_TRUE(id.has_value());
    return ended;
  }
  ForgetReply Send(const std::string& topic, const std::string& question, const std::string& subject = "anna") {
    return Begin(Ask(topic, question, subject)).get();
  }
  std::vector<json::object> Rows(std::string_view kind) const {
    std::vector<json::object> rows;
    const Status read = ReadAuditLog((folder_ / "state/audit.log").string(), [&](const AuditRow& row) {
      if (row.kind == kind) rows.push_back(row.body);
      return true;
    });
    EXPECT_TRUE(read.ok()) << read.ToString();
    return rows;
  }
  json::object RowOf(const ForgetReply& reply) const {
    for (json::object& row : Rows("decision")) {
      if (row.at("id").as_string() == reply.last.decision->id) return std::move(row);
    }
    ADD_FAILURE() << "no row";
    return {};
  }
  std::string LogBytes() const {
    std::ifstream file(folder_ / "state/audit.log", std::ios::binary);
    return std::string(std::istreambuf_iterator<char>(file), {});
  }
  Result<json::object> StateOf(const ForgetReply& reply) {
    api::Caller admin;
    admin.is_admin = true;
    return governance_->StateOf(reply.last.decision->id, admin);
  }

  std::filesystem::path folder_;
  WallClock clock_;
  std::unique_ptr<observe::Registry> metrics_ = observe::Registry::Make();
  ScriptedBackend::Script script_ = [](const api::GenerationRequest&) {
    return ScriptedAnswer{.pieces = {"An answer."}};
  };
  std::function<Result<api::ForgetReceipt>(const std::string&)> forget_ = [](const std::string&) {
    return api::ForgetReceipt{.pages = 2, .bytes = 10, .pages_in_use = 0};
  };
  std::map<std::string, std::shared_ptr<ScriptedBackend>> models_;
  std::unique_ptr<Governance> governance_;
};

TEST_F(GovernanceForgetTest, AllOfASubjectGoesAndNothingOfAnother) {
  const ForgetReply reviewed = Send("reviewed", "anna's case"), other = Send("reviewed", "bert's case", "bert");
  EXPECT_EQ(Send("cached", "What?").last.decision->cache, "miss");
  EXPECT_EQ(Send("cached", "What?").last.decision->cache, "hit");
  EXPECT_EQ(Send("cached", "What?", "bert").last.decision->cache, "miss");
  const ForgetReply held = Send("cached", "What else?");
  EXPECT_EQ(StateOf(held)->at("answer").as_string(), "An answer.");
  const auto receipt = governance_->ForgetSubject("acme", "anna");
  ASSERT_TRUE(receipt) << receipt.error().ToString();
  EXPECT_EQ(receipt->at("answers").as_int64(), 2);
  EXPECT_EQ(receipt->at("review_tickets").as_int64(), 1);
  EXPECT_EQ(receipt->at("audit_keys").as_int64(), 1);
  EXPECT_EQ(receipt->at("attempts").as_int64(), 1);
  EXPECT_GT(receipt->at("kv_pages").as_int64(), 0);
  EXPECT_TRUE(receipt->at("complete").as_bool());
  EXPECT_EQ(StateOf(reviewed)->at("state").as_string(), "erased");
  EXPECT_EQ(StateOf(other)->at("state").as_string(), "review_pending");
  EXPECT_FALSE(StateOf(held)->contains("answer"));
  EXPECT_EQ(Send("cached", "What?", "bert").last.decision->cache, "hit");
  EXPECT_EQ(Send("cached", "What?").last.decision->cache, "miss");
  EXPECT_EQ(Rows("erasure_intent").size(), 1u);
  EXPECT_EQ(Rows("erasure").at(0).at("audit_keys").as_int64(), 1);
}

// Each part fails once: the others are erased all the same, the retry does the rest, and its receipt tells of all.
TEST_F(GovernanceForgetTest, EachPartThatFailsIsNamedAndErasedByTheNextCall) {
  for (const std::string part : {"vault", "review", "model 'away'"}) {
    SCOPED_TRACE(part);
    const ForgetReply reviewed = Send("reviewed", "anna's case");
    ASSERT_EQ(Send("cached", "What?").last.decision->cache, "miss");
    sqlite3* reader = nullptr;
    std::atomic<int> n_asked = 0;
    if (part == "model 'away'") {
      forget_ = [&](const std::string&) -> Result<api::ForgetReceipt> {
        if (n_asked++ == 0) return Error(UnavailableError("the model is busy"));
        return api::ForgetReceipt{.pages = 2, .bytes = 10, .pages_in_use = 0};
      };
    } else {
      const std::string file = part == "vault" ? "state/vault.db" : "state/review.db";
      ASSERT_EQ(sqlite3_open((folder_ / file).c_str(), &reader), SQLITE_OK);
      const char* begin = "BEGIN; SELECT count(*) FROM sqlite_schema";
      ASSERT_EQ(sqlite3_exec(reader, begin, nullptr, nullptr, nullptr), SQLITE_OK);
    }
    const auto failed = governance_->ForgetSubject("acme", "anna");
    ASSERT_FALSE(failed);
    EXPECT_EQ(failed.error().code(), StatusCode::kUnavailable);
    EXPECT_THAT(failed.error().message(), HasSubstr(part + ": "));
    const int n_first = n_asked;
    const json::object row = Rows("erasure").back();
    EXPECT_FALSE(row.at("complete").as_bool());
    EXPECT_EQ(row.at("failed").at(0).at("part").as_string(), part);
    EXPECT_EQ(row.at("failed").as_array().size(), 1u);
    EXPECT_EQ(StateOf(reviewed)->at("state").as_string(), "erased") << "the others are done";
    if (reader != nullptr) sqlite3_exec(reader, "COMMIT", nullptr, nullptr, nullptr);
    sqlite3_close(reader);
    const auto receipt = governance_->ForgetSubject("acme", "anna");
    ASSERT_TRUE(receipt) << receipt.error().ToString();
    EXPECT_EQ(receipt->at("attempts").as_int64(), 2);
    EXPECT_EQ(receipt->at("answers").as_int64(), 1);
    EXPECT_EQ(receipt->at("review_tickets").as_int64(), 1);
    EXPECT_EQ(receipt->at("audit_keys").as_int64(), 1);
    EXPECT_GT(receipt->at("kv_pages").as_int64(), 0);
    if (part == "model 'away'") {
      EXPECT_EQ(n_asked, 2 * n_first);  // every scope on every model once more
    }
  }
}

// The answer is on its way when its subject is erased.
TEST_F(GovernanceForgetTest, ARequestInFlightMakesNoTicketNoKeyAndNoCachedAnswer) {
  for (const bool erases : {false, true}) {  // the control first
    for (const std::string topic : {"reviewed", "cached"}) {
      SCOPED_TRACE(topic + (erases ? " erased" : ""));
      std::promise<void> running, go;
      std::shared_future<void> gone = go.get_future().share();
      script_ = [&](const api::GenerationRequest&) {
        return ScriptedAnswer{.pieces = {"An answer."}, .before = [&running, gone] {
          running.set_value();
          gone.wait();
        }};
      };
      auto reply = Begin(Ask(topic, "MARKER of " + topic));
      running.get_future().wait();
      if (erases) {
        ASSERT_TRUE(governance_->ForgetSubject("acme", "anna"));
      }
      go.set_value();
      const ForgetReply got = reply.get();
      const json::object row = RowOf(got);
      EXPECT_EQ(row.contains("payload"), !erases);
      if (erases) {
        EXPECT_EQ(row.at("payload_left_out").at("why").as_string(), "erased");
      }
      script_ = [](const api::GenerationRequest&) { return ScriptedAnswer{.pieces = {"An answer."}}; };
      if (topic == "reviewed") {
        EXPECT_EQ(got.last.decision->review_ticket.empty(), erases);
        EXPECT_EQ(StateOf(got)->at("state").as_string(), erases ? "refused" : "review_pending");
        if (erases) {
          EXPECT_THAT(got.last.error.message(), HasSubstr("was erased"));
        }
      } else {
        EXPECT_EQ(got.text, "An answer.");
      }
      if (erases) {  // nothing came back
        const auto again = governance_->ForgetSubject("acme", "anna");
        ASSERT_TRUE(again);
        for (const char* count : {"audit_keys", "answers", "review_tickets", "kv_pages"}) {
          EXPECT_EQ(again->at(count).as_int64(), 0) << count;
        }
      }
    }
  }
}

// It waits for a tool; the model has not been asked yet.
TEST_F(GovernanceForgetTest, ARequestBeforeItsModelIsNotComputed) {
  for (const bool erases : {false, true}) {
    sqlite3* holder = nullptr;
    ASSERT_EQ(sqlite3_open((folder_ / "tool.db").c_str(), &holder), SQLITE_OK);
    ASSERT_EQ(sqlite3_exec(holder, "BEGIN EXCLUSIVE", nullptr, nullptr, nullptr), SQLITE_OK);
    const int before = models_.at("small")->n_requests();
    auto reply = Begin(Ask("tools", "Where is it?"));
    if (erases) {
      ASSERT_TRUE(governance_->ForgetSubject("acme", "anna"));
    }
    sqlite3_exec(holder, "COMMIT", nullptr, nullptr, nullptr);
    sqlite3_close(holder);
    const ForgetReply got = reply.get();
    EXPECT_EQ(models_.at("small")->n_requests() - before, erases ? 0 : 1);
    EXPECT_EQ(got.text, erases ? "" : "An answer.");
    if (erases) {
      EXPECT_EQ(got.last.error.code(), StatusCode::kFailedPrecondition);
    }
  }
}

TEST_F(GovernanceForgetTest, ModelsThatAReloadDroppedAndThoseThatCannotForgetAreNotPassedOver) {
  ASSERT_EQ(Send("cached", "What?").text, "An answer.");
  ASSERT_EQ(Send("away", "What?").text, "An answer.");
  WritePolicy("newer");
  const auto reloaded = governance_->Reload();
  ASSERT_TRUE(reloaded) << reloaded.error().ToString();
  std::set<std::string> asked;
  forget_ = [&](const std::string& weights) -> Result<api::ForgetReceipt> {
    asked.insert(weights);
    if (weights == "other") return Error(UnimplementedError("it is remote"));
    return api::ForgetReceipt{};
  };
  const auto receipt = governance_->ForgetSubject("acme", "anna");
  ASSERT_TRUE(receipt) << receipt.error().ToString();
  EXPECT_EQ(asked, (std::set<std::string>{"small", "newer", "other"}));
  EXPECT_EQ(receipt->at("models_not_reached"), json::array{"away"});
}

// Without a partition too, so that forgetting a whole tenant finds it.
TEST_F(GovernanceForgetTest, EveryScopeNamesItsTenant) {
  api::GenerationRequest request = Ask("away", "What?");
  request.caller.claims.erase("class");
  for (int i = 0; i < 2; ++i) ASSERT_EQ(Begin(request).get().text, "An answer.");
  ASSERT_EQ(Send("away", "What?").text, "An answer.");
  const auto requests = models_.at("other")->requests();
  ASSERT_EQ(requests.size(), 3u);
  for (const api::GenerationRequest& each : requests) EXPECT_EQ(each.scope.tenant, "acme");
  EXPECT_NE(requests[0].scope, requests[1].scope);  // and still shares nothing
}

// What tools, verifiers and providers say may be a customer's data.
TEST_F(GovernanceForgetTest, TheLogHoldsNoTextInClearAndGivesItBackUntilErasure) {
  Sql("tool.db", "UPDATE rail SET status = 'MARKER-T', note = 'MARKER-N'");
  const ForgetReply tools = Send("tools", "MARKER-Q");
  EXPECT_EQ(tools.last.decision->outcome, api::Outcome::kReview);
  script_ = [](const api::GenerationRequest&) { return ScriptedAnswer{.pieces = {"we guarantee MARKER-V"}}; };
  const ForgetReply judged = Send("cached", "Sure?");
  EXPECT_EQ(judged.last.decision->outcome, api::Outcome::kReview);
  script_ = [](const api::GenerationRequest&) {
    return ScriptedAnswer{.finish = api::FinishReason::kError, .error = UnavailableError("upstream says MARKER-U")};
  };
  const ForgetReply failed = Send("away", "What?");
  EXPECT_EQ(failed.last.error.code(), StatusCode::kUnavailable);
  EXPECT_EQ(LogBytes().find("MARKER"), std::string::npos);
  EXPECT_EQ(RowOf(failed).at("error").as_string(), "UNAVAILABLE");
  EXPECT_EQ(RowOf(tools).at("conflicts").at(0).at("violated_by").at(0).as_string(), "rail.status");
  const auto vault = PayloadVault::Open((folder_ / "state/vault.db").string(), (folder_ / "state/vault.key").string());
  ASSERT_TRUE(vault);
  const auto texts = [&](const ForgetReply& reply) {
    return (*vault)->Unseal(RowOf(reply).at("payload").as_object(), reply.last.decision->id);
  };
  EXPECT_THAT(texts(tools).value(), testing::AllOf(HasSubstr("MARKER-T"), HasSubstr("MARKER-Q")));
  EXPECT_THAT(texts(judged).value(), HasSubstr("MARKER-V"));
  EXPECT_THAT(texts(failed).value(), HasSubstr("MARKER-U"));
  EXPECT_THAT(std::string(StateOf(failed)->at("error").as_string()), HasSubstr("MARKER-U"));
  ASSERT_TRUE(governance_->ForgetSubject("acme", "anna"));
  for (const ForgetReply* reply : {&tools, &judged, &failed}) {
    EXPECT_EQ(governance_->Replay(reply->last.decision->id).error().code(), StatusCode::kNotFound);
  }
  EXPECT_FALSE(StateOf(failed)->contains("error"));
}

// A row has at most 16 MiB.
TEST_F(GovernanceForgetTest, EveryRequestHasItsRowHoweverLongItsTexts) {
  const ForgetReply large = Send("cached", std::string(9 << 20, 'x'));
  const json::object kept = RowOf(large);
  EXPECT_TRUE(kept.contains("payload")) << json::serialize(kept).substr(0, 2000);
  const ForgetReply huge = Send("cached", std::string(14 << 20, 'x'));
  const json::object left = RowOf(huge);
  EXPECT_FALSE(left.contains("payload"));
  EXPECT_EQ(left.at("payload_left_out").at("why").as_string(), "size");
  EXPECT_GE(left.at("payload_left_out").at("bytes").to_number<int64_t>(), 14 << 20);
  EXPECT_EQ(left.at("payload_left_out").at("sha256").as_string().size(), 64u);
  EXPECT_EQ(Rows("decision").size(), 2u);
}

TEST_F(GovernanceForgetTest, TheStoresAreTriedAtTheStartAndTheirFolderIsItsOwners) {
  ASSERT_EQ(Rows("start").size(), 1u);
  EXPECT_TRUE(Rows("start")[0].contains("payload"));
  struct stat facts {};
  ASSERT_EQ(stat((folder_ / "state").c_str(), &facts), 0);
  EXPECT_EQ(facts.st_mode & 0777, 0700u);
  governance_.reset();
  std::filesystem::remove(folder_ / "state/vault.key");
  Governance::Options options;
  options.policy_path = (folder_ / "policy.yaml").string();
  options.load = [this](const ModelSpec& spec) -> Result<std::shared_ptr<api::Backend>> {
    return std::shared_ptr<api::Backend>(models_.at(spec.weights));
  };
  options.files = &FileSystem::Real();
  options.clock = &clock_;
  options.metrics = metrics_.get();
  const auto opened = Governance::Open(std::move(options));
  ASSERT_FALSE(opened);
  EXPECT_THAT(opened.error().message(), HasSubstr("master key"));
}

}  // namespace
}  // namespace surety::gateway
