// Whether a page of a preempted choice is copied to host memory and back, or its tokens computed again: whichever is
// predicted to take less time. Copies are timed as they happen; what computing takes, the step time fit says.
//
// Units: nanoseconds. Threads: the engine thread. Owns: nothing.
#pragma once

#include <cstdint>

namespace surety::engine {

class SwapCost {
 public:
  void ObserveCopy(int64_t nanos) {
    copy_ns_ = n_copies_ == 0 ? static_cast<double>(nanos) : copy_ns_ + (static_cast<double>(nanos) - copy_ns_) / 8;
    ++n_copies_;
  }
  // Out and in. 0: no copy was timed yet.
  int64_t RoundTrip() const { return static_cast<int64_t>(2 * copy_ns_); }
  // `recompute_ns` 0: not known. While nothing was timed a copy is tried.
  bool ShouldSwap(int64_t recompute_ns) const {
    return n_copies_ == 0 || recompute_ns <= 0 || RoundTrip() < recompute_ns;
  }

 private:
  double copy_ns_ = 0;  // one way, fading
  int64_t n_copies_ = 0;
};

}  // namespace surety::engine
