// Norms, rotary embedding, activations, embedding, per-head products: against plain loops in double, on every
// instruction set, with sizes that leave tails, and with the same bits for every number of rows and workers.
#include <gtest/gtest.h>

#include <bit>
#include <cmath>
#include <cstring>
#include <numeric>
#include <vector>

#include "base/thread_pool.h"
#include "kernels/cpu/activation.h"
#include "kernels/cpu/embed.h"
#include "kernels/cpu/head_matmul.h"
#include "kernels/cpu/isa.h"
#include "kernels/cpu/norm.h"
#include "kernels/cpu/rope.h"
#include "kernels/cpu/testing/attention_rig.h"

namespace surety::kernels::cpu {
namespace {

using testing::NumberAt;

constexpr double kU = 0x1p-24;

// rows x cols numbers in rows of stride cols + 3, NaN between them.
struct Padded {
  std::vector<float> data;
  int64_t rows, cols;
  Padded(int64_t r, int64_t c, uint64_t kind, float scale = 1.0f, float shift = 0.0f) : rows(r), cols(c) {
    data.assign(static_cast<size_t>(r * (c + 3) + 1), std::nanf(""));
    for (int64_t i = 0; i < r; ++i) {
      for (int64_t j = 0; j < c; ++j) {
        View().Row(i)[j] = shift + scale * NumberAt(kind, 0, static_cast<uint64_t>(i), static_cast<uint64_t>(j));
      }
    }
  }
  MatrixF View() { return {data.data() + 1, rows, cols, cols + 3}; }  // + 1: misaligned
};

void ExpectSameBits(MatrixF a, MatrixF b) {
  for (int64_t r = 0; r < a.rows; ++r) {
    ASSERT_EQ(0, std::memcmp(a.Row(r), b.Row(r), static_cast<size_t>(a.cols) * 4)) << "row " << r;
  }
}

class ElementwiseTest : public ::testing::Test {
 protected:
  void TearDown() override { EXPECT_TRUE(SetIsa(BestIsa()).ok()); }

  // body(isa) on each; `result` must have the same bits on all that have FMA.
  template <typename Body>
  void ForEachIsa(const Body& body) {
    std::vector<float> first;
    for (Isa isa : SupportedIsas()) {
      ASSERT_TRUE(SetIsa(isa).ok());
      SCOPED_TRACE(std::string(NameOf(isa)));
      const std::vector<float> result = body();
      if (isa == Isa::kSse4) continue;
      if (first.empty()) first = result;
      ASSERT_EQ(first.size(), result.size());
      if (!first.empty()) {
        EXPECT_EQ(0, std::memcmp(first.data(), result.data(), first.size() * 4));
      }
    }
  }

