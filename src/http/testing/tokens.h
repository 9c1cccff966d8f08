// Tokens for tests, signed by the test itself. Threads: any.
#pragma once

#include <string>
#include <string_view>

#include "base/clock.h"

namespace surety::http {

class FakeClock : public Clock {
 public:
  explicit FakeClock(int64_t wall_s) : wall_s_(wall_s) {}
  int64_t NowNanos() const override { return wall_s_ * 1'000'000'000; }
  int64_t WallNanos() const override { return wall_s_ * 1'000'000'000; }
  void SleepNanos(int64_t) override {}
  void Set(int64_t wall_s) { wall_s_ = wall_s; }

 private:
  int64_t wall_s_;
};

// The 64-byte secret of RFC 7515, appendix A.1, as its key is written there.
extern const std::string_view kRfcSecretText;

// HS256 over header and payload as given, with the secret (bytes).
std::string SignedToken(std::string_view header, std::string_view payload, std::string_view secret);
std::string RfcSecret();

}  // namespace surety::http
