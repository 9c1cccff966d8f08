// strftime for chat templates: the C locale's names, UTC, and only directives whose output is short.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

#include "base/status.h"

namespace surety::model::chat {

// kInvalidArgument for a directive that is not known, or a time outside the years 0 to 9999. %Z and %z give nothing and
// %f zeros, as Python does for a time without zone and fraction.
Result<std::string> FormatUtcTime(int64_t unix_seconds, std::string_view format);

}  // namespace surety::model::chat