  SerialExecutor serial_;
  std::unique_ptr<Executor> three_ = MakeThreadPool({.n_workers = 3, .pin = false, .spin_nanos = 0});
};

TEST_F(ElementwiseTest, RmsNormMatchesPlainLoops) {
  for (int64_t size : {1, 7, 16, 33, 64, 576}) {
    for (int64_t rows : {0, 1, 5, 40}) {
      const int64_t cols = 3 * size;
      Padded weight(1, size, 5, 0.5f, 1.0f);
      ForEachIsa([&] {
        Padded x(rows, cols, 4, 3.0f), out(rows, cols, 6);
        RmsNorm(serial_, x.View(), weight.View().data, size, 1e-5f, out.View());
        for (int64_t r = 0; r < rows; ++r) {
          for (int64_t g = 0; g < 3; ++g) {
            const float* in = x.View().Row(r) + g * size;
            double sum = 0;
            for (int64_t i = 0; i < size; ++i) sum += double{in[i]} * in[i];
            for (int64_t i = 0; i < size; ++i) {
              const double want =
                  in[i] / std::sqrt(sum / static_cast<double>(size) + double{1e-5f}) * weight.View().data[i];
              // Roundings: the factor, two products.
              EXPECT_NEAR(out.View().Row(r)[g * size + i], want, 3.1 * kU * std::abs(want));
            }
          }
        }
        Padded threaded(rows, cols, 7);
        RmsNorm(*three_, x.View(), weight.View().data, size, 1e-5f, threaded.View());
        ExpectSameBits(out.View(), threaded.View());
        RmsNorm(serial_, x.View(), weight.View().data, size, 1e-5f, x.View());  // in place
        ExpectSameBits(out.View(), x.View());
        return out.data;
      });
    }
  }
}

TEST_F(ElementwiseTest, AddRmsNormIsAddThenRmsNorm) {
  for (int64_t cols : {1, 31, 576}) {
    for (int64_t rows : {1, 30}) {
      Padded weight(1, cols, 5);
      ForEachIsa([&] {
        Padded residual(rows, cols, 1), delta(rows, cols, 2), out(rows, cols, 3), want(rows, cols, 4);
        Padded sum(rows, cols, 1);
        Add(serial_, sum.View(), delta.View());
        RmsNorm(serial_, sum.View(), weight.View().data, cols, 1e-6f, want.View());
        AddRmsNorm(*three_, residual.View(), delta.View(), weight.View().data, 1e-6f, out.View());
        ExpectSameBits(residual.View(), sum.View());
        ExpectSameBits(out.View(), want.View());
        EXPECT_EQ(sum.View().Row(0)[0], Padded(rows, cols, 1).View().Row(0)[0] + delta.View().Row(0)[0]);
        return out.data;
      });
    }
  }
}

TEST_F(ElementwiseTest, LayerNormMatchesPlainLoopsEvenWithAFarMean) {
  for (int64_t cols : {1, 16, 37, 384}) {
    Padded weight(1, cols, 5), bias(1, cols, 6);
    ForEachIsa([&] {
      Padded x(6, cols, 4, 0.01f, 100.0f), out(6, cols, 7);
      LayerNorm(*three_, x.View(), weight.View().data, bias.View().data, 1e-12f, out.View());
      for (int64_t r = 0; r < 6; ++r) {
        const float* in = x.View().Row(r);
        double mean = 0, squares = 0;
        for (int64_t i = 0; i < cols; ++i) mean += in[i];
        mean /= static_cast<double>(cols);
        for (int64_t i = 0; i < cols; ++i) squares += (in[i] - mean) * (in[i] - mean);
        const double inv = 1 / std::sqrt(squares / static_cast<double>(cols) + double{1e-12f});
        for (int64_t i = 0; i < cols; ++i) {
          const double w = weight.View().data[i], b = bias.View().data[i], n = (in[i] - mean) * inv;
          // Roundings: n, the product, the sum; the mean's own error (2^-53 of 100, against 0.01) is far below.
          EXPECT_NEAR(out.View().Row(r)[i], n * w + b, kU * (2.1 * std::abs(n * w) + 1.1 * std::abs(n * w + b)) + 1e-9);
        }
      }
      return out.data;
    });
  }
}

double ExactActivation(Activation act, double x) {
  switch (act) {
    case Activation::kSilu: return x / (1 + std::exp(-x));
    case Activation::kGeluTanh: return 0.5 * x * (1 + std::tanh(std::sqrt(2 / M_PI) * (x + 0.044715 * x * x * x)));
    case Activation::kGeluErf: return 0.5 * x * (1 + std::erf(x * M_SQRT1_2));
    case Activation::kRelu: return std::max(x, 0.0);
  }
  return 0;
}

TEST_F(ElementwiseTest, ActivationsMatchPlainLoops) {
  for (Activation act : {Activation::kSilu, Activation::kGeluTanh, Activation::kGeluErf, Activation::kRelu}) {
    for (int64_t cols : {0, 1, 5, 16, 100, 9001}) {
      ForEachIsa([&] {
        Padded gate_up(3, 2 * cols, 4, 5.0f), out(3, cols, 7), threaded(3, cols, 8), x(3, cols, 4, 5.0f);
        GatedActivation(serial_, act, gate_up.View(), out.View());
        GatedActivation(*three_, act, gate_up.View(), threaded.View());
        ExpectSameBits(out.View(), threaded.View());
        Activate(*three_, act, x.View());
        for (int64_t r = 0; r < 3; ++r) {
          for (int64_t i = 0; i < cols; ++i) {
            const double gate = gate_up.View().Row(r)[i], up = gate_up.View().Row(r)[cols + i];
            const double want = ExactActivation(act, gate);
            EXPECT_NEAR(out.View().Row(r)[i], want * up, 8 * kU * std::abs(gate * up));
            const float in = 5.0f * NumberAt(4, 0, static_cast<uint64_t>(r), static_cast<uint64_t>(i));
            EXPECT_NEAR(x.View().Row(r)[i], ExactActivation(act, in), 8 * kU * 5);
          }
        }
        return out.data;
      });
    }
  }
}

TEST_F(ElementwiseTest, SoftCapAddAndScale) {
  for (int64_t cols : {1, 5, 16, 100, 9001}) {
    ForEachIsa([&] {
      Padded x(2, cols, 4, 80.0f), same(2, cols, 4, 80.0f), y(2, cols, 5), z(2, cols, 5);
      SoftCap(*three_, x.View(), 30.0f);
      Add(*three_, y.View(), same.View());
      Scale(*three_, z.View(), 1.7f);
      for (int64_t r = 0; r < 2; ++r) {
        for (int64_t i = 0; i < cols; ++i) {
          const float v = same.View().Row(r)[i];
          const float w = NumberAt(5, 0, static_cast<uint64_t>(r), static_cast<uint64_t>(i));
          EXPECT_NEAR(x.View().Row(r)[i], 30 * std::tanh(v / 30.0), 6 * kU * 30);
          EXPECT_EQ(y.View().Row(r)[i], w + v);
          EXPECT_EQ(z.View().Row(r)[i], w * 1.7f);
        }
      }
      return x.data;
    });
  }
}

TEST_F(ElementwiseTest, RopeRotatesBothPairings) {
  for (bool interleaved : {false, true}) {
    for (int n_freqs : {1, 5, 16, 35}) {
      constexpr int kHeads = 3, kOffset = 2;
      const int head_dim = kOffset + 2 * n_freqs + 3;
      std::vector<double> inv_freq(static_cast<size_t>(n_freqs));
      for (int i = 0; i < n_freqs; ++i) inv_freq[static_cast<size_t>(i)] = std::pow(10000.0, -double(i) / n_freqs);
      const RopeSpec spec = {n_freqs, interleaved, inv_freq.data(), 1.25};
      const std::vector<int32_t> positions = {0, 1, 17, 4095, 131071};
      ForEachIsa([&] {
        Padded table(5, 2 * n_freqs, 1), x(5, kHeads * head_dim, 2);
        Padded before(5, kHeads * head_dim, 2);
        RopeTable(*three_, spec, positions, table.View());
        Rope(*three_, spec, table.View(), kHeads, head_dim, kOffset, x.View());
        for (int64_t r = 0; r < 5; ++r) {
          for (int h = 0; h < kHeads; ++h) {
            const float* in = before.View().Row(r) + h * head_dim;
            const float* out = x.View().Row(r) + h * head_dim;
            std::vector<double> want(in, in + head_dim);
            for (int i = 0; i < n_freqs; ++i) {
              const double angle = positions[static_cast<size_t>(r)] * inv_freq[static_cast<size_t>(i)];
              const double c = std::cos(angle) * 1.25, s = std::sin(angle) * 1.25;
              EXPECT_NEAR(table.View().Row(r)[i], c, 1.3 * kU);
              EXPECT_NEAR(table.View().Row(r)[n_freqs + i], s, 1.3 * kU);
              const int a = kOffset + (interleaved ? 2 * i : i), b = interleaved ? a + 1 : a + n_freqs;
              want[static_cast<size_t>(a)] = in[a] * c - in[b] * s;
              want[static_cast<size_t>(b)] = in[b] * c + in[a] * s;
            }
            for (int i = 0; i < head_dim; ++i) EXPECT_NEAR(out[i], want[static_cast<size_t>(i)], 6 * kU * 1.25);
            for (int i = 0; i < kOffset; ++i) EXPECT_EQ(out[i], in[i]);
            for (int i = kOffset + 2 * n_freqs; i < head_dim; ++i) EXPECT_EQ(out[i], in[i]);
          }
        }
        return x.data;
      });
    }
  }
}

TEST_F(ElementwiseTest, EmbedTakesRowsAndScalesThem) {
  std::vector<float> values(20 * 33);
  for (size_t i = 0; i < values.size(); ++i) values[i] = NumberAt(1, 0, 0, i);
  std::vector<std::byte> bytes(values.size() * 4 + 1);
  std::memcpy(bytes.data() + 1, values.data(), values.size() * 4);
  const TensorView table = {"t", DType::kF32, {20, 33}, {bytes.data() + 1, values.size() * 4}};
  const std::vector<int32_t> ids = {19, 0, 7, 7};
  Padded out(4, 33, 1);
  Embed(*three_, table, ids, 3.0f, out.View());
  for (int64_t r = 0; r < 4; ++r) {
    for (int64_t c = 0; c < 33; ++c) {
      EXPECT_EQ(out.View().Row(r)[c], 3.0f * values[static_cast<size_t>(ids[static_cast<size_t>(r)] * 33 + c)]);
    }
  }
}

TEST_F(ElementwiseTest, HeadMatMulMatchesPlainLoopsAndRowsStandAlone) {
  constexpr int kHeads = 3;
  for (bool transposed : {false, true}) {
    for (auto [in, out_dim] : {std::pair{1, 1}, {5, 17}, {48, 32}, {33, 16}, {128, 70}}) {
      for (int64_t rows : {1, 3, 4, 39}) {
        const int64_t head_stride = int64_t{in} * out_dim + 11;
        Padded w(1, kHeads * head_stride, 3);
        ForEachIsa([&, in = in, out_dim = out_dim] {
          Padded x(rows, kHeads * (in + 2), 4);
          Padded out(rows, kHeads * (out_dim + 1), 5), alone(rows, kHeads * (out_dim + 1), 5);
          HeadMatMul(*three_, w.View().data, head_stride, kHeads, in, out_dim, transposed, x.View(), out.View());
          for (int64_t r = 0; r < rows; ++r) {
            HeadMatMul(serial_, w.View().data, head_stride, kHeads, in, out_dim, transposed, x.View().Rows(r, 1),
                       alone.View().Rows(r, 1));
            for (int h = 0; h < kHeads; ++h) {
              for (int o = 0; o < out_dim; ++o) {
                double want = 0, size = 0;
                for (int i = 0; i < in; ++i) {
                  const int64_t at = h * head_stride + (transposed ? i * out_dim + o : o * in + i);
                  const double term = double{w.View().data[at]} * x.View().Row(r)[h * (in + 2) + i];
                  want += term;
                  size += std::abs(term);
                }
                EXPECT_NEAR(out.View().Row(r)[h * (out_dim + 1) + o], want, (in + 1) * kU * size);
              }
            }
          }
          ExpectSameBits(out.View(), alone.View());
          return out.data;
        });
      }
    }
  }
}

}  // namespace
}  // namespace surety::kernels::cpu
