// When a tool's result was observed, as it says itself: field observed_at, an instant of RFC 3339 or seconds since
// 1970. Threads: pure functions. Errors: kInvalidArgument for what is no instant.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

#include <boost/json/value.hpp>

#include "base/status.h"

namespace surety::gateway {

// Nanoseconds since the Unix epoch; `otherwise` where the result has no such field.
Result<int64_t> ObservedAt(const boost::json::value& result, int64_t otherwise_ns);

// "2026-11-30T10:00:00.5+01:00"; between the years 1970 and 2261.
Result<int64_t> ParseInstant(std::string_view text);

// SHA-256 of the canonical value, hex.
std::string ToolDigest(const boost::json::value& value);

}  // namespace surety::gateway
