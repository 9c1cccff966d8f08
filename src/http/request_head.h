// A request's head as the transport reads it: strict where HTTP leaves room for two readings.
//
// Threads: a parser belongs to one thread. Errors: a Refused says the status to answer with and what was wrong.
// Source: RFC 9110, RFC 9112, RFC 3986.
#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <string_view>

#include "base/status.h"

namespace surety::http {

// Why the transport itself answers with an error.
struct Refused {
  int status = 400;
  std::string code;      // for programs: "header_too_large"
  std::string message;   // for people
};

struct RequestHead {
  std::string method;
  std::string target;                          // as sent
  std::map<std::string, std::string> headers;  // names in lower case; repeated ones joined by ", "
  bool http_1_1 = true;
  bool keep_alive = true;
  bool chunked = false;
  uint64_t content_length = 0;                 // 0 if chunked
  bool expects_continue = false;

  bool has_body() const { return chunked || content_length > 0; }
};

// Reads one head from bytes that come in pieces.
class HeadParser {
 public:
  explicit HeadParser(size_t max_bytes);
  ~HeadParser();
  HeadParser(HeadParser&&) noexcept;
  HeadParser& operator=(HeadParser&&) noexcept;

  // `bytes`: all bytes of the head so far that were not consumed. Returns how many were consumed; after the last one
  // done() is true and what follows is the body. With refused() the connection cannot be used for another request.
  size_t Feed(std::string_view bytes);
  bool done() const;
  const std::optional<Refused>& refused() const;
  // What is known; complete when done. Also partly filled after a refusal, for the log.
  RequestHead& head();

 private:
  struct State;
  std::unique_ptr<State> state_;
};

struct Target {
  std::string path;  // decoded
  std::map<std::string, std::string> query;
};

// Origin form ("/a?b=c"), absolute form ("http://host/a") and "*". kInvalidArgument: a bad escape, a NUL or other
// control character, a "." or ".." segment. Of a repeated query name the last value counts.
Result<Target> ParseTarget(std::string_view target);

// 1 to 128 characters of [A-Za-z0-9._:-]: safe in logs and headers.
bool IsSaneRequestId(std::string_view id);
std::string NewRequestId();

// For messages and logs: at most `max_bytes`, '?' for whatever is not printable ASCII.
std::string Printable(std::string_view text, size_t max_bytes = 200);

}  // namespace surety::http
