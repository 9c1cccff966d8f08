#include "train/math_table.h"

#include <cmath>
#include <vector>

#include <gtest/gtest.h>

#include "base/random.h"
#include "base/thread_pool.h"
#include "kernels/cpu/isa.h"
#include "train/parallel_math.h"

namespace surety::train {
namespace {

namespace cpu = kernels::cpu;

std::vector<float> MathNumbers(int64_t n, uint64_t seed, double width = 1) {
  std::vector<float> x(static_cast<size_t>(n));
  for (int64_t i = 0; i < n; ++i) {
    const RandomKey key = {.seed = seed, .position = static_cast<uint64_t>(i), .purpose = RandomPurpose::kTest};
    x[static_cast<size_t>(i)] = static_cast<float>((2 * RandomUniform(key) - 1) * width);
  }
  return x;
}

// Runs the test's body with each instruction set that is at hand.
template <typename Fn>
void OnEachIsa(Fn&& fn) {
  const cpu::Isa before = cpu::CurrentIsa();
  for (const cpu::Isa isa : cpu::SupportedIsas()) {
    ASSERT_TRUE(cpu::SetIsa(isa).ok());
    SCOPED_TRACE(cpu::NameOf(isa));
    fn();
  }
  ASSERT_TRUE(cpu::SetIsa(before).ok());
}

double ElementOf(const std::vector<float>& x, Op op, int64_t stride, int64_t row, int64_t col) {
  return x[static_cast<size_t>(op == Op::kNormal ? row * stride + col : col * stride + row)];
}

TEST(MathTableTest, ProductsAreThoseOfPlainLoops) {
  OnEachIsa([] {
    SerialExecutor serial;
    ParallelMath<float> math(serial);
    const int64_t sizes[][3] = {{1, 1, 1}, {1, 7, 5}, {3, 1, 9}, {2, 3, 0}, {17, 33, 65}, {5, 700, 40}, {600, 9, 31}};
    for (const auto& [m, n, k] : sizes) {
      for (const Op a_op : {Op::kNormal, Op::kTransposed}) {
        for (const Op b_op : {Op::kNormal, Op::kTransposed}) {
          const int64_t a_stride = (a_op == Op::kNormal ? k : m) + 3, b_stride = (b_op == Op::kNormal ? n : k) + 1;
          const auto a = MathNumbers((a_op == Op::kNormal ? m : k) * a_stride + 1, 1);
          const auto b = MathNumbers((b_op == Op::kNormal ? k : n) * b_stride + 1, 2);
          for (const bool accumulate : {false, true}) {
            auto c = MathNumbers(m * (n + 2), 3);
            const auto before = c;
            math.Multiply({.m = m, .n = n, .k = k, .a = a.data(), .a_stride = a_stride, .a_op = a_op, .b = b.data(),
                           .b_stride = b_stride, .b_op = b_op, .c = c.data(), .c_stride = n + 2,
                           .accumulate = accumulate});
            for (int64_t i = 0; i < m; ++i) {
              for (int64_t j = 0; j < n + 2; ++j) {
                const auto at = static_cast<size_t>(i * (n + 2) + j);
                if (j >= n) {
                  ASSERT_EQ(c[at], before[at]) << "written past a row";
                  continue;
                }
                double sum = accumulate ? before[at] : 0, size = std::abs(sum);
                for (int64_t x = 0; x < k; ++x) {
                  const double term = ElementOf(a, a_op, a_stride, i, x) * ElementOf(b, b_op, b_stride, x, j);
                  sum += term;
                  size += std::abs(term);
                }
                // Each of k + 1 roundings errs by half a unit of the sum of sizes at most.
                ASSERT_NEAR(c[at], sum, (static_cast<double>(k) + 2) * 0x1p-24 * size) << m << " " << n << " " << k;
              }
            }
          }
        }
      }
    }
  });
}

TEST(MathTableTest, ExponentialsAndTheirSum) {
  OnEachIsa([] {
    for (const int64_t n : {0, 1, 63, 64, 65, 500}) {
      auto x = MathNumbers(n, 5, 30);
      const auto before = x;
      const double sum = CurrentMath().exponentials_f(x.data(), n, 30.0f);
      double expected = 0;
      for (size_t i = 0; i < x.size(); ++i) {
        const double e = std::exp(static_cast<double>(before[i] - 30.0f));
        ASSERT_NEAR(x[i], e, 1e-6 * e + 1e-37);
        expected += e;
      }
      EXPECT_NEAR(sum, expected, 1e-5 * expected);
    }
  });
}

#if defined(__x86_64__)
TEST(MathTableTest, EachInstructionSetHasTheWidestFunctions) {
  const MathTable *base = &MathFor(cpu::Isa::kSse4), *avx2 = &MathFor(cpu::Isa::kAvx2);
  const MathTable* avx512 = &MathFor(cpu::Isa::kAvx512);
  EXPECT_NE(base, avx2);
  EXPECT_NE(avx2, avx512);
  EXPECT_NE(base, avx512);
  EXPECT_EQ(&MathFor(cpu::Isa::kAvx512Vnni), avx512);
  EXPECT_EQ(&MathFor(cpu::Isa::kAvx512Amx), avx512);
  EXPECT_EQ(&CurrentMath(), &MathFor(cpu::CurrentIsa()));
}
#endif

TEST(MathTableTest, BitsDoNotDependOnAddresses) {
  OnEachIsa([] {
    const auto numbers = MathNumbers(300, 7, 4);
    std::vector<float> first;
    float first_sum = 0;
    for (size_t shift = 0; shift < 16; ++shift) {
      std::vector<float> room(numbers.size() + 16);
      std::copy(numbers.begin(), numbers.end(), room.begin() + static_cast<ptrdiff_t>(shift));
      const float sum = CurrentMath().exponentials_f(room.data() + shift, 300, 4.0f);
      std::vector<float> product(5 * 7 + 16);
      CurrentMath().product_f({.m = 5, .n = 7, .k = 40, .a = room.data() + shift, .a_stride = 40, .b = room.data() +
                               shift, .b_stride = 40, .b_op = Op::kTransposed, .c = product.data() + shift,
                               .c_stride = 7});
      const auto at = static_cast<ptrdiff_t>(shift);
      std::vector<float> all(room.begin() + at, room.begin() + at + 300);
      all.insert(all.end(), product.begin() + at, product.begin() + at + 35);
      if (shift == 0) {
        first = all;
        first_sum = sum;
      }
      ASSERT_EQ(all, first);
      ASSERT_EQ(sum, first_sum);
    }
  });
}

TEST(MathTableTest, AdamStepIsItsFormula) {
  OnEachIsa([] {
    const int64_t n = 77;
    auto m = MathNumbers(n, 11), w = MathNumbers(n, 12), v = MathNumbers(n, 13);
    const auto g = MathNumbers(n, 14);
    for (float& x : v) x = std::abs(x);
    const auto m0 = m, w0 = w, v0 = v;
    const AdamStep step = {.learning_rate = 0.01f, .beta1 = 0.9f, .beta2 = 0.95f, .epsilon = 1e-8f,
                           .correction1 = 0.271f, .correction2 = 0.142625f, .gradient_scale = 0.5f};
    CurrentMath().adam(step, 0.1f, n, g.data(), m.data(), v.data(), w.data());
    for (size_t i = 0; i < m.size(); ++i) {
      const double gradient = 0.5 * static_cast<double>(g[i]);
      const double first = 0.9 * m0[i] + 0.1 * gradient, second = 0.95 * v0[i] + 0.05 * gradient * gradient;
      ASSERT_NEAR(m[i], first, 1e-6);
      ASSERT_NEAR(v[i], second, 1e-6);
      const double expected = w0[i] - 0.01 * (0.1 * w0[i] + first / 0.271 / (std::sqrt(second / 0.142625) + 1e-8));
      ASSERT_NEAR(w[i], expected, 1e-5);
    }
  });
}

}  // namespace
}  // namespace surety::train
