// The address of an OpenAI-compatible server.
#pragma once

#include <string>

#include "base/status.h"

namespace surety::cli {

struct LoadUrl {
  bool tls = false;
  std::string host, port;
  std::string authority;  // for the Host header
  std::string base;       // "/v1", or a longer path
};

// "http://host:8080", "https://host/base/v1", "http://[::1]:8080/". Errors: kInvalidArgument.
Result<LoadUrl> ParseLoadUrl(const std::string& url);

}  // namespace surety::cli
