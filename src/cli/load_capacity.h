// The highest arrival rate at which a server keeps an SLO: doubling until it does not, then bisection.
//
// A rate holds if every one of the seeds' runs does: valid, and attainment of the SLO at least what is asked for.
// Threads: one.
#pragma once

#include <cstdint>
#include <functional>
#include <vector>

#include "base/status.h"

namespace surety::cli {

struct CapacityProbe {
  double rate = 0;
  uint64_t seed = 0;
  double attainment = 0;
  bool valid = false;
  bool holds = false;
};

struct CapacityResult {
  double rate = 0;        // highest that held; 0: not even the lowest tried did
  double failed_rate = 0; // lowest that did not; 0: every one held
  std::vector<CapacityProbe> probes;
};

// Starts at `start_rate`. `probe` runs one; kCancelled from it ends the search.
Result<CapacityResult> FindCapacity(double start_rate, uint64_t first_seed,
                                    const std::function<Result<CapacityProbe>(double rate, uint64_t seed)>& probe);

}  // namespace surety::cli
