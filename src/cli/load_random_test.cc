#include "cli/load_random.h"

#include <algorithm>
#include <cmath>
#include <functional>
#include <utility>
#include <vector>

#include <gtest/gtest.h>

#include "cli/load_arrivals.h"

namespace surety::cli {
namespace {

struct Moments {
  double mean = 0, variance = 0;
};

Moments MomentsOf(int n, const std::function<double()>& draw) {
  double sum = 0, squares = 0;
  for (int i = 0; i < n; ++i) {
    const double x = draw();
    sum += x;
    squares += x * x;
  }
  return {sum / n, squares / n - (sum / n) * (sum / n)};
}

// Six standard errors of a mean of n values with this variance: chance does not reach that.
double SixErrors(double variance, int n) { return 6 * std::sqrt(variance / n); }

constexpr int kDraws = 200'000;

TEST(RandomStreamTest, ExponentialHasMeanAndVarianceOne) {
  RandomStream stream(1, 2, LoadLane::kArrivals);
  const Moments m = MomentsOf(kDraws, [&] { return stream.Exponential(); });
  EXPECT_NEAR(m.mean, 1, SixErrors(1, kDraws));
  EXPECT_NEAR(m.variance, 1, SixErrors(8, kDraws));  // the variance of (x - 1)^2 is 9 - 1
}

TEST(RandomStreamTest, NormalHasMeanZeroAndVarianceOne) {
  RandomStream stream(1, 2, LoadLane::kLengths);
  const Moments m = MomentsOf(kDraws, [&] { return stream.Normal(); });
  EXPECT_NEAR(m.mean, 0, SixErrors(1, kDraws));
  EXPECT_NEAR(m.variance, 1, SixErrors(2, kDraws));
}

TEST(RandomStreamTest, GammaHasItsShapeAsMeanAndVariance) {
  for (const double shape : {0.2, 0.7, 1.0, 2.5, 30.0}) {
    RandomStream stream(7, static_cast<uint64_t>(shape * 10), LoadLane::kArrivals);
    const Moments m = MomentsOf(kDraws, [&] { return stream.Gamma(shape); });
    EXPECT_NEAR(m.mean, shape, SixErrors(shape, kDraws)) << shape;
    // the fourth central moment of a gamma is 3 k^2 + 6 k
    EXPECT_NEAR(m.variance, shape, SixErrors(2 * shape * shape + 6 * shape, kDraws)) << shape;
  }
}

TEST(RandomStreamTest, StreamsOfDifferentLanesAndPositionsDiffer) {
  EXPECT_NE(RandomStream(1, 2, LoadLane::kArrivals).Uniform(), RandomStream(1, 2, LoadLane::kLengths).Uniform());
  EXPECT_NE(RandomStream(1, 2, LoadLane::kArrivals).Uniform(), RandomStream(1, 3, LoadLane::kArrivals).Uniform());
  EXPECT_NE(RandomStream(1, 2, LoadLane::kArrivals).Uniform(), RandomStream(2, 2, LoadLane::kArrivals).Uniform());
  EXPECT_EQ(RandomStream(1, 2, LoadLane::kArrivals).Uniform(), RandomStream(1, 2, LoadLane::kArrivals).Uniform());
}

double MeanOf(const char* text, double least = 0, double most = 1e9) {
  const auto law = Distribution::Parse(text, least, most);
  EXPECT_TRUE(law) << text;
  RandomStream stream(3, 0, LoadLane::kLengths);
  return MomentsOf(kDraws, [&] { return law->Draw(stream); }).mean;
}

TEST(DistributionTest, MeansAreThoseOfTheLaws) {
  EXPECT_EQ(MeanOf("128"), 128);
  EXPECT_EQ(MeanOf("fixed:128"), 128);
  EXPECT_NEAR(MeanOf("uniform:64:512"), 288, SixErrors(448.0 * 448 / 12, kDraws));
  EXPECT_NEAR(MeanOf("exponential:3"), 3, SixErrors(9, kDraws));
  EXPECT_NEAR(MeanOf("lognormal:512:0.8"), 512, SixErrors(512.0 * 512 * (std::exp(0.64) - 1), kDraws));
}

TEST(DistributionTest, ValuesStayWithinTheirBounds) {
  const auto law = Distribution::Parse("lognormal:100:2", 50, 200);
  RandomStream stream(3, 0, LoadLane::kLengths);
  for (int i = 0; i < 1000; ++i) {
    const double x = law->Draw(stream);
    EXPECT_TRUE(x >= 50 && x <= 200) << x;
  }
}

TEST(DistributionTest, BadTextsAreRefusedWithWhatWouldBeRight) {
  for (const char* text : {"", "x", "normal:3", "uniform:3", "uniform:3:4:5", "uniform:5:3", "lognormal:3:-1", "12x",
                           "lognormal:3:9", "nan", "inf", "uniform::", ":", "1e999", "-1", "2000000000"}) {
    const auto law = Distribution::Parse(text, 0, 1e9);
    ASSERT_FALSE(law) << text;
    EXPECT_NE(law.error().message().find('\''), std::string::npos) << law.error().message();
  }
}

std::vector<double> GapsOf(const ArrivalProcess& process, int64_t n) {
  const auto times = ArrivalTimes(process, 1e12, n);
  EXPECT_EQ(static_cast<int64_t>(times.size()), n);
  std::vector<double> gaps;
  for (size_t i = 1; i < times.size(); ++i) gaps.push_back(times[i] - times[i - 1]);
  return gaps;
}

TEST(ArrivalTimesTest, GammaGapsHaveTheRateAndTheBurstiness) {
  for (const double burstiness : {0.25, 1.0, 4.0}) {
    const double rate = 5;
    const auto gaps = GapsOf({ArrivalLaw::kGamma, rate, burstiness, 1, 0, 11}, 100'001);
    size_t i = 0;
    const Moments m = MomentsOf(100'000, [&] { return gaps[i++]; });
    const double variance = 1 / (rate * rate * burstiness);
    EXPECT_NEAR(m.mean, 1 / rate, SixErrors(variance, 100'000));
    EXPECT_NEAR(m.variance / variance, 1, 6 * std::sqrt((2 + 6 / burstiness) / 100'000));
  }
}

TEST(ArrivalTimesTest, PoissonCountsHaveEqualMeanAndVariance) {
  const auto times = ArrivalTimes({ArrivalLaw::kPoisson, 3, 1, 1, 0, 5}, 20'000, 1'000'000);
  std::vector<int> counts(20'000, 0);
  for (const double t : times) ++counts[static_cast<size_t>(t)];
  size_t i = 0;
  const Moments m = MomentsOf(20'000, [&] { return counts[i++]; });
  EXPECT_NEAR(m.mean, 3, SixErrors(3, 20'000));
  EXPECT_NEAR(m.variance, 3, SixErrors(3 + 2 * 9, 20'000));  // fourth central moment: 3 + 27
}

TEST(ArrivalTimesTest, ConstantGapsAreExact) {
  EXPECT_EQ(ArrivalTimes({ArrivalLaw::kConstant, 4, 1, 1, 0, 0}, 1, 100), (std::vector<double>{0, 0.25, 0.5, 0.75}));
}

TEST(ArrivalTimesTest, BurstIsAllAtOnce) {
  EXPECT_EQ(ArrivalTimes({ArrivalLaw::kBurst, 1, 1, 1, 0, 0}, 1, 3), (std::vector<double>{0, 0, 0}));
}

TEST(ArrivalTimesTest, RampHasTheIntegralOfItsRateInEachPart) {
  for (const auto& [from, to] : {std::pair(10.0, 50.0), std::pair(50.0, 10.0), std::pair(20.0, 20.0)}) {
    const double length = 1000;
    const auto times = ArrivalTimes({ArrivalLaw::kRamp, from, 1, to, length, 9}, 1500, 10'000'000);
    for (int part = 0; part < 15; ++part) {
      const double a = part * 100, b = a + 100;
      const auto rate_at = [&](double t) { return from + (to - from) * std::min(t, length) / length; };
      const double expected = (rate_at(a) + rate_at(b)) / 2 * 100;  // exact: the rate is straight within a part
      const auto n = std::count_if(times.begin(), times.end(), [&](double t) { return t >= a && t < b; });
      EXPECT_NEAR(static_cast<double>(n), expected, 6 * std::sqrt(expected)) << part;
    }
    EXPECT_TRUE(std::is_sorted(times.begin(), times.end()));
  }
}

}  // namespace
}  // namespace surety::cli
