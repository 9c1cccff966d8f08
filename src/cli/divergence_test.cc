#include "cli/divergence.h"

#include <cmath>
#include <limits>
#include <vector>

#include <gtest/gtest.h>

namespace surety::cli {
namespace {

TEST(DivergenceTest, LogProbabilityOfUniformLogitsIsMinusLogOfTheCount) {
  const std::vector<float> logits(8, 3.0f);
  EXPECT_NEAR(LogProbability(logits, 5), -std::log(8.0), 1e-12);
}

TEST(DivergenceTest, LargeLogitsDoNotOverflow) {
  const std::vector<float> logits = {1e30f, 1e30f};
  EXPECT_DOUBLE_EQ(LogSumExp(logits), static_cast<double>(1e30f));
}

TEST(DivergenceTest, KlIsZeroForLogitsThatDifferByAConstant) {
  const std::vector<float> a = {0.5f, -1.0f, 2.0f};
  const std::vector<float> b = {1.5f, 0.0f, 3.0f};
  EXPECT_NEAR(KlDivergence(a, b), 0.0, 1e-12);
}

TEST(DivergenceTest, KlOfTwoCoinsIsTheClosedForm) {
  const double p = 0.25, q = 0.5;
  const std::vector<float> reference = {static_cast<float>(std::log(p)), static_cast<float>(std::log(1 - p))};
  const std::vector<float> ours = {0.0f, 0.0f};
  const double expected = p * std::log(p / q) + (1 - p) * std::log((1 - p) / (1 - q));
  EXPECT_NEAR(KlDivergence(reference, ours), expected, 1e-7);
}

TEST(DivergenceTest, ImpossibleTokensCountNothingAndWhatIsNoNumberStaysSo) {
  const float inf = std::numeric_limits<float>::infinity(), nan = std::numeric_limits<float>::quiet_NaN();
  EXPECT_NEAR(KlDivergence(std::vector{0.0f, -inf}, std::vector{0.0f, 0.0f}), std::log(2.0), 1e-12);
  EXPECT_TRUE(std::isnan(KlDivergence(std::vector{0.0f, nan}, std::vector{0.0f, 0.0f})));
  EXPECT_EQ(LogSumExp(std::vector{-inf, -inf}), -inf);
}

TEST(DivergenceTest, LogitsThatAreNoDistributionAreFound) {
  const float inf = std::numeric_limits<float>::infinity(), nan = std::numeric_limits<float>::quiet_NaN();
  EXPECT_EQ(FaultOfLogits(std::vector{1.0f, -inf}), "");
  EXPECT_NE(FaultOfLogits(std::vector{1.0f, nan}), "");
  EXPECT_NE(FaultOfLogits(std::vector{1.0f, inf}), "");
  EXPECT_NE(FaultOfLogits(std::vector{-inf, -inf}), "");
}

TEST(DivergenceTest, ArgMaxTakesTheLowestIndexOnTies) {
  const std::vector<float> logits = {1.0f, 4.0f, 4.0f};
  EXPECT_EQ(ArgMax(logits), 1);
}

}  // namespace
}  // namespace surety::cli
