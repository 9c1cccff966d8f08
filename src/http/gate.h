// What may pass from a request's head to its handler: route, origin, host, credentials, role. Decided before a byte of
// the body is read.
//
// A server without keys is open to every program of its machine, and a browser there runs other people's pages. So it
// refuses requests of origins that it was not told of, and host names that are not its own (a page's name can be made
// to point at 127.0.0.1).
//
// Threads: immutable, any.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "http/auth.h"
#include "http/handler.h"
#include "http/request_head.h"
#include "http/router.h"

namespace surety::http {

struct GateOptions {
  std::string host;                        // that the listener was given
  Role open_role = Role::kUser;
  std::vector<std::string> cors_origins;
  std::vector<std::string> allowed_hosts;
};

class Gate {
 public:
  // `auth`: null where the server runs without keys; must live as long as the gate.
  Gate(Router router, GateOptions options, const Authenticator* auth)
      : router_(std::move(router)), options_(std::move(options)), auth_(auth) {}

  struct Decision {
    const Route* route = nullptr;
    int route_index = -1;
    Identity identity;
    HeaderList headers;               // of every answer to this request
    bool answer_empty = false;        // OPTIONS: 204 with the headers
    std::optional<Refused> refused;
    bool guessed = false;             // credentials were sent and are wrong
  };
  Decision Decide(const RequestHead& head, const Target& target) const;
  const Router& router() const { return router_; }

 private:
  bool OriginAllowed(const std::string& origin) const;
  void ApplyCors(const RequestHead& head, const std::string& allowed_methods, Decision& decision) const;
  std::optional<Refused> CheckOpenAccess(const RequestHead& head) const;
  void CheckCaller(const RequestHead& head, Decision& decision) const;

  Router router_;
  GateOptions options_;
  const Authenticator* auth_;
};

}  // namespace surety::http
