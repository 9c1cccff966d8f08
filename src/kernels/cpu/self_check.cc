// The check that MakeCpuOps runs at start-up: every kind of operation on tiny inputs against plain loops in double.
// Tolerances: u = 2^-24 times the number of roundings times the magnitudes, which are near 1 by construction.
#include <algorithm>
#include <cmath>
#include <cstring>
#include <functional>
#include <string>
#include <vector>

#include "base/aligned_buffer.h"
#include "kernels/cpu/cpu_ops.h"
#include "kernels/dequantize.h"
#include "kernels/kv_read.h"

namespace surety::kernels::cpu {
namespace {

constexpr double kU = 0x1p-24;

// A fixed sequence of numbers in [-1, 1).
class Numbers {
 public:
  uint32_t NextBits() {
    state_ = state_ * 6364136223846793005u + 1442695040888963407u;
    return static_cast<uint32_t>(state_ >> 33);
  }
  float Next() { return static_cast<float>(static_cast<int32_t>(NextBits() >> 7) - (1 << 23)) * 0x1p-23f; }
  std::vector<float> Floats(int64_t n) {
    std::vector<float> v(static_cast<size_t>(n));
    for (float& x : v) x = Next();
    return v;
  }

 private:
  uint64_t state_ = 12345;
};

Status Compare(std::string_view what, std::span<const float> got, const std::function<double(size_t)>& want,
               const std::function<double(size_t)>& bound) {
  for (size_t i = 0; i < got.size(); ++i) {
    const double w = want(i);
    if (!(std::abs(got[i] - w) <= bound(i))) {
      return InternalError(std::string(what) + ": element " + std::to_string(i) + " is " + std::to_string(got[i]) +
                           ", expected " + std::to_string(w));
    }
  }
  return OkStatus();
}

Status Compare(std::string_view what, std::span<const float> got, const std::function<double(size_t)>& want,
               double bound) {
  return Compare(what, got, want, [bound](size_t) { return bound; });
}

// Where a block type keeps its scales (halves); random bytes must not make those huge.
std::vector<int> ScaleOffsets(DType dtype) {
  switch (dtype) {
    case DType::kQ4_1:
    case DType::kQ5_1:
    case DType::kQ4_K:
    case DType::kQ5_K: return {0, 2};
    case DType::kQ2_K: return {80, 82};
    case DType::kQ3_K: return {108};
    case DType::kQ6_K: return {208};
    default: return {0};
  }
}

std::vector<std::byte> RandomWeights(DType dtype, int64_t n, Numbers& numbers) {
  std::vector<std::byte> bytes(static_cast<size_t>(RowBytes(dtype, n)));
  const DTypeInfo& info = InfoOf(dtype);
  if (info.block_elements == 1) {
    for (int64_t i = 0; i < n; ++i) {
      const float x = numbers.Next();
      const uint16_t half = dtype == DType::kF16 ? F32ToF16(x) : F32ToBF16(x);
      std::memcpy(bytes.data() + i * info.block_bytes, dtype == DType::kF32 ? static_cast<const void*>(&x) : &half,
                  static_cast<size_t>(info.block_bytes));
    }
    return bytes;
  }
  for (std::byte& b : bytes) b = static_cast<std::byte>(numbers.NextBits() >> 5);
  for (size_t block = 0; block < bytes.size(); block += static_cast<size_t>(info.block_bytes)) {
    for (int offset : ScaleOffsets(dtype)) {
      const uint16_t scale = static_cast<uint16_t>(0x2000 + (numbers.NextBits() & 0x7FF));  // 2^-7 .. 2^-5
      std::memcpy(bytes.data() + block + static_cast<size_t>(offset), &scale, sizeof(scale));
    }
  }
  return bytes;
}

// One weight type: three rows at once against plain loops, and each row alone with the same bits.
Status CheckMatMul(Ops& ops, DType dtype, Numbers& numbers) {
  constexpr int64_t kOutputs = 19, kInputs = 256, kRows = 3;
  const std::string what = "matmul " + std::string(NameOf(dtype));
  const std::vector<std::byte> bytes = RandomWeights(dtype, kOutputs * kInputs, numbers);
  const TensorView view = {what, dtype, {kOutputs, kInputs}, bytes};
  auto packed = ops.Pack({&view, 1}, [](const TensorView&) {});
  if (!packed) return packed.error().code() == StatusCode::kUnimplemented ? OkStatus() : packed.error();
  std::vector<float> weights(kOutputs * kInputs);
  DequantizeRow(dtype, bytes.data(), kOutputs * kInputs, weights.data());
  const std::vector<float> x = numbers.Floats(kRows * kInputs);
  std::vector<float> out(kRows * kOutputs), alone(kOutputs);
  const MatMulTask task = {packed->get(), MatrixF(out.data(), kRows, kOutputs)};
  const ConstMatrixF xm(x.data(), kRows, kInputs);
  ops.MatMul(xm, {&task, 1});
  double largest = 0;
  for (float w : weights) largest = std::max(largest, std::abs(double{w}));
  const bool rounded = InfoOf(dtype).block_elements > 1;  // then x is rounded to 8 bits: under 1.9 steps
  SURETY_RETURN_IF_ERROR(Compare(
      what, out,
      [&](size_t i) {
        double sum = 0;
        for (size_t k = 0; k < kInputs; ++k) {
          sum += double{weights[i % kOutputs * kInputs + k]} * x[i / kOutputs * kInputs + k];
        }
        return sum;
      },
      [&](size_t i) {
        double sum = 0;
        for (size_t k = 0; k < kInputs; ++k) sum += std::abs(double{weights[i % kOutputs * kInputs + k]});
        return (rounded ? sum / 127 * 1.9 : 0) + 2 * (kInputs + 8) * kU * (sum + (rounded ? kInputs * largest : 0));
      }));
  for (int64_t row = 0; row < kRows; ++row) {
    const MatMulTask one = {packed->get(), MatrixF(alone.data(), 1, kOutputs)};
    ops.MatMul(xm.Rows(row, 1), {&one, 1});
    if (std::memcmp(alone.data(), out.data() + row * kOutputs, kOutputs * sizeof(float)) != 0) {
      return InternalError(what + ": a row alone differs from the same row among others");
    }
  }
  // So many rows that the kernels for many are at work, with a rest.
  constexpr int64_t kMany = 37;
  std::vector<float> many_x, many_out(kMany * kOutputs);
  for (int64_t row = 0; row < kMany; ++row) {
    const float* from = x.data() + row % kRows * kInputs;
    many_x.insert(many_x.end(), from, from + kInputs);
  }
  const MatMulTask many = {packed->get(), MatrixF(many_out.data(), kMany, kOutputs)};
  ops.MatMul(ConstMatrixF(many_x.data(), kMany, kInputs), {&many, 1});
  for (int64_t row = 0; row < kMany; ++row) {
    if (std::memcmp(many_out.data() + row * kOutputs, out.data() + row % kRows * kOutputs,
                    kOutputs * sizeof(float)) != 0) {
      return InternalError(what + ": row " + std::to_string(row) + " of many differs from the same row of few");
    }
  }
  return OkStatus();
}

Status CheckNorms(Ops& ops, Numbers& numbers) {
  constexpr int64_t kRows = 3, kCols = 53;
  const std::vector<float> x = numbers.Floats(kRows * kCols), w = numbers.Floats(kCols), b = numbers.Floats(kCols);
  std::vector<float> out(x.size());
  double mean[kRows], square[kRows];
  for (size_t r = 0; r < kRows; ++r) {
    mean[r] = square[r] = 0;
    for (size_t c = 0; c < kCols; ++c) mean[r] += x[r * kCols + c] / double{kCols};
    for (size_t c = 0; c < kCols; ++c) square[r] += double{x[r * kCols + c]} * x[r * kCols + c] / double{kCols};
  }
  const ConstMatrixF xm(x.data(), kRows, kCols);
  const MatrixF om(out.data(), kRows, kCols);
  ops.RmsNorm(xm, w.data(), kCols, 1e-6f, om);
  const auto rms = [&](size_t i) { return x[i] / std::sqrt(square[i / kCols] + double{1e-6f}) * w[i % kCols]; };
  SURETY_RETURN_IF_ERROR(Compare("rms norm", out, rms, 16 * kU));
  std::vector<float> residual(x.size(), 0.0f);
  ops.AddRmsNorm(MatrixF(residual.data(), kRows, kCols), xm, w.data(), 1e-6f, om);
  SURETY_RETURN_IF_ERROR(Compare("add and rms norm", out, rms, 16 * kU));
  ops.LayerNorm(xm, w.data(), b.data(), 1e-6f, om);
  return Compare("layer norm", out, [&](size_t i) {
    const double m = mean[i / kCols];
    return (x[i] - m) / std::sqrt(square[i / kCols] - m * m + double{1e-6f}) * w[i % kCols] + b[i % kCols];
  }, 32 * kU);
}

Status CheckElementwise(Ops& ops, Numbers& numbers) {
  constexpr int64_t kCols = 37;
  std::vector<float> x = numbers.Floats(2 * kCols);
  for (float& v : x) v *= 4;
  std::vector<float> out(kCols);
  for (Activation act : {Activation::kSilu, Activation::kGeluTanh, Activation::kGeluErf, Activation::kRelu}) {
    ops.GatedActivation(act, ConstMatrixF(x.data(), 1, 2 * kCols), MatrixF(out.data(), 1, kCols));
    SURETY_RETURN_IF_ERROR(Compare("gated activation", out, [&](size_t i) {
      const double g = x[i];
      const double t = std::sqrt(2 / M_PI) * (g + 0.044715 * g * g * g);
      const double f = act == Activation::kSilu       ? g / (1 + std::exp(-g))
                       : act == Activation::kGeluTanh ? 0.5 * g * (1 + std::tanh(t))
                       : act == Activation::kGeluErf  ? 0.5 * g * (1 + std::erf(g * M_SQRT1_2))
                                                      : std::max(g, 0.0);
      return f * x[i + kCols];
    }, 256 * kU));
  }
  std::vector<float> y = x;
  const MatrixF ym(y.data(), 2, kCols);
  ops.SoftCap(ym, 3.0f);
  ops.Scale(ym, 0.5f);
  ops.Add(ym, ConstMatrixF(x.data(), 2, kCols));
  return Compare("soft cap, scale and add", y, [&](size_t i) { return 1.5 * std::tanh(x[i] / 3.0) + x[i]; }, 64 * kU);
}

Status CheckRope(Ops& ops, Numbers& numbers) {
  constexpr int kFreqs = 19;
  std::vector<double> inv_freq;
  for (int i = 0; i < kFreqs; ++i) inv_freq.push_back(std::pow(1e4, -i / double{kFreqs}));
  const std::vector<int32_t> positions = {0, 30011};
  for (bool interleaved : {false, true}) {
    const RopeSpec spec = {kFreqs, interleaved, inv_freq.data(), 1.0};
    std::vector<float> table(4 * kFreqs), x = numbers.Floats(4 * kFreqs);
    const std::vector<float> before = x;
    const MatrixF tm(table.data(), 2, 2 * kFreqs);
    ops.RopeTable(spec, positions, tm);
    ops.Rope(spec, tm, 1, 2 * kFreqs, 0, MatrixF(x.data(), 2, 2 * kFreqs));
    SURETY_RETURN_IF_ERROR(Compare("rope", x, [&](size_t i) {
      const size_t row = i / (2 * kFreqs), c = i % (2 * kFreqs);
      const bool second = interleaved ? c % 2 == 1 : c >= kFreqs;
      const size_t freq = interleaved ? c / 2 : c % kFreqs;
      const size_t partner = interleaved ? i ^ 1 : second ? i - kFreqs : i + kFreqs;
      const double angle = positions[row] * inv_freq[freq];
      return before[i] * std::cos(angle) + (second ? 1 : -1) * before[partner] * std::sin(angle);
    }, 16 * kU));
  }
  return OkStatus();
}

// A sequence of 150 tokens in pages in descending order; memory starts as NaN.
struct SmallCache {
  static constexpr int kTokens = 150, kPage = 16, kPages = 10;
  AlignedBuffer memory;
  PagedKvView kv;
  std::vector<int32_t> table, zeros, positions;
  SequenceRows sequence;

