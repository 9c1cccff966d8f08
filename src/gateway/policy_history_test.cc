// Decisions of the log held against another policy: what is said to move moves, what may stay is never said to move,
// and what is not known is said.
#include "gateway/policy_history.h"

#include <boost/json.hpp>
#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "gateway/audit_log.h"
#include "gateway/decision_record.h"
#include "gateway/payload_vault.h"
#include "gateway/policy_values.h"
#include "gateway/signal_conditions.h"
#include "gateway/signals.h"
#include "gateway/testing/audit_folder.h"
#include "gateway/testing/policy_text.h"

namespace surety::gateway {
namespace {

using ::testing::HasSubstr;
using policy_text::Edits;
using policy_text::GoodPolicyFiles;
using policy_text::MemoryFiles;
using policy_text::ReadEdited;

struct HistoryCase {
  std::string intent, rights, channel;
  double amount = 0;   // 0: none
  bool staff = false;
};

std::vector<HistoryCase> HistoryCases() {
  std::vector<HistoryCase> out;
  for (const char* intent : {"hours", "card", "loan", "none", "abstained"}) {
    for (const char* rights : {"true", "false"}) {
      for (const char* channel : {"app", "branch", "none"}) {
        for (const double amount : {0.0, 700.0, 20000.0}) {
          for (const bool staff : {false, true}) out.push_back({intent, rights, channel, amount, staff});
        }
      }
    }
  }
  return out;
}

// The route by the functions that choose it at run time, with everything known.
std::string HistoryTruth(const Policy& policy, const HistoryCase& one, Signals* out = nullptr) {
  Signals signals;
  signals.values["intent"].label = one.intent;
  signals.values["rights"].label = one.rights;
  signals.values["channel"].label = one.channel;
  signals.values["amount"].label = "none";
  if (one.amount > 0) signals.values["amount"] = {fmt::format("{}", one.amount), one.amount, true, 1};
  RoutingFacts facts{.policy = &policy, .signals = &signals, .dimensions = {}, .permissions = {}};
  if (one.staff) facts.permissions = {"staff"};
  signals.risk = LevelFor(policy.risk, facts);
  signals.complexity = LevelFor(policy.complexity, facts);
  if (out != nullptr) *out = signals;
  return ChooseRoute(facts).name;
}

PastDecision HistoryRow(const Policy& policy, const HistoryCase& one, int number) {
  Signals signals;
  PastDecision past;
  past.route = HistoryTruth(policy, one, &signals);
  past.id = fmt::format("dec_{}", number);
  past.policy_id = policy.id;
  past.policy_version = policy.version;
  past.policy_digest = policy.digest;
  for (const auto& [name, value] : signals.values) past.signals[name] = value.label;
  past.signals["risk"] = NameOf(signals.risk);
  past.signals["complexity"] = NameOf(signals.complexity);
  return past;
}

std::vector<std::string> HistoryRoutes(const boost::json::object& line) {
  std::vector<std::string> out;
  for (const auto& route : line.at("new").get_array()) out.emplace_back(std::string_view(route.get_string()));
  return out;
}

TEST(PolicyHistoryTest, WhatIsSaidOfEveryCombinationIsWhatTheRealFunctionsDo) {
  const auto before = ReadEdited({});
  const Edits changes[] = {
      {},
      {{"amount: {above: 10000}", "amount: {above: 500}"}},
      {{"intent: [loan, abstained]", "intent: abstained"}},
      {{"when: {risk: low, intent.group: faq}", "when: {risk: low, intent: hours}"}},
      {{"permissions: staff", "permissions: agent"}},
      {{"complexity: low, permissions", "complexity: [low, medium], permissions"}},
      {{"rights: {by: phrases, phrases: rights.txt}", "rights: {by: phrases, phrases: [other words]}"}},
      {{"  - name: careful\n", "  - {name: early, when: {channel: branch}, answer: refuse}\n  - name: careful\n"}}};
  for (const Edits& edits : changes) {
    const auto after = ReadEdited(edits);
    ASSERT_TRUE(after) << after.error().message();
    int moved = 0, told = 0, open = 0;
    MemoryFiles files = GoodPolicyFiles();
    const bool same_rights = edits.empty() || edits[0].first.find("rights") == std::string_view::npos;
    for (const HistoryCase& one : HistoryCases()) {
      const auto report = CompareHistory(*before, *after, files, {HistoryRow(*before, one, 1)});
      ASSERT_TRUE(report) << report.error().message();
      const std::string was = HistoryTruth(*before, one);
      // With a signal that means something else nobody knows what it would be; both values are possible.
      std::set<std::string> truths = {HistoryTruth(*after, one)};
      if (!same_rights) {
        HistoryCase other = one;
        other.rights = one.rights == "true" ? "false" : "true";
        truths.insert(HistoryTruth(*after, other));
      }
      const auto& lines = report->at("lines").get_array();
      const std::vector<std::string> routes = lines.empty() ? std::vector{was} : HistoryRoutes(lines[0].get_object());
      for (const std::string& truth : truths) EXPECT_THAT(routes, ::testing::Contains(truth)) << was;
      EXPECT_EQ(report->at("moved").to_number<int>(), !lines.empty() && lines[0].at("moved").get_bool());
      moved += !truths.contains(was);
      told += report->at("moved").to_number<int>();
      open += report->at("undetermined").to_number<int>();
    }
    EXPECT_LE(told, moved);
    // Who asked is not in the log: only where that decides now and did not before, or a signal changed, it stays open.
    const bool asks_who = !edits.empty() && edits[0].first.find("permissions") != std::string_view::npos;
    EXPECT_EQ(open > 0, asks_who || !same_rights) << (edits.empty() ? "" : edits[0].second);
    EXPECT_TRUE(open > 0 || told == moved) << told << " of " << moved;
    EXPECT_EQ(told + open == 0, edits.empty()) << (edits.empty() ? "" : edits[0].second);
  }
}

TEST(PolicyHistoryTest, ASignalThatChangedIsReadAgainWhereTheTextIsThere) {
  const auto before = ReadEdited({});
  const auto after = ReadEdited({{"intent: [loan, abstained]", "intent: abstained"},
                                 {"hours: [opening hours]", "hours: [opening hours, loan question]"},
                                 {"card: [where is my card], loan: [loan question]", "card: [where is my card]"},
                                 {", intents: [loan], similarity: 0.97", ", intents: [hours], similarity: 0.97"}});
  ASSERT_TRUE(after) << after.error().message();
  MemoryFiles files = GoodPolicyFiles();
  PastDecision past = HistoryRow(*before, {"loan", "false", "app", 0, true}, 1);
  EXPECT_EQ(past.route, "advice");
  const auto unread = CompareHistory(*before, *after, files, {past});
  EXPECT_EQ(unread->at("undetermined"), 1);
  EXPECT_THAT(std::string(unread->at("lines").at(0).at("why").as_string()), HasSubstr("intent"));
  past.question = "I have a loan question";
  const auto read = CompareHistory(*before, *after, files, {past});
  EXPECT_EQ(boost::json::serialize(read->at("moves")), R"({"advice > ready":1})");
}

class HistoryLogTest : public ::testing::Test {
 protected:
  void SetUp() override {
    before_ = *ReadEdited({});
    vault_ = *PayloadVault::Open(folder_.path("vault.db"), folder_.path("vault.key"));
    // Segments of one row: what is read is read over all of them.
    const auto log = AuditLog::Open({.path = folder_.path("audit.log"), .rotate_at_bytes = 1}, Clock::Real());
    ASSERT_TRUE(log.has_value());
    Append(**log, {"hours", "false", "app", 0, false}, "a", "miss", "2026-03-01");
    Append(**log, {"hours", "false", "app", 0, false}, "a", "hit", "2026-03-02");
    Append(**log, {"hours", "false", "app", 0, false}, "b", "miss", "2026-03-03");
    Append(**log, {"none", "false", "app", 700, false}, "", "bypass:off", "2026-03-04");
    ASSERT_TRUE((*log)->Append("review", {{"id", "vote"}}).has_value());
  }
  void Append(AuditLog& log, const HistoryCase& one, const char* partition, const char* cache, const char* day) {
    const PastDecision past = HistoryRow(before_, one, ++n_);
    DecisionRecord record;
    record.decision.id = past.id;
    record.decision.route = one.amount > 0 ? "elsewhere" : past.route;   // after a fallback
    record.attempts = {past.route + ":fast:error"};
    record.decision.policy_version = past.policy_version;
    record.decision.cache = cache;
    record.policy_id = past.policy_id;
    record.policy_digest = past.policy_digest;
    record.partition_digest = partition;
    record.signals = past.signals;
    record.tenant = "t";
    record.time_ns = *ParseInstant(day);
    boost::json::object body = record.ToJson();
    body["payload"] = *vault_->Seal("t", "s", past.id, R"({"question":"where is it","answer":"x"})");
    ASSERT_TRUE(log.Append("decision", std::move(body)).has_value());
  }
  Result<std::vector<PastDecision>> Read(HistoryOptions options = {}) {
    return ReadPastDecisions(folder_.path(""), options);
  }

