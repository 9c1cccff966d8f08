// The measured cost of a step: what tables it gives for given times, and that no single time spoils it.
#include "spec/verify_cost.h"

#include <algorithm>
#include <cmath>
#include <map>
#include <utility>

#include <gtest/gtest.h>

#include "base/random.h"

namespace surety::spec {
namespace {

TEST(VerifyCostTest, NothingIsKnownBeforeAStepWasSeen) {
  VerifyCost cost;
  EXPECT_EQ(cost.Of(1), 0);
  EXPECT_EQ(cost.Of(100), 0);
  cost.Observe(0, 1000);
  cost.Observe(VerifyCost::kMaxRows + 1, 1000);
  cost.Observe(3, 0);
  cost.Observe(3, -5);
  EXPECT_EQ(cost.Of(3), 0);
}

TEST(VerifyCostTest, KeepsWhatItSawAndIsNeverAboveTheLineBetween) {
  VerifyCost cost;
  cost.Observe(2, 1000);
  cost.Observe(6, 2000);
  EXPECT_EQ(cost.Of(2), 1000);
  EXPECT_EQ(cost.Of(6), 2000);
  EXPECT_GT(cost.Of(3), 1000);
  EXPECT_LE(cost.Of(3), 1250);
  EXPECT_LE(cost.Of(5), 1750);
  cost.Observe(10, 2001);
  EXPECT_NEAR(cost.Of(8), 2000.5, 1e-9);
  // Outside, a row is guessed to cost a little; rows out of range count as the nearest.
  EXPECT_GT(cost.Of(11), 2001);
  EXPECT_LT(cost.Of(11), 2500);
  EXPECT_LT(cost.Of(1), 1000);
  EXPECT_GT(cost.Of(1), 500);
  EXPECT_EQ(cost.Of(0), cost.Of(1));
  EXPECT_EQ(cost.Of(1000), cost.Of(VerifyCost::kMaxRows));
}

TEST(VerifyCostTest, MoreRowsNeverCostLessWhateverWasSeen) {
  for (uint64_t seed = 0; seed < 200; ++seed) {
    VerifyCost cost;
    uint64_t n = 0;
    const auto draw = [&](uint64_t below) { return RandomBits({seed, n++, RandomPurpose::kTest}) % below; };
    for (int step = 0; step < 60; ++step) {
      const int seen = static_cast<int>(1 + draw(20) * (1 + draw(6)));
      const int n_times = draw(4) == 0 ? 2 * VerifyCost::kStaleSteps : 1;  // others become old
      for (int i = 0; i < n_times; ++i) cost.Observe(seen, static_cast<int64_t>(1 + draw(100'000)));
      for (int rows = 2; rows <= VerifyCost::kMaxRows; ++rows) {
        ASSERT_GE(cost.Of(rows), cost.Of(rows - 1)) << "seed " << seed << ", step " << step << ", rows " << rows;
        ASSERT_GT(cost.Of(rows), 0);
      }
    }
  }
}

TEST(VerifyCostTest, FollowsAMachineThatSlowsDownOrSpeedsUp) {
  VerifyCost cost;
  for (const double level : {1000.0, 5000.0, 700.0}) {
    for (int i = 0; i < 120; ++i) {
      cost.Observe(1, static_cast<int64_t>(level));
      cost.Observe(4, static_cast<int64_t>(1.5 * level));
    }
    EXPECT_NEAR(cost.Of(1), level, 0.01 * level);
    EXPECT_NEAR(cost.Of(4), 1.5 * level, 0.01 * level);
  }
}

// Symptom: after a long context drafts were not verified in a short one, as their times were of the long one.
TEST(VerifyCostTest, ALevelThatChangesIsTakenOverToOtherNumbersOfRows) {
  VerifyCost cost;
  for (int i = 0; i < 50; ++i) {
    cost.Observe(1, 10'000);
    cost.Observe(5, 13'000);
  }
  for (int i = 0; i < 60; ++i) cost.Observe(1, 1000);
  EXPECT_NEAR(cost.Of(1), 1000, 20);
  EXPECT_LT(cost.Of(5), 4000);
}

// Symptom: a batch ran while something else took the machine, and then a single stream had no drafts for a while: its
// steps had become cheaper in proportion to all others.
TEST(VerifyCostTest, AMachineThatIsBusyForAWhileDoesNotChangeProportions) {
  VerifyCost cost;
  for (int i = 0; i < 50; ++i) {
    for (const auto& [rows, nanos] : {std::pair(1, 1000), std::pair(16, 2000), std::pair(32, 3000)}) {
      cost.Observe(rows, nanos);
    }
  }
  for (int i = 0; i < 100; ++i) cost.Observe(i % 2 == 0 ? 16 : 32, i % 2 == 0 ? 8000 : 12'000);
  for (int i = 0; i < 40; ++i) cost.Observe(1, 1000);
  EXPECT_NEAR(cost.Of(1), 1000, 20);
  EXPECT_LT(cost.Of(16), 2600);
}

TEST(VerifyCostTest, AStepThatWasHeldUpCountsLittle) {
  VerifyCost cost;
  cost.Observe(1, 1000);
  const double guess = cost.Of(5);
  cost.Observe(5, 1'000'000'000);  // the first of its kind
  EXPECT_LE(cost.Of(5), VerifyCost::kMostOverGuess * guess + 1e-9);
  for (int i = 0; i < 100; ++i) cost.Observe(i % 2 == 0 ? 1 : 5, i % 2 == 0 ? 1000 : 1200);
  const double ratio = cost.Of(5) / cost.Of(1);
  EXPECT_NEAR(ratio, 1.2, 0.02);
  cost.Observe(5, 1'000'000'000);
  EXPECT_LT(cost.Of(5) / cost.Of(1), 1.05 * ratio);
}

TEST(VerifyCostTest, AFirstStepThatWasHeldUpIsCorrectedByStepsOfMoreRows) {
  VerifyCost cost;
  cost.Observe(1, 50'000);
  cost.Observe(17, 2000);
  EXPECT_LE(cost.Of(1), 2000);
  EXPECT_LE(cost.Of(9), 2000);
}

// Symptom: a few steps of five rows that something else held up, and no draft was verified ever after.
TEST(VerifyCostTest, WhatLooksDearIsTriedAgainInTheEnd) {
  VerifyCost cost;
  cost.Observe(1, 1000);
  for (int i = 0; i < 10; ++i) {
    cost.Observe(5, 1'000'000'000);
    cost.Observe(1, 1000);
  }
  EXPECT_GT(cost.Of(5), 4 * cost.Of(1));
  int n_steps = 0;
  while (cost.Of(5) > 1.5 * cost.Of(1) && n_steps < 100'000) {
    cost.Observe(1, 1000);
    ++n_steps;
  }
  EXPECT_LE(n_steps, 20 * VerifyCost::kStaleSteps);
  EXPECT_GE(n_steps, 2 * VerifyCost::kStaleSteps);
}

// A policy that always takes what is best by the table, against a machine whose times are known: with drafts that
// always hold it ends where the true best is; with worthless ones it stays at one row all but a few steps.
TEST(VerifyCostTest, ChoicesByTheTableEndAtTheTrueBest) {
  const auto true_time = [](int rows) { return 1000.0 * (rows <= 8 ? 1 + 0.05 * rows : 1.4 + 0.5 * (rows - 8)); };
  for (const double acceptance : {1.0, 0.05}) {
    VerifyCost cost;
    const auto tokens = [&](int rows) {
      double sum = 1, all = 1;
      for (int i = 1; i < rows; ++i) sum += all *= acceptance;
      return sum;
    };
    int truly_best = 1;
    for (int rows = 2; rows <= 17; ++rows) {
      if (tokens(rows) / true_time(rows) > tokens(truly_best) / true_time(truly_best)) truly_best = rows;
    }
    double spent = 0, gained = 0;
    std::map<int, int> taken;
    for (int step = 0; step < 4000; ++step) {
      int best = 1;
      for (int rows = 2; rows <= 17 && cost.Of(1) > 0; ++rows) {
        if (tokens(rows) / cost.Of(rows) > tokens(best) / cost.Of(best)) best = rows;
      }
      const double hiccup = RandomBits({1, static_cast<uint64_t>(step), RandomPurpose::kTest}) % 100 == 0 ? 20 : 1;
      cost.Observe(best, static_cast<int64_t>(hiccup * true_time(best)));
      ++taken[best];
      spent += true_time(best);
      gained += tokens(best);
    }
    // Nine numbers of rows beyond the best are tried once in kStaleSteps: of the time that is a twentieth. A step that
    // is held up makes its number of rows look 4 % dearer than its neighbours, which are 6 % worse.
    double trials = 0;
    for (int rows = 9; rows <= 17; ++rows) trials += true_time(rows);
    const double share = trials / (VerifyCost::kStaleSteps * true_time(8));
    EXPECT_GT(gained / spent, (1 - share - 0.06) * tokens(truly_best) / true_time(truly_best)) << acceptance;
    EXPECT_GT(gained / spent, 0.99 / true_time(1)) << acceptance;
  }
}

// Symptom: a single stream ran for a while, then a batch verified seven rows again and again that did not pay: those
// were seen to be dear, but as many more rows, of long ago, counted as cheaper, so did they.
TEST(VerifyCostTest, WhatIsOldDoesNotSpeakAgainstWhatWasSeenSince) {
  const auto true_time = [](int rows) { return 1000.0 * (5 + rows); };
  VerifyCost cost;
  for (int turn = 0; turn < 20; ++turn) {
    for (int rows = 1; rows <= 31; ++rows) cost.Observe(rows, static_cast<int64_t>(true_time(rows)));
  }
  for (int i = 0; i < 3 * VerifyCost::kStaleSteps; ++i) cost.Observe(1, static_cast<int64_t>(true_time(1)));
  for (int i = 0; i < 20; ++i) {
    cost.Observe(16, static_cast<int64_t>(true_time(16)));
    cost.Observe(23, static_cast<int64_t>(true_time(23)));
  }
  const double truth = true_time(23) / true_time(16);
  EXPECT_NEAR(cost.Of(23) / cost.Of(16), truth, 0.01 * truth);
  EXPECT_GE(cost.Of(31), cost.Of(23));
  EXPECT_LE(cost.Of(31), 1.01 * true_time(31));
}

// Symptom (by reading): a batch ran for a day, a stream ended, and fifteen rows, never seen before, were taken to cost
// what had become of the doubted figure of one row: a thousandth of the truth, for hundreds of steps.
TEST(VerifyCostTest, VeryOldFiguresDoNotMakeAGuess) {
  const auto true_time = [](int rows) { return 1000.0 * (5 + rows); };
  VerifyCost cost;
  cost.Observe(1, static_cast<int64_t>(true_time(1)));
  for (int i = 0; i < 100 * VerifyCost::kStaleSteps; ++i) cost.Observe(16, static_cast<int64_t>(true_time(16)));
  for (int rows = 15; rows >= 1; --rows) {
    for (int i = 0; i < 20; ++i) cost.Observe(rows, static_cast<int64_t>(true_time(rows)));
    EXPECT_NEAR(cost.Of(rows), true_time(rows), 0.1 * true_time(rows));
    EXPECT_NEAR(cost.Of(16) / cost.Of(rows), true_time(16) / true_time(rows), 0.2 * true_time(16) / true_time(rows));
  }
}

// A batch after a single stream and a single stream after a batch, whose figures are old by then: a policy that follows
// the table loses next to nothing, and finds what pays. Symptom: old figures cost a quarter of the time for good.
TEST(VerifyCostTest, OldFiguresCostAFewTrials) {
  for (const double slope : {0.06, 0.15, 0.3}) {
    for (const double noise : {0.0, 0.05, 0.15}) {
      for (const double acceptance : {0.05, 0.3}) {
        const auto true_time = [&](int rows) { return 1000.0 * (1 + slope * (rows - 1)); };
        uint64_t n_draws = 0;
        VerifyCost cost;
        const auto run = [&](int rows) {
          const double u = RandomUniform({7, n_draws++, RandomPurpose::kTest});
          const double hiccup = n_draws % 60 == 0 ? 1.5 : 1;
          cost.Observe(rows, static_cast<int64_t>(true_time(rows) * hiccup * std::exp(noise * 3.4 * (u - 0.5))));
        };
        // A single stream's draft is a chain; each of a batch's streams drafts one token.
        const auto tokens = [&](int n_decoding, int rows) {
          double sum = n_decoding, all = 1;
          for (int i = n_decoding; i < rows; ++i) sum += all = n_decoding > 1 ? acceptance : all * acceptance;
          return sum;
        };
        for (int rows = 1; rows <= 20 * 34; ++rows) run((rows - 1) % 34 + 1);
        for (const auto& [now, before] : {std::pair(1, 16), std::pair(16, 1)}) {
          for (int i = 0; i < 3 * VerifyCost::kStaleSteps; ++i) run(before);
          double spent = 0, gained = 0, best = 0;
          for (int rows = now; rows <= now + 17; ++rows) best = std::max(best, tokens(now, rows) / true_time(rows));
          for (int i = 0; i < 400; ++i) {
            int chosen = now;
            for (int rows = now + 1; rows <= now + 17; ++rows) {
              const double margin = chosen == now ? 1.03 : 1;
              if (tokens(now, rows) * cost.Of(chosen) > margin * tokens(now, chosen) * cost.Of(rows)) chosen = rows;
            }
            run(chosen);
            spent += true_time(chosen);
            gained += tokens(now, chosen);
          }
          EXPECT_GT(gained / spent, 0.98 * now / true_time(now))
              << slope << ", noise " << noise << ", " << acceptance << ": " << now << " after " << before;
          EXPECT_GT(gained / spent, 0.94 * best)
              << slope << ", noise " << noise << ", " << acceptance << ": " << now << " after " << before;
        }
      }
    }
  }
}

TEST(BranchCostTest, FollowsWhatBranchesTookAndForgetsItWithoutThem) {
  for (const double truth : {0.5, 1.0, 4.0, 20.0}) {
    BranchCost cost(0.001);
    constexpr double kRow = 1e6;
    EXPECT_DOUBLE_EQ(cost.Of(100, kRow), cost.Unit(100) * kRow);
    EXPECT_GT(cost.Unit(1000), cost.Unit(100));
    for (int i = 0; i < 600; ++i) {
      const double units = (1 + i % 3) * cost.Unit(100), rows = 1.5 * kRow;
      const double noise = (RandomUniform({5, static_cast<uint64_t>(i), RandomPurpose::kTest}) - 0.5) * 0.02 * kRow;
      cost.Observe(units, kRow, rows + truth * units * kRow + noise, rows);
    }
    EXPECT_NEAR(cost.factor(), truth, 0.15 * truth);
    for (int i = 0; i < 20000; ++i) cost.Observe(0, kRow, kRow, kRow);
    EXPECT_NEAR(cost.factor(), 1, 0.01);
  }
}

}  // namespace
}  // namespace surety::spec
