// governance.md, acceptance test 6: a document, and a policy, that is superseded at an instant, through the whole
// gateway. No answer, no cache entry and no prompt mixes versions, to the nanosecond.
#include <algorithm>
#include <chrono>
#include <filesystem>
#include <thread>

#include <boost/json.hpp>
#include <fmt/format.h>
#include <gtest/gtest.h>

#include "gateway/testing/acceptance_bank.h"
#include "gateway/testing/audit_folder.h"

namespace surety::gateway {
namespace {

namespace json = boost::json;

constexpr int64_t kTimeSecond = 1'000'000'000;
constexpr int64_t kTimeHour = 3600 * kTimeSecond;

int64_t InstantOf(int year, unsigned month, unsigned day, int hour) {
  const std::chrono::sys_days date{std::chrono::year_month_day{std::chrono::year(year), std::chrono::month(month),
                                                               std::chrono::day(day)}};
  return std::chrono::nanoseconds(date.time_since_epoch()).count() + hour * kTimeHour;
}

// Texts of the model's request in one.
std::string PromptOf(const api::GenerationRequest& request) {
  std::string all;
  for (const json::value& message : request.messages) all += std::string(message.at("content").as_string()) + "\n";
  return all;
}

// The only one of the numbers 10 (of version 1) and 12 (of version 2) in a text; "both" or "none" otherwise.
std::string FeeIn(const std::string& text) {
  const bool old = text.find("fee is 10 dollars") != std::string::npos;
  const bool now = text.find("fee is 12 dollars") != std::string::npos;
  return old && now ? "both" : old ? "1" : now ? "2" : "none";
}

class AcceptanceTimeTest : public ::testing::Test {
 protected:
  AcceptanceTimeTest() : bank_(folder_.path("bank"), clock_) {
    bank_.script = [](const api::GenerationRequest& request) {   // says what the passages say
      const std::string fee = FeeIn(PromptOf(request));
      const std::string dollars = fee == "1" ? "10" : "12";
      return ScriptedAnswer{.pieces = {"The fee is " + dollars + " dollars. (" + fee + ")"}};
    };
    // To it all questions mean the same, so that only the other rules keep answers apart.
    bank_.embed = [](std::span<const std::string> texts) -> Result<std::vector<std::vector<float>>> {
      return std::vector<std::vector<float>>(texts.size(), std::vector<float>{1, 0, 0});
    };
  }

  // Version 1 before the boundary, version 2 from it on.
  void OpenAt(int64_t boundary) {
    Document fees{"fees", "1", "Fees", "The fee is 10 dollars.", {"public"}, {}, {}, {}, {}, "", ""};
    fees.validity.to_ns = boundary;
    bank_.AddDocument(fees);
    fees.version = "2";
    fees.text = "The fee is 12 dollars.";
    fees.validity = {boundary, std::numeric_limits<int64_t>::max()};
    bank_.AddDocument(fees);
    const Status opened = bank_.Open();
    ASSERT_TRUE(opened.ok()) << opened.ToString();
  }
  // What is answered at an instant: "version cache".
  std::string At(int64_t wall_ns, const std::string& question) {
    clock_.wall_ns = wall_ns;
    const Reply reply = bank_.Ask(question);
    return FeeIn(reply.text) + " " + reply.decision().cache;
  }
  void EveryPromptHasOneVersion() const {
    for (const api::GenerationRequest& request : bank_.model->requests()) {
      const std::string fee = FeeIn(PromptOf(request));
      EXPECT_TRUE(fee == "1" || fee == "2") << PromptOf(request);
    }
    for (const AuditRow& row : bank_.Rows("decision")) {
      EXPECT_LE(row.body.at("passages").as_array().size(), 1u) << row.body;
    }
  }

