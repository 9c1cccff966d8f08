#include "spec/acceptance_monitor.h"

#include <gtest/gtest.h>

#include "base/random.h"

namespace surety::spec {
namespace {

double UniformOf(uint64_t stream, uint64_t i, uint32_t index) {
  return RandomUniform({stream, i, RandomPurpose::kTest}, index);
}

TEST(AcceptanceMonitorTest, AnExactRuleRaisesNoAlarmHoweverLongItRuns) {
  double most = 0;
  for (uint64_t stream = 0; stream < 30; ++stream) {
    AcceptanceMonitor monitor;
    for (uint64_t i = 0; i < 100'000; ++i) {
      const double p = UniformOf(stream, i, 0);
      monitor.Note(p, UniformOf(stream, i, 1) < p);
      most = std::max(most, monitor.strain());
    }
  }
  EXPECT_LT(most, 1);
  EXPECT_GT(most, 0.1);  // the bound is not so wide that nothing could reach it
}

// A 60 % token that came out at 63.04 % (vLLM's issue 54282: draft and residual shared random numbers) shows after
// about 13,000 trials; drafts that always hold after some tens.
TEST(AcceptanceMonitorTest, ABiasedRuleIsSeen) {
  AcceptanceMonitor known_bug, always;
  uint64_t seen_at = 0;
  for (uint64_t i = 0; i < 40'000 && !known_bug.alarm(); ++i, ++seen_at) {
    known_bug.Note(0.6, UniformOf(99, i, 0) < 0.6304);
  }
  EXPECT_TRUE(known_bug.alarm());
  EXPECT_GT(seen_at, 2'000u);
  EXPECT_NEAR(known_bug.bias(), 0.0304, 0.02);
  for (int i = 0; i < 300; ++i) always.Note(0.5, true);
  EXPECT_TRUE(always.alarm());
}

TEST(AcceptanceMonitorTest, NothingSeenIsNoAlarm) {
  const AcceptanceMonitor monitor;
  EXPECT_FALSE(monitor.alarm());
  EXPECT_EQ(monitor.bias(), 0);
}

}  // namespace
}  // namespace surety::spec
