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
    block.d = largest / 127.0f;
    const float inverse = 127.0f / largest;
    for (int i = 0; i < kBlock; ++i) {
      block.q[i] = static_cast<int8_t>(std::nearbyint(x[i] * inverse));
      block.sums[i / 16] = static_cast<int16_t>(block.sums[i / 16] + block.q[i]);
    }
  }
  block.d_sum = block.d * static_cast<float>(block.sums[0] + block.sums[1]);
  return block;
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
  for (Isa isa : SupportedIsas()) {
    ASSERT_TRUE(SetIsa(isa).ok());
    std::vector<XBlock> blocks(kBlocks);
    QuantizeRow(row, kBlocks * kBlock, blocks.data());
    for (int b = 0; b < kBlocks; ++b) {
      const XBlock expected = PlainBlock(row + b * kBlock);
      if (std::isnan(expected.d)) {
        EXPECT_TRUE(std::isnan(blocks[static_cast<size_t>(b)].d)) << b;
        EXPECT_TRUE(std::isnan(blocks[static_cast<size_t>(b)].d_sum)) << b;
        EXPECT_EQ(std::memcmp(expected.q, blocks[static_cast<size_t>(b)].q, kBlock), 0) << b;
      } else {
        EXPECT_EQ(std::memcmp(&expected, &blocks[static_cast<size_t>(b)], sizeof(XBlock)), 0)
            << b << " " << NameOf(isa);
      }
    }
  }
  ASSERT_TRUE(SetIsa(BestIsa()).ok());
}

}  // namespace
}  // namespace surety::kernels::cpu
