#include "gateway/slo_window.h"

#include <algorithm>

namespace surety::gateway {
namespace {

constexpr int64_t kSloSliceNs = 15'000'000'000;
constexpr int kSloPeriodHours = 720;
constexpr double kFastBurn = 14.4, kSlowBurn = 6;

}  // namespace

SloWindow::SloWindow(double allowed)
    : allowed_(std::clamp(allowed, 1e-9, 1.0)), recent_(kSixHoursNs / kSloSliceNs, kSloSliceNs),
      period_(kSloPeriodHours, kHourNs) {}

void SloWindow::Count(int64_t now_ns, bool bad) {
  for (Seen* seen : {&recent_.Now(now_ns), &period_.Now(now_ns)}) {
    ++seen->n;
    seen->bad += bad ? 1 : 0;
  }
}

SloWindow::Seen SloWindow::Over(int64_t now_ns, int64_t window_ns) const {
  Seen sum;
  recent_.Visit(now_ns, window_ns, [&](const Seen& seen) {
    sum.n += seen.n;
    sum.bad += seen.bad;
  });
  return sum;
}

double SloWindow::Burn(const Seen& seen) const {
  return seen.n == 0 ? 0 : static_cast<double>(seen.bad) / static_cast<double>(seen.n) / allowed_;
}

double SloWindow::BurnRate(int64_t now_ns, int64_t window_ns) const { return Burn(Over(now_ns, window_ns)); }

double SloWindow::BudgetLeft(int64_t now_ns) const {
  Seen sum;
  period_.Visit(now_ns, kSloPeriodHours * kHourNs, [&](const Seen& seen) {
    sum.n += seen.n;
    sum.bad += seen.bad;
  });
  return 1 - Burn(sum);
}

std::string_view SloWindow::Alert(int64_t now_ns) const {
  const double short_burn = BurnRate(now_ns, kFiveMinutesNs), hour = BurnRate(now_ns, kHourNs);
  if (short_burn > kFastBurn && hour > kFastBurn) return "fast";
  return hour > kSlowBurn && BurnRate(now_ns, kSixHoursNs) > kSlowBurn ? "slow" : "none";
}

}  // namespace surety::gateway
