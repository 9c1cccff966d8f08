// Elementary functions and sine/cosine against the C library in double, over all their range.
#include <gtest/gtest.h>

#include <bit>
#include <cmath>
#include <cstdint>
#include <limits>
#include <vector>

#include "kernels/cpu/activation.h"
#include "kernels/cpu/isa.h"
#include "kernels/cpu/sincos.h"

namespace surety::kernels::cpu {
namespace {

constexpr float kInf = std::numeric_limits<float>::infinity();

// Floats of both signs spread evenly over the bit patterns of magnitudes up to `largest`.
std::vector<float> Sweep(float largest, uint32_t step, bool negative_only = false) {
  std::vector<float> x = {0.0f, -0.0f};
  for (uint32_t bits = 1; bits <= std::bit_cast<uint32_t>(largest); bits += step) {
    x.push_back(-std::bit_cast<float>(bits));
    if (!negative_only) x.push_back(std::bit_cast<float>(bits));
  }
  return x;
}

// Distance between floats around the exact value; subnormals share the spacing of the smallest normal.
double UlpOf(double value) {
  const double size = std::max(std::abs(value), 0x1p-126);
  return std::ldexp(1.0, std::ilogb(size) - 23);
}

struct Worst {
  double ulps = 0;
  float at = 0;
};

template <typename Exact>
Worst WorstError(MathFunction function, const std::vector<float>& x, const Exact& exact) {
  std::vector<float> got(x.size());
  ApplyMath(function, x.data(), static_cast<int64_t>(x.size()), got.data());
  Worst worst;
  for (size_t i = 0; i < x.size(); ++i) {
    const double want = exact(static_cast<double>(x[i]));
    if (std::abs(want) > 3.4028234e38) continue;
    const double ulps = std::abs(got[i] - want) / UlpOf(want);
    if (!(ulps <= worst.ulps)) worst = {ulps, x[i]};
  }
  return worst;
}

class MathTest : public ::testing::Test {
 protected:
  void TearDown() override { EXPECT_TRUE(SetIsa(BestIsa()).ok()); }