  AuditFolder folder_;
  WallClock clock_;
  AcceptanceBank bank_;
};

// At midnight the effective date changes too; in the afternoon the instant alone tells the versions apart.
TEST_F(AcceptanceTimeTest, OneSecondBeforeAndAtTheBoundaryDifferentVersionsAnswer) {
  const std::string plain = "What is the fee?", other = "What is the fee, please?";
  for (const int hour : {0, 17}) {
    bank_.Close();
    std::filesystem::remove_all(bank_.path("state"));
    std::filesystem::remove(bank_.path("handbook.db"));
    bank_.WritePolicy(BankPolicyText());
    const int64_t boundary = InstantOf(2026, 3, 1, hour);
    OpenAt(boundary);
    EXPECT_EQ(At(boundary - kTimeSecond, plain), "1 miss");
    EXPECT_EQ(At(boundary - kTimeSecond, plain), "1 hit");    // the control: it is kept,
    EXPECT_EQ(At(boundary - 1, other), "1 hit");          // by meaning too, and to the last nanosecond
    EXPECT_EQ(At(boundary, other), "2 miss");             // by meaning first, as exact entries are replaced
    EXPECT_EQ(At(boundary, plain), "2 hit");
    EXPECT_EQ(At(boundary + kTimeSecond, plain), "2 hit");
    EXPECT_EQ(At(boundary - 1, plain).substr(0, 1), "1") << "a clock that is set back";
    EXPECT_EQ(At(boundary, plain).substr(0, 1), "2");
    EveryPromptHasOneVersion();
    // Where the date of the partition changes KV is not even shared by prefix.
    const auto requests = bank_.model->requests();
    ASSERT_GE(requests.size(), 2u);
    EXPECT_EQ(requests[0].scope == requests[1].scope, hour != 0);
  }
}

TEST_F(AcceptanceTimeTest, AnAnswerThatWasBegunBeforeTheBoundaryIsOfTheOldVersionAndIsNotKeptForTheNew) {
  bank_.WritePolicy(BankPolicyText());
  const int64_t boundary = InstantOf(2026, 3, 1, 17);
  OpenAt(boundary);
  const auto says = bank_.script;
  bank_.script = [&](const api::GenerationRequest& request) {   // time passes while the model answers
    clock_.wall_ns = boundary + kTimeSecond;
    return says(request);
  };
  EXPECT_EQ(At(boundary - 1, "What is the fee?"), "1 miss");
  bank_.script = says;
  EXPECT_EQ(At(boundary + kTimeSecond, "What is the fee?"), "2 miss");
  EXPECT_EQ(At(boundary + kTimeSecond, "What is the fee?"), "2 hit");
  EveryPromptHasOneVersion();
}

// The policy is superseded at the same instant as the document, and read again while requests run.
TEST_F(AcceptanceTimeTest, AReloadAtTheBoundaryMixesNeitherPoliciesNorDocuments) {
  const int64_t boundary = InstantOf(2026, 3, 1, 0);
  const std::string text = BankPolicyText();
  const auto policy = [&](const char* version, const char* dates) {
    return Edited(text, {{"version: \"1\", effective_from: 2025-01-01",
                          fmt::format("version: \"{}\", {}", version, dates)},
                         {"system: Answer from the passages.", fmt::format("system: Rule {}.", version)}});
  };
  bank_.WritePolicy(policy("1", "effective_from: 2025-01-01, effective_to: 2026-03-01"));
  OpenAt(boundary);
  const std::string question = "What is the fee?";
  EXPECT_EQ(At(boundary - kTimeSecond, question), "1 miss");
  EXPECT_EQ(At(boundary - kTimeSecond, question), "1 hit");
  clock_.wall_ns = boundary;
  Reply late = bank_.Ask(question);   // the old policy is over, and the new one is not there yet
  EXPECT_EQ(late.last.error.code(), StatusCode::kFailedPrecondition);
  EXPECT_EQ(late.text, "");

  clock_.wall_ns = boundary - 1;
  std::promise<void> begun, may_end;
  const auto says = bank_.script;
  bank_.script = [&, wait = may_end.get_future().share()](const api::GenerationRequest& request) {
    const ScriptedAnswer answer = says(request);
    if (PromptOf(request).find("number 7") != std::string::npos) {
      begun.set_value();
      wait.wait();
    }
    return answer;
  };
  Reply old_one;
  std::thread slow([&] { old_one = bank_.Ask("What is the fee number 7?"); });
  if (begun.get_future().wait_for(std::chrono::seconds(30)) != std::future_status::ready) ADD_FAILURE() << "no model";
  bank_.WritePolicy(policy("2", "effective_from: 2026-03-01"));
  clock_.wall_ns = boundary;
  ASSERT_TRUE(bank_.governance->Reload());
  EXPECT_EQ(At(boundary, question), "2 miss");
  may_end.set_value();
  slow.join();
  EXPECT_EQ(FeeIn(old_one.text), "1");
  EXPECT_EQ(old_one.decision().policy_version, "1");
  bank_.script = says;
  EXPECT_EQ(At(boundary, question), "2 hit");
  clock_.wall_ns = boundary;
  const Reply again = bank_.Ask("What is the fee number 7?");   // what the old one left is not found
  EXPECT_EQ(FeeIn(again.text), "2");
  EXPECT_EQ(again.decision().policy_version, "2");
  for (const api::GenerationRequest& request : bank_.model->requests()) {
    const std::string prompt = PromptOf(request);
    const bool old_rule = prompt.find("Rule 1.") != std::string::npos;
    EXPECT_EQ(FeeIn(prompt), old_rule ? "1" : "2") << prompt;
  }
  for (const AuditRow& row : bank_.Rows("decision")) {
    const json::array& passages = row.body.at("passages").as_array();
    if (passages.empty()) continue;
    const bool of_one = json::serialize(passages).find("@1") != std::string::npos;
    EXPECT_EQ(row.body.at("policy_version"), of_one ? "1" : "2") << row.body;
  }
}

// Many ask while the clock passes the boundary: each answer is of the instant at which its request came.
TEST_F(AcceptanceTimeTest, ManyAcrossTheBoundaryGetTheVersionOfTheirInstant) {
  bank_.WritePolicy(BankPolicyText());
  const int64_t boundary = InstantOf(2026, 3, 1, 17);
  OpenAt(boundary);
  clock_.wall_ns = boundary - 1;
  std::atomic<int> n_old = 0, n_new = 0, n_mixed = 0;
  std::vector<std::thread> threads;
  for (int t = 0; t < 4; ++t) {
    threads.emplace_back([&, t] {
      for (int i = 0; i < 60; ++i) {
        const bool before = clock_.wall_ns < boundary;
        const std::string fee = FeeIn(bank_.Ask(fmt::format("What is the fee of {}?", i % 3)).text);
        const bool after = clock_.wall_ns >= boundary;
        (fee == "1" ? n_old : n_new)++;
        // Before all of it: 1; after all of it: 2; across it either, but one.
        if ((fee == "1" && !before) || (fee == "2" && !after) || (fee != "1" && fee != "2")) ++n_mixed;
        if (t == 0 && i == 25) clock_.wall_ns = boundary;
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
  EXPECT_GT(n_old, 0);
  EXPECT_GT(n_new, 0);
  EXPECT_EQ(n_mixed, 0);
  EveryPromptHasOneVersion();
}

}  // namespace
}  // namespace surety::gateway
