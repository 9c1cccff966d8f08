// Status lines, headers and error bodies as bytes. Threads: any (no state).
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

#include "http/handler.h"
#include "http/request_head.h"

namespace surety::http {

std::string_view ReasonOf(int status);  // "Not Found"; "Status" for numbers without a name

// {"error":{"message","type","param","code"}} as OpenAI's clients read it; the type follows from the status.
std::string ErrorBody(const Refused& refused);

struct ResponseFrame {
  int status = 200;
  std::string_view content_type;      // empty: none
  const HeaderList* headers = nullptr;
  int64_t content_length = -1;        // -1: not stated
  bool chunked = false;
  bool close = false;
  bool http_1_1 = true;               // what the client speaks
  std::string_view request_id;
  int64_t wall_nanos = 0;             // for the Date header
};

// Headers of the list that are no valid header, or that the transport sets itself (lengths, connection, date), are left
// out: a handler cannot break the framing.
std::string SerializeHead(const ResponseFrame& frame);

}  // namespace surety::http
