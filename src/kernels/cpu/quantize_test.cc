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

// The squared error with the fitted step is that of the plain step less the part that lies along q, in double.
TEST(QuantizeRowTest, TheStepHasLeastSquaredError) {
  std::mt19937 rng(2);
  std::normal_distribution<float> normal;
  constexpr int kBlocks = 1000;
  std::vector<float> x(kBlocks * kBlock);
  for (float& value : x) value = normal(rng);
  std::vector<XBlock> blocks(kBlocks);
  QuantizeRow(x.data(), kBlocks * kBlock, blocks.data());
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
