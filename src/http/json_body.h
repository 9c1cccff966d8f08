// Reads a request's body as JSON, strictly: one object, valid UTF-8, no lone surrogates, no key twice, no number out of
// a double's range, bounded depth. An error names the field where reading stopped.
//
// Threads: pure functions. Errors: 400.
#pragma once

#include <string_view>

#include <boost/json.hpp>

#include "http/openai_error.h"

namespace surety::http {

constexpr int kMaxJsonDepth = 64;

Parsed<boost::json::object> ParseJsonBody(std::string_view text, int max_depth = kMaxJsonDepth);

}  // namespace surety::http
