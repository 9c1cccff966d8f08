#include "base/random.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <set>

#include <gtest/gtest.h>

namespace surety {
namespace {

using Words = std::array<uint32_t, 4>;

// The known answers of philox4x32-10 that the Random123 library publishes (kat_vectors).
TEST(PhiloxTest, GivesThePublishedKnownAnswers) {
  EXPECT_EQ(Philox4x32({0, 0, 0, 0}, {0, 0}), (Words{0x6627e8d5, 0xe169c58d, 0xbc57ac4c, 0x9b00dbd8}));
  const uint32_t ones = 0xffffffff;
  EXPECT_EQ(Philox4x32({ones, ones, ones, ones}, {ones, ones}),
            (Words{0x408f276d, 0x41c83b0e, 0xa20bc7c6, 0x6d5451fd}));
  EXPECT_EQ(Philox4x32({0x243f6a88, 0x85a308d3, 0x13198a2e, 0x03707344}, {0xa4093822, 0x299f31d0}),
            (Words{0xd16cfe09, 0x94fdcceb, 0x5001e420, 0x24126ea1}));
}

TEST(RandomTest, EachPartOfTheKeyGivesAnotherStream) {
  std::set<uint64_t> seen;
  const RandomKey base{1, 2, RandomPurpose::kDraft, 3};
  for (RandomKey key : {base, RandomKey{1ull << 32, 2, RandomPurpose::kDraft, 3},
                        RandomKey{1, 2 + (1ull << 32), RandomPurpose::kDraft, 3},
                        RandomKey{1, 3, RandomPurpose::kDraft, 3}, RandomKey{1, 2, RandomPurpose::kAccept, 3},
                        RandomKey{1, 2, RandomPurpose::kDraft, 4}}) {
    for (uint32_t index : {0u, 1u, 2u, 3u, 1000u}) seen.insert(RandomBits(key, index));
  }
  EXPECT_EQ(seen.size(), 30u);
  EXPECT_EQ(RandomBits(base, 7), RandomBits(base, 7));
}

TEST(RandomTest, UniformLiesStrictlyBetweenZeroAndOneAndHasTheRightMoments) {
  constexpr uint32_t kDraws = 200'000;
  const RandomKey key{42, 0, RandomPurpose::kTest, 0};
  double least = 1, most = 0, sum = 0, squares = 0;
  for (uint32_t i = 0; i < kDraws; ++i) {
    const double u = RandomUniform(key, i);
    least = std::min(least, u);
    most = std::max(most, u);
    sum += u;
    squares += u * u;
  }
  EXPECT_GT(least, 0.0);
  EXPECT_LT(most, 1.0);
  // Five standard errors of the mean (1/12 variance) and of the second moment (4/45).
  EXPECT_NEAR(sum / kDraws, 0.5, 5 * std::sqrt(1.0 / 12 / kDraws));
  EXPECT_NEAR(squares / kDraws, 1.0 / 3, 5 * std::sqrt(4.0 / 45 / kDraws));
}

TEST(RandomTest, TheFormulasExtremesAreInsideTheOpenInterval) {
  // The smallest and largest 52 bits that RandomUniform can draw, by its own formula.
  EXPECT_GT((0.0 + 0.5) * 0x1.0p-52, 0.0);
  EXPECT_LT((static_cast<double>((1ull << 52) - 1) + 0.5) * 0x1.0p-52, 1.0);
}

}  // namespace
}  // namespace surety
