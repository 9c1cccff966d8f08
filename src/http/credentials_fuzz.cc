// Bytes as a token, as a key set and as a file of API keys: never a crash, never an identity from an unsigned token.
#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>

#include "base/check.h"
#include "base/clock.h"
#include "http/api_keys.h"
#include "http/jwt.h"

namespace surety::http {
namespace {

// A secret that no input can have signed with, and an elliptic key whose private part nobody kept.
constexpr std::string_view kKeys =
    R"({"keys":[{"kty":"oct","k":"FdFYFzERwC2uCBB46pZQi4GG85LujR8obt-KWRBICVQ"},)"
    R"({"kty":"EC","crv":"P-256","x":"f83OJ3D2xF1Bg8vub9tLe1gHMzV76e8Tus9uPHvRVEU",)"
    R"("y":"x_FEzRu9m36HLN_tue659LNpXW6pCyStikYjKIWI5a0"}]})";

JwtVerifier MakeVerifier() {
  auto keys = Jwks::Parse(kKeys, "fuzz.json");
  SURETY_CHECK(keys.has_value());
  JwtOptions options;
  options.issuer = "joe";
  auto verifier = JwtVerifier::Make(*std::move(keys), options, Clock::Real());
  SURETY_CHECK(verifier.has_value());
  return *std::move(verifier);
}

void OneInput(std::string_view text) {
  static const JwtVerifier verifier = MakeVerifier();
  const auto identity = verifier.Verify(text);
  SURETY_CHECK(!identity.has_value() && !identity.error().message().empty());
  if (const auto keys = Jwks::Parse(text, "fuzz.json"); keys) {
    SURETY_CHECK(keys->size() > 0);
    (void)keys->Verify(text);
    (void)keys->Verify("eyJhbGciOiJIUzI1NiJ9.e30.AAAA");
  }
  const auto ring = KeyRing::Parse(text, "fuzz.jsonl");
  if (!ring) {
    SURETY_CHECK(ring.error().message().starts_with("fuzz.jsonl:"));
    return;
  }
  (void)ring->Verify(text, 0);
}

}  // namespace
}  // namespace surety::http

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  surety::http::OneInput(std::string_view(reinterpret_cast<const char*>(data), size));
  return 0;
}
