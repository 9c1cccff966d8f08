#include "spec/draft_ledger.h"

#include <algorithm>
#include <random>

#include "gtest/gtest.h"

namespace surety::spec {
namespace {

// Share of plain speed over n steps, where a step that asks gains `gain` on average with noise.
double SpeedOver(int n, double gain, double noise, uint32_t seed) {
  DraftLedger ledger;
  std::mt19937 random(seed);
  std::uniform_real_distribution<double> around(-noise, noise);
  double saved = 0;
  for (int i = 0; i < n; ++i) {
    if (ledger.Rests()) continue;
    const double g = gain + around(random);
    saved += g;
    ledger.Note(g);
  }
  return n / (n - saved);
}

TEST(DraftLedgerTest, ADrafterThatLosesCostsLittleAndLessWithTime) {
  for (uint32_t seed = 1; seed <= 20; ++seed) {
    EXPECT_GT(SpeedOver(400, -0.2, 0.8, seed), 0.96) << seed;
    EXPECT_GT(SpeedOver(20000, -0.2, 0.8, seed), 0.996) << seed;
    EXPECT_GT(SpeedOver(20000, -0.02, 0.8, seed), 0.98) << seed;
  }
}

TEST(DraftLedgerTest, ADrafterThatPaysIsAskedNearlyAlways) {
  for (uint32_t seed = 1; seed <= 20; ++seed) {
    // All asked, 20,000 steps would take 20,000 / 1.25 of the time.
    EXPECT_GT(SpeedOver(20000, 0.2, 0.8, seed), 1.20) << seed;
  }
}

TEST(DraftLedgerTest, AChangeForTheWorseIsSeenSoonAfterALongGoodTime) {
  DraftLedger ledger;
  for (int i = 0; i < 10000; ++i) ledger.Note(0.5);
  int asked = 0;
  while (!ledger.Rests()) {
    ledger.Note(-0.5);
    ++asked;
  }
  EXPECT_LE(asked, 13);  // (3 + 3) / 0.5, and one
}

TEST(DraftLedgerTest, RestsDoubleUntilItEarnsAgain) {
  DraftLedger ledger;
  for (int expected = DraftLedger::kFirstRest; expected <= 4 * DraftLedger::kLongestRest; expected *= 2) {
    ledger.Note(-2);
    ledger.Note(-2);
    int rested = 0;
    while (ledger.Rests()) ++rested;
    EXPECT_EQ(rested, std::min(expected, DraftLedger::kLongestRest));
  }
  for (int i = 0; i < 4; ++i) ledger.Note(1);
  for (int i = 0; i < 4; ++i) ledger.Note(-2);
  int rested = 0;
  while (ledger.Rests()) ++rested;
  EXPECT_EQ(rested, DraftLedger::kFirstRest);
}

}  // namespace
}  // namespace surety::spec
