#include "kernels/cpu/matmul.h"

#include <cmath>
#include <limits>
#include <map>

#include "base/thread_pool.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "kernels/cpu/isa.h"
#include "kernels/cpu/matmul_test_util.h"
#include "kernels/cpu/quantized_x.h"

namespace surety::kernels::cpu {
namespace {

constexpr float kNaN = std::numeric_limits<float>::quiet_NaN();
constexpr double kUnit = 0x1p-24;  // relative error of one rounding

bool IsFloatType(DType dtype) { return InfoOf(dtype).block_elements == 1; }

// Rows with NaN between them.
struct PaddedMatrix {
  PaddedMatrix(int64_t rows, int64_t cols, int64_t pad = 3)
      : storage(static_cast<size_t>(rows * (cols + pad) + 1), kNaN) {
    matrix = MatrixF(storage.data() + 1, rows, cols, cols + pad);
  }
  std::vector<float> storage;
  MatrixF matrix;
};

PaddedMatrix RandomX(int64_t rows, int64_t cols, uint32_t seed) {
  PaddedMatrix x(rows, cols);
  std::mt19937 rng(seed);
  std::normal_distribution<float> normal;
  for (int64_t t = 0; t < rows; ++t) {
    for (int64_t k = 0; k < cols; ++k) {
      x.matrix.Row(t)[k] = normal(rng) * (k % 111 == 0 ? 40.0f : k % 37 == 0 ? 8.0f : 1.0f);  // outlier blocks too
    }
  }
  return x;
}

std::unique_ptr<PackedMatrix> Pack(const TensorView& view) {
  SerialExecutor serial;
  auto packed = PackMatrix(std::span(&view, 1), serial);
  EXPECT_TRUE(packed.has_value()) << packed.error().ToString();
  return *std::move(packed);
}

// One product with everything made for it.
void Multiply(Executor& executor, ConstMatrixF x, const PackedMatrix& weight, MatrixF out) {
  MatMul matmul;
  ASSERT_TRUE(matmul.Reserve(x.rows, x.cols, executor.n_workers()).ok());
  const MatMulTask task{.weight = &weight, .out = out};
  matmul.Run(executor, x, std::span(&task, 1));
}

// x as the product sees it.
std::vector<double> SeenX(ConstMatrixF x, bool quantized) {
  std::vector<double> seen(static_cast<size_t>(x.rows * x.cols));
  for (int64_t t = 0; t < x.rows; ++t) {
    double* row = seen.data() + t * x.cols;
    if (!quantized) {
      std::copy_n(x.Row(t), x.cols, row);
      continue;
    }
    const auto add = [row](const XBlock& block, int64_t index) {
      for (int i = 0; i < kBlock; ++i) row[index * kBlock + i] += static_cast<double>(block.d) * block.q[i];
    };
    for (int64_t first = 0; first < x.cols / kBlock; first += kSegment) {
      const int n = static_cast<int>(std::min<int64_t>(kSegment, x.cols / kBlock - first));
      XBlock blocks[kSegment], extras[kMaxExtras];
      const int n_extras =
          QuantizeSegment(x.Row(t) + first * kBlock, n, static_cast<int>(first), blocks, extras);
      for (int b = 0; b < n; ++b) add(blocks[b], first + b);
      for (int e = 0; e < n_extras; ++e) add(extras[e], extras[e].index);
    }
  }
  return seen;
}

// Compares with plain double sums. Each output is a chain of at most two roundings a block (float types: an input) and
// one for each product of scales; without fused multiply-add twice as many; the reference's own weights are rounded
// once. All are relative to the sum of magnitudes. Against x before its rounding to 8 bits, what rounding moved comes
// on top, for each weight: half a step, and up to 1.4 steps by the fitted scale (quantized_x.h). Extra blocks, at most
// one for four blocks, are further additions.
void ExpectClose(const TensorView& view, ConstMatrixF x, ConstMatrixF out, bool against_exact_x) {
  const bool quantized = !IsFloatType(view.dtype);
  const std::vector<float> w = DequantizeAll(view), magnitude = MagnitudesOf(view);
  const std::vector<double> seen = SeenX(x, quantized);
  const auto steps = static_cast<double>(quantized ? 5 * (x.cols / kBlock) + 8 : 2 * x.cols + 8);
  for (int64_t t = 0; t < x.rows; ++t) {
    for (int64_t n = 0; n < view.rows(); ++n) {
      double sum = 0, size = 0, rounding_of_x = 0;
      for (int64_t k = 0; k < x.cols; ++k) {
        const auto at = static_cast<size_t>(n * x.cols + k);
        const double xs = seen[static_cast<size_t>(t * x.cols + k)];
        const double xk = against_exact_x ? static_cast<double>(x.Row(t)[k]) : xs;
        sum += static_cast<double>(w[at]) * xk;
        size += static_cast<double>(magnitude[at]) * std::abs(xs);
      }
      if (against_exact_x && quantized) {
        for (int64_t b = 0; b < x.cols; b += kBlock) {
          float largest = 0;
          for (int64_t k = b; k < b + kBlock; ++k) largest = std::max(largest, std::abs(x.Row(t)[k]));
          for (int64_t k = b; k < b + kBlock; ++k) {
            rounding_of_x += std::abs(static_cast<double>(w[static_cast<size_t>(n * x.cols + k)])) *
                             static_cast<double>(largest) / 127.0 * 1.9 * (1 + 300 * kUnit);
          }
        }
      }
      const double bound = steps * (kUnit * size + 0x1p-149) + rounding_of_x;
      ASSERT_NEAR(static_cast<double>(out.Row(t)[n]), sum, bound)
          << NameOf(view.dtype) << " N=" << view.rows() << " K=" << x.cols << " T=" << x.rows << " at t=" << t
          << " n=" << n << " isa " << NameOf(CurrentIsa());
    }
  }
}

void ExpectSameBits(ConstMatrixF a, ConstMatrixF b, const std::string& what) {
  ASSERT_EQ(a.rows, b.rows);
  for (int64_t t = 0; t < a.rows; ++t) {
    ASSERT_EQ(std::memcmp(a.Row(t), b.Row(t), static_cast<size_t>(a.cols) * 4), 0) << what << ", row " << t;
  }
}

std::vector<int64_t> InputsFor(DType dtype) {
  const int64_t block = InfoOf(dtype).block_elements;
  if (block == 1) return {1, 5, 33, 256, 300, 800};
  return block == 32 ? std::vector<int64_t>{32, 96, 544, 1056} : std::vector<int64_t>{256, 512, 768};
}

class MatMulTypeTest : public ::testing::TestWithParam<DType> {
 protected:
  void TearDown() override { ASSERT_TRUE(SetIsa(BestIsa()).ok()); }
};

INSTANTIATE_TEST_SUITE_P(AllTypes, MatMulTypeTest,
                         ::testing::ValuesIn(std::vector<DType>{
                             DType::kF32, DType::kF16, DType::kBF16, DType::kQ4_0, DType::kQ4_1, DType::kQ5_0,
                             DType::kQ5_1, DType::kQ8_0, DType::kQ2_K, DType::kQ3_K, DType::kQ4_K, DType::kQ5_K,
                             DType::kQ6_K, DType::kIQ4_NL, DType::kIQ4_XS}),
                         [](const auto& test) { return std::string(NameOf(test.param)); });

TEST_P(MatMulTypeTest, IsWithinTheErrorBoundOnEveryInstructionSet) {
  SerialExecutor serial;
  for (Isa isa : SupportedIsas()) {
    ASSERT_TRUE(SetIsa(isa).ok());
    for (int64_t n : {1, 15, 17, 100}) {
      for (int64_t k : InputsFor(GetParam())) {
        for (int64_t rows : {1, 3, 17}) {
          const RandomWeights weights(GetParam(), n, k, static_cast<uint32_t>(n * 1000 + k));
          const PaddedMatrix x = RandomX(rows, k, static_cast<uint32_t>(k + rows));
          PaddedMatrix out(rows, n);
          Multiply(serial, x.matrix, *Pack(weights.view), out.matrix);
          ExpectClose(weights.view, x.matrix, out.matrix, false);
          ExpectClose(weights.view, x.matrix, out.matrix, true);
          for (int64_t t = 0; t + 1 < rows; ++t) {
            for (int64_t i = n; i < n + 3; ++i) ASSERT_TRUE(std::isnan(out.matrix.Row(t)[i])) << "wrote past a row";
          }
        }
      }
    }
  }
}

TEST_P(MatMulTypeTest, RowAloneHasTheBitsOfTheRowInAnyBatch) {
  SerialExecutor serial;
  const int64_t k = InputsFor(GetParam()).back(), n = 50;
  const RandomWeights weights(GetParam(), n, k, 3);
  const auto packed = Pack(weights.view);
  const PaddedMatrix x = RandomX(530, k, 4);
  for (Isa isa : SupportedIsas()) {
    ASSERT_TRUE(SetIsa(isa).ok());
    PaddedMatrix alone(530, n);
    for (int64_t t = 0; t < 530; ++t) {
      Multiply(serial, ConstMatrixF(x.matrix).Rows(t, 1), *packed, alone.matrix.Rows(t, 1));
    }
    for (int64_t rows : {2, 3, 4, 5, 6, 7, 8, 9, 11, 14, 15, 16, 17, 29, 64, 130, 530}) {
      PaddedMatrix batch(rows, n);
      Multiply(serial, ConstMatrixF(x.matrix).Rows(0, rows), *packed, batch.matrix);
      ExpectSameBits(batch.matrix, alone.matrix.Rows(0, rows), std::string(NameOf(isa)) + " T=" + std::to_string(rows));
    }
  }
}

// Rows of so many blocks that they are taken in chunks, of several groups at a time.
TEST_P(MatMulTypeTest, LongRowsHaveTheBitsOfRowsAlone) {
  const int64_t k = 32 * 8 * 13, n = 16 * 9 + 5, rows = 131;
  const RandomWeights weights(GetParam(), n, k, 13);
  const auto packed = Pack(weights.view);
  const PaddedMatrix x = RandomX(rows, k, 14);
  SerialExecutor serial;
  for (Isa isa : SupportedIsas()) {
    ASSERT_TRUE(SetIsa(isa).ok());
    PaddedMatrix batch(rows, n);
    Multiply(serial, x.matrix, *packed, batch.matrix);
    for (int64_t t : {0, 1, 15, 16, 64, 127, 128, 130}) {
      PaddedMatrix alone(1, n);
      Multiply(serial, ConstMatrixF(x.matrix).Rows(t, 1), *packed, alone.matrix);
      ExpectSameBits(batch.matrix.Rows(t, 1), alone.matrix, std::string(NameOf(isa)) + " row " + std::to_string(t));
    }
  }
}

TEST_P(MatMulTypeTest, WorkersDoNotChangeBits) {
  const int64_t k = InputsFor(GetParam()).back(), n = 333;
  const RandomWeights weights(GetParam(), n, k, 5);
  const auto packed = Pack(weights.view);
  SerialExecutor serial;
  for (int64_t rows : {1, 2, 5, 33, 300}) {
    const PaddedMatrix x = RandomX(rows, k, 6);
    PaddedMatrix one(rows, n);
    Multiply(serial, x.matrix, *packed, one.matrix);
    for (int workers : {2, 3}) {
      const auto pool = MakeThreadPool({.n_workers = workers, .pin = false});
      PaddedMatrix many(rows, n);
      Multiply(*pool, x.matrix, *packed, many.matrix);
      ExpectSameBits(many.matrix, one.matrix, std::to_string(workers) + " workers");
    }
  }
}

TEST_P(MatMulTypeTest, InstructionSetsWithFusedMultiplyAddAgreeInBits) {
  SerialExecutor serial;
  const int64_t k = InputsFor(GetParam()).back(), n = 77;
  const RandomWeights weights(GetParam(), n, k, 7);
  const auto packed = Pack(weights.view);
  for (int64_t rows : {1, 3, 21}) {
    const PaddedMatrix x = RandomX(rows, k, 8);
    PaddedMatrix first(0, n);
    for (Isa isa : SupportedIsas()) {
      if (isa == Isa::kSse4) continue;
      ASSERT_TRUE(SetIsa(isa).ok());
      PaddedMatrix out(rows, n);
      Multiply(serial, x.matrix, *packed, out.matrix);
      if (first.matrix.rows == 0) {
        first = std::move(out);
      } else {
        ExpectSameBits(out.matrix, first.matrix, std::string(NameOf(isa)));
      }
    }
  }
}

TEST_P(MatMulTypeTest, StackedPartsEqualSeparateOnes) {
  SerialExecutor serial;
  const int64_t k = InputsFor(GetParam()).front();
  const RandomWeights a(GetParam(), 5, k, 9), b(GetParam(), 30, k, 10);
  const TensorView parts[] = {a.view, b.view};
  const auto both = PackMatrix(parts, serial);
  ASSERT_TRUE(both.has_value());
  EXPECT_EQ((*both)->n_outputs(), 35);
  const PaddedMatrix x = RandomX(6, k, 11);
  PaddedMatrix out(6, 35), out_a(6, 5), out_b(6, 30);
  Multiply(serial, x.matrix, **both, out.matrix);
  Multiply(serial, x.matrix, *Pack(a.view), out_a.matrix);
  Multiply(serial, x.matrix, *Pack(b.view), out_b.matrix);
  ExpectSameBits(out.matrix.Cols(0, 5), out_a.matrix, "first part");
  ExpectSameBits(out.matrix.Cols(5, 30), out_b.matrix, "second part");
}

TEST_P(MatMulTypeTest, PackingKeepsTheSize) {
  const RandomWeights weights(GetParam(), 64, 512, 12);
  const double growth = static_cast<double>(Pack(weights.view)->size_bytes()) /
                        static_cast<double>(weights.view.bytes.size());
  EXPECT_LE(growth, 1.04);
}

TEST_P(MatMulTypeTest, ExtremeScalesAndActivationsStayWithinTheBound) {
  SerialExecutor serial;
  const int64_t k = InputsFor(GetParam())[1], n = 16;
  RandomWeights weights(GetParam(), n, k, 13);
  const uint16_t scales[] = {0x0000, 0x8000, 0x0001, 0x8001, 0x03FF, 0x7BFF, 0xFBFF, 0x3C00};
  const int64_t blocks = k / InfoOf(GetParam()).block_elements;
  if (!IsFloatType(GetParam())) {
    for (int64_t r = 0; r < n; ++r) {
      for (int64_t b = 0; b < blocks; ++b) {
        std::memcpy(weights.BlockAt(r, b) + ScaleOffsetsOf(GetParam()).d, &scales[(r + b) % 8], 2);
      }
    }
  }
  PaddedMatrix x = RandomX(6, k, 14);
  for (int64_t i = 0; i < k; ++i) {
    x.matrix.Row(0)[i] = 0.0f;
    x.matrix.Row(1)[i] *= 1e-25f;
    x.matrix.Row(2)[i] *= 1e25f;
    x.matrix.Row(3)[i] = i % 3 == 0 ? 1.0f : -1.0f;  // all codes at their largest
    x.matrix.Row(4)[i] = i == 1 ? 5.0f : 0.0f;
  }
  for (Isa isa : SupportedIsas()) {
    ASSERT_TRUE(SetIsa(isa).ok());
    PaddedMatrix out(6, n);
    Multiply(serial, x.matrix, *Pack(weights.view), out.matrix);
    ExpectClose(weights.view, x.matrix, out.matrix, false);
    ExpectClose(weights.view, x.matrix, out.matrix, true);
    for (int64_t i = 0; i < n; ++i) EXPECT_EQ(out.matrix.Row(0)[i], 0.0f);
  }
}

// Payloads of all zero and all one bits, activations at the largest code: no 16-bit sum may overflow.
TEST_P(MatMulTypeTest, LargestCodesDoNotOverflow) {
  if (IsFloatType(GetParam())) GTEST_SKIP() << "no codes";
  SerialExecutor serial;
  const int64_t k = InputsFor(GetParam())[1], n = 32;
  RandomWeights weights(GetParam(), n, k, 15);
  const ScaleOffsets offsets = ScaleOffsetsOf(GetParam());
  const uint16_t one = 0x3C00;
  const int64_t blocks = k / InfoOf(GetParam()).block_elements;
  for (int64_t r = 0; r < n; ++r) {
    for (int64_t b = 0; b < blocks; ++b) {
      const int fill = r % 4 == 0 ? 0x00 : r % 4 == 1 ? 0xFF : r % 4 == 2 ? 0x80 : 0x7F;
      std::memset(weights.BlockAt(r, b), fill, static_cast<size_t>(InfoOf(GetParam()).block_bytes));
      std::memcpy(weights.BlockAt(r, b) + offsets.d, &one, 2);
      if (offsets.m >= 0) std::memcpy(weights.BlockAt(r, b) + offsets.m, &one, 2);
    }
  }
  PaddedMatrix x(5, k);
  for (int64_t t = 0; t < 5; ++t) {
    for (int64_t i = 0; i < k; ++i) {
      const float alternating = i % 2 == 0 ? 1.0f : -1.0f;
      x.matrix.Row(t)[i] = t == 0 ? 1.0f : t == 1 ? -1.0f : t == 2 ? alternating : t == 3 ? 0.5f : -0.5f;
    }
  }
  for (Isa isa : SupportedIsas()) {
    ASSERT_TRUE(SetIsa(isa).ok());
    PaddedMatrix out(5, n), alone(1, n);
    Multiply(serial, x.matrix, *Pack(weights.view), out.matrix);
    ExpectClose(weights.view, x.matrix, out.matrix, false);
    Multiply(serial, ConstMatrixF(x.matrix).Rows(0, 1), *Pack(weights.view), alone.matrix);
    ExpectSameBits(alone.matrix, out.matrix.Rows(0, 1), "row 0");
  }
}

TEST_P(MatMulTypeTest, NonFiniteActivationPoisonsItsRowOnly) {
  SerialExecutor serial;
  const int64_t k = InputsFor(GetParam())[1], n = 20;
  const RandomWeights weights(GetParam(), n, k, 16);
  for (float bad : {kNaN, std::numeric_limits<float>::infinity(), -std::numeric_limits<float>::infinity()}) {
    PaddedMatrix x = RandomX(7, k, 17), clean = RandomX(7, k, 17);
    x.matrix.Row(3)[k / 2] = bad;
    PaddedMatrix out(7, n), expected(7, n);
    Multiply(serial, x.matrix, *Pack(weights.view), out.matrix);
    Multiply(serial, clean.matrix, *Pack(weights.view), expected.matrix);
    ExpectSameBits(out.matrix.Rows(0, 3), expected.matrix.Rows(0, 3), "rows before");
    ExpectSameBits(out.matrix.Rows(4, 3), expected.matrix.Rows(4, 3), "rows behind");
    for (int64_t i = 0; i < n; ++i) EXPECT_FALSE(std::isfinite(out.matrix.Row(3)[i]));
  }
}

// Golden: hashes of this kernel's own output bits, made on x86 (AVX2); they say that every machine gives the same bits.
// Inputs come from integers alone, as the standard library's distributions may differ.
TEST_P(MatMulTypeTest, BitsAreTheSameOnEveryMachine) {
  static const std::map<DType, uint64_t> kHashes = {
      {DType::kF32, 14262150657703245974u},
      {DType::kF16, 14262150657703245974u},
      {DType::kBF16, 12079992742409351018u},
      {DType::kQ4_0, 4935288029793206082u},
      {DType::kQ4_1, 18127175874106239458u},
      {DType::kQ5_0, 10203158393105900076u},
      {DType::kQ5_1, 17968142722922670881u},
      {DType::kQ8_0, 2468444216204753492u},
      {DType::kQ2_K, 1948041175092792195u},
      {DType::kQ3_K, 2441209561639724991u},
      {DType::kQ4_K, 14296142519956353816u},
      {DType::kQ5_K, 8816910227743935144u},
      {DType::kQ6_K, 4777018431480129947u},
      {DType::kIQ4_NL, 12046529508108913442u},
      {DType::kIQ4_XS, 15534457934308179891u},
  };
  const int64_t k = InputsFor(GetParam()).back(), n = 40, rows = 7;
  RandomWeights weights(GetParam(), n, k, 30);
  std::mt19937 rng(31);
  const auto small = [&rng](int range) {
    return static_cast<float>(static_cast<int>(rng() % (2 * range + 1)) - range);
  };
  const ScaleOffsets offsets = ScaleOffsetsOf(GetParam());
  for (int64_t r = 0; r < n; ++r) {
    for (int64_t b = 0; b < k / InfoOf(GetParam()).block_elements; ++b) {
      const float value = small(1000) * 0x1p-14f;
      const uint16_t half = GetParam() == DType::kBF16 ? F32ToBF16(value) : F32ToF16(value);
      if (GetParam() == DType::kF32) {
        std::memcpy(weights.BlockAt(r, b), &value, 4);
      } else {
        std::memcpy(weights.BlockAt(r, b) + offsets.d, &half, 2);
      }
      if (offsets.m >= 0) std::memcpy(weights.BlockAt(r, b) + offsets.m, &half, 2);
    }
  }
  PaddedMatrix x(rows, k), out(rows, n);
  for (int64_t t = 0; t < rows; ++t) {
    for (int64_t i = 0; i < k; ++i) x.matrix.Row(t)[i] = small(100000) * 0x1p-15f;
  }
  SerialExecutor serial;
  Multiply(serial, x.matrix, *Pack(weights.view), out.matrix);
  uint64_t hash = 14695981039346656037u;  // FNV-1a
  for (int64_t t = 0; t < rows; ++t) {
    const auto* bytes = reinterpret_cast<const uint8_t*>(out.matrix.Row(t));
    for (int64_t i = 0; i < 4 * n; ++i) hash = (hash ^ bytes[i]) * 1099511628211u;
  }
  if (CurrentIsa() == Isa::kSse4) GTEST_SKIP() << "no fused multiply-add";
  EXPECT_EQ(hash, kHashes.at(GetParam())) << NameOf(GetParam()) << " on " << NameOf(CurrentIsa());
}

TEST(MatMulTest, TasksOfMixedTypesShareTheirInput) {
  const int64_t k = 512, rows = 9;
  const RandomWeights a(DType::kQ4_K, 70, k, 20), b(DType::kQ6_K, 33, k, 21), c(DType::kF16, 40, k, 22);
  const auto wa = Pack(a.view), wb = Pack(b.view), wc = Pack(c.view);
  const PaddedMatrix x = RandomX(rows, k, 23);
  for (int64_t t : {int64_t{1}, rows}) {
    const ConstMatrixF xt = ConstMatrixF(x.matrix).Rows(0, t);
    SerialExecutor serial;
    PaddedMatrix ea(t, 70), eb(t, 33), ec(t, 40), oa(t, 70), ob(t, 33), oc(t, 40);
    Multiply(serial, xt, *wa, ea.matrix);
    Multiply(serial, xt, *wb, eb.matrix);
    Multiply(serial, xt, *wc, ec.matrix);
    const auto pool = MakeThreadPool({.n_workers = 2, .pin = false});
    MatMul matmul;
    ASSERT_TRUE(matmul.Reserve(rows, k, 2).ok());
    EXPECT_GT(matmul.reserved_bytes(), 0);
    const MatMulTask tasks[] = {{.weight = wa.get(), .out = oa.matrix},
                                {.weight = wb.get(), .out = ob.matrix},
                                {.weight = wc.get(), .out = oc.matrix}};
    matmul.Run(*pool, xt, tasks);
    ExpectSameBits(oa.matrix, ea.matrix, "Q4_K");
    ExpectSameBits(ob.matrix, eb.matrix, "Q6_K");
    ExpectSameBits(oc.matrix, ec.matrix, "F16");
  }
}

TEST(MatMulTest, AddsBiasThenWhatStandsInTheOutput) {
  const int64_t k = 96, n = 21;
  const RandomWeights w(DType::kQ8_0, n, k, 24);
  const auto packed = Pack(w.view);
  SerialExecutor serial;
  std::vector<float> bias(n);
  for (size_t i = 0; i < bias.size(); ++i) bias[i] = 0.1f * static_cast<float>(i);
  for (int64_t rows : {1, 6}) {
    const PaddedMatrix x = RandomX(rows, k, 25);
    PaddedMatrix plain(rows, n), out(rows, n);
    Multiply(serial, x.matrix, *packed, plain.matrix);
    for (int64_t t = 0; t < rows; ++t) {
      for (int64_t i = 0; i < n; ++i) out.matrix.Row(t)[i] = 7.0f;
    }
    MatMul matmul;
    ASSERT_TRUE(matmul.Reserve(rows, k, 1).ok());
    const MatMulTask task{.weight = packed.get(), .out = out.matrix, .bias = bias.data(), .accumulate = true};
    matmul.Run(serial, x.matrix, std::span(&task, 1));
    for (int64_t t = 0; t < rows; ++t) {
      for (int64_t i = 0; i < n; ++i) {
        EXPECT_EQ(out.matrix.Row(t)[i], 7.0f + (plain.matrix.Row(t)[i] + bias[static_cast<size_t>(i)]));
      }
    }
  }
}

TEST(PackMatrixTest, TellsOfEachRowOnceWhenItIsDoneWith) {
  RandomWeights a(DType::kF32, 4100, 4096, 41), b(DType::kF32, 7, 4096, 42);  // 64 MiB: several runs
  const TensorView parts[] = {a.view, b.view};
  SerialExecutor serial;
  std::vector<TensorView> done;
  const auto packed = PackMatrix(parts, serial, [&](const TensorView& part) { done.push_back(part); });
  ASSERT_TRUE(packed.has_value());
  ASSERT_GT(done.size(), 3u);
  const std::byte* at = a.view.bytes.data();
  for (const TensorView& part : done) {
    if (at == a.view.bytes.data() + a.view.bytes.size()) at = b.view.bytes.data();
    EXPECT_EQ(part.bytes.data(), at);
    EXPECT_EQ(static_cast<int64_t>(part.bytes.size()), part.rows() * RowBytes(part.dtype, part.cols()));
    at += part.bytes.size();
  }
  EXPECT_EQ(at, b.view.bytes.data() + b.view.bytes.size());
}

TEST(PackMatrixTest, RefusesWhatDoesNotFit) {
  SerialExecutor serial;
  const RandomWeights a(DType::kQ8_0, 4, 64, 1), b(DType::kQ8_0, 4, 96, 2), c(DType::kQ4_0, 4, 64, 3);
  const auto message = [&](std::vector<TensorView> parts) {
    const auto packed = PackMatrix(parts, serial);
    EXPECT_FALSE(packed.has_value());
    if (packed.has_value()) return std::string();
    EXPECT_EQ(packed.error().code(), StatusCode::kInvalidArgument);
    return packed.error().message();
  };
  EXPECT_THAT(message({}), ::testing::HasSubstr("at least one"));
  EXPECT_THAT(message({a.view, b.view}), ::testing::HasSubstr("cannot be stacked"));
  EXPECT_THAT(message({a.view, c.view}), ::testing::HasSubstr("cannot be stacked"));
  TensorView odd = a.view;
  odd.shape = {8, 40};
  EXPECT_THAT(message({odd}), ::testing::HasSubstr("multiple of 32"));
  TensorView truncated = a.view;
  truncated.bytes = truncated.bytes.subspan(1);
  EXPECT_THAT(message({truncated}), ::testing::HasSubstr("bytes"));
  TensorView flat = a.view;
  flat.shape = {256};
  EXPECT_THAT(message({flat}), ::testing::HasSubstr("shape"));
}

TEST(IsaTest, KnowsItsNamesAndRefusesWhatIsMissing) {
  const std::vector<Isa> isas = SupportedIsas();
  ASSERT_FALSE(isas.empty());
  EXPECT_EQ(CurrentIsa(), BestIsa());
  for (Isa isa : isas) {
    EXPECT_EQ(IsaFromName(NameOf(isa)), isa);
    EXPECT_TRUE(SetIsa(isa).ok());
    EXPECT_EQ(CurrentIsa(), isa);
  }
  EXPECT_FALSE(IsaFromName("mmx").has_value());
  for (Isa isa : {Isa::kSse4, Isa::kAvx2, Isa::kAvx512, Isa::kAvx512Vnni, Isa::kAvx512Amx, Isa::kNeon}) {
    if (std::find(isas.begin(), isas.end(), isa) == isas.end()) {
      EXPECT_FALSE(SetIsa(isa).ok());
    }
  }
  ASSERT_TRUE(SetIsa(BestIsa()).ok());
}

}  // namespace
}  // namespace surety::kernels::cpu
