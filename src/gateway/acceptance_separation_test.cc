// governance.md, acceptance tests 1, 5 and 10 through the whole gateway: no dimension is shared by any cache or scope;
// a budget with room for ten admits ten of two hundred; material of permission class "sar" is nowhere where another
// class could meet it, and nobody approves what is his own.
#include <algorithm>
#include <atomic>
#include <filesystem>
#include <fstream>
#include <latch>
#include <thread>

#include <boost/json.hpp>
#include <fmt/format.h>
#include <gtest/gtest.h>

#include "gateway/testing/acceptance_bank.h"
#include "gateway/testing/audit_folder.h"

namespace surety::gateway {
namespace {

namespace json = boost::json;

class AcceptanceSeparationTest : public ::testing::Test {
 protected:
  AcceptanceSeparationTest() : bank_(folder_.path("bank"), clock_) {
    bank_.AddDocument({"fees", "1", "Fees", "The fee is 10 dollars.", {"public"}, {}, {}, {}, {}, "", ""});
  }
  void Open(const std::string& policy) {
    bank_.WritePolicy(policy);
    const Status opened = bank_.Open();
    ASSERT_TRUE(opened.ok()) << opened.ToString();
  }

  AuditFolder folder_;
  WallClock clock_;
  AcceptanceBank bank_;
};

// Callers who differ from Anna in one dimension each; the policy's version and the date are not the caller's.
std::vector<std::pair<std::string, api::Caller>> SiblingsOfAnna() {
  std::vector<std::pair<std::string, api::Caller>> out;
  for (const auto& [claim, value] : {std::pair{"tenant", "bank"}, {"region", "US-CA"}, {"eligibility", "premium"}}) {
    out.emplace_back(claim, AcceptanceBank::Anna());
    out.back().second.claims[claim] = value;
  }
  out.emplace_back("permissions", AcceptanceBank::Anna());
  out.back().second.claims["permissions"] = json::array{"cases", "sar"};
  for (const auto& [key, value] : {std::pair{"product", "savings"}, {"language", "es"}}) {
    out.emplace_back(key, AcceptanceBank::Anna());
    out.back().second.metadata[key] = value;
  }
  return out;
}

// All questions have the same vector: nothing but the partition keeps them apart in the cache by meaning.
TEST_F(AcceptanceSeparationTest, NoDimensionIsSharedByTheExactCacheTheCacheByMeaningOrThePrefix) {
  for (const char* mode : {"exact_then_semantic", "exact", "semantic"}) {
    bank_.Close();
    std::filesystem::remove_all(bank_.path("state"));
    bank_.embed = [](std::span<const std::string> texts) -> Result<std::vector<std::vector<float>>> {
      return std::vector<std::vector<float>>(texts.size(), std::vector<float>{1, 0, 0});
    };
    std::string policy = Edited(BankPolicyText(), {{"mode: exact_then_semantic", std::string("mode: ") + mode}});
    if (mode == std::string_view("exact")) policy = Edited(policy, {{", intents: [fee], ttl: 100d", ", ttl: 100d"}});
    Open(policy);
    clock_.wall_ns = 1'780'000'000'000'000'000;
    const std::string question = "What is the fee?";
    EXPECT_EQ(bank_.Ask(question).decision().cache, "miss");
    EXPECT_EQ(bank_.Ask(question).decision().cache, "hit") << mode;
    const bool by_meaning = mode != std::string_view("exact");
    EXPECT_EQ(bank_.Ask("What is the fee, please?").decision().cache, by_meaning ? "hit" : "miss");
    std::vector<api::Scope> scopes = {bank_.model->requests().front().scope};
    const auto differs = [&](const std::string& what, const api::Caller& caller) {
      EXPECT_EQ(bank_.Ask(question, caller).decision().cache, "miss") << mode << " " << what;
      const api::Scope scope = bank_.model->requests().back().scope;
      EXPECT_EQ(std::ranges::count(scopes, scope), 0) << mode << " " << what;
      scopes.push_back(scope);
      EXPECT_EQ(bank_.Ask(question, caller).decision().cache, "hit") << mode << " " << what;
    };
    for (const auto& [what, caller] : SiblingsOfAnna()) differs(what, caller);
    clock_.wall_ns += int64_t{24} * 3600 * 1'000'000'000;
    differs("effective_date", AcceptanceBank::Anna());
    bank_.WritePolicy(Edited(policy, {{"version: \"1\", effective", "version: \"2\", effective"}}));
    ASSERT_TRUE(bank_.governance->Reload());
    differs("policy_version", AcceptanceBank::Anna());
    EXPECT_EQ(scopes.size(), 9u);
    // Another order of the same permissions is the same partition: the control of the set.
    api::Caller one = AcceptanceBank::Anna(), other = one;
    one.claims["permissions"] = json::array{"cases", "sar"};
    other.claims["permissions"] = json::array{"sar", "cases", "sar"};
    EXPECT_EQ(bank_.Ask(question, one).decision().cache, "miss");
    EXPECT_EQ(bank_.Ask(question, other).decision().cache, "hit");
    // null is no value: nothing is shared with it, not even with itself.
    api::Caller null = AcceptanceBank::Anna();
    null.claims["eligibility"] = nullptr;
    for (int i = 0; i < 2; ++i) EXPECT_EQ(bank_.Ask(question, null).decision().cache, "bypass:no_partition");
    // A look-alike (Cyrillic a) is another value, or refused.
    api::Caller alike = AcceptanceBank::Anna();
    alike.claims["tenant"] = "\xD0\xB0" "cme";
    const Reply reply = bank_.Ask(question, alike);
    EXPECT_NE(reply.decision().cache, "hit");
  }
}

// Acceptance test 5. Each request uses all that it may, so it does not matter who has ended when the next is decided.
TEST_F(AcceptanceSeparationTest, OfTwoHundredAtOnceABudgetWithRoomForTenAdmitsTenAndIsNotOverspent) {
  constexpr double kOne = 40000 * 0.001 + 100 * 0.01;   // the context's whole input, and the whole output
  constexpr double kLimit = 10.5 * kOne;
  const std::string budget =
      fmt::format("budgets:\n  - {{scope: tenant, max_budget: {}, budget_duration: 1d}}\n", kLimit);
  Open(Edited(BankPolicyText(), {{"cache: {size: 8MB, shadow: 0%}", budget + "cache: {size: 8MB, shadow: 0%}"},
                                 {"intents: [fee], ttl: 100d, subject_bound: false}",
                                  "intents: [fee], ttl: 100d, subject_bound: false}\n    max_output_tokens: 100"}}));
  bank_.script = [](const api::GenerationRequest&) {
    ScriptedAnswer answer{.pieces = {"x"}, .delay_ms = 50};
    answer.usage = {40000, 0, 100, 0, 0};
    return answer;
  };
  std::atomic<int> n_answered = 0, n_refused = 0;
  std::latch all(200);
  std::vector<std::thread> callers;
  for (int i = 0; i < 200; ++i) {
    callers.emplace_back([&, i] {
      all.arrive_and_wait();
      const Reply reply = bank_.Ask(fmt::format("What is the fee number {}?", i));
      if (reply.text == "x") ++n_answered;
      if (reply.last.error.code() == StatusCode::kResourceExhausted) ++n_refused;
    });
  }
  for (std::thread& caller : callers) caller.join();
  EXPECT_EQ(n_answered, 10);
  EXPECT_EQ(n_refused, 190);
  EXPECT_EQ(bank_.model->n_requests(), 10);
  double spent = 0;
  for (const AuditRow& row : bank_.Rows("decision")) spent += row.body.at("cost").at("total").to_number<double>();
  EXPECT_NEAR(spent, 10 * kOne, 1e-6);
  EXPECT_LE(spent, kLimit);
  EXPECT_EQ(bank_.Rows("decision").size(), 200u);
  api::Caller other = AcceptanceBank::Anna();   // the control: another tenant's budget is untouched
  other.claims["tenant"] = "bank";
  EXPECT_EQ(bank_.Ask("What is the fee?", other).text, "x");
}

constexpr std::string_view kSarText = "Narrative BLUE-77: the fee of Mr Azure moved through nine accounts.";

api::Caller Investigator(const std::string& subject = "ivan") {
  api::Caller caller = AcceptanceBank::Anna();
  caller.subject = subject;
  caller.claims["permissions"] = json::array{"cases", "sar"};
  return caller;
}

std::string AllTexts(const std::vector<api::GenerationRequest>& requests) {
  std::string all;
  for (const api::GenerationRequest& request : requests) all += json::serialize(request.messages) + "\n";
  return all;
}

class AcceptanceSarTest : public AcceptanceSeparationTest {
 protected:
  AcceptanceSarTest() {
    bank_.AddDocument({"sar1", "1", "Narrative", std::string(kSarText), {"sar"}, {}, {}, {}, {}, "", ""});
    bank_.script = [](const api::GenerationRequest& request) {   // gives away all that it was shown
      return ScriptedAnswer{.pieces = {AllTexts({request})}};
    };
    bank_.embed = [](std::span<const std::string> texts) -> Result<std::vector<std::vector<float>>> {
      return std::vector<std::vector<float>>(texts.size(), std::vector<float>{1, 0, 0});
    };
  }
};

TEST_F(AcceptanceSarTest, NoOtherClassMeetsItByRetrievalCachePrefixMetricsOrLog) {
  Open(BankPolicyText());
  const std::string question = "What is the fee of Mr Azure?", secret = "What is the secret of Mr Azure?";
  for (const std::string& asked : {question, secret}) {   // the control: the class itself gets it, also from the cache
    EXPECT_NE(bank_.Ask(asked, Investigator()).text.find("BLUE-77"), std::string::npos) << asked;
    const Reply again = bank_.Ask(asked, Investigator());
    EXPECT_EQ(again.decision().cache, "hit") << asked;
    EXPECT_NE(again.text.find("BLUE-77"), std::string::npos);
  }
  const auto of_class = bank_.model->requests();
  const std::string metrics_before = bank_.metrics->Expose();

  std::vector<api::Caller> others = {AcceptanceBank::Anna()};
  api::Caller wider = AcceptanceBank::Anna();
  for (const char* permission : {"sa", "sarx", "SAR", "public", "sar,cases", "*"}) {
    wider.claims["permissions"] = json::array{permission};
    others.push_back(wider);
  }
  others.push_back(Investigator());   // the same person, without the permission
  others.back().claims["permissions"] = json::array{"cases"};
  for (const api::Caller& other : others) {
    for (const std::string& asked : {question, secret, std::string("What is the fee in narrative BLUE-77?")}) {
      const Reply reply = bank_.Ask(asked, other);
      EXPECT_EQ(reply.text.find("nine accounts"), std::string::npos) << other.claims;
      if (reply.last.decision == nullptr) continue;
      EXPECT_NE(reply.decision().route, "secret") << other.claims;
      EXPECT_TRUE(other.subject == "ivan" || reply.decision().cache != "hit") << other.claims;  // he is of Anna's class
    }
  }
  EXPECT_EQ(bank_.Ask(question, AcceptanceBank::Anna()).decision().cache, "hit");
  auto requests = bank_.model->requests();
  requests.erase(requests.begin(), requests.begin() + static_cast<int64_t>(of_class.size()));
  EXPECT_EQ(AllTexts(requests).find("nine accounts"), std::string::npos);
  EXPECT_NE(AllTexts(of_class).find("nine accounts"), std::string::npos);
  for (const api::GenerationRequest& request : requests) {
    for (const api::GenerationRequest& kept : of_class) EXPECT_FALSE(request.scope == kept.scope);
  }
  for (const std::string& text : {metrics_before, bank_.metrics->Expose()}) {
    for (const char* word : {"BLUE-77", "nine accounts", "sar1", "Azure", "ivan"}) {
      EXPECT_EQ(text.find(word), std::string::npos) << word;
    }
  }
  // The log is one file for all: texts are sealed in it, and rows of other classes do not even name the document.
  std::ifstream log(bank_.log());
  const std::string bytes((std::istreambuf_iterator<char>(log)), {});
  EXPECT_NE(bytes.find("sar1"), std::string::npos);
  for (const char* word : {"BLUE-77", "nine accounts", "Azure"}) EXPECT_EQ(bytes.find(word), std::string::npos) << word;
  for (const AuditRow& row : bank_.Rows("decision")) {
    const bool of_sar = json::serialize(row.body.at("permissions")).find("\"sar\"") != std::string::npos;
    json::object clear = row.body;
    clear.erase("payload");   // sealed; four letters can stand in any cipher text by chance
    EXPECT_TRUE(of_sar || json::serialize(clear).find("sar1") == std::string::npos) << row.body;
  }
}

TEST_F(AcceptanceSarTest, AnAnswerIsShownAgainOnlyWithThePermissionsThatItWasAskedWith) {
  Open(BankPolicyText());
  const Reply reply = bank_.Ask("What is the secret of Mr Azure?", Investigator());
  const std::string decision = reply.decision().id;
  EXPECT_NE(json::serialize(bank_.State(decision, Investigator())).find("nine accounts"), std::string::npos);
  api::Caller more = Investigator();
  more.claims["permissions"] = json::array{"sar", "other", "cases"};
  EXPECT_EQ(bank_.State(decision, more).at("state"), "released");
  api::Caller fewer = Investigator();   // he has changed his place
  fewer.claims["permissions"] = json::array{"cases"};
  for (const api::Caller& other : {fewer, AcceptanceBank::Anna(), Investigator("olga")}) {
    const std::string said = json::serialize(bank_.State(decision, other));
    EXPECT_NE(said.find("NOT_FOUND"), std::string::npos) << said;
    EXPECT_EQ(said.find("nine accounts"), std::string::npos) << said;
  }
}

TEST_F(AcceptanceSarTest, ItsTicketsAreForItsClassAndNobodyApprovesHisOwn) {
  Open(Edited(BankPolicyText(),
              {{"    release: {audience: customer, mode: held}\n",
                "    release: {audience: customer, mode: held, review: sar_desk}\n"},
               {"review:\n  desk:", "review:\n  sar_desk: {approvals: 1, permission: sar}\n  desk:"}}));
  const std::string decision = bank_.Ask("What is the secret of Mr Azure?", Investigator()).decision().id;
  const auto as = [&](const std::string& name, std::vector<std::string> permissions, const std::string& action,
                      const json::object& arguments) {
    return bank_.governance->review().Handle({name, std::move(permissions), "acme"}, action, arguments);
  };
  const auto list = as("emil", {"cases"}, "list", {});
  ASSERT_TRUE(list);
  EXPECT_TRUE(list->at("data").as_array().empty());
  EXPECT_EQ(json::serialize(as("emil", {"cases"}, "stats", {}).value()).find("sar_desk"), std::string::npos);
  const auto seen = as("olga", {"sar"}, "list", {});
  ASSERT_TRUE(seen && seen->at("data").as_array().size() == 1);
  const json::value id = seen->at("data").at(0).at("id"), version = seen->at("data").at(0).at("version");
  EXPECT_FALSE(as("emil", {"cases"}, "get", {{"id", id}}));
  EXPECT_FALSE(as("emil", {"cases"}, "lease", {{"id", id}, {"version", version}}));
  EXPECT_FALSE(as("ivan", {"sar"}, "lease", {{"id", id}, {"version", version}}));   // who asked
  auto taken = as("olga", {"sar"}, "lease", {{"id", id}, {"version", version}});
  ASSERT_TRUE(taken);
  taken = as("olga", {"sar"}, "edit", {{"id", id}, {"version", taken->at("version")}, {"text", "Olga's words."}});
  ASSERT_TRUE(taken);
  EXPECT_FALSE(as("olga", {"sar"}, "approve", {{"id", id}, {"version", taken->at("version")}, {"reason_code", "ok"}}));
  taken = as("olga", {"sar"}, "release", {{"id", id}, {"version", taken->at("version")}});
  ASSERT_TRUE(taken);
  EXPECT_EQ(bank_.State(decision, Investigator()).at("state"), "review_pending");
  taken = as("petra", {"sar"}, "lease", {{"id", id}, {"version", taken->at("version")}});
  ASSERT_TRUE(taken);
  EXPECT_TRUE(as("petra", {"sar"}, "approve", {{"id", id}, {"version", taken->at("version")}, {"reason_code", "ok"}}));
  EXPECT_EQ(bank_.State(decision, Investigator()).at("answer"), "Olga's words.");
}

// Acceptance test 9: the reasons of an adverse action are those of the decision service, no more and no less; forbidden
// phrases in whatever writing; and a template of which a prohibited basis in the question moves no byte.
TEST_F(AcceptanceSeparationTest, ReasonsLeaveAsTheDecisionServiceGaveThem) {
  bank_.Write("reasons.json", R"({"name": "reasons", "version": "1", "source": "the test", "checked_on": "2026-11-30",
    "pattern": "A[0-9]", "effective_from": "2025-01-01", "codes": [
    {"code": "A1", "titles": ["Income insufficient for amount of credit requested"]},
    {"code": "A2", "titles": ["Length of employment"]},
    {"code": "A3", "titles": ["Value or type of collateral not sufficient"]}]})");
  const std::string verifier =
      "verifiers:\n  reasons: {kind: table, table: reasons.json, complete: true, fail: block, deadline: 20s}\n";
  const std::string passages =
      "    retrieve: handbook\n    verify: [promises]\n"
      "    cache: {mode: exact_then_semantic, intents: [fee], ttl: 100d, subject_bound: false}\n";
  Open(Edited(BankPolicyText("[/bin/true]"),
              {{"verifiers:\n", verifier},
               {R"('{"open": true}')", R"('{"decision": "declined", "reasons": ["A1", "A2"]}')"},
               {"    tools: [account, refund]\n    verify: [promises]\n",
                "    tools: [account, refund]\n    verify: [promises, reasons]\n"},
               {passages, "    tools: [account]\n    verify: [promises, reasons]\n"}}));
  const std::string both = "Declined: income insufficient for amount of credit requested; length of employment.";
  for (const auto& [text, leaves] : std::vector<std::pair<std::string, bool>>{
           {both, true},
           {"Declined (A2, A1).", true},
           {"Declined: length of employment.", false},
           {both + " Also value or type of collateral not sufficient.", false},
           {"Declined: A1, A2 and A3.", false},
           {"Declined.", false}}) {
    bank_.script = [&text](const api::GenerationRequest&) { return ScriptedAnswer{.pieces = {text}}; };
    api::Caller applicant = AcceptanceBank::Anna();
    applicant.metadata["customer"] = "c1";
    const Reply reply = bank_.Ask("What is the fee?", applicant);
    EXPECT_EQ(reply.text, leaves ? text : "") << text;
    EXPECT_EQ(reply.last.finish, leaves ? api::FinishReason::kStop : api::FinishReason::kFiltered) << text;
  }
}

TEST_F(AcceptanceSeparationTest, ForbiddenPhrasesAreHeldInWhateverWriting) {
  Open(Edited(BankPolicyText(), {{"phrases: [we guarantee]", "phrases: [\"did not meet our internal standards\", "
                                                             "\"failed to achieve a qualifying score\"]"}}));
  for (const char* text : {"You did not meet our internal standards.", "YOU DID NOT MEET OUR  INTERNAL\nSTANDARDS",
                           "You d\xC3\xAD" "d not? You failed to achieve a qualifying score.",
                           "You failed to achieve a\xC2\xA0qualifying score."}) {
    bank_.script = [text](const api::GenerationRequest&) { return ScriptedAnswer{.pieces = {text}}; };
    const Reply reply = bank_.Ask("What is the fee?");
    EXPECT_EQ(reply.text, "") << text;
    EXPECT_EQ(reply.last.finish, api::FinishReason::kFiltered) << text;
  }
  bank_.script = [](const api::GenerationRequest&) {
    return ScriptedAnswer{.pieces = {"Your income is insufficient for the amount requested."}};
  };
  EXPECT_EQ(bank_.Ask("What is the fee?").text, "Your income is insufficient for the amount requested.");
}

TEST_F(AcceptanceSeparationTest, AProhibitedBasisInTheQuestionLeavesATemplatesBytesAsTheyAre) {
  Open(BankPolicyText());
  std::string expected;
  for (const char* who : {"a customer", "a black woman", "a white man", "a married mother of two", "a single Muslim",
                          "70 years old", "on public assistance", "from Mexico"}) {
    const Reply reply = bank_.Ask(std::string("I am ") + who + ". What are your hours?");
    if (expected.empty()) expected = reply.text;
    EXPECT_FALSE(reply.text.empty());
    EXPECT_EQ(reply.text, expected) << who;
    EXPECT_EQ(reply.decision().route, "hours") << who;
  }
  EXPECT_EQ(bank_.model->n_requests(), 0);
}

}  // namespace
}  // namespace surety::gateway
