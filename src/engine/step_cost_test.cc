// The cost model against machines whose law is known.
#include "engine/step_cost.h"

#include <cmath>

#include <gtest/gtest.h>

#include "base/random.h"

namespace surety::engine {
namespace {

// Weights are read once a step; each row and each attended token adds arithmetic; noise of +-5 %.
struct Machine {
  double read = 4e6, row = 8e5, attended = 300;
  uint64_t draws = 0;
  double Exact(const StepWork& work) const {
    const double compute = row * work.rows + attended * work.attended;
    return work.rows <= StepCostModel::kFewRows ? read + compute : compute + 0.2 * read;
  }
  int64_t Run(const StepWork& work) {
    const double u = RandomUniform({11, draws++, RandomPurpose::kTest});
    return static_cast<int64_t>(Exact(work) * (0.95 + 0.1 * u));
  }
};

StepWork Draw(uint64_t i, int max_rows) {
  const uint64_t bits = RandomBits({5, i, RandomPurpose::kTest});
  const int rows = 1 + static_cast<int>(bits % static_cast<uint64_t>(max_rows));
  return {rows, static_cast<double>(rows) * static_cast<double>((bits >> 20) % 4000)};
}

TEST(StepCostTest, LearnsTheLawOfAMachineWithinItsNoise) {
  Machine machine;
  StepCostModel model(2000);
  EXPECT_EQ(model.Predict({1, 1}), 0);
  for (uint64_t i = 0; i < 400; ++i) {
    const StepWork work = Draw(i, i % 2 == 0 ? 32 : 512);
    model.Observe(work, machine.Run(work));
  }
  for (uint64_t i = 1000; i < 1200; ++i) {
    const StepWork work = Draw(i, i % 2 == 0 ? 32 : 512);
    EXPECT_NEAR(static_cast<double>(model.Predict(work)) / machine.Exact(work), 1.0, 0.10) << work.rows;
  }
}

TEST(StepCostTest, FollowsAMachineThatBecomesSlower) {
  Machine machine;
  StepCostModel model(2000);
  for (uint64_t i = 0; i < 200; ++i) model.Observe(Draw(i, 32), machine.Run(Draw(i, 32)));
  machine.read *= 3;
  machine.row *= 3;
  machine.attended *= 3;
  for (uint64_t i = 0; i < 200; ++i) model.Observe(Draw(i, 32), machine.Run(Draw(i, 32)));
  EXPECT_NEAR(static_cast<double>(model.Predict({16, 16 * 500.0})) / machine.Exact({16, 16 * 500.0}), 1.0, 0.15);
}

TEST(StepCostTest, UnseenSizesAreNotUnderestimated) {
  Machine machine;
  StepCostModel decode_only(2000);
  for (int i = 0; i < 50; ++i) decode_only.Observe({1, 100}, machine.Run({1, 100}));
  EXPECT_GE(static_cast<double>(decode_only.Predict({256, 256 * 100.0})), machine.Exact({256, 256 * 100.0}));
  StepCostModel prefill_only(2000);
  for (int i = 0; i < 50; ++i) prefill_only.Observe({512, 512 * 256.0}, machine.Run({512, 512 * 256.0}));
  EXPECT_GE(static_cast<double>(prefill_only.Predict({1, 100})), machine.Exact({1, 100}));
}

TEST(StepCostTest, TheChosenChunkIsTheLargestThatFits) {
  Machine machine;
  StepCostModel model(2000);
  for (uint64_t i = 0; i < 400; ++i) {
    const StepWork work = Draw(i, i % 2 == 0 ? 32 : 512);
    model.Observe(work, machine.Run(work));
  }
  const StepWork base = {4, 4 * 1000.0};
  for (const int64_t target : {10'000'000, 20'000'000, 50'000'000, 200'000'000}) {
    const int n = model.RowsWithin(base, 1500, 8, 512, target);
    ASSERT_GE(n, 8);
    ASSERT_LE(n, 512);
    const auto predicted = [&](int rows) {
      return model.Predict({base.rows + rows, base.attended + 1500.0 * rows + 0.5 * rows * (rows + 1.0)});
    };
    if (n > 8) {
      EXPECT_LE(predicted(n), target);
    }
    if (n < 512 && n != StepCostModel::kFewRows - base.rows) {
      EXPECT_GT(predicted(n + 1), target);
    }
  }
  EXPECT_EQ(model.RowsWithin(base, 0, 8, 512, 0), 8);
  EXPECT_EQ(model.RowsWithin(base, 0, 8, 5, 0), 5);
}

}  // namespace
}  // namespace surety::engine
