#include <cmath>
#include <cstring>
#include <limits>
#include <random>
#include <vector>

#include "gtest/gtest.h"
#include "kernels/cpu/isa.h"
#include "kernels/cpu/quantized_x.h"

namespace surety::kernels::cpu {
namespace {

// The header's formula in plain code.
XBlock PlainBlock(const float* x) {
  XBlock block = {};
  float largest = 0;
  bool finite = true;
  for (int i = 0; i < kBlock; ++i) {
    finite &= std::isfinite(x[i]);
    largest = std::max(largest, std::abs(x[i]));
  }
  if (!finite) block.d = std::numeric_limits<float>::quiet_NaN();
  if (finite && largest >= 0x1p-100f) {
    float products[16] = {};
    int32_t squares = 0;
    const float inverse = 127.0f / largest;
    for (int i = 0; i < kBlock; ++i) {
      block.q[i] = static_cast<int8_t>(std::nearbyint(x[i] * inverse));
      block.sums[i / 16] = static_cast<int16_t>(block.sums[i / 16] + block.q[i]);
      products[i % 16] += x[i] * inverse * static_cast<float>(block.q[i]);
      squares += block.q[i] * block.q[i];
    }
    for (int width = 8; width >= 1; width /= 2) {
      for (int i = 0; i < width; ++i) products[i] += products[i + width];
    }
    block.d = largest / 127.0f * (products[0] / static_cast<float>(squares));
  }
  block.d_sum = block.d * static_cast<float>(block.sums[0] + block.sums[1]);
  return block;
}

void ExpectSame(const XBlock& expected, const XBlock& block, Isa isa, int at) {
  if (std::isnan(expected.d)) {
    EXPECT_TRUE(std::isnan(block.d) && std::isnan(block.d_sum)) << at << " " << NameOf(isa);
    EXPECT_EQ(std::memcmp(expected.q, block.q, kBlock), 0) << at << " " << NameOf(isa);
  } else {
    EXPECT_EQ(std::memcmp(&expected, &block, sizeof(XBlock)), 0) << at << " " << NameOf(isa);
  }
}

// The squared error with the fitted step is that of the plain step less the part that lies along q, in double.
TEST(QuantizeRowTest, TheStepHasLeastSquaredError) {
  std::mt19937 rng(2);
  std::normal_distribution<float> normal;
  constexpr int kBlocks = 1000;
  std::vector<float> x(kBlocks * kBlock);
  for (float& value : x) value = normal(rng);
  std::vector<XBlock> blocks(kBlocks);
  for (int b = 0; b < kBlocks; ++b) {
    XBlock extra[kMaxExtras];
    QuantizeSegment(x.data() + b * kBlock, 1, b, &blocks[static_cast<size_t>(b)], extra);
  }
  const auto error = [&x, &blocks](int b, double step) {
    double sum = 0;
    for (int i = 0; i < kBlock; ++i) {
      const double e = static_cast<double>(x[static_cast<size_t>(b * kBlock + i)]) -
                       step * blocks[static_cast<size_t>(b)].q[i];
      sum += e * e;
    }
    return sum;
  };
  double fitted = 0, plain = 0;
  for (int b = 0; b < kBlocks; ++b) {
    const auto d = static_cast<double>(blocks[static_cast<size_t>(b)].d);
    double largest = 0;
    for (int i = 0; i < kBlock; ++i) {
      largest = std::max(largest, std::abs(static_cast<double>(x[static_cast<size_t>(b * kBlock + i)])));
    }
    fitted += error(b, d);
    plain += error(b, largest / 127);
    EXPECT_LE(error(b, d), error(b, d * (1 + 0x1p-18))) << b;
    EXPECT_LE(error(b, d), error(b, d * (1 - 0x1p-18))) << b;
  }
  EXPECT_NEAR(fitted / plain, 1 - 1.0 / 31, 0.01);  // the error loses one of its 31 directions
}

// The header's rule for extras in plain code.
std::vector<XBlock> PlainExtras(const float* x, int n_blocks, int first_index) {
  std::vector<XBlock> extras;
  for (int b = 0; b < n_blocks; ++b, x += kBlock) {
    const XBlock block = PlainBlock(x);
    int squares = 0;
    for (int i = 0; i < kBlock; ++i) squares += block.q[i] * block.q[i];
    const bool outlier = squares > 0 && squares <= 127 * 127 * 32 / (5.4 * 5.4);
    if (!outlier || extras.size() == kMaxExtras || !(block.d < 0x1p100f)) continue;
    float rest[kBlock];
    bool any = false;
    for (int i = 0; i < kBlock; ++i) {
      rest[i] = x[i] - block.d * static_cast<float>(block.q[i]);
      any |= std::abs(rest[i]) >= 0x1p-100f;
    }
    if (!any) continue;
    extras.push_back(PlainBlock(rest));
    extras.back().index = first_index + b;
  }
  return extras;
}

TEST(QuantizeRowTest, FollowsItsFormulaOnEveryInstructionSet) {
  std::mt19937 rng(1);
  std::normal_distribution<float> normal;
  constexpr int kBlocks = 40;
  std::vector<float> x(kBlocks * kBlock + 1);
  for (float& value : x) value = normal(rng);
  float* row = x.data() + 1;
  for (int i = 0; i < kBlock; ++i) {
    row[i] = 0.0f;
    row[kBlock + i] *= 1e-38f;
    row[2 * kBlock + i] = (i % 2 == 0 ? 1.0f : -1.0f) * std::numeric_limits<float>::max();
    row[3 * kBlock + i] = static_cast<float>(i) - 15.5f;  // ties
    row[7 * kBlock + i] = -0.0f;
    row[8 * kBlock + i] = static_cast<float>(i * 4) + 3.0f;
    row[9 * kBlock + i] *= 1e-28f;
  }
  row[4 * kBlock + 5] = std::numeric_limits<float>::quiet_NaN();
  row[5 * kBlock + 31] = std::numeric_limits<float>::infinity();
  row[6 * kBlock] = -std::numeric_limits<float>::infinity();
  for (int b = 20; b < kBlocks; b += 2) row[b * kBlock + b % kBlock] = 30.0f + static_cast<float>(b);  // outliers
  for (int i = 1; i < kBlock; ++i) row[24 * kBlock + i] = 0.0f;  // alone: its rounding leaves next to nothing
  for (Isa isa : SupportedIsas()) {
    ASSERT_TRUE(SetIsa(isa).ok());
    for (int first = 0; first < kBlocks; first += kSegment) {
      const int n = std::min(kSegment, kBlocks - first);
      const float* x_segment = row + first * kBlock;
      std::vector<XBlock> blocks(kSegment), extras(kMaxExtras);
      const int n_extras = QuantizeSegment(x_segment, n, 100 + first, blocks.data(), extras.data());
      for (int b = 0; b < n; ++b) {
        ExpectSame(PlainBlock(x_segment + b * kBlock), blocks[static_cast<size_t>(b)], isa, first + b);
      }
      const std::vector<XBlock> expected = PlainExtras(x_segment, n, 100 + first);
      ASSERT_EQ(n_extras, static_cast<int>(expected.size())) << NameOf(isa);
      if (first == 0) {
        EXPECT_GT(n_extras, 3);
      }
      for (size_t e = 0; e < expected.size(); ++e) ExpectSame(expected[e], extras[e], isa, static_cast<int>(e));
    }
  }
  ASSERT_TRUE(SetIsa(BestIsa()).ok());
}

// A block of one large number among small ones: the small ones keep seven bits of their own.
TEST(QuantizeRowTest, OutlierBlocksKeepTheirSmallNumbers) {
  std::mt19937 rng(3);
  std::normal_distribution<float> normal;
  float x[kBlock];
  double with = 0, without = 0, magnitude = 0;
  for (int trial = 0; trial < 100; ++trial) {
    for (float& value : x) value = normal(rng);
    x[trial % kBlock] = 200.0f;
    XBlock block, extras[kMaxExtras];
    ASSERT_EQ(QuantizeSegment(x, 1, 7, &block, extras), 1);
    EXPECT_EQ(extras[0].index, 7);
    for (int i = 0; i < kBlock; ++i) {
      const double first = static_cast<double>(block.d) * block.q[i];
      const double both = first + static_cast<double>(extras[0].d) * extras[0].q[i];
      without += (x[i] - first) * (x[i] - first);
      with += (x[i] - both) * (x[i] - both);
      if (i != trial % kBlock) magnitude += x[i] * x[i];
    }
  }
  EXPECT_GT(without, 0.1 * magnitude);
  EXPECT_LT(with, 1e-4 * magnitude);
}

TEST(QuantizeRowTest, ExtrasOfASegmentHaveALimit) {
  std::vector<float> x(kSegment * kBlock, 0.01f);
  for (int b = 0; b < kSegment; ++b) x[static_cast<size_t>(b * kBlock)] = 5.0f;
  XBlock blocks[kSegment], extras[kMaxExtras];
  ASSERT_EQ(QuantizeSegment(x.data(), kSegment, 0, blocks, extras), kMaxExtras);
  for (int e = 0; e < kMaxExtras; ++e) EXPECT_EQ(extras[e].index, e);
}

}  // namespace
}  // namespace surety::kernels::cpu