  const AuditFolder folder_;
  Policy before_;
  std::unique_ptr<PayloadVault> vault_;
  int n_ = 0;
};

TEST_F(HistoryLogTest, RowsOfAllSegmentsAreReadAndTheRouteIsTheFirst) {
  const auto decisions = Read();
  ASSERT_TRUE(decisions) << decisions.error().message();
  ASSERT_EQ(decisions->size(), 4U);
  EXPECT_EQ((*decisions)[3].route, "otherwise");
  EXPECT_EQ((*decisions)[3].signals.at("amount"), "700");
  EXPECT_FALSE((*decisions)[0].question.has_value());
  const auto some = Read({.from_ns = *ParseInstant("2026-03-02"), .to_ns = *ParseInstant("2026-03-04"), .unseal = {}});
  EXPECT_EQ(some->size(), 2U);
  const auto texts = Read({.unseal = [&](const boost::json::object& sealed, const std::string& id) {
    return vault_->Unseal(sealed, id);
  }});
  EXPECT_EQ((*texts)[0].question, "where is it");
  EXPECT_EQ(*vault_->Erase("t", "s"), 1);
  EXPECT_FALSE((*Read({.unseal = [&](const boost::json::object& sealed, const std::string& id) {
                 return vault_->Unseal(sealed, id);
               }}))[0].question.has_value());
}

TEST_F(HistoryLogTest, PartitionsThatDieAreNamed) {
  MemoryFiles files = GoodPolicyFiles();
  const auto decisions = Read();
  const auto partitions = [&](const Edits& edits) {
    const auto after = ReadEdited(edits);
    EXPECT_TRUE(after.has_value());
    return boost::json::serialize(CompareHistory(before_, *after, files, *decisions)->at("partitions"));
  };
  EXPECT_EQ(partitions({}), R"([{"route":"ready","partitions":2,"decisions":3,"die":false,"digests":["a","b"]}])");
  EXPECT_EQ(partitions({{"version: 2026.1", "version: 2026.2"}}),
            R"([{"route":"ready","partitions":2,"decisions":3,"die":true,"digests":["a","b"]}])");
}

TEST_F(HistoryLogTest, RowsOfAnotherPolicyAreCountedAndLeftOut) {
  MemoryFiles files = GoodPolicyFiles();
  const auto other = ReadEdited({{"version: 2026.1", "version: 2026.0"}});
  const auto report = CompareHistory(*other, before_, files, *Read());
  EXPECT_EQ(report->at("of_other_policy"), 4);
  EXPECT_EQ(report->at("moved"), 0);
}

TEST_F(HistoryLogTest, ALogThatDoesNotVerifyIsAnError) {
  std::string bytes = ReadAuditBytes(folder_.path("audit.log.000000000000"));
  bytes[bytes.find("hours")] = 'H';
  WriteAuditBytes(folder_.path("audit.log.000000000000"), bytes);
  EXPECT_EQ(Read().error().code(), StatusCode::kDataLoss);
}

}  // namespace
}  // namespace surety::gateway
