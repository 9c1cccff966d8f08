// Keys of a JWKS file, and the check of a signed token against them.
//
// A key decides the algorithm, never the token: oct is HS256, RSA is RS256, EC P-256 is ES256, and a token that names
// another algorithm for its key is refused. "none" is no algorithm. Headers that must be understood ("crit") are not.
// OpenSSL is used directly: Debian's cpp-jwt takes one algorithm list and one secret for all and knows no key sets.
//
// Threads: immutable, any. Errors: kInvalidArgument for a bad file, naming key and field; kUnauthenticated for a bad
// token. Source: RFC 7515, 7517, 7518.
#pragma once

#include <cstddef>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "base/status.h"

namespace surety::http {

class Jwks {
 public:
  // Keys for encryption, of other types or of other curves are passed over, as RFC 7517 wants; a set without any usable
  // key is an error, as is a weak one (RSA below 2048 bits, a secret below 256).
  static Result<Jwks> Parse(std::string_view json, std::string_view path);
  Jwks(Jwks&&) noexcept;
  Jwks& operator=(Jwks&&) noexcept;
  ~Jwks();

  // The payload of a token in compact form whose signature holds.
  Result<std::string> Verify(std::string_view token) const;
  size_t size() const { return keys_.size(); }

 private:
  struct Key;
  Jwks();
  Result<const Key*> Select(std::string_view algorithm, const std::string* kid) const;
  std::vector<std::unique_ptr<Key>> keys_;
};

}  // namespace surety::http
