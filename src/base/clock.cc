#include "base/clock.h"

#include <chrono>
#include <thread>

namespace surety {
namespace {

class RealClock final : public Clock {
 public:
  int64_t NowNanos() const override { return Since(std::chrono::steady_clock::now()); }
  int64_t WallNanos() const override { return Since(std::chrono::system_clock::now()); }
  void SleepNanos(int64_t nanos) override { std::this_thread::sleep_for(std::chrono::nanoseconds(nanos)); }

 private:
  template <typename TimePoint>
  static int64_t Since(TimePoint t) {
    return std::chrono::duration_cast<std::chrono::nanoseconds>(t.time_since_epoch()).count();
  }
};

}  // namespace

Clock& Clock::Real() {
  static RealClock clock;
  return clock;
}

}  // namespace surety
