// What tests of the cache share: a clock that they move, pools of tiny pages, scopes, and pages whose contents say for
// whom and for which tokens they were computed.
#pragma once

#include <cstring>
#include <string>
#include <vector>

#include "base/clock.h"
#include "base/hash.h"
#include "kv/page_pool.h"
#include "kv/scope.h"

namespace surety::kv::testing {

class ManualClock final : public Clock {
 public:
  int64_t NowNanos() const override { return now_ns; }
  int64_t WallNanos() const override { return now_ns; }
  void SleepNanos(int64_t nanos) override { now_ns += nanos; }
  int64_t now_ns = 1'000'000;
};

inline constexpr int kPageTokens = 16;
inline constexpr int64_t kSecondNs = 1'000'000'000;

// 128 bytes a page.
inline KvLayout TinyLayout() {
  return {.n_layers = 1, .n_kv_heads = 1, .k_dim = 1, .v_dim = 1, .page_tokens = kPageTokens};
}

inline std::array<uint8_t, 32> TestSecretBytes() {
  std::array<uint8_t, 32> bytes;
  for (size_t i = 0; i < bytes.size(); ++i) bytes[i] = static_cast<uint8_t>(7 * i + 1);
  return bytes;
}
inline const ScopeSecret& TestSecret() {
  static const ScopeSecret secret = ScopeSecret::FromBytes(TestSecretBytes());
  return secret;
}

inline ScopeKey MakeScope(const std::string& tenant, const std::string& salt = "") {
  return *ScopeKeyBuilder(TestSecret()).Tenant(tenant).Salt(salt).Model(Sha256Digest{}, TinyLayout()).Build();
}

// Token ids of pages, each page named by one number.
inline std::vector<int32_t> TokensOf(const std::vector<int>& pages) {
  std::vector<int32_t> tokens;
  for (int page : pages) {
    for (int i = 0; i < kPageTokens; ++i) tokens.push_back(page * 1000 + i % 3);
  }
  return tokens;
}

// The KV that a model would compute for the last page of a prefix: it depends on the scope and on every token.
inline std::vector<std::byte> ContentsFor(const std::string& scope, std::span<const int32_t> prefix, int64_t bytes) {
  std::string text = scope + "\n";
  text.append(reinterpret_cast<const char*>(prefix.data()), prefix.size_bytes());
  const Sha256Digest digest = Sha256Of(std::as_bytes(std::span<const char>(text)));
  std::vector<std::byte> contents(static_cast<size_t>(bytes));
  for (size_t i = 0; i < contents.size(); ++i) contents[i] = static_cast<std::byte>(digest[i % 32] | 1);
  return contents;
}

inline void WritePage(PagePool& pool, int32_t page, const std::vector<std::byte>& contents) {
  std::memcpy(pool.Bytes(page).data(), contents.data(), contents.size());
}

inline bool PageHolds(PagePool& pool, int32_t page, const std::vector<std::byte>& contents) {
  return std::memcmp(pool.Bytes(page).data(), contents.data(), contents.size()) == 0;
}

inline bool IsZero(std::span<const std::byte> bytes) {
  for (std::byte b : bytes) {
    if (b != std::byte{0}) return false;
  }
  return true;
}

}  // namespace surety::kv::testing
