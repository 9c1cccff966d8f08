// What happened in the last minutes or hours: a ring of slices of time, each with one T, old ones emptied as time goes
// on. Memory: `n_slices` of T, whatever comes.
//
// T is default-constructed when its slice begins. Threads: one at a time. Units: nanoseconds of a monotonic clock.
#pragma once

#include <cstdint>
#include <vector>

namespace surety::gateway {

template <typename T>
class TimeSlices {
 public:
  TimeSlices(int n_slices, int64_t slice_ns) : slice_ns_(slice_ns), slices_(static_cast<size_t>(n_slices)) {}

  T& Now(int64_t now_ns) {
    const int64_t number = now_ns / slice_ns_;
    Slice& slice = slices_[static_cast<size_t>(number) % slices_.size()];
    if (slice.number != number) slice = {number, T{}};
    return slice.value;
  }

  // visit(value) for the slices of the last `window_ns`, the present one included: it covers between window_ns less one
  // slice and window_ns.
  template <typename F>
  void Visit(int64_t now_ns, int64_t window_ns, F&& visit) const {
    const int64_t newest = now_ns / slice_ns_;
    const int64_t oldest = newest - window_ns / slice_ns_ + 1;
    for (const Slice& slice : slices_) {
      if (slice.number >= oldest && slice.number <= newest) visit(slice.value);
    }
  }

 private:
  struct Slice {
    int64_t number = -1;
    T value{};
  };
  int64_t slice_ns_;
  std::vector<Slice> slices_;
};

}  // namespace surety::gateway
