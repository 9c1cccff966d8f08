#include "cli/probe_stats.h"

#include <vector>

#include <gtest/gtest.h>

#include "cli/load_random.h"

namespace surety::cli {
namespace {

// Values of scipy 1.17.1: scipy.stats.wilcoxon(d, zero_method="wilcox", correction=False, method=M), M = "exact" where
// the first field says so, else "asymptotic"; w_plus and the effect by scipy.stats.rankdata.
TEST(SignedRankTest, AgreesWithScipy) {
  const auto made = [](int n, auto formula) {
    std::vector<double> d;
    for (int i = 1; i <= n; ++i) d.push_back(formula(i));
    return d;
  };
  // Hollander and Wolfe, table 3.1: Hamilton depression scale before and after.
  const std::vector<double> before = {1.83, 0.50, 1.62, 2.48, 1.68, 1.88, 1.55, 3.06, 1.30};
  const std::vector<double> after = {0.878, 0.647, 0.598, 2.05, 1.06, 1.29, 1.06, 3.14, 1.29};
  std::vector<double> depression;
  for (size_t i = 0; i < before.size(); ++i) depression.push_back(before[i] - after[i]);
  const auto cubes = [](int i) { return (i * i * i * 5 + i * 11) % 1009 - 430; };
  struct Case {
    const char* what;
    std::vector<double> differences;
    int n;
    double w_plus, p_value, effect;
  };
  for (const Case& c : {
           Case{"exact", depression, 9, 40, 0.0390625, 7.0 / 9},
           Case{"exact, forty", made(40, cubes), 40, 437, 0.7245544941888511, 0.06585365853658537},
           Case{"exact, all positive", made(12, [](int i) { return i; }), 12, 78, 0.00048828125, 1},
           Case{"sixty, with ties", made(60, cubes), 60, 1113.5, 0.14393639563023738, 0.21693989071038253},
           Case{"ties and zeros", made(30, [](int i) { return (i * i * 7) % 11 - 6; }),
                25, 171, 0.8162798661995377, 0.052307692307692305},
       }) {
    const SignedRank found = SignedRankTest(c.differences);
    EXPECT_EQ(found.n, c.n) << c.what;
    EXPECT_DOUBLE_EQ(found.w_plus, c.w_plus) << c.what;
    EXPECT_NEAR(found.p_value, c.p_value, 1e-12) << c.what;
    EXPECT_NEAR(found.effect, c.effect, 1e-12) << c.what;
  }
}

TEST(SignedRankTest, WithoutAnyDifferenceThereIsNoEvidence) {
  EXPECT_EQ(SignedRankTest({}).p_value, 1);
  EXPECT_EQ(SignedRankTest(std::vector<double>{0, 0, 0}).p_value, 1);
  EXPECT_EQ(SignedRankTest(std::vector<double>{0, 0, 0}).effect, 0);
}

// Of pairs without a difference, the share that is taken for one.
TEST(SignedRankTest, FalseAlarmsAreAsRareAsItSays) {
  int alarms = 0;
  for (uint64_t trial = 0; trial < 2000; ++trial) {
    RandomStream stream(7, trial, LoadLane::kLengths);
    std::vector<double> differences;
    for (int i = 0; i < 20; ++i) {
      const double first = stream.Exponential();
      differences.push_back(first - stream.Exponential());
    }
    alarms += SignedRankTest(differences).p_value < 0.05;
  }
  // 100 expected at most (the exact test's steps make it a little less); six standard errors are 59.
  EXPECT_GT(alarms, 100 - 59);
  EXPECT_LT(alarms, 100 + 59);
}

TEST(MedianOfTest, IsTheMiddleOrTheMeanOfTheTwoThere) {
  EXPECT_EQ(MedianOf(std::vector<double>{3, 1, 2}), 2);
  EXPECT_EQ(MedianOf(std::vector<double>{4, 1, 3, 2}), 2.5);
}

}  // namespace
}  // namespace surety::cli
