// One objective of a route: how fast its error budget is spent, over several windows, and what is left.
//
// A request is good or bad. The share that may be bad is 1 - quantile for a limit on a time ("ttfu_p95: 1500ms": 5 %
// may take longer) and the policy's error_budget for failures. Burn rate: the share that was bad, divided by the share
// that may be; 1 spends the budget exactly. Alert "fast": above 14.4 over 5 min and over 1 h (2 % of 30 days' budget in
// an hour); "slow": above 6 over 1 h and over 6 h. Source: Site Reliability Workbook, chapter 5, has this scheme of two
// windows and these factors.
//
// Memory: 70 KB, whatever comes. Threads: one at a time.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

#include "gateway/time_slices.h"

namespace surety::gateway {

inline constexpr int64_t kFiveMinutesNs = 300'000'000'000, kHourNs = 3'600'000'000'000, kSixHoursNs = 6 * kHourNs;

class SloWindow {
 public:
  explicit SloWindow(double allowed);

  void Count(int64_t now_ns, bool bad);
  struct Seen {
    int64_t n = 0, bad = 0;
  };
  Seen Over(int64_t now_ns, int64_t window_ns) const;   // at most six hours
  double BurnRate(int64_t now_ns, int64_t window_ns) const;
  // Of the last 30 days: 1 when nothing was bad, 0 when the budget is spent, below when more than that is.
  double BudgetLeft(int64_t now_ns) const;
  std::string_view Alert(int64_t now_ns) const;         // "none", "slow", "fast"
  double allowed() const { return allowed_; }

 private:
  double Burn(const Seen& seen) const;

  double allowed_;
  TimeSlices<Seen> recent_;   // 15 s each, six hours
  TimeSlices<Seen> period_;   // an hour each, 30 days
};

}  // namespace surety::gateway
