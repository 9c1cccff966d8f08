#include "base/hash.h"

#include <openssl/evp.h>

#include "base/check.h"

namespace surety {

// Looked up once: finding the implementation by name takes longer than hashing a short text.
const EVP_MD* Sha256Implementation() {
  static const EVP_MD* const implementation = EVP_MD_fetch(nullptr, "SHA256", nullptr);
  return implementation;
}

struct Sha256::State {
  EVP_MD_CTX* context = EVP_MD_CTX_new();
  ~State() { EVP_MD_CTX_free(context); }
};

Sha256::Sha256() : state_(std::make_unique<State>()) {
  SURETY_CHECK(state_->context != nullptr);
  SURETY_CHECK(EVP_DigestInit_ex(state_->context, Sha256Implementation(), nullptr) == 1);
}
Sha256::~Sha256() = default;

void Sha256::Update(std::span<const std::byte> bytes) {
  SURETY_CHECK(EVP_DigestUpdate(state_->context, bytes.data(), bytes.size()) == 1);
}

Sha256Digest Sha256::Finish() {
  Sha256Digest digest;
  unsigned int size_bytes = 0;
  SURETY_CHECK(EVP_DigestFinal_ex(state_->context, digest.data(), &size_bytes) == 1 && size_bytes == 32);
  return digest;
}

thread_local bool context_gone = false;

// With a context that is kept: making one takes longer than hashing a short text. Finishing wipes what was hashed.
Sha256Digest Sha256Of(std::span<const std::byte> bytes) {
  struct Kept {
    EVP_MD_CTX* context = EVP_MD_CTX_new();
    ~Kept() {
      context_gone = true;
      EVP_MD_CTX_free(context);
    }
  };
  if (context_gone) {   // in a thread's end
    Sha256 hasher;
    hasher.Update(bytes);
    return hasher.Finish();
  }
  thread_local Kept kept;
  Sha256Digest digest;
  unsigned int size_bytes = 0;
  SURETY_CHECK(kept.context != nullptr);
  SURETY_CHECK(EVP_DigestInit_ex(kept.context, Sha256Implementation(), nullptr) == 1);
  SURETY_CHECK(EVP_DigestUpdate(kept.context, bytes.data(), bytes.size()) == 1);
  SURETY_CHECK(EVP_DigestFinal_ex(kept.context, digest.data(), &size_bytes) == 1 && size_bytes == 32);
  return digest;
}

std::string HexOf(std::span<const uint8_t> bytes) {
  static constexpr char kDigits[] = "0123456789abcdef";
  std::string hex(bytes.size() * 2, '0');
  char* out = hex.data();
  for (const uint8_t b : bytes) {
    *out++ = kDigits[b >> 4];
    *out++ = kDigits[b & 15];
  }
  return hex;
}

int HexDigitValue(char c) {
  if (c >= '0' && c <= '9') return c - '0';
  if (c >= 'a' && c <= 'f') return c - 'a' + 10;
  if (c >= 'A' && c <= 'F') return c - 'A' + 10;
  return -1;
}

}  // namespace surety
