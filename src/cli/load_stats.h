// Percentiles by nearest rank, and how sure they are.
//
// Threads: any.
// Source: the bootstrap percentile interval of Efron and Tibshirani, "An Introduction to the Bootstrap" (1993); the
// interval of a share by Wilson (1927).
#pragma once

#include <cstdint>
#include <span>
#include <vector>

namespace surety::cli {

inline constexpr double kConfidence = 0.95;

struct Interval {
  double low = 0, high = 0;
};

// The smallest value that at least `percent` of the values do not exceed: the ceil(percent / 100 * n)-th. Values
// sorted, not empty; 0 < percent <= 100.
double NearestRank(std::span<const double> sorted, double percent);

// The interval that bootstrap resampling of the values would give for their NearestRank, in the limit of infinitely
// many resamples: the k-th of n resampled values is the ceil(n U)-th value, where U, the k-th of n uniforms, has a beta
// law.
Interval BootstrapInterval(std::span<const double> sorted, double percent);

// Values that count several times, and belong together in groups (the gaps of one answer): whole groups are resampled,
// since values of a group are alike.
struct GroupedValue {
  double value = 0;
  int32_t times = 1;
  int32_t group = 0;  // from 0 to groups - 1
};
struct GroupedValues {
  std::vector<GroupedValue> values;  // sorted by value for the functions below; times > 0
  int32_t groups = 0;
};
double GroupedNearestRank(std::span<const GroupedValue> sorted, double percent);
Interval GroupBootstrapInterval(const GroupedValues& grouped, double percent, uint64_t seed);

// Of a share of hits in n.
Interval WilsonInterval(int64_t hits, int64_t n);

}  // namespace surety::cli
