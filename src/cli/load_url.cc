#include "cli/load_url.h"

#include <algorithm>
#include <cctype>

#include <fmt/format.h>

namespace surety::cli {

Result<LoadUrl> ParseLoadUrl(const std::string& url) {
  const auto bad = [&](const char* why) {
    return Error(InvalidArgumentError(fmt::format("--url: '{}' {}", url, why)));
  };
  LoadUrl out;
  std::string rest;
  if (url.starts_with("http://")) {
    rest = url.substr(7);
  } else if (url.starts_with("https://")) {
    rest = url.substr(8);
    out.tls = true;
  } else {
    return bad("does not begin with http:// or https://");
  }
  for (const unsigned char c : url) {
    const bool other = c <= ' ' || c == 0x7F || c == '?' || c == '#' || c == '@';
    if (other) return bad("may have a host, a port and a path only");
  }
  const size_t slash = std::min(rest.find('/'), rest.size());
  out.authority = rest.substr(0, slash);
  out.base = rest.substr(slash);
  while (out.base.ends_with('/')) out.base.pop_back();
  if (!out.base.ends_with("/v1")) out.base += "/v1";
  std::string host = out.authority;
  const size_t bracket = host.find(']');
  const size_t colon = host.find(':', bracket == std::string::npos ? 0 : bracket);
  out.port = out.tls ? "443" : "80";
  if (colon != std::string::npos) {
    out.port = host.substr(colon + 1);
    host.resize(colon);
    const bool digits = !out.port.empty() && out.port.size() <= 5 &&
                        std::all_of(out.port.begin(), out.port.end(), [](unsigned char c) { return std::isdigit(c); });
    if (!digits || std::stoi(out.port) < 1 || std::stoi(out.port) > 65535) return bad("has no port from 1 to 65535");
  }
  if (host.starts_with('[') && host.ends_with(']')) host = host.substr(1, host.size() - 2);
  if (host.empty() || host.find_first_of("[]") != std::string::npos) return bad("has no host");
  out.host = host;
  return out;
}

}  // namespace surety::cli
