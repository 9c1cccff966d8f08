// How a policy file writes durations, sizes, instants and shares.
//
// Threads: any. Units: nanoseconds, bytes; instants since the Unix epoch. Errors: kInvalidArgument that quotes the text
// and says what would be right.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

#include "base/status.h"

namespace surety::gateway {

// "400ms", "1.5s", "5m", "6h", "1d"; units ns, us, ms, s, m, h, d. A bare number is refused: it says no unit. Of one
// nanosecond to 100 years.
Result<int64_t> ParseDuration(std::string_view text);
// "64MB" (10^6), "64MiB" (2^20), "512" (bytes); units B, KB, MB, GB, TB and KiB to TiB. At most 2^60.
Result<int64_t> ParseSize(std::string_view text);
// RFC 3339 with an offset ("2026-11-15T00:00:00-05:00", "2026-11-15T05:00:00.5Z") or a date, which is its midnight in
// UTC. Of the years 1678 to 2261, which fit into 64 bits of nanoseconds.
Result<int64_t> ParseInstant(std::string_view text);
// "0.5%" or "0.005": 0 to 1.
Result<double> ParseShare(std::string_view text);
// A whole decimal number, or one with a fraction or exponent; no surrounding space, no infinity, nothing after it.
Result<int64_t> ParseInteger(std::string_view text);
Result<double> ParseNumber(std::string_view text);

// "2026-11-15T05:00:00Z", with a fraction where there is one; "always" and "never" for the ends of int64_t.
std::string FormatInstant(int64_t t_ns);
// The shortest of the forms above: "1500ms", "6h".
std::string FormatDuration(int64_t duration_ns);

}  // namespace surety::gateway
