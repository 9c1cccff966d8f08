#include "kernels/cpu/logits_scan.h"

#include <algorithm>
#include <bit>
#include <cmath>
#include <limits>
#include <random>
#include <vector>

#include <gtest/gtest.h>

#include "kernels/cpu/isa.h"

namespace surety::kernels::cpu {
namespace {

constexpr float kMinusInfinity = -std::numeric_limits<float>::infinity();

class LogitsScanTest : public ::testing::TestWithParam<Isa> {
 protected:
  void SetUp() override { ASSERT_TRUE(SetIsa(GetParam()).ok()); }
  void TearDown() override { ASSERT_TRUE(SetIsa(BestIsa()).ok()); }

  std::vector<float> Random(size_t n, float spread) {
    std::normal_distribution<float> normal(0, spread);
    std::vector<float> x(n);
    for (float& value : x) value = normal(rng_);
    return x;
  }
  std::mt19937 rng_{7};
};

TEST_P(LogitsScanTest, AllFiniteSeesEveryPlace) {
  for (size_t n = 1; n < 70; ++n) {
    std::vector<float> x(n, std::numeric_limits<float>::max());
    EXPECT_TRUE(AllFinite(x));
    for (size_t at = 0; at < n; ++at) {
      for (const float bad : {NAN, -NAN, INFINITY, kMinusInfinity}) {
        x[at] = bad;
        EXPECT_FALSE(AllFinite(x)) << at << " of " << n;
      }
      x[at] = -std::numeric_limits<float>::denorm_min();
    }
  }
}

TEST_P(LogitsScanTest, ArgMaxIsTheFirstOfTheLargest) {
  for (size_t n = 1; n < 120; ++n) {
    for (int turn = 0; turn < 20; ++turn) {
      std::vector<float> x = Random(n, 1);
      for (float& value : x) value = std::round(value * 2);  // many ties
      if (turn % 4 == 0) std::fill(x.begin(), x.end(), kMinusInfinity);
      EXPECT_EQ(ArgMax(x), std::max_element(x.begin(), x.end()) - x.begin()) << n;
    }
  }
  for (size_t at = 0; at < 100; ++at) {
    std::vector<float> x(100, -3.0f);
    x[at] = -2.0f;
    EXPECT_EQ(static_cast<size_t>(ArgMax(x)), at);
  }
}

TEST_P(LogitsScanTest, ColumnMaximaAreThoseOfTheColumns) {
  for (size_t n : {1, 5, 16, 100, 1000, 1003}) {
    for (size_t n_columns : {1, 7, 16, 100, 256}) {
      const std::vector<float> x = Random(n, 3);
      std::vector<float> ours(n_columns, 99.0f), expected(n_columns, kMinusInfinity);
      for (size_t i = 0; i < n; ++i) expected[i % n_columns] = std::max(expected[i % n_columns], x[i]);
      ColumnMaxima(x, ours);
      EXPECT_EQ(ours, expected);
    }
  }
}

TEST_P(LogitsScanTest, IndicesFromCountsAllAndWritesWhatFits) {
  for (size_t n : {1, 15, 16, 17, 333}) {
    const std::vector<float> x = Random(n, 1);
    for (const float threshold : {kMinusInfinity, -1.0f, x[n / 2], 5.0f}) {
      std::vector<int32_t> expected;
      for (size_t i = 0; i < n; ++i) {
        if (x[i] >= threshold) expected.push_back(static_cast<int32_t>(i));
      }
      std::vector<int32_t> out(n);
      ASSERT_EQ(IndicesFrom(x, threshold, out), std::ssize(expected));
      out.resize(expected.size());
      EXPECT_EQ(out, expected);
      std::vector<int32_t> few(std::min<size_t>(2, n), -1);
      EXPECT_EQ(IndicesFrom(x, threshold, few), std::ssize(expected));
      for (size_t i = 0; i < std::min(few.size(), expected.size()); ++i) EXPECT_EQ(few[i], expected[i]);
    }
  }
}

TEST_P(LogitsScanTest, ExpWeightsAreTheExponentials) {
  double worst = 0;
  for (size_t n : {1, 7, 8, 9, 1000, 20'003}) {
    for (const double scale : {1e-9, 0.37, 1.0, 3.0, 1e9}) {
      std::vector<float> x = Random(n, 9);
      x[n / 2] = kMinusInfinity;
      const float top = *std::max_element(x.begin(), x.end());
      if (top == kMinusInfinity) continue;
      std::vector<double> out(n);
      ExpWeights(x, top, scale, out.data());
      for (size_t i = 0; i < n; ++i) {
        const double exponent = (static_cast<double>(x[i]) - top) * scale;
        const double expected = exponent > -60 ? std::exp(exponent) : 0;
        if (expected == 0) {
          EXPECT_EQ(out[i], 0);
        } else {
          worst = std::max(worst, std::abs(out[i] - expected) / (expected * 0x1.0p-52));
        }
      }
      EXPECT_EQ(out[static_cast<size_t>(ArgMax(x))], 1.0);
    }
  }
  EXPECT_LE(worst, 2);
}

TEST_P(LogitsScanTest, ExpWeightsHaveTheBitsOfTheBestInstructionSet) {
  if (GetParam() == Isa::kSse4) GTEST_SKIP() << "no fused multiply-add";
  const std::vector<float> x = Random(20'003, 9);
  const float top = *std::max_element(x.begin(), x.end());
  std::vector<double> here(x.size()), best(x.size());
  ExpWeights(x, top, 0.7, here.data());
  ASSERT_TRUE(SetIsa(BestIsa()).ok());
  ExpWeights(x, top, 0.7, best.data());
  EXPECT_EQ(here, best);
}

// The definition of the noise, from its published constants.
double GapOf(const RaceWords& words, int64_t token) {
  uint64_t x = words.first + static_cast<uint64_t>(token) * 0x9E3779B97F4A7C15;
  x = (x ^ (x >> 30)) * 0xBF58476D1CE4E5B9;
  x ^= words.second;
  x = (x ^ (x >> 27)) * 0x94D049BB133111EB;
  x ^= x >> 31;
  return static_cast<double>(x >> 12) * 0x1.0p-52 + 0x1.0p-53;
}

TEST_P(LogitsScanTest, NextInRacePassesNothingOverAndLittleElse) {
  int64_t n_true = 0, n_false = 0, n_seen = 0;
  for (int turn = 0; turn < 100; ++turn) {
    const size_t n = turn < 60 ? static_cast<size_t>(turn % 30 + 1) : 2000;
    std::vector<float> x = Random(n, 2.0f + static_cast<float>(turn % 10));
    for (size_t i = 3; i < n; i += 11) x[i] = kMinusInfinity;
    const float top = *std::max_element(x.begin(), x.end());
    const double scale = std::exp2(turn % 7 - 3), limit = std::exp2(turn % 13 - 6);
    const RaceWords words = {rng_() * 0x100000001ull, rng_() * 0x100000001ull};
    int64_t next = 0;
    for (int64_t i = 0; i < std::ssize(x); ++i) {
      const double weight = std::exp((static_cast<double>(x[static_cast<size_t>(i)]) - top) * scale);
      const bool is_below = weight > std::exp(-60) && GapOf(words, i) < limit * weight;
      next = NextInRace(x, i, top, scale, limit, words);
      ASSERT_GE(next, i);
      ASSERT_LE(next, std::ssize(x));
      if (is_below) {
        ASSERT_EQ(next, i) << "of " << n << " at scale " << scale << ", limit " << limit;
      }
      if (n < 8) continue;
      ++n_seen;
      n_true += is_below;
      n_false += !is_below && next == i;
    }
    EXPECT_EQ(NextInRace(x, std::ssize(x), top, scale, limit, words), std::ssize(x));
  }
  EXPECT_GT(n_true, 2000);
  EXPECT_LT(n_false, n_seen / 5000);
}

INSTANTIATE_TEST_SUITE_P(Isas, LogitsScanTest, ::testing::ValuesIn(SupportedIsas()),
                         [](const auto& info) { return std::string(NameOf(info.param)); });

}  // namespace
}  // namespace surety::kernels::cpu