  explicit SmallCache(const KvLayout& layout) {
    for (int i = 0; i < kPages; ++i) table.push_back(kPages - 1 - i);
    memory = AlignedBuffer(static_cast<size_t>(layout.PageStrideBytes() * kPages));
    std::memset(memory.data(), 0xFF, memory.size_bytes());
    kv = {layout, memory.data(), layout.PageStrideBytes(), kPages};
  }
  BatchView Batch(int first, int n) {
    zeros.assign(static_cast<size_t>(n), 0);
    positions.clear();
    for (int i = 0; i < n; ++i) positions.push_back(first + i);
    sequence = {0, n, first, table};
    return {zeros, positions, {&sequence, 1}, {}};
  }
};

// out[c] = softmax over tokens [lo, hi) of (scale q . keys[j]), times values[j][c].
void PlainAttention(const float* q, double scale, int lo, int hi, int k_dim, const double* keys, int k_step, int v_dim,
                    const double* values, int v_step, double* out) {
  double sum = 0;
  std::fill(out, out + v_dim, 0.0);
  for (int j = lo; j < hi; ++j) {
    double s = 0;
    for (int e = 0; e < k_dim; ++e) s += q[e] * keys[j * k_step + e];
    const double p = std::exp(s * scale);
    sum += p;
    for (int c = 0; c < v_dim; ++c) out[c] += p * values[j * v_step + c];
  }
  for (int c = 0; c < v_dim; ++c) out[c] /= sum;
}

Status CheckAttention(Ops& ops, KvType type, Numbers& numbers) {
  constexpr int kHeads = 6, kKvHeads = 2, kDim = 32, kTokens = SmallCache::kTokens, kRows = 3, kWindow = 140;
  constexpr int kKvCols = kKvHeads * kDim, kCols = kHeads * kDim;
  const std::string what = "attention " + std::string(NameOf(type));
  SmallCache cache({1, kKvHeads, kDim, kDim, SmallCache::kPage, type, false});
  const std::vector<float> k = numbers.Floats(kTokens * kKvCols), v = numbers.Floats(kTokens * kKvCols);
  const std::vector<float> q = numbers.Floats(kRows * kCols);
  ops.KvStore(0, ConstMatrixF(k.data(), kTokens, kKvCols), ConstMatrixF(v.data(), kTokens, kKvCols),
              cache.Batch(0, kTokens), cache.kv);
  const double step = type == KvType::kQ8_0 ? 1.01 / 254 : type == KvType::kBF16 ? 0x1p-9 : 0x1p-11;
  std::vector<double> keys(k.size()), values(v.size());
  for (size_t i = 0; i < k.size(); ++i) {
    const int token = static_cast<int>(i) / kKvCols, head = static_cast<int>(i) % kKvCols / kDim;
    keys[i] = StoredKey(cache.kv, 0, cache.table, head, token, static_cast<int>(i) % kDim);
    values[i] = StoredValue(cache.kv, 0, cache.table, head, token, static_cast<int>(i) % kDim);
    if (!(std::abs(keys[i] - k[i]) <= step && std::abs(values[i] - v[i]) <= step)) {
      return InternalError("kv store " + std::string(NameOf(type)));
    }
  }
  const AttentionParams params = {kHeads, kKvHeads, kDim, kDim, 0.4f, 0.0f, kWindow, true, nullptr};
  std::vector<float> out(kRows * kCols), last(kCols);
  const auto attend = [&](int first, int n, float* to) {
    const int row = first - (kTokens - kRows);
    ops.Attention(params, 0, ConstMatrixF(q.data() + row * kCols, n, kCols), cache.Batch(first, n), cache.kv,
                  MatrixF(to, n, kCols));
  };
  attend(kTokens - kRows, kRows, out.data());
  std::vector<double> want(out.size());
  for (int line = 0; line < kRows * kHeads; ++line) {
    const int end = kTokens - kRows + line / kHeads + 1, kv_head = line % kHeads / (kHeads / kKvHeads);
    PlainAttention(q.data() + line * kDim, double{0.4f}, end - kWindow, end, kDim, keys.data() + kv_head * kDim,
                   kKvCols, kDim, values.data() + kv_head * kDim, kKvCols, want.data() + line * kDim);
  }
  SURETY_RETURN_IF_ERROR(Compare(what, out, [&](size_t i) { return want[i]; }, 512 * kU));
  attend(kTokens - 1, 1, last.data());
  if (std::memcmp(last.data(), out.data() + (kRows - 1) * kCols, last.size() * sizeof(float)) != 0) {
    return InternalError(what + ": decode and prefill differ");
  }
  return OkStatus();
}

Status CheckMla(Ops& ops, Numbers& numbers) {
  constexpr MlaParams params = {2, 8, 4, 16, 8, 0.5f};  // heads, nope, rope, latent, v, scale
  constexpr int kHeads = 2, kNope = 8, kRope = 4, kLatent = 16, kV = 8;
  constexpr int kWidth = kLatent + kRope, kTokens = SmallCache::kTokens, kPer = kNope + kV;
  SmallCache cache({1, 1, kWidth, kLatent, SmallCache::kPage, KvType::kF16, true});
  const std::vector<float> k = numbers.Floats(kTokens * kWidth), kv_b = numbers.Floats(kHeads * kPer * kLatent);
  const std::vector<float> q = numbers.Floats(kHeads * kWidth);
  ops.KvStore(0, ConstMatrixF(k.data(), kTokens, kWidth), {}, cache.Batch(0, kTokens), cache.kv);
  const BatchView last = cache.Batch(kTokens - 1, 1);
  std::vector<double> latents(k.size()), want(kHeads * kLatent);
  for (size_t i = 0; i < k.size(); ++i) {
    latents[i] = StoredKey(cache.kv, 0, cache.table, 0, static_cast<int>(i) / kWidth, static_cast<int>(i) % kWidth);
  }
  std::vector<float> out(kHeads * kLatent), made(kHeads * kV);
  ops.MlaAttention(params, 0, ConstMatrixF(q.data(), 1, kHeads * kWidth), last, cache.kv,
                   MatrixF(out.data(), 1, kHeads * kLatent));
  for (int h = 0; h < kHeads; ++h) {
    PlainAttention(q.data() + h * kWidth, 0.5, 0, kTokens, kWidth, latents.data(), kWidth, kLatent, latents.data(),
                   kWidth, want.data() + h * kLatent);
  }
  SURETY_RETURN_IF_ERROR(Compare("latent attention", out, [&](size_t i) { return want[i]; }, 512 * kU));
  ops.MlaAttentionMaterialised(params, 0, ConstMatrixF(q.data(), 1, kHeads * (kNope + kRope)),
                               ConstMatrixF(kv_b.data(), kHeads * kPer, kLatent), last, cache.kv,
                               MatrixF(made.data(), 1, kHeads * kV));
  constexpr int kMade = kNope + kRope + kV;  // a token's key, then its value
  std::vector<double> tokens(static_cast<size_t>(kTokens) * kMade);
  for (int h = 0; h < kHeads; ++h) {
    for (int j = 0; j < kTokens; ++j) {
      double* to = tokens.data() + j * kMade;
      const double* latent = latents.data() + j * kWidth;
      for (int i = 0; i < kPer; ++i) {
        const float* row = kv_b.data() + (h * kPer + i) * kLatent;
        double sum = 0;
        for (int r = 0; r < kLatent; ++r) sum += row[r] * latent[r];
        to[i < kNope ? i : i + kRope] = sum;
      }
      std::copy(latent + kLatent, latent + kWidth, to + kNope);
    }
    PlainAttention(q.data() + h * (kNope + kRope), 0.5, 0, kTokens, kNope + kRope, tokens.data(), kMade, kV,
                   tokens.data() + kNope + kRope, kMade, want.data() + h * kV);
  }
  return Compare("materialised latent attention", made, [&](size_t i) { return want[i]; }, 4096 * kU);
}

Status CheckHeadMatMul(Ops& ops, Numbers& numbers) {
  constexpr int kHeads = 2, kIn = 37, kOut = 19;
  const std::vector<float> w = numbers.Floats(kHeads * kIn * kOut), x = numbers.Floats(kHeads * kIn);
  std::vector<float> y(kHeads * kOut);
  for (bool transposed : {false, true}) {
    ops.HeadMatMul(w.data(), kIn * kOut, kHeads, kIn, kOut, transposed, ConstMatrixF(x.data(), 1, kHeads * kIn),
                   MatrixF(y.data(), 1, kHeads * kOut));
    SURETY_RETURN_IF_ERROR(Compare("per-head product", y, [&](size_t i) {
      const size_t head = i / kOut, o = i % kOut;
      double sum = 0;
      for (size_t r = 0; r < kIn; ++r) {
        sum += double{w[head * kIn * kOut + (transposed ? r * kOut + o : o * kIn + r)]} * x[head * kIn + r];
      }
      return sum;
    }, kIn * (kIn + 1) * kU));
  }
  return OkStatus();
}

Status CheckEmbed(Ops& ops, Numbers& numbers) {
  const std::vector<std::byte> bytes = RandomWeights(DType::kQ8_0, 4 * 64, numbers);
  const TensorView table = {"table", DType::kQ8_0, {4, 64}, bytes};
  std::vector<float> want(4 * 64), out(2 * 64);
  DequantizeRow(DType::kQ8_0, bytes.data(), 4 * 64, want.data());
  const std::vector<int32_t> ids = {3, 1};
  ops.Embed(table, ids, 2.0f, MatrixF(out.data(), 2, 64));
  return Compare("embedding", out, [&](size_t i) { return 2.0 * want[static_cast<size_t>(ids[i / 64]) * 64 + i % 64]; },
                 0.0);
}

}  // namespace

Status SelfCheck(Ops& ops) {
  Numbers numbers;
  SURETY_RETURN_IF_ERROR(ops.Reserve(SmallCache::kTokens, 256, 256));
  for (const DTypeInfo& info : AllDTypes()) SURETY_RETURN_IF_ERROR(CheckMatMul(ops, info.dtype, numbers));
  SURETY_RETURN_IF_ERROR(CheckNorms(ops, numbers));
  SURETY_RETURN_IF_ERROR(CheckElementwise(ops, numbers));
  SURETY_RETURN_IF_ERROR(CheckRope(ops, numbers));
  for (KvType type : {KvType::kF32, KvType::kF16, KvType::kBF16, KvType::kQ8_0}) {
    SURETY_RETURN_IF_ERROR(CheckAttention(ops, type, numbers));
  }
  SURETY_RETURN_IF_ERROR(CheckMla(ops, numbers));
  SURETY_RETURN_IF_ERROR(CheckHeadMatMul(ops, numbers));
  return CheckEmbed(ops, numbers);
}

}  // namespace surety::kernels::cpu
