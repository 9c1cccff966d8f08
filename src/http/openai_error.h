// What a client is told when a request fails: an HTTP status and OpenAI's error object
// {"error": {"message", "type", "param", "code"}}.
//
// Threads: values and pure functions.
#pragma once

#include <expected>
#include <string>
#include <string_view>

#include <boost/json.hpp>

#include "api/backend.h"
#include "http/handler.h"

namespace surety::http {

struct ApiError {
  int status = 400;
  std::string message;                          // valid UTF-8
  std::string type = "invalid_request_error";
  std::string param;                            // path of the field at fault: "messages[2].content[0].type"; or empty
  std::string code;                             // stable, for programs; or empty
  double retry_after_s = -1;                    // < 0: no Retry-After
  boost::json::object more;                     // further members of the error object
};

template <typename T>
using Parsed = std::expected<T, ApiError>;

std::unexpected<ApiError> BadField(std::string param, std::string message, std::string code = "invalid_value");

// The error for a Status of a backend. `param`: the field of the body at fault, or empty.
ApiError ErrorOf(const Status& status, std::string param = {});
// kOutOfRange is a context overflow: code context_length_exceeded.
ApiError ErrorOf(const api::Refusal& refusal, std::string param);

std::string ErrorBody(const ApiError& error);
// The error as the answer, with Retry-After and retry-after-ms where it has a time.
void SendError(ResponseWriter& writer, const ApiError& error, HeaderList headers = {});

// The path of an item: "messages[2]".
std::string ItemPath(std::string_view path, size_t index);

// `text` in quotes for a message: at most 64 bytes of it, control characters as '?'.
std::string Quoted(std::string_view text);

}  // namespace surety::http
