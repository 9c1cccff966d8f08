// When requests arrive, as a process that knows nothing of how the server does.
//
// Units: seconds from the start of the run. Threads: one.
#pragma once

#include <cstdint>
#include <vector>

#include "cli/load_random.h"

namespace surety::cli {

enum class ArrivalLaw {
  kPoisson,   // exponential gaps
  kGamma,     // gamma gaps of shape `burstiness`: 1 is Poisson, less is burstier, more is steadier
  kConstant,  // equal gaps
  kRamp,      // Poisson whose rate goes in a straight line from `rate` to `ramp_to` over `ramp_s`, then stays
  kBurst,     // all at once
};

struct ArrivalProcess {
  ArrivalLaw law = ArrivalLaw::kPoisson;
  double rate = 1;  // arrivals a second
  double burstiness = 1;
  double ramp_to = 1;
  double ramp_s = 0;
  uint64_t seed = 0;
};

// Arrivals before `end_s`, and of those not more than `most`. Ascending.
std::vector<double> ArrivalTimes(const ArrivalProcess& process, double end_s, int64_t most);

}  // namespace surety::cli
