#include "tensor/half.h"

#include <bit>
#include <cmath>
#include <cstdint>
#include <limits>
#include <vector>

#include <gtest/gtest.h>

#include "base/random.h"

namespace surety {
namespace {

// Floats of every exponent, and those beside the borders at which a half's rounding changes.
std::vector<float> ManyFloats() {
  std::vector<float> floats;
  const RandomKey key{3, 0, RandomPurpose::kTest, 0};
  for (uint32_t i = 0; i < 1'500'000; ++i) {
    const uint64_t bits = RandomBits(key, i);
    floats.push_back(std::bit_cast<float>(static_cast<uint32_t>(bits)));
    floats.push_back(std::bit_cast<float>(static_cast<uint32_t>(bits >> 32)));
  }
  for (uint32_t h = 0; h < 0x7C00; ++h) {  // every half, the middle to the next one, and their neighbours
    const float low = F16ToF32(static_cast<uint16_t>(h));
    const float high = h == 0x7BFF ? 65536.0f : F16ToF32(static_cast<uint16_t>(h + 1));
    for (float f : {low, (low + high) / 2}) {
      for (float g : {f, std::nextafter(f, 0.0f), std::nextafter(f, 1e6f)}) {
        floats.push_back(g);
        floats.push_back(-g);
      }
    }
  }
  return floats;
}

TEST(HalfTest, EveryHalfIsConvertedByItsDefinitionAndBack) {
  for (uint32_t h = 0; h < 0x10000; ++h) {
    const float f = F16ToF32(static_cast<uint16_t>(h));
    const uint32_t exponent = (h >> 10) & 31;
    const uint32_t fraction = h & 0x3FF;
    if (exponent == 31 && fraction != 0) {
      ASSERT_TRUE(std::isnan(f)) << h;
      ASSERT_TRUE(std::isnan(F16ToF32(F32ToF16(f)))) << h;
      continue;
    }
    double expected = exponent == 0 ? std::ldexp(fraction, -24)
                                    : std::ldexp(1024.0 + fraction, static_cast<int>(exponent) - 25);
    if (exponent == 31) expected = std::numeric_limits<double>::infinity();
    ASSERT_EQ(std::fabs(static_cast<double>(f)), expected) << h;
    ASSERT_EQ(std::signbit(f), (h & 0x8000) != 0) << h;
    ASSERT_EQ(F32ToF16(f), h);
  }
}

#if defined(__FLT16_MAX__)
#if defined(__aarch64__)
using CompilersHalf = __fp16;  // g++ 12 has no _Float16 there in C++
#else
using CompilersHalf = _Float16;
#endif
TEST(HalfTest, RoundsAsTheCompilersHalfDoes) {
  for (float f : ManyFloats()) {
    const auto expected = std::bit_cast<uint16_t>(static_cast<CompilersHalf>(f));
    const uint16_t actual = F32ToF16(f);
    if (std::isnan(f)) {
      ASSERT_TRUE(std::isnan(F16ToF32(actual)));
      ASSERT_EQ(actual & 0x8000, expected & 0x8000);
    } else {
      ASSERT_EQ(actual, expected) << std::bit_cast<uint32_t>(f);
    }
  }
}
#endif

TEST(BFloat16Test, EveryValueSurvivesAndIsTheUpperHalfOfAFloat) {
  for (uint32_t b = 0; b < 0x10000; ++b) {
    const float f = BF16ToF32(static_cast<uint16_t>(b));
    ASSERT_EQ(std::bit_cast<uint32_t>(f), b << 16);
    if (std::isnan(f)) {
      ASSERT_TRUE(std::isnan(BF16ToF32(F32ToBF16(f))));
    } else {
      ASSERT_EQ(F32ToBF16(f), b);
    }
  }
}

TEST(BFloat16Test, RoundsToTheNearestTiesToEven) {
  for (float f : ManyFloats()) {
    const uint16_t b = F32ToBF16(f);
    const float g = BF16ToF32(b);
    if (std::isnan(f)) {
      ASSERT_TRUE(std::isnan(g));
      continue;
    }
    if (std::isinf(f) || std::isinf(g)) {
      // Infinity only from infinity or from the upper half of the last interval.
      ASSERT_EQ(std::isinf(g), std::fabs(f) >= 0x1.FFp127f) << std::bit_cast<uint32_t>(f);
      continue;
    }
    const double error = std::fabs(static_cast<double>(f) - g);
    for (int step : {-1, 1}) {  // the neighbours in magnitude
      const auto magnitude = (b & 0x7FFF) + step;
      if (magnitude < 0 || magnitude >= 0x7F80) continue;
      const float other = BF16ToF32(static_cast<uint16_t>((b & 0x8000) | magnitude));
      const double other_error = std::fabs(static_cast<double>(f) - other);
      ASSERT_LE(error, other_error);
      ASSERT_TRUE(error < other_error || (b & 1) == 0);
    }
  }
}

}  // namespace
}  // namespace surety
