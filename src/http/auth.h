// Who is calling: API keys and tokens together, and a brake on guessing.
//
// Credentials come as "Authorization: Bearer X" or "x-api-key: X"; where both are sent they must be the same. What has
// the form of a token is checked as one where tokens are configured, everything else as an API key.
//
// Threads: any. Errors: kUnauthenticated with a reason for the caller.
#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <string>

#include "base/clock.h"
#include "base/status.h"
#include "http/api_keys.h"
#include "http/handler.h"
#include "http/jwt.h"

namespace surety::http {

class Authenticator {
 public:
  Authenticator(KeyRing keys, std::optional<JwtVerifier> tokens, const Clock& clock);

  // The caller's identity; an empty optional if the request carries no credentials.
  Result<std::optional<Identity>> Authenticate(const std::map<std::string, std::string>& headers) const;

  // Takes effect with the next request.
  void ReplaceKeys(KeyRing keys);

 private:
  mutable std::mutex mutex_;
  std::shared_ptr<const KeyRing> keys_;
  std::optional<JwtVerifier> tokens_;
  const Clock& clock_;
};

// Answers to wrong credentials from one address are delayed: 100 ms, then twice as long each time up to 1.6 s,
// forgotten after a minute without one. Right credentials are never delayed, whatever their address did before, so
// nobody can be locked out. Remembers the last 4,096 addresses. Threads: any.
class FailureBrake {
 public:
  int64_t DelayMsAfterFailure(const std::string& address, int64_t now_ns);

 private:
  struct Record {
    int n_failures = 0;
    int64_t last_ns = 0;
  };
  std::mutex mutex_;
  std::map<std::string, Record> records_;
};

}  // namespace surety::http
