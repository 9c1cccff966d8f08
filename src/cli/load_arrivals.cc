#include "cli/load_arrivals.h"

#include <cmath>

namespace surety::cli {
namespace {

// The time by which a ramp has brought `expected` arrivals on average: the integral of its rate, inverted.
double RampTime(const ArrivalProcess& p, double expected) {
  const double slope = (p.ramp_to - p.rate) / p.ramp_s;
  const double whole = (p.rate + p.ramp_to) / 2 * p.ramp_s;
  if (expected >= whole) return p.ramp_s + (expected - whole) / p.ramp_to;
  // rate t + slope t^2 / 2 = expected, in the form that stays exact where the slope is nearly 0
  return 2 * expected / (p.rate + std::sqrt(p.rate * p.rate + 2 * slope * expected));
}

}  // namespace

std::vector<double> ArrivalTimes(const ArrivalProcess& p, double end_s, int64_t most) {
  std::vector<double> times;
  if (p.law == ArrivalLaw::kBurst) {
    times.assign(static_cast<size_t>(most), 0.0);
    return times;
  }
  RandomStream stream(p.seed, 0, LoadLane::kArrivals);
  double time = 0, expected = 0;
  for (int64_t i = 0; i < most; ++i) {
    switch (p.law) {
      case ArrivalLaw::kPoisson: time += stream.Exponential() / p.rate; break;
      case ArrivalLaw::kGamma: time += stream.Gamma(p.burstiness) / (p.burstiness * p.rate); break;
      case ArrivalLaw::kConstant: time = static_cast<double>(i) / p.rate; break;
      case ArrivalLaw::kRamp:
        expected += stream.Exponential();
        time = RampTime(p, expected);
        break;
      case ArrivalLaw::kBurst: break;
    }
    if (time >= end_s) break;
    times.push_back(time);
  }
  return times;
}

}  // namespace surety::cli
