#include "spec/law.h"

#include <cmath>
#include <vector>

#include <gtest/gtest.h>

#include "spec/testing/laws.h"

namespace surety::spec {
namespace {

using testing::Entries;

TEST(LawTest, ProbabilityOfAnUnlistedTokenIsZero) {
  const Entries law = {{9, 0.75}, {2, 0.25}};
  EXPECT_EQ(ProbabilityOf(law, 2), 0.25);
  EXPECT_EQ(ProbabilityOf(law, 3), 0.0);
  EXPECT_EQ(ProbabilityOf({}, 3), 0.0);
}

TEST(LawTest, DrawsTheTokenAtTheCumulativePoint) {
  const Entries law = {{4, 0.0}, {9, 0.5}, {3, 0.0}, {2, 0.25}, {5, 0.25}, {1, 0.0}};
  EXPECT_EQ(DrawFrom(law, 0x1.0p-53), 9);
  EXPECT_EQ(DrawFrom(law, 0.5 - 0x1.0p-53), 9);
  EXPECT_EQ(DrawFrom(law, 0.5), 2);
  EXPECT_EQ(DrawFrom(law, 0.75), 5);
  EXPECT_EQ(DrawFrom(law, 1 - 0x1.0p-53), 5);
  const Entries unnormalised = {{1, 3.0}, {2, 1.0}};
  EXPECT_EQ(DrawFrom(unnormalised, 0.7499), 1);
  EXPECT_EQ(DrawFrom(unnormalised, 0.7501), 2);
}

// The statistics that the tests of this module stand on. Quantiles of tables: 95 % of 1 and of 10 degrees of freedom,
// 99.9 % of 5.
TEST(SpecStatisticsTest, TheTailOfChiSquareIsTheTables) {
  EXPECT_NEAR(testing::ChiSquareTail(3.841459, 1), 0.05, 1e-7);
  EXPECT_NEAR(testing::ChiSquareTail(18.307038, 10), 0.05, 1e-7);
  EXPECT_NEAR(testing::ChiSquareTail(20.515006, 5), 0.001, 1e-8);
}

TEST(SpecStatisticsTest, AFitSeesAShiftOfHalfAPercentInAMillion) {
  const std::vector<double> law = {0.5, 0.3, 0.2, 0.0};
  EXPECT_GT(testing::FitPValue(std::vector<int64_t>{500'000, 300'000, 200'000, 0}, law), 0.99);
  EXPECT_LT(testing::FitPValue(std::vector<int64_t>{505'000, 295'000, 200'000, 0}, law), 1e-6);
  EXPECT_EQ(testing::FitPValue(std::vector<int64_t>{500'000, 300'000, 199'999, 1}, law), 0.0);
}

TEST(SpecStatisticsTest, TheTruthOfALanguageIsTheProductOfItsLaws) {
  const testing::Language language({.vocab = 3, .length = 3, .zero_share = 0.2}, 4);
  const auto truth = language.Truth();
  double sum = 0;
  for (int32_t a = 0; a < 3; ++a) {
    for (int32_t b = 0; b < 3; ++b) {
      for (int32_t c = 0; c < 3; ++c) {
        const uint32_t first = static_cast<uint32_t>(a) + 1, second = first * 8 + static_cast<uint32_t>(b) + 1;
        const double product = ProbabilityOf(language.p(0), a) * ProbabilityOf(language.p(first), b) *
                               ProbabilityOf(language.p(second), c);
        EXPECT_NEAR(truth[second * 8 + static_cast<uint32_t>(c) + 1], product, 1e-15);
        sum += product;
      }
    }
  }
  EXPECT_NEAR(sum, 1.0, 1e-14);
}

}  // namespace
}  // namespace surety::spec
