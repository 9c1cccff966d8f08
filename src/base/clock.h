// Time as an interface, so that the simulator can own it.
// Units: nanoseconds. Threads: any.
#pragma once

#include <cmath>
#include <cstdint>

namespace surety {

class Clock {
 public:
  virtual ~Clock() = default;
  // Monotonic time since an arbitrary origin.
  virtual int64_t NowNanos() const = 0;
  // Wall-clock time since the Unix epoch (may jump).
  virtual int64_t WallNanos() const = 0;
  virtual void SleepNanos(int64_t nanos) = 0;

  // The machine's clock; lives for ever.
  static Clock& Real();
};

inline int64_t SecondsToNanos(double seconds) { return static_cast<int64_t>(std::llround(seconds * 1e9)); }
inline double NanosToSeconds(int64_t nanos) { return static_cast<double>(nanos) * 1e-9; }

}  // namespace surety
