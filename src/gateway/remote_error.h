// What a remote server's failure means here: a closed table, so that nothing is tried again by accident.
//
// Threads: pure functions.
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include <boost/json/value.hpp>

#include "base/status.h"
#include "gateway/http_client.h"

namespace surety::gateway {

struct RemoteFailure {
  Status status;
  double retry_after_s = 0;   // as the server asks, at most 60; 0: it does not
};

// kUnavailable (408, 500, 502, 503, 504) and kResourceExhausted (429) may be tried again. Nothing else:
// kInvalidArgument (400, 413, 422), kOutOfRange (a context that is too long), kInternal: the server refuses our key
// (401, 403), does not know the model (404), redirects, or answers with any other status.
// `secrets`: what the message may not repeat.
RemoteFailure FailureOf(const HttpReply& reply, int64_t now_wall_ns, const std::vector<std::string>& secrets = {});

// An error object inside a stream, by its code or type.
Status StreamedFailure(const boost::json::value& error, const std::vector<std::string>& secrets = {});

// Of the headers retry-after-ms, x-ms-retry-after-ms and retry-after (seconds, or a date as RFC 9110 writes it), the
// first that can be read. 0: none.
double RetryAfterSeconds(const std::map<std::string, std::string>& headers, int64_t now_wall_ns);

// Whether the pipeline may try again: the two codes above.
bool MayRetry(const Status& status);

}  // namespace surety::gateway
