#include "cli/load_metrics.h"

#include <vector>

#include <gtest/gtest.h>

namespace surety::cli {
namespace {

constexpr int64_t kMs = 1'000'000;

// Due at `due` ms, sent 1 ms later, first token `ttft` ms after it was due, then a token every `gap` ms.
LoadRecord Answer(int64_t due, int64_t ttft, int64_t gap, int tokens) {
  LoadRecord record;
  record.intended_ns = due * kMs;
  record.sent_ns = (due + 1) * kMs;
  record.outcome = LoadOutcome::kOk;
  for (int i = 0; i < tokens; ++i) record.events.push_back({(due + ttft + i * gap) * kMs, 1, 4});
  record.output_tokens = tokens;
  record.end_ns = record.events.back().time_ns + 2 * kMs;
  return record;
}

LoadRecord Failure(int64_t due, LoadOutcome outcome, int64_t after_ms) {
  LoadRecord record;
  record.intended_ns = due * kMs;
  record.sent_ns = outcome == LoadOutcome::kNotSent ? -1 : due * kMs;
  record.outcome = outcome;
  record.end_ns = (due + after_ms) * kMs;
  return record;
}

LoadWindow Window(int64_t from_ms, int64_t to_ms) { return {from_ms * kMs, to_ms * kMs}; }

TEST(LatencyOfTest, FollowsTheDefinitions) {
  LoadRecord record = Answer(100, 51, 10, 3);
  record.events[0].tokens = 2;   // N = 8, n_1 = 2
  record.events[1].tokens = 4;
  record.events[2] = {300 * kMs, 2, 4};
  record.output_tokens = 8;
  const RequestLatency latency = LatencyOf(record);
  EXPECT_DOUBLE_EQ(*latency.lag_ms, 1);
  EXPECT_DOUBLE_EQ(*latency.ttft_ms, 51);
  EXPECT_DOUBLE_EQ(*latency.service_ttft_ms, 50);
  EXPECT_DOUBLE_EQ(*latency.tpot_ms, (300.0 - 151) / (8 - 2));
  EXPECT_EQ(latency.icl_ms, (std::vector<double>{10, 139}));
  ASSERT_EQ(latency.itl_ms.size(), 2u);
  EXPECT_DOUBLE_EQ(latency.itl_ms[0].value, 2.5);
  EXPECT_EQ(latency.itl_ms[0].times, 4);
  EXPECT_DOUBLE_EQ(latency.itl_ms[1].value, 69.5);
  EXPECT_EQ(latency.itl_ms[1].times, 2);
}

TEST(LatencyOfTest, TpotIsUndefinedWhereAllTokensCameAtOnce) {
  LoadRecord record = Answer(0, 50, 10, 1);
  record.events[0].tokens = 7;
  record.output_tokens = 7;
  EXPECT_FALSE(LatencyOf(record).tpot_ms);
  EXPECT_TRUE(LatencyOf(record).ttft_ms);
}

TEST(LatencyOfTest, AStallIsAGapAbove200MsAndFiveTpot) {
  LoadRecord steady = Answer(0, 50, 190, 5);
  EXPECT_EQ(LatencyOf(steady).stalls, 0);
  LoadRecord slow = Answer(0, 50, 300, 5);  // every gap is above 200 ms, none above five times the mean
  EXPECT_EQ(LatencyOf(slow).stalls, 0);
  LoadRecord stalled = Answer(0, 50, 10, 20);
  for (size_t i = 10; i < 20; ++i) stalled.events[i].time_ns += 500 * kMs;
  EXPECT_EQ(LatencyOf(stalled).stalls, 1);
}

TEST(LatencyOfTest, WhatWasNotSentHasNoLatencyAtAll) {
  const RequestLatency latency = LatencyOf(Failure(0, LoadOutcome::kNotSent, 0));
  EXPECT_FALSE(latency.lag_ms || latency.ttft_ms || latency.e2e_ms || latency.tpot_ms);
}

TEST(MeetsTest, EveryLimitCountsAndUndefinedOnesAreMet) {
  const LoadRecord record = Answer(0, 50, 20, 5);
  const RequestLatency latency = LatencyOf(record);
  const auto meets = [&](const char* text) { return Meets(record, latency, *Slo::Parse(text)); };
  EXPECT_TRUE(meets("ttft_ms:50"));  // equal is within
  EXPECT_FALSE(meets("ttft_ms:49.9"));
  EXPECT_TRUE(meets("service_ttft_ms:49"));
  EXPECT_TRUE(meets("ttft_ms:60,itl_ms:20,tpot_ms:20,e2e_ms:132"));
  EXPECT_FALSE(meets("ttft_ms:60,itl_ms:19"));
  EXPECT_FALSE(meets("e2e_ms:131"));
  const LoadRecord one = Answer(0, 50, 20, 1);
  EXPECT_TRUE(Meets(one, LatencyOf(one), *Slo::Parse("tpot_ms:1,itl_ms:1")));
  LoadRecord cut = record;
  cut.outcome = LoadOutcome::kCut;
  EXPECT_FALSE(Meets(cut, LatencyOf(cut), Slo{}));
}

TEST(SummariseTest, AttainmentIsOverAllArrivalsAndGoodputOverTheWindow) {
  const std::vector<LoadRecord> records = {
      Answer(500, 10, 10, 5),  // warm-up
      Answer(1000, 50, 10, 5), Answer(1500, 500, 10, 5),
      Failure(2000, LoadOutcome::kRefused, 7), Failure(2500, LoadOutcome::kUnfinished, 900),
      Failure(2600, LoadOutcome::kNotSent, 0),
      Answer(3100, 10, 10, 5),  // after it
  };
  const std::vector<Slo> slos = {*Slo::Parse("ttft_ms:100")};
  const LoadSummary s = Summarise(records, Window(1000, 3000), slos, 0);
  EXPECT_EQ(s.arrivals, 5);
  EXPECT_EQ(s.warmup_arrivals, 1);
  EXPECT_EQ(s.slos[0].met, 2);
  EXPECT_DOUBLE_EQ(s.slos[0].attainment, 0.4);
  EXPECT_EQ(s.slos[1].met, 1);
  EXPECT_DOUBLE_EQ(s.slos[1].attainment, 0.2);
  EXPECT_DOUBLE_EQ(s.slos[1].goodput, 0.5);
  EXPECT_EQ(s.outcomes[static_cast<size_t>(LoadOutcome::kRefused)], 1);
  EXPECT_EQ(s.refusal_ms.count, 1);
  EXPECT_DOUBLE_EQ(s.refusal_ms.mean, 7);
  EXPECT_EQ(s.ttft_ms.count, 2);
  EXPECT_DOUBLE_EQ(s.ttft_ms.percentiles[0].value, 50);
  EXPECT_DOUBLE_EQ(s.ttft_ms.percentiles[2].value, 500);
  EXPECT_EQ(s.itl_ms.count, 8);
  // One was not sent: the run is invalid.
  ASSERT_EQ(s.invalid.size(), 1u);
  EXPECT_NE(s.invalid[0].find("--max-connections"), std::string::npos);
}

TEST(SummariseTest, ThroughputCountsByWhenThingsHappened) {
  // 10 tokens a second from 0 to 10 s by one long answer that arrived before the window.
  std::vector<LoadRecord> records = {Answer(0, 100, 100, 100)};
  records[0].prompt_tokens = 1000;
  const LoadSummary s = Summarise(records, Window(2000, 4000), {}, 0);
  EXPECT_NEAR(s.output_tok_per_s, 10, 0.51);
  EXPECT_EQ(s.prompt_tok_per_s, 0);
  EXPECT_DOUBLE_EQ(s.in_flight_mean, 1);
  EXPECT_EQ(s.requests_per_s, 0);
  EXPECT_EQ(s.invalid.size(), 1u);  // no arrival
}

TEST(SummariseTest, LateSendingIsInvalidByTheLargerOfTwoLimits) {
  const auto run = [](int64_t lag_ms, int64_t ttft_ms) {
    std::vector<LoadRecord> records;
    for (int i = 0; i < 100; ++i) {
      LoadRecord record = Answer(i * 10, ttft_ms, 10, 3);
      record.sent_ns = record.intended_ns + (i < 95 ? 0 : lag_ms * kMs);
      records.push_back(record);
    }
    return Summarise(records, Window(0, 1000), {}, 0).invalid.size();
  };
  EXPECT_EQ(run(10, 50), 0u);
  EXPECT_EQ(run(11, 50), 1u);
  EXPECT_EQ(run(30, 3000), 0u);
  EXPECT_EQ(run(31, 3000), 1u);
}

TEST(SummariseTest, SteadyMeansBothHalvesAreAlike) {
  const auto run = [](int64_t first_ttft, int64_t second_ttft, int second_tokens) {
    std::vector<LoadRecord> records;
    for (int i = 0; i < 100; ++i) {
      records.push_back(i < 50 ? Answer(i * 100, first_ttft, 1, 10) : Answer(i * 100, second_ttft, 1, second_tokens));
    }
    return Summarise(records, Window(0, 10'000), {}, 0).steady;
  };
  EXPECT_TRUE(run(40, 41, 10));
  EXPECT_FALSE(run(40, 43, 10));
  EXPECT_FALSE(run(40, 40, 11));
}

TEST(SummariseTest, NoCompleteAnswerIsInvalid) {
  const std::vector<LoadRecord> records = {Failure(10, LoadOutcome::kConnect, 1)};
  const LoadSummary s = Summarise(records, Window(0, 1000), {}, 0);
  ASSERT_EQ(s.invalid.size(), 1u);
  EXPECT_NE(s.invalid[0].find("complete answer"), std::string::npos);
}

}  // namespace
}  // namespace surety::cli
