// One HTTP/1.1 call to another server: remote models, tools, judges. Plain or TLS, with a deadline over all of it.
//
// Connections are kept for the next call to the same server: a call each would use up the ports of a machine at a few
// hundred calls a second. A kept connection may have been closed by its server a moment ago, so a call that fails on
// one before anything was answered is made once more on a new one, where that cannot do anything twice: nothing was
// sent, or the method is GET or HEAD. Other methods take only connections that were in use within the last second.
// Redirects are replies; they are not followed.
//
// Threads: any; blocks the calling thread. Owns: connections, at most 256 kept. Units: deadlines in nanoseconds of
// Clock::Real().NowNanos(). Errors: kInvalidArgument for the address, a header or a file of certificates,
// kDeadlineExceeded (with what it was doing), kCancelled (stop), kUnavailable (no connection, no HTTP, closed early,
// TLS refused: the message says which), kResourceExhausted for a body over the limit. Any HTTP status is a reply, not
// an error. Source: RFC 9110, RFC 9112.
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

// Files in PEM form. They are read again when they change.
struct HttpTls {
  std::string ca_file;                  // further trusted certificates; empty: the system's alone
  std::string certificate, key;         // of this side, with its chain; empty: none is shown
};

struct HttpCall {
  std::string method = "GET";
  std::string url;
  std::vector<std::pair<std::string, std::string>> headers;  // further ones; those that frame the message are refused
  std::string body;
  int64_t deadline_ns = 0;              // 0: 30 s from now
  size_t max_body_bytes = 8 << 20;
  HttpTls tls;
  std::function<bool()> stop;           // asked every 20 ms; true gives the call up
  bool fresh_connection = false;        // its own, not kept: for calls that must not be in doubt
  std::function<void()> on_send;        // called before the first byte of the request leaves
};

struct HttpReply {
  int status = 0;
  std::map<std::string, std::string> headers;   // names in lower case; repeated ones joined by ", "
  std::string body;
};

Result<HttpReply> CallHttp(const HttpCall& call);

// As CallHttp, but the body of a 2xx reply goes to `on_body` in pieces as they come (the reply's own body is then
// empty); false from it gives the call up with kCancelled. `on_head`, where given, sees the reply before its body.
Result<HttpReply> StreamHttp(const HttpCall& call, FunctionRef<bool(std::string_view)> on_body,
                             const std::function<void(const HttpReply&)>& on_head = nullptr);

}  // namespace surety::gateway
