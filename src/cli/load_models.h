// Asks a server which models it has.
#pragma once

#include <string>

#include "base/status.h"
#include "cli/load_client.h"

namespace surety::cli {

// The first of GET /v1/models; says who answered what. `url` is for messages.
// Errors: kUnavailable (nobody there), kFailedPrecondition (another answer, no models), kCancelled.
Result<std::string> FirstModelOf(LoadLoop& loop, const std::string& url);

}  // namespace surety::cli
