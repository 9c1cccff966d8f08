#include "cli/load_stats.h"

#include <algorithm>
#include <cmath>
#include <vector>

#include <gtest/gtest.h>

#include "cli/load_random.h"

namespace surety::cli {
namespace {

// The definition: the least value that at least percent % of the values do not exceed.
double ByDefinition(const std::vector<double>& values, int percent) {
  double found = INFINITY;
  for (const double candidate : values) {
    const auto n = std::count_if(values.begin(), values.end(), [&](double v) { return v <= candidate; });
    if (n * 100 >= percent * static_cast<int64_t>(values.size())) found = std::min(found, candidate);
  }
  return found;
}

TEST(NearestRankTest, IsTheLeastValueThatEnoughValuesDoNotExceed) {
  for (uint64_t trial = 0; trial < 2000; ++trial) {
    RandomStream stream(1, trial, LoadLane::kLengths);
    std::vector<double> values(1 + stream.Below(120));
    for (double& value : values) value = static_cast<double>(stream.Below(50));
    const int percent = 1 + static_cast<int>(stream.Below(100));
    const double expected = ByDefinition(values, percent);
    std::sort(values.begin(), values.end());
    ASSERT_EQ(NearestRank(values, percent), expected) << trial;
  }
}

TEST(GroupedNearestRankTest, IsThatOfTheValuesWrittenOut) {
  for (uint64_t trial = 0; trial < 2000; ++trial) {
    RandomStream stream(2, trial, LoadLane::kLengths);
    std::vector<GroupedValue> grouped;
    std::vector<double> out;
    for (int i = 0, n = 1 + static_cast<int>(stream.Below(30)); i < n; ++i) {
      const GroupedValue value{static_cast<double>(i / 2), 1 + static_cast<int32_t>(stream.Below(6)), 0};
      grouped.push_back(value);
      out.insert(out.end(), static_cast<size_t>(value.times), value.value);
    }
    const int percent = 1 + static_cast<int>(stream.Below(100));
    ASSERT_EQ(GroupedNearestRank(grouped, percent), NearestRank(out, percent)) << trial;
  }
}

TEST(NearestRankTest, RanksThatAreWholeNumbersAreExact) {
  std::vector<double> values(1000);
  for (size_t i = 0; i < values.size(); ++i) values[i] = static_cast<double>(i + 1);
  EXPECT_EQ(NearestRank(values, 50), 500);
  EXPECT_EQ(NearestRank(values, 95), 950);
  EXPECT_EQ(NearestRank(values, 99), 990);
  EXPECT_EQ(NearestRank(values, 99.9), 999);
  EXPECT_EQ(NearestRank(values, 100), 1000);
  EXPECT_EQ(NearestRank(std::vector<double>{7}, 1), 7);
}

// Resampling in earnest, against the closed form of its limit.
TEST(BootstrapIntervalTest, IsWhatResamplingGives) {
  constexpr int kN = 60, kResamples = 20'000;
  std::vector<double> values;
  RandomStream stream(4, 0, LoadLane::kLengths);
  for (int i = 0; i < kN; ++i) values.push_back(stream.Exponential());
  std::sort(values.begin(), values.end());
  for (const double percent : {50.0, 95.0}) {
    std::vector<double> found;
    for (int r = 0; r < kResamples; ++r) {
      std::vector<double> sample;
      for (int i = 0; i < kN; ++i) sample.push_back(values[stream.Below(kN)]);
      std::sort(sample.begin(), sample.end());
      found.push_back(NearestRank(sample, percent));
    }
    std::sort(found.begin(), found.end());
    const Interval interval = BootstrapInterval(values, percent);
    // The ends may differ by a neighbour where the resampled share is within its own error of 2.5 %.
    const auto near = [&](double end, double share) {
      return end >= NearestRank(found, share - 0.4) && end <= NearestRank(found, share + 0.4);
    };
    EXPECT_TRUE(near(interval.low, 2.5)) << percent;
    EXPECT_TRUE(near(interval.high, 97.5)) << percent;
  }
}

// Of 1000 samples of a law whose median is known, the share of intervals that hold it.
TEST(BootstrapIntervalTest, CoversTheMedianAboutAsOftenAsItSays) {
  int covered = 0;
  for (uint64_t trial = 0; trial < 1000; ++trial) {
    RandomStream stream(5, trial, LoadLane::kLengths);
    std::vector<double> values;
    for (int i = 0; i < 100; ++i) values.push_back(stream.Exponential());
    std::sort(values.begin(), values.end());
    const Interval interval = BootstrapInterval(values, 50);
    covered += interval.low <= std::log(2) && std::log(2) <= interval.high;
  }
  // 950 expected; six standard errors are 41, and with 100 values the interval is a little off by itself.
  EXPECT_NEAR(covered, 950, 41);
}

// Groups of equal values: a group counts as one value, however many members it has.
TEST(GroupBootstrapIntervalTest, IsAsWideAsThatOfTheGroups) {
  int covered = 0;
  for (uint64_t trial = 0; trial < 300; ++trial) {
    RandomStream stream(6, trial, LoadLane::kLengths);
    GroupedValues grouped;
    for (grouped.groups = 0; grouped.groups < 100; ++grouped.groups) {
      const double value = stream.Exponential();
      for (int i = 0; i < 5; ++i) grouped.values.push_back({value, 4, grouped.groups});
    }
    std::sort(grouped.values.begin(), grouped.values.end(),
              [](const GroupedValue& a, const GroupedValue& b) { return a.value < b.value; });
    const Interval interval = GroupBootstrapInterval(grouped, 50, trial);
    covered += interval.low <= std::log(2) && std::log(2) <= interval.high;
  }
  EXPECT_NEAR(covered, 285, 6 * std::sqrt(300 * 0.05 * 0.95));
}

TEST(WilsonIntervalTest, AgreesWithPublishedValues) {
  // Newcombe, "Two-sided confidence intervals for the single proportion", Statistics in Medicine 17 (1998), table I.
  struct Case {
    int hits, n;
    double low, high;
  };
  for (const Case& c : {Case{81, 263, 0.2553, 0.3662}, Case{15, 148, 0.0624, 0.1605}, Case{0, 20, 0.0, 0.1611},
                        Case{1, 29, 0.0061, 0.1718}}) {
    const Interval interval = WilsonInterval(c.hits, c.n);
    EXPECT_NEAR(interval.low, c.low, 5e-5);
    EXPECT_NEAR(interval.high, c.high, 5e-5);
  }
}

}  // namespace
}  // namespace surety::cli
