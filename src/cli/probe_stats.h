// Whether paired measurements differ: Wilcoxon's signed-rank test, with the size of what it finds.
//
// Threads: any.
// Source: Wilcoxon, "Individual Comparisons by Ranking Methods", Biometrics Bulletin 1 (1945); zeros are left out as
// there, ties share their ranks and correct the variance (Hollander and Wolfe, "Nonparametric Statistical Methods",
// 1999, section 3.1). The effect: matched-pairs rank-biserial correlation (Kerby, Comprehensive Psychology 3, 2014).
#pragma once

#include <span>

namespace surety::cli {

struct SignedRank {
  int n = 0;              // differences that are not zero
  double w_plus = 0;      // sum of the ranks of positive differences
  double p_value = 1;     // two-sided: exact up to 50 differences without zeros and ties, else by the normal law
  double effect = 0;      // from -1 (all negative) to 1 (all positive); 0 without any difference
};

SignedRank SignedRankTest(std::span<const double> differences);

// Not empty. The mean of the two in the middle, if their number is even.
double MedianOf(std::span<const double> values);

}  // namespace surety::cli
