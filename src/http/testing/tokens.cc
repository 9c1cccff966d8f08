#include "http/testing/tokens.h"

#include <openssl/evp.h>
#include <openssl/hmac.h>

#include <array>
#include <span>

#include "http/base64url.h"

namespace surety::http {
namespace {

std::string Encoded(std::string_view text) {
  return Base64UrlEncode(std::span(reinterpret_cast<const uint8_t*>(text.data()), text.size()));
}

}  // namespace

const std::string_view kRfcSecretText =
    "AyM1SysPpbyDfgZld3umj1qzKObwVMkoqQ-EstJQLr_T-1qS0gZH75aKtMN3Yj0iPS4hcgUuTwjAzZr1Z9CAow";

std::string RfcSecret() { return *Base64UrlDecode(kRfcSecretText); }

std::string SignedToken(std::string_view header, std::string_view payload, std::string_view secret) {
  const std::string signed_part = Encoded(header) + "." + Encoded(payload);
  std::array<unsigned char, 32> mac;
  unsigned int size = 0;
  HMAC(EVP_sha256(), secret.data(), static_cast<int>(secret.size()),
       reinterpret_cast<const unsigned char*>(signed_part.data()), signed_part.size(), mac.data(), &size);
  return signed_part + "." + Base64UrlEncode(mac);
}

}  // namespace surety::http
