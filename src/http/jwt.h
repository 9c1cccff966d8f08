// JSON Web Tokens: who is calling, from a token that an identity provider signed.
//
// Claims: iss must be the configured issuer; aud must hold the configured audience (without one, tokens that have an
// aud are refused: they are meant for somebody else); exp must be there and ahead, nbf and iat must not be. sub is the
// subject. tenant, permissions, region, product, policy_version, language, eligibility, effective_date, role and
// priority are claims of the same names unless `claims` names others; a claim of the wrong type, or null, refuses the
// token. Without a role claim the role is user.
//
// Threads: immutable, any. Errors: kUnauthenticated with a reason that may be shown to the caller. Source: RFC 7519.
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <string_view>
#include <vector>

#include "base/clock.h"
#include "base/status.h"
#include "http/handler.h"
#include "http/jwks.h"

namespace surety::http {

struct JwtOptions {
  std::string issuer;
  std::string audience;
  int64_t leeway_s = 30;                                // between the clocks of issuer and server
  bool require_expiry = true;
  std::vector<std::string> required = {"sub", "tenant"};  // fields (not claims) that a token must have
  std::map<std::string, std::string> claims;            // field -> claim, where they differ: {"permissions", "scope"}

  Status Validate() const;
};

class JwtVerifier {
 public:
  static Result<JwtVerifier> Make(Jwks keys, JwtOptions options, const Clock& clock);

  Result<Identity> Verify(std::string_view token) const;

  // Three parts with dots between: no API key looks like that.
  static bool LooksLikeToken(std::string_view text);

 private:
  JwtVerifier(Jwks keys, JwtOptions options, const Clock& clock)
      : keys_(std::move(keys)), options_(std::move(options)), clock_(&clock) {}

  Jwks keys_;
  JwtOptions options_;
  const Clock* clock_;
};

}  // namespace surety::http
