#include "cli/probe_stats.h"

#include <algorithm>
#include <cmath>
#include <utility>
#include <vector>

#include "base/check.h"

namespace surety::cli {
namespace {

constexpr int kMostExact = 50;

// The share of the 2^n ways to choose signs whose ranks of one sign sum to at most `w`.
double ExactLowerTail(int n, int64_t w) {
  const auto most = static_cast<size_t>(n) * (static_cast<size_t>(n) + 1) / 2;
  std::vector<double> ways(most + 1, 0.0);
  ways[0] = 1;
  for (size_t rank = 1; rank <= static_cast<size_t>(n); ++rank) {
    for (size_t sum = most; sum >= rank; --sum) ways[sum] += ways[sum - rank];
  }
  double count = 0;
  for (size_t sum = 0; sum <= static_cast<size_t>(w); ++sum) count += ways[sum];
  return std::ldexp(count, -n);
}

}  // namespace

SignedRank SignedRankTest(std::span<const double> differences) {
  std::vector<std::pair<double, bool>> sizes;  // and whether it is positive
  for (const double d : differences) {
    if (d != 0) sizes.emplace_back(std::abs(d), d > 0);
  }
  std::sort(sizes.begin(), sizes.end());
  SignedRank result;
  result.n = static_cast<int>(sizes.size());
  if (result.n == 0) return result;
  double ties = 0;  // sum over groups of equal sizes of t^3 - t
  for (size_t from = 0; from < sizes.size();) {
    size_t to = from;
    while (to < sizes.size() && sizes[to].first == sizes[from].first) ++to;
    const double rank = 0.5 * static_cast<double>(from + 1 + to);
    for (size_t i = from; i < to; ++i) result.w_plus += sizes[i].second ? rank : 0;
    const auto t = static_cast<double>(to - from);
    ties += t * t * t - t;
    from = to;
  }
  const double n = result.n, all = n * (n + 1) / 2;
  result.effect = 2 * result.w_plus / all - 1;
  const double least = std::min(result.w_plus, all - result.w_plus);
  const bool exact = result.n <= kMostExact && ties == 0 && sizes.size() == differences.size();
  if (exact) {
    result.p_value = std::min(1.0, 2 * ExactLowerTail(result.n, static_cast<int64_t>(least)));
    return result;
  }
  const double variance = n * (n + 1) * (2 * n + 1) / 24 - ties / 48;
  if (variance > 0) result.p_value = std::erfc((0.5 * all - least) / std::sqrt(2 * variance));
  return result;
}

double MedianOf(std::span<const double> values) {
  SURETY_CHECK(!values.empty());
  std::vector<double> sorted(values.begin(), values.end());
  std::sort(sorted.begin(), sorted.end());
  const size_t half = sorted.size() / 2;
  return sorted.size() % 2 == 1 ? sorted[half] : 0.5 * (sorted[half - 1] + sorted[half]);
}

}  // namespace surety::cli
