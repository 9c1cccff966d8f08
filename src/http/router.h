// Which handler answers a method and path.
//
// Threads: immutable, any. Errors: kInvalidArgument for a path without '/' or without handler, kAlreadyExists for two
// routes of one method and path.
// Invariants: an exact path comes before "/*", a longer "/*" before a shorter one; HEAD is answered by GET.
#pragma once

#include <map>
#include <string>
#include <string_view>
#include <vector>

#include "base/status.h"
#include "http/handler.h"

namespace surety::http {

class Router {
 public:
  static Result<Router> Make(std::vector<Route> routes);

  struct Match {
    const Route* route = nullptr;  // null: see `allowed`
    int index = -1;                // of the route, 0 .. size() - 1
    std::string allowed;           // "GET, HEAD, OPTIONS": methods of this path; empty if the path is unknown
  };
  Match Find(std::string_view method, std::string_view path) const;
  const std::vector<Route>& routes() const { return routes_; }

 private:
  using Methods = std::map<std::string, int, std::less<>>;  // method -> index of the route

  std::vector<Route> routes_;
  std::map<std::string, Methods, std::less<>> exact_;
  std::vector<std::pair<std::string, Methods>> prefixes_;   // with their last '/', longest first
};

}  // namespace surety::http
