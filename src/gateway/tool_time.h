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

// SHA-256 of the canonical value, hex.
std::string ToolDigest(const boost::json::value& value);

}  // namespace surety::gateway