  template <typename Exact>
  void ExpectError(const char* name, MathFunction function, const std::vector<float>& x, double most_ulps,
                   const Exact& exact) {
    for (Isa isa : SupportedIsas()) {
      ASSERT_TRUE(SetIsa(isa).ok());
      const Worst worst = WorstError(function, x, exact);
      EXPECT_LE(worst.ulps, most_ulps) << name << " at " << worst.at << " on " << NameOf(isa);
      RecordProperty(name, std::to_string(worst.ulps));
    }
  }
};

TEST_F(MathTest, ErrorsStayWithinTheDocumentedUnits) {
  constexpr uint32_t kStep = 4099;
  const auto x = Sweep(88.7f, kStep);
  ExpectError("Exp", MathFunction::kExp, x, 1.0, [](double v) { return std::exp(v); });
  ExpectError("ExpNonPositive", MathFunction::kExpNonPositive, Sweep(86.4f, kStep, true), 1.0,
              [](double v) { return std::exp(v); });
  ExpectError("Tanh", MathFunction::kTanh, Sweep(1e30f, kStep), 2.0, [](double v) { return std::tanh(v); });
  ExpectError("Erf", MathFunction::kErf, Sweep(1e30f, kStep), 2.0, [](double v) { return std::erf(v); });
  ExpectError("Sigmoid", MathFunction::kSigmoid, x, 2.5, [](double v) { return 1 / (1 + std::exp(-v)); });
  ExpectError("Silu", MathFunction::kSilu, Sweep(80.0f, kStep), 4.0, [](double v) { return v / (1 + std::exp(-v)); });
}

TEST_F(MathTest, SpecialArguments) {
  for (Isa isa : SupportedIsas()) {
    ASSERT_TRUE(SetIsa(isa).ok());
    const auto at = [](MathFunction function, float x) {
      float y;
      ApplyMath(function, &x, 1, &y);
      return y;
    };
    EXPECT_EQ(at(MathFunction::kExp, 0.0f), 1.0f);
    EXPECT_EQ(at(MathFunction::kExp, -kInf), 0.0f);
    EXPECT_EQ(at(MathFunction::kExp, kInf), kInf);
    EXPECT_EQ(at(MathFunction::kExp, 89.0f), kInf);
    EXPECT_GT(at(MathFunction::kExp, -100.0f), 0.0f);
    EXPECT_EQ(at(MathFunction::kExp, -120.0f), 0.0f);
    EXPECT_EQ(at(MathFunction::kExpNonPositive, 0.0f), 1.0f);
    EXPECT_EQ(at(MathFunction::kExpNonPositive, -kInf), 0.0f);
    EXPECT_EQ(at(MathFunction::kExpNonPositive, -87.0f), 0.0f);
    EXPECT_EQ(at(MathFunction::kTanh, kInf), 1.0f);
    EXPECT_EQ(at(MathFunction::kTanh, -kInf), -1.0f);
    EXPECT_EQ(at(MathFunction::kErf, kInf), 1.0f);
    EXPECT_EQ(at(MathFunction::kErf, -kInf), -1.0f);
    EXPECT_EQ(at(MathFunction::kSigmoid, -kInf), 0.0f);
    EXPECT_EQ(at(MathFunction::kSigmoid, kInf), 1.0f);
    EXPECT_EQ(at(MathFunction::kSilu, -1000.0f), 0.0f);
    EXPECT_EQ(at(MathFunction::kSilu, 1000.0f), 1000.0f);
    EXPECT_EQ(at(MathFunction::kGeluTanh, -1000.0f), 0.0f);
    EXPECT_EQ(at(MathFunction::kGeluErf, 1000.0f), 1000.0f);
  }
}

// gelu's arguments cancel: the errors are bounded against |x|, and for the tanh form against the result where the
// exponent's own error (its size times 2^-23) allows.
TEST_F(MathTest, GeluErrorsStayWithinTheDocumentedBounds) {
  const auto x = Sweep(12.0f, 4099);
  std::vector<float> got(x.size());
  for (Isa isa : SupportedIsas()) {
    ASSERT_TRUE(SetIsa(isa).ok());
    ApplyMath(MathFunction::kGeluErf, x.data(), static_cast<int64_t>(x.size()), got.data());
    for (size_t i = 0; i < x.size(); ++i) {
      const double v = x[i];
      const double want = 0.5 * v * (1 + std::erf(v * M_SQRT1_2));
      EXPECT_LE(std::abs(got[i] - want), 3 * UlpOf(v)) << v;
    }
    ApplyMath(MathFunction::kGeluTanh, x.data(), static_cast<int64_t>(x.size()), got.data());
    for (size_t i = 0; i < x.size(); ++i) {
      const double v = x[i];
      const double t = std::sqrt(2 / M_PI) * (v + 0.044715 * v * v * v);
      const double want = v / (1 + std::exp(-2 * t));
      const double exponent_error = v < 0 ? 4 * 0x1p-24 * std::abs(2 * t) * std::abs(want) : 0;
      EXPECT_LE(std::abs(got[i] - want), 4 * UlpOf(want) + 2 * exponent_error + 0x1p-120) << v;
    }
  }
}

TEST_F(MathTest, AllInstructionSetsWithFmaAgreeBitForBit) {
  const auto x = Sweep(100.0f, 40961);
  using enum MathFunction;
  for (MathFunction f : {kExp, kExpNonPositive, kTanh, kErf, kSigmoid, kSilu, kGeluTanh, kGeluErf}) {
    std::vector<float> first;
    for (Isa isa : SupportedIsas()) {
      if (isa == Isa::kSse4) continue;
      ASSERT_TRUE(SetIsa(isa).ok());
      std::vector<float> got(x.size());
      ApplyMath(f, x.data(), static_cast<int64_t>(x.size()), got.data());
      if (first.empty()) first = got;
      for (size_t i = 0; i < x.size(); ++i) {
        ASSERT_EQ(std::bit_cast<uint32_t>(first[i]), std::bit_cast<uint32_t>(got[i])) << NameOf(isa) << " " << x[i];
        float alone;  // and in the tail, one lane at a time
        if (i % 97 == 0) {
          ApplyMath(f, &x[i], 1, &alone);
          ASSERT_EQ(std::bit_cast<uint32_t>(first[i]), std::bit_cast<uint32_t>(alone));
        }
      }
    }
  }
}

TEST(SinCosTest, MatchesTheCLibraryForAnglesOfAMillionPositions) {
  double worst = 0;
  const auto check = [&](double x) {
    const SinCos got = SinCosOf(x);
    worst = std::max({worst, std::abs(got.sin - std::sin(x)), std::abs(got.cos - std::cos(x))});
  };
  uint64_t state = 1;
  for (int position = 0; position <= 1'000'000; position += 997) {
    for (int i = 0; i < 64; ++i) check(position * std::pow(10000.0, -i / 64.0));
  }
  for (int i = 0; i < 200'000; ++i) {
    state = state * 6364136223846793005u + 1442695040888963407u;
    check(static_cast<double>(state >> 11) * 0x1p-53 * 1e6);
    check(-static_cast<double>(state >> 11) * 0x1p-53 * 10);
  }
  for (int n = 0; n < 640'000; n += 13) {  // near multiples of pi / 2, where the reduction cancels most
    check(n * M_PI_2);
    check(std::nextafter(n * M_PI_2, 1e9));
  }
  EXPECT_LT(worst, 1e-15);
  RecordProperty("worst", std::to_string(worst * 1e15));
}

}  // namespace
}  // namespace surety::kernels::cpu
