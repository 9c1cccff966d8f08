// An HTTP/1.1 server: listeners with a route table each, a few I/O threads, limits, TLS, authentication.
//
// Several listeners (say, one for the API and one for administration) share threads, limits and credentials, but no
// routes. Handlers run on I/O threads; answers may be written from any thread, which never blocks.
//
// Threads: any; Stop not from a handler. Owns: threads, sockets, routes. What Dependencies name must outlive it, and a
// handler may be called until Stop has returned. Errors of Start: kInvalidArgument (a setting, a certificate),
// kFailedPrecondition (a public address without keys), kAlreadyExists (port in use), kNotFound, kPermissionDenied,
// kIoError.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "base/clock.h"
#include "base/status.h"
#include "http/auth.h"
#include "http/request_log.h"
#include "http/server_options.h"
#include "observe/metrics.h"

namespace surety::http {

class Server {
 public:
  struct Dependencies {
    observe::Registry* metrics = nullptr;          // needed
    const Clock* clock = nullptr;                  // needed
    const Authenticator* authenticator = nullptr;  // null: open, on loopback addresses only
    AccessLog access_log;                          // may be empty
  };

  // Listens when it returns.
  static Result<std::unique_ptr<Server>> Start(ServerOptions options, std::vector<ListenerOptions> listeners,
                                               Dependencies dependencies);
  virtual ~Server() = default;                     // as Stop(0)

  virtual int port(std::string_view listener) const = 0;         // -1: no such listener
  virtual std::string url(std::string_view listener) const = 0;  // "https://127.0.0.1:8443"
  virtual int n_connections() const = 0;

  // Accepts nothing more, lets running answers end for up to `limit_ms`, then closes what is left, whose OnDisconnect
  // callbacks have run when this returns. Again: nothing.
  virtual void Stop(int64_t limit_ms) = 0;
};

}  // namespace surety::http
