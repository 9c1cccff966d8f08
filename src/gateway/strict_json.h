// JSON that means one thing: valid UTF-8, one value, nothing after it, no key twice in an object, finite numbers,
// bounded depth.
//
// Threads: pure function. Errors: kInvalidArgument with what is wrong and where.
#pragma once

#include <string_view>

#include <boost/json/value.hpp>

#include "base/status.h"

namespace surety::gateway {

Result<boost::json::value> ParseStrictJson(std::string_view text, int max_depth = 64);

}  // namespace surety::gateway
