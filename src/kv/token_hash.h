// SipHash-2-4 of a page's token ids: finds candidates in the radix tree. Keyed, so that nobody can send prompts that
// all fall into one bucket; never trusted, since the ids are compared after it.
//
// Threads: a value. Source: Aumasson, Bernstein, "SipHash: a fast short-input PRF", 2012.
#pragma once

#include <bit>
#include <cstdint>
#include <cstring>
#include <span>

namespace surety::kv {

class TokenHash {
 public:
  TokenHash(uint64_t key0, uint64_t key1) : key0_(key0), key1_(key1) {}

  uint64_t operator()(std::span<const int32_t> tokens) const {
    return OfBytes({reinterpret_cast<const uint8_t*>(tokens.data()), tokens.size_bytes()});
  }

  uint64_t OfBytes(std::span<const uint8_t> bytes) const {
    uint64_t v0 = 0x736f6d6570736575 ^ key0_, v1 = 0x646f72616e646f6d ^ key1_;
    uint64_t v2 = 0x6c7967656e657261 ^ key0_, v3 = 0x7465646279746573 ^ key1_;
    const auto round = [&] {
      v0 += v1; v1 = std::rotl(v1, 13); v1 ^= v0; v0 = std::rotl(v0, 32);
      v2 += v3; v3 = std::rotl(v3, 16); v3 ^= v2;
      v0 += v3; v3 = std::rotl(v3, 21); v3 ^= v0;
      v2 += v1; v1 = std::rotl(v1, 17); v1 ^= v2; v2 = std::rotl(v2, 32);
    };
    const auto absorb = [&](uint64_t word) {
      v3 ^= word;
      round();
      round();
      v0 ^= word;
    };
    size_t at = 0;
    for (; at + 8 <= bytes.size(); at += 8) {
      uint64_t word;
      std::memcpy(&word, bytes.data() + at, 8);
      absorb(word);
    }
    uint64_t last = static_cast<uint64_t>(bytes.size()) << 56;
    for (size_t i = 0; at + i < bytes.size(); ++i) last |= static_cast<uint64_t>(bytes[at + i]) << (8 * i);
    absorb(last);
    v2 ^= 0xff;
    for (int i = 0; i < 4; ++i) round();
    return v0 ^ v1 ^ v2 ^ v3;
  }

 private:
  uint64_t key0_;
  uint64_t key1_;
};

}  // namespace surety::kv
