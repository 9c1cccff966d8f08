#include "kv/tier.h"

#include <openssl/sha.h>

#include <cstring>

namespace surety::kv {
namespace {

constexpr char kRootDomain[] = "surety kv page root";
constexpr char kNextDomain[] = "surety kv page next";

}  // namespace

TierKey TierKey::Root(const ScopeKey& scope) {
  std::array<uint8_t, sizeof kRootDomain + 32> text;
  std::memcpy(text.data(), kRootDomain, sizeof kRootDomain);
  std::memcpy(text.data() + sizeof kRootDomain, scope.bytes_.data(), 32);
  std::array<uint8_t, 32> digest;
  SHA256(text.data(), text.size(), digest.data());
  return TierKey(digest);
}

TierKey TierKey::Next(std::span<const int32_t> page_tokens) const {
  // Domain and parent have a fixed size, and all pages of a scope one size: no two inputs share a text.
  constexpr size_t kHead = sizeof kNextDomain + 32;
  std::array<uint8_t, kHead + 4 * 256> small;
  std::vector<uint8_t> large;
  uint8_t* text = small.data();
  const size_t size = kHead + page_tokens.size_bytes();
  if (size > small.size()) {
    large.resize(size);
    text = large.data();
  }
  std::memcpy(text, kNextDomain, sizeof kNextDomain);
  std::memcpy(text + sizeof kNextDomain, bytes_.data(), 32);
  if (!page_tokens.empty()) std::memcpy(text + kHead, page_tokens.data(), page_tokens.size_bytes());
  std::array<uint8_t, 32> digest;
  SHA256(text, size, digest.data());
  return TierKey(digest);
}

size_t TierKey::hash() const {
  size_t hash;
  std::memcpy(&hash, bytes_.data(), sizeof hash);
  return hash;
}

std::string_view NameOf(TierLevel level) {
  switch (level) {
    case TierLevel::kPool: return "pool";
    case TierLevel::kHost: return "host";
    case TierLevel::kDisk: return "disk";
  }
  return "?";
}

}  // namespace surety::kv
