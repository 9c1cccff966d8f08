#include "base/random.h"

namespace surety {
namespace {

constexpr uint32_t kMultiplier0 = 0xD2511F53;
constexpr uint32_t kMultiplier1 = 0xCD9E8D57;
constexpr uint32_t kWeyl0 = 0x9E3779B9;
constexpr uint32_t kWeyl1 = 0xBB67AE85;

}  // namespace

std::array<uint32_t, 4> Philox4x32(std::array<uint32_t, 4> c, std::array<uint32_t, 2> k) {
  for (int round = 0; round < 10; ++round) {
    const uint64_t p0 = static_cast<uint64_t>(kMultiplier0) * c[0];
    const uint64_t p1 = static_cast<uint64_t>(kMultiplier1) * c[2];
    c = {static_cast<uint32_t>(p1 >> 32) ^ c[1] ^ k[0], static_cast<uint32_t>(p1),
         static_cast<uint32_t>(p0 >> 32) ^ c[3] ^ k[1], static_cast<uint32_t>(p0)};
    k[0] += kWeyl0;
    k[1] += kWeyl1;
  }
  return c;
}

uint64_t RandomBits(const RandomKey& key, uint32_t index) {
  // One block yields two 64-bit words. Purpose takes 8 bits of the third counter word, lane 24.
  const uint32_t block = index / 2;
  const std::array<uint32_t, 4> counter = {
      static_cast<uint32_t>(key.position), static_cast<uint32_t>(key.position >> 32),
      (static_cast<uint32_t>(key.purpose) << 24) | (key.lane & 0xFFFFFF), block};
  const auto words =
      Philox4x32(counter, {static_cast<uint32_t>(key.seed), static_cast<uint32_t>(key.seed >> 32)});
  const uint32_t at = (index % 2) * 2;
  return (static_cast<uint64_t>(words[at + 1]) << 32) | words[at];
}

double RandomUniform(const RandomKey& key, uint32_t index) {
  const uint64_t bits = RandomBits(key, index) >> 12;  // 52 bits
  return (static_cast<double>(bits) + 0.5) * 0x1.0p-52;  // 53 significant bits, in (0, 1)
}

}  // namespace surety
