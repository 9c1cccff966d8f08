// surety bench policy: questions, callers, the schedule, and what a report says of samples.
#include "cli/policy_bench_run.h"

#include <algorithm>
#include <set>

#include <gtest/gtest.h>

#include "base/clock.h"
#include "cli/instant_backend.h"
#include "cli/load_stats.h"
#include "cli/policy_bench_report.h"

namespace surety::cli {
namespace {

namespace json = boost::json;

TEST(PolicyBenchTest, QuestionsAreLinesOrObjects) {
  const auto questions = ParsePolicyQuestions(
      "What are the fees?\r\n\n  {n} plain\n"
      "{\"question\": \"Q {n}\", \"share\": 3, \"metadata\": {\"product\": \"card\"}}\n",
      "q.jsonl");
  ASSERT_TRUE(questions) << questions.error().ToString();
  ASSERT_EQ(questions->size(), 3u);
  EXPECT_EQ((*questions)[0].text, "What are the fees?");
  EXPECT_EQ((*questions)[1].text, "{n} plain");
  EXPECT_EQ((*questions)[2].share, 3);
  EXPECT_EQ((*questions)[2].metadata.at("product").as_string(), "card");
}

TEST(PolicyBenchTest, FaultsInQuestionsNameTheLine) {
  for (const char* text : {"ok\n{\"question\": 1}", "ok\n{\"question\": \"a\", \"share\": 0}", "ok\n{\"share\": 1}",
                           "ok\n{\"question\": \"a\", \"shares\": 1}", "ok\n{broken"}) {
    const auto questions = ParsePolicyQuestions(text, "q.jsonl");
    ASSERT_FALSE(questions) << text;
    EXPECT_EQ(questions.error().code(), StatusCode::kInvalidArgument);
    EXPECT_NE(questions.error().message().find("'q.jsonl', line 2"), std::string::npos) << questions.error().message();
  }
  EXPECT_FALSE(ParsePolicyQuestions("\n \n", "q.jsonl"));
}

TEST(PolicyBenchTest, ACallerHasWhatThePolicyReads) {
  gateway::Policy policy;
  const auto source = [&](gateway::Dimension dimension, gateway::DimensionSource::From from, std::string name,
                          std::vector<std::string> values) {
    auto& at = policy.identity[static_cast<size_t>(dimension)];
    at.from = from;
    at.name = std::move(name);
    at.values = std::move(values);
  };
  using From = gateway::DimensionSource::From;
  source(gateway::Dimension::kTenant, From::kClaim, "org", {});
  source(gateway::Dimension::kPermissions, From::kClaim, "roles", {});
  source(gateway::Dimension::kRegion, From::kClaim, "region", {"EU-DE", "US-NY"});
  source(gateway::Dimension::kProduct, From::kMetadata, "product", {"card"});
  gateway::Document open, closed;
  open.permissions = {"public"};
  closed.permissions = {"supervise", "cases"};
  const api::Caller caller = CallerFor(policy, {open, closed});
  EXPECT_EQ(caller.claims, (json::object{{"org", "bench"}, {"roles", {"bench", "cases", "supervise"}},
                                         {"region", "EU-DE"}}));
  EXPECT_EQ(caller.metadata, (json::object{{"product", "card"}}));
}

TEST(PolicyBenchTest, WhatWouldLeaveTheMachineIsNamed) {
  gateway::Policy policy;
  EXPECT_TRUE(OutsideParts(policy).empty());
  policy.tools["ledger"].name = "ledger";
  policy.verifiers["judge"].kind = gateway::VerifierSpec::Kind::kHttp;
  policy.verifiers["pii"].kind = gateway::VerifierSpec::Kind::kPii;
  EXPECT_EQ(OutsideParts(policy), (std::vector<std::string>{"tool 'ledger'", "verifier 'judge'"}));
}

// Shares are kept, numbers are never the same twice, and the same seed asks the same.
TEST(PolicyBenchTest, RequestsFollowSharesAndSeed) {
  const std::vector<PolicyQuestion> questions = {{"Often", 3, {}, {}}, {"Number {n}", 1, {}, {}}};
  const auto texts = [&](uint64_t seed) {
    PolicyLoad load(questions, {}, 7, seed);
    std::vector<std::string> out;
    for (int i = 0; i < 4000; ++i) {
      const api::GenerationRequest request = load.Next();
      EXPECT_TRUE(request.caller.subject.starts_with("bench-"));
      out.emplace_back(request.messages.at(0).at("content").as_string());
    }
    return out;
  };
  const auto first = texts(5);
  EXPECT_EQ(first, texts(5));
  EXPECT_NE(first, texts(6));
  const auto often = std::ranges::count(first, "Often");
  EXPECT_NEAR(static_cast<double>(often), 3000, 110);   // four standard deviations
  const std::set<std::string> different(first.begin(), first.end());
  EXPECT_EQ(different.size(), 4000u - static_cast<size_t>(often) + 1);
}

TEST(PolicyBenchTest, TheInstantModelQuotesWhatItWasShown) {
  api::GenerationRequest request;
  request.messages.push_back(json::object{
      {"role", "system"},
      {"content", "Answer.\n<source id=\"fees:2@2026-01\" title=\"Fees\">Short. An account for A &amp; B costs "
                  "5 &lt; 6 dollars a month. More.</source>\n"}});
  request.messages.push_back(json::object{{"role", "user"}, {"content", "How much?"}});
  EXPECT_EQ(InstantAnswer(request), "An account for A & B costs 5 < 6 dollars a month "
                                    "[fees:2@2026-01 \"An account for A & B costs 5 < 6 dollars a month\"].");
  request.messages.clear();
  EXPECT_EQ(InstantAnswer(request), "Thank you for the question.");
}

PolicySample SampleOf(int64_t total_ms, std::string route, std::string cache) {
  PolicySample sample;
  sample.route = std::move(route);
  sample.cache = std::move(cache);
  sample.outcome = "held";
  sample.ended = true;
  sample.late_ns = 100'000;
  sample.total_ns = total_ms * 1'000'000;
  sample.times.queue_ns = 200'000;
  sample.times.verify_ns = 300'000;
  return sample;
}

TEST(PolicyBenchTest, StagesAddUpToTheTotal) {
  PolicySample sample = SampleOf(7, "held", "miss");
  int64_t part = 10'000;
  auto& t = sample.times;
  for (int64_t* time : {&t.decide_ns, &t.cache_ns, &t.retrieve_ns, &t.tools_ns, &t.context_ns, &t.model_ns,
                        &t.review_ns, &t.audit_ns}) {
    *time = part += 1000;
  }
  int64_t sum = 0;
  for (const PolicyStage& stage : PolicyStages()) sum += stage.of(sample);
  EXPECT_EQ(sum, sample.total_ns);
  EXPECT_EQ(PolicyStages().front().of(sample), 300'000) << "lateness of the sender counts as waiting";
}

TEST(PolicyBenchTest, AReportHasTheFiguresOfItsSamples) {
  PolicyBenchPass pass;
  pass.state = "memory";
  for (int i = 1; i <= 100; ++i) pass.run.samples.push_back(SampleOf(i, i <= 40 ? "faq" : "held", "hit"));
  pass.run.samples.push_back(PolicySample());   // never ended
  pass.run.wall_s = 2;
  pass.run.cpu_s = 1.01;
  pass.run.sync_ns = {1'000'000, 3'000'000};
  pass.run.rows = 10;
  const json::object out = DescribePass(pass);
  EXPECT_EQ(out.at("requests").to_number<int>(), 101);
  EXPECT_EQ(out.at("unfinished").to_number<int>(), 1);
  EXPECT_DOUBLE_EQ(out.at("achieved_rate").to_number<double>(), 50.5);
  EXPECT_DOUBLE_EQ(out.at("cpu_ms_per_request").to_number<double>(), 10);
  EXPECT_EQ(out.at("rows_per_sync").to_number<double>(), 5);
  const json::object& latency = out.at("all").at("latency_ms").as_object();
  EXPECT_EQ(latency.at("p50").to_number<double>(), 50);    // nearest rank
  EXPECT_EQ(latency.at("p99").to_number<double>(), 99);
  EXPECT_EQ(latency.at("max").to_number<double>(), 100);
  const json::array& routes = out.at("routes").as_array();
  ASSERT_EQ(routes.size(), 2u);
  EXPECT_EQ(routes[0].at("route").as_string(), "faq");
  EXPECT_EQ(routes[0].at("requests").to_number<int>(), 40);
  EXPECT_EQ(routes[0].at("latency_ms").at("max").to_number<double>(), 40);
  for (const char* stage : {"queue", "decide", "cache", "retrieve", "tools", "context", "model", "verify", "review",
                            "audit", "release"}) {
    EXPECT_TRUE(out.at("all").at("stages_ms").as_object().contains(stage)) << stage;
  }
  EXPECT_NE(TableOf(pass).find("p99"), std::string::npos);
}

// Arrivals know nothing of answers: the times are drawn before the run, and their count and spread are the law's.
TEST(PolicyBenchTest, TheScheduleIsOpen) {
  ArrivalProcess process;
  process.rate = 1000;
  process.seed = 3;
  const auto times = ArrivalTimes(process, 20, 100'000);
  EXPECT_NEAR(static_cast<double>(times.size()), 20'000, 4 * 142);
  EXPECT_TRUE(std::ranges::is_sorted(times));
  std::vector<double> gaps;
  for (size_t i = 1; i < times.size(); ++i) gaps.push_back(times[i] - times[i - 1]);
  std::ranges::sort(gaps);
  EXPECT_NEAR(NearestRank(gaps, 50), 0.000693, 0.00003);   // ln 2 / rate
  process.law = ArrivalLaw::kConstant;
  const auto even = ArrivalTimes(process, 1, 100'000);
  ASSERT_EQ(even.size(), 1000u);
  EXPECT_DOUBLE_EQ(even[999], 0.999);
}

}  // namespace
}  // namespace surety::cli
