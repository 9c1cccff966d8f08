#include "cli/load_stats.h"

#include <algorithm>
#include <cmath>

#include <boost/math/special_functions/beta.hpp>

#include "base/check.h"
#include "cli/load_random.h"

namespace surety::cli {
namespace {

constexpr double kNormalQuantile = 1.959963984540054;  // of (1 + kConfidence) / 2
constexpr int kResamples = 500;
constexpr double kMaxWork = 2e8;  // values looked at in all resamples

size_t RankOf(size_t n, double percent) {
  // Without the subtraction 99.9 % of 1000 would be rank 1000: the product is a little more than 999.
  const double rank = std::ceil(percent / 100 * static_cast<double>(n) - 1e-9);
  return std::clamp<size_t>(static_cast<size_t>(std::max(rank, 1.0)), 1, n);
}

}  // namespace

double NearestRank(std::span<const double> sorted, double percent) {
  SURETY_CHECK(!sorted.empty());
  return sorted[RankOf(sorted.size(), percent) - 1];
}

Interval BootstrapInterval(std::span<const double> sorted, double percent) {
  SURETY_CHECK(!sorted.empty());
  const auto n = static_cast<double>(sorted.size());
  const auto k = static_cast<double>(RankOf(sorted.size(), percent));
  const auto at = [&](double probability) {
    const double u = boost::math::ibeta_inv(k, n - k + 1, probability);
    const double index = std::clamp(std::ceil(n * u), 1.0, n);
    return sorted[static_cast<size_t>(index) - 1];
  };
  return {at((1 - kConfidence) / 2), at((1 + kConfidence) / 2)};
}

double GroupedNearestRank(std::span<const GroupedValue> sorted, double percent) {
  SURETY_CHECK(!sorted.empty());
  int64_t total = 0;
  for (const GroupedValue& value : sorted) total += value.times;
  auto left = static_cast<int64_t>(RankOf(static_cast<size_t>(total), percent));
  for (const GroupedValue& value : sorted) {
    left -= value.times;
    if (left <= 0) return value.value;
  }
  return sorted.back().value;
}

Interval GroupBootstrapInterval(const GroupedValues& grouped, double percent, uint64_t seed) {
  SURETY_CHECK(!grouped.values.empty());
  const auto work = static_cast<double>(grouped.values.size());
  const int resamples = std::clamp(static_cast<int>(kMaxWork / work), 40, kResamples);
  std::vector<int64_t> sizes(static_cast<size_t>(grouped.groups), 0);
  for (const GroupedValue& value : grouped.values) sizes[static_cast<size_t>(value.group)] += value.times;
  RandomStream stream(seed, 0, LoadLane::kResample);
  std::vector<double> found;
  std::vector<int64_t> drawn(static_cast<size_t>(grouped.groups));
  for (int r = 0; r < resamples; ++r) {
    std::fill(drawn.begin(), drawn.end(), 0);
    int64_t total = 0;
    for (int32_t i = 0; i < grouped.groups; ++i) {
      const uint64_t g = stream.Below(static_cast<uint64_t>(grouped.groups));
      ++drawn[g];
      total += sizes[g];
    }
    if (total == 0) continue;  // only groups without values were drawn
    auto left = static_cast<int64_t>(RankOf(static_cast<size_t>(total), percent));
    for (const GroupedValue& value : grouped.values) {
      left -= drawn[static_cast<size_t>(value.group)] * value.times;
      if (left > 0) continue;
      found.push_back(value.value);
      break;
    }
  }
  if (found.empty()) return {grouped.values.front().value, grouped.values.back().value};
  std::sort(found.begin(), found.end());
  return {NearestRank(found, 100 * (1 - kConfidence) / 2), NearestRank(found, 100 * (1 + kConfidence) / 2)};
}

Interval WilsonInterval(int64_t hits, int64_t n) {
  if (n == 0) return {0, 1};
  const double z2 = kNormalQuantile * kNormalQuantile;
  const auto count = static_cast<double>(n);
  const double share = static_cast<double>(hits) / count;
  const double middle = (share + z2 / (2 * count)) / (1 + z2 / count);
  const double half =
      kNormalQuantile / (1 + z2 / count) * std::sqrt(share * (1 - share) / count + z2 / (4 * count * count));
  return {std::max(0.0, middle - half), std::min(1.0, middle + half)};
}

}  // namespace surety::cli
