#include "http/gate.h"

#include <arpa/inet.h>

#include <algorithm>
#include <array>

namespace surety::http {
namespace {

const std::string* Find(const RequestHead& head, const char* name) {
  const auto found = head.headers.find(name);
  return found == head.headers.end() ? nullptr : &found->second;
}

// "host:80", "[::1]:80" without the port and brackets, in lower case.
std::string HostName(std::string_view host) {
  if (host.starts_with('[')) {
    host = host.substr(1, host.find(']') == std::string_view::npos ? host.size() : host.find(']') - 1);
  } else if (const size_t colon = host.rfind(':'); colon != std::string_view::npos) {
    host = host.substr(0, colon);
  }
  std::string name(host);
  for (char& c : name) c = c >= 'A' && c <= 'Z' ? static_cast<char>(c - 'A' + 'a') : c;
  return name;
}

bool IsAddress(const std::string& name) {
  std::array<unsigned char, 16> bytes;
  return inet_pton(AF_INET, name.c_str(), bytes.data()) == 1 || inet_pton(AF_INET6, name.c_str(), bytes.data()) == 1;
}

bool IsSameOrigin(const RequestHead& head, const std::string& origin) {
  const std::string* host = Find(head, "host");
  const size_t scheme = origin.find("://");
  return host != nullptr && scheme != std::string::npos && origin.substr(scheme + 3) == *host;
}

}  // namespace

bool Gate::OriginAllowed(const std::string& origin) const {
  return std::ranges::any_of(options_.cors_origins, [&](const std::string& known) {
    return known == "*" || known == origin;
  });
}

void Gate::ApplyCors(const RequestHead& head, const std::string& allowed_methods, Decision& decision) const {
  if (options_.cors_origins.empty()) return;
  decision.headers.emplace_back("Vary", "Origin");
  const std::string* origin = Find(head, "origin");
  if (origin == nullptr || !OriginAllowed(*origin)) return;
  decision.headers.emplace_back("Access-Control-Allow-Origin", *origin);
  decision.headers.emplace_back("Access-Control-Expose-Headers", "x-request-id, retry-after");
  if (allowed_methods.empty()) return;
  decision.headers.emplace_back("Access-Control-Allow-Methods", allowed_methods);
  const std::string* asked = Find(head, "access-control-request-headers");
  decision.headers.emplace_back("Access-Control-Allow-Headers",
                                asked != nullptr ? *asked : "authorization, content-type, x-api-key, x-request-id");
  decision.headers.emplace_back("Access-Control-Max-Age", "600");
}

std::optional<Refused> Gate::CheckOpenAccess(const RequestHead& head) const {
  if (const std::string* host = Find(head, "host")) {
    const std::string name = HostName(*host);
    const bool known = IsAddress(name) || name == "localhost" || name.ends_with(".localhost") ||
                       name == options_.host ||
                       std::ranges::find(options_.allowed_hosts, name) != options_.allowed_hosts.end();
    if (!known) {
      return Refused{403, "host_not_allowed", "a server without keys answers to loopback names only, not to '" +
                                                  Printable(name, 80) + "'; allow that host, or use API keys"};
    }
  }
  const std::string* origin = Find(head, "origin");
  if (origin == nullptr || OriginAllowed(*origin) || IsSameOrigin(head, *origin)) return std::nullopt;
  return Refused{403, "origin_not_allowed", "a server without keys serves no web page of another origin; allow '" +
                                                Printable(*origin, 80) + "' as a CORS origin, or use API keys"};
}

void Gate::CheckCaller(const RequestHead& head, Decision& decision) const {
  if (auth_ == nullptr) {
    decision.identity.role = options_.open_role;
  } else {
    const bool is_public = decision.route->role == Role::kNone;
    auto caller = auth_->Authenticate(head.headers);
    const bool wrong = !caller;
    if (!wrong && *caller) decision.identity = **std::move(caller);
    if (is_public) return;
    if (wrong || decision.identity.role == Role::kNone) {
      const std::string reason = wrong ? caller.error().message()
                                       : "no API key: send 'Authorization: Bearer KEY' or 'x-api-key: KEY'";
      decision.refused = Refused{401, wrong ? "invalid_api_key" : "missing_api_key", reason};
      decision.headers.emplace_back("WWW-Authenticate", wrong ? "Bearer error=\"invalid_token\"" : "Bearer");
      decision.guessed = wrong;
      return;
    }
  }
  if (decision.identity.role < decision.route->role) {
    decision.refused = Refused{403, "insufficient_permissions", "this needs the role of an administrator"};
  }
}

Gate::Decision Gate::Decide(const RequestHead& head, const Target& target) const {
  Decision decision;
  if (auth_ == nullptr) {
    decision.refused = CheckOpenAccess(head);
    if (decision.refused) return decision;
  }
  const Router::Match match = router_.Find(head.method, target.path);
  const bool is_options = match.route == nullptr && head.method == "OPTIONS";
  ApplyCors(head, is_options ? match.allowed : "", decision);
  if (match.route != nullptr) {
    decision.route = match.route;
    decision.route_index = match.index;
    CheckCaller(head, decision);
    return decision;
  }
  if (is_options && (!match.allowed.empty() || target.path == "*")) {
    decision.answer_empty = true;
    if (!match.allowed.empty()) decision.headers.emplace_back("Allow", match.allowed);
    return decision;
  }
  const std::string what = Printable(head.method, 20) + " " + Printable(target.path, 120);
  if (match.allowed.empty()) {
    decision.refused = Refused{404, "unknown_url", "unknown URL: " + what};
  } else {
    decision.headers.emplace_back("Allow", match.allowed);
    decision.refused = Refused{405, "method_not_allowed", what + ": allowed methods are " + match.allowed};
  }
  return decision;
}

}  // namespace surety::http
