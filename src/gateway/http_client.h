// One HTTP/1.1 call to another server: remote models, tools, judges. Plain or TLS, with a deadline over all of it.
//
// Threads: any; blocks the calling thread. Owns: one connection a call. Units: deadlines in nanoseconds of
// Clock::Real().NowNanos(). Errors: kInvalidArgument for the address, kDeadlineExceeded, kCancelled (stop),
// kUnavailable (no connection, closed early, TLS refused: the message says which), kResourceExhausted for a body over
// the limit. Any HTTP status is a reply, not an error. A look-up of the host's name cannot be cut short: name servers
// that do not answer hold a call up beyond its deadline.
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "base/function_ref.h"
#include "base/status.h"

namespace surety::gateway {

struct HttpAddress {
  bool tls = false;
  std::string host, port, path;   // path with the query; at least "/"
  std::string authority;          // for the Host header
};
// "http://host:port/path?query", "https://[::1]/". User information and fragments are refused.
Result<HttpAddress> ParseHttpAddress(std::string_view url);

struct HttpCall {
  std::string method = "GET";
  std::string url;
  std::vector<std::pair<std::string, std::string>> headers;
  std::string body;
  int64_t deadline_ns = 0;              // 0: 30 s from now
  size_t max_body_bytes = 8 << 20;
  std::string ca_file;                  // further trusted certificates, PEM; empty: the system's
  std::function<bool()> stop;           // asked every 20 ms; true gives the call up
};

struct HttpReply {
  int status = 0;
  std::map<std::string, std::string> headers;   // names in lower case
  std::string body;
};

Result<HttpReply> CallHttp(const HttpCall& call);

// As CallHttp, but the body of a 2xx reply goes to `on_body` in pieces as they come (the reply's own body is then
// empty); false from it gives the call up with kCancelled.
Result<HttpReply> StreamHttp(const HttpCall& call, FunctionRef<bool(std::string_view)> on_body);

}  // namespace surety::gateway
