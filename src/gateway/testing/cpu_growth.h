// How the work of a function grows with its input: by the processor time of this thread, which other work on the
// machine does not add to.
//
// Threads: measures the calling one. For tests only.
#pragma once

#include <time.h>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <limits>

namespace surety::gateway {

template <typename Fn>
int64_t CpuNanosOf(Fn&& run) {
  const auto now = [] {
    timespec t = {};
    clock_gettime(CLOCK_THREAD_CPUTIME_ID, &t);
    return int64_t{t.tv_sec} * 1'000'000'000 + t.tv_nsec;
  };
  const int64_t begin = now();
  run();
  return now() - begin;
}

// The work for twice `size`, as a multiple of that for `size`: 2 where it is linear, 4 where it is quadratic. The least
// of two runs each counts, and of several comparisons the first that looks linear: caches and neighbours disturb one.
// What takes under 2 ms at twice the size counts as linear: nothing can be told by the clock.
template <typename Fn>
double CpuGrowth(size_t size, Fn&& run) {
#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)  // they look for something else, and take their time
  run(size);
  return 2;
#endif
  constexpr int64_t kTooShortNs = 2'000'000;
  double growth = std::numeric_limits<double>::max();
  for (int i = 0; i < 4 && growth > 2.7; ++i) {
    int64_t once = std::numeric_limits<int64_t>::max(), twice = once;
    for (int k = 0; k < 2; ++k) {
      once = std::min(once, CpuNanosOf([&] { run(size); }));
      twice = std::min(twice, CpuNanosOf([&] { run(2 * size); }));
    }
    if (twice < kTooShortNs) return 2;
    growth = std::min(growth, static_cast<double>(twice) / static_cast<double>(std::max<int64_t>(once, 1)));
    if (twice > 2'000'000'000) break;   // whatever it is, it is too much to be run again
  }
  return growth;
}

}  // namespace surety::gateway
