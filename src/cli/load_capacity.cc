#include "cli/load_capacity.h"

namespace surety::cli {
namespace {

constexpr int kSeeds = 3;
constexpr double kResolution = 1.05;  // between the highest that held and the lowest that did not
constexpr int kMostDoublings = 12;    // up or down from the start

}  // namespace

Result<CapacityResult> FindCapacity(double start_rate, uint64_t first_seed,
                                    const std::function<Result<CapacityProbe>(double rate, uint64_t seed)>& probe) {
  CapacityResult out;
  const auto holds = [&](double rate) -> Result<bool> {
    for (int i = 0; i < kSeeds; ++i) {
      SURETY_ASSIGN_OR_RETURN(const CapacityProbe found, probe(rate, first_seed + static_cast<uint64_t>(i)));
      out.probes.push_back(found);
      if (!found.holds) return false;
    }
    return true;
  };
  const auto note = [&](double rate) -> Status {
    SURETY_ASSIGN_OR_RETURN(const bool good, holds(rate));
    (good ? out.rate : out.failed_rate) = rate;
    return OkStatus();
  };
  double rate = start_rate;
  for (int i = 0; i <= kMostDoublings && (out.rate == 0 || out.failed_rate == 0); ++i) {
    SURETY_RETURN_IF_ERROR(note(rate));
    rate = out.failed_rate == 0 ? rate * 2 : rate / 2;
  }
  while (out.rate > 0 && out.failed_rate > out.rate * kResolution) {
    SURETY_RETURN_IF_ERROR(note((out.rate + out.failed_rate) / 2));
  }
  return out;
}

}  // namespace surety::cli
