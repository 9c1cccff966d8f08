#include "http/router.h"

#include <algorithm>
#include <set>

namespace surety::http {

Result<Router> Router::Make(std::vector<Route> routes) {
  Router router;
  router.routes_ = std::move(routes);
  std::map<std::string, Methods> prefixes;
  for (size_t i = 0; i < router.routes_.size(); ++i) {
    const Route& route = router.routes_[i];
    if (!route.path.starts_with('/') || route.method.empty() || !route.handler) {
      return Error(InvalidArgumentError("route '" + route.method + " " + route.path +
                                        "' needs a method, a path that starts with '/', and a handler"));
    }
    const bool is_prefix = route.path.ends_with("/*");
    const std::string path = is_prefix ? route.path.substr(0, route.path.size() - 1) : route.path;
    Methods& methods = is_prefix ? prefixes[path] : router.exact_[path];
    if (!methods.emplace(route.method, static_cast<int>(i)).second) {
      return Error(Status(StatusCode::kAlreadyExists, "two routes for " + route.method + " " + route.path));
    }
  }
  router.prefixes_.assign(prefixes.begin(), prefixes.end());
  std::ranges::stable_sort(router.prefixes_, std::greater<>(), [](const auto& entry) { return entry.first.size(); });
  return router;
}

Router::Match Router::Find(std::string_view method, std::string_view path) const {
  Match match;
  std::set<std::string> allowed;
  const auto consider = [&](const Methods& methods) {
    for (const auto& [name, index] : methods) {
      allowed.insert(name);
      if (name == "GET") allowed.insert("HEAD");
    }
    auto found = methods.find(method);
    if (found == methods.end() && method == "HEAD") found = methods.find("GET");
    if (found == methods.end()) return false;
    match.index = found->second;
    match.route = &routes_[static_cast<size_t>(match.index)];
    return true;
  };
  if (const auto found = exact_.find(path); found != exact_.end() && consider(found->second)) return match;
  for (const auto& [prefix, methods] : prefixes_) {
    if (path.size() > prefix.size() && path.starts_with(prefix) && consider(methods)) return match;
  }
  if (allowed.empty()) return match;
  allowed.insert("OPTIONS");
  for (const std::string& name : allowed) match.allowed += (match.allowed.empty() ? "" : ", ") + name;
  return match;
}

}  // namespace surety::http
