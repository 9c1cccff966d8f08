// What one fixed order of additions costs (docs/adr/0001): the kernels, whose outputs lie across the lanes of a
// register, beside kernels in the order that a processor would choose for itself, whose inputs lie across the lanes,
// with several running sums and a sum across the register at the end.
//
// BM_Order/<dtype>/<outputs|inputs>/<rows>x<K>: one worker, 16 outputs, all data in the first two levels of cache, so
// that nothing hides arithmetic. Gop/s (multiply and add = 2). The free kernels get float scales and their own plain
// layout. AVX2 only.
#include <algorithm>
#include <string>
#include <vector>

#include "base/executor.h"
#include "benchmark/benchmark.h"
#include "kernels/cpu/isa.h"
#include "kernels/cpu/matmul.h"
#include "kernels/cpu/matmul_kernels.h"
#include "kernels/cpu/matmul_test_util.h"
#include "kernels/cpu/packed_matrix.h"

#if defined(__x86_64__)
#include <immintrin.h>

#define SURETY_AVX2 __attribute__((target("avx2,fma")))

namespace surety::kernels::cpu {
namespace {

constexpr int kOutputs = 16;

struct alignas(32) FreeBlock {
  uint8_t codes[kBlock];  // q8_0: signed; q4_0: two to a byte in the first half, input i beside input i + 16
};

struct FreeMatrix {
  std::vector<FreeBlock> blocks;  // [output][block]
  std::vector<float> scales;
};

SURETY_AVX2 float SumAcross(__m256 v) {
  __m128 s = _mm_add_ps(_mm256_castps256_ps128(v), _mm256_extractf128_ps(v, 1));
  s = _mm_add_ps(s, _mm_movehl_ps(s, s));
  return _mm_cvtss_f32(_mm_add_ss(s, _mm_movehdup_ps(s)));
}

template <DType kType>
SURETY_AVX2 __m256i Load(const FreeBlock& block) {
  if constexpr (kType == DType::kQ8_0) {
    return _mm256_load_si256(reinterpret_cast<const __m256i*>(block.codes));
  } else {
    const __m128i packed = _mm_load_si128(reinterpret_cast<const __m128i*>(block.codes));
    const __m256i both = _mm256_set_m128i(_mm_srli_epi16(packed, 4), packed);
    return _mm256_and_si256(both, _mm256_set1_epi8(15));
  }
}

// Eight 32-bit sums of four products each. q4_0: of codes without their offset, which the block's sum takes out.
template <DType kType>
SURETY_AVX2 __m256i Products(__m256i w, const XBlock& x) {
  const __m256i q = _mm256_loadu_si256(reinterpret_cast<const __m256i*>(x.q));
  const __m256i ones = _mm256_set1_epi16(1);
  if constexpr (kType == DType::kQ8_0) {
    return _mm256_madd_epi16(_mm256_maddubs_epi16(_mm256_abs_epi8(w), _mm256_sign_epi8(q, w)), ones);
  } else {
    const __m256i offset = _mm256_zextsi128_si256(_mm_cvtsi32_si128(-8 * (x.sums[0] + x.sums[1])));
    return _mm256_add_epi32(_mm256_madd_epi16(_mm256_maddubs_epi16(w, q), ones), offset);
  }
}

// kTall outputs and kWide rows at a time: as many running sums as registers allow.
template <DType kType, int kTall, int kWide>
SURETY_AVX2 void FreeTile(const FreeMatrix& m, int64_t n_blocks, int output, const XBlock* x, float* acc) {
  __m256 sums[kTall][kWide];
#pragma GCC unroll 4
  for (int i = 0; i < kTall; ++i) {
#pragma GCC unroll 4
    for (int j = 0; j < kWide; ++j) sums[i][j] = _mm256_setzero_ps();
  }
  for (int64_t b = 0; b < n_blocks; ++b) {
#pragma GCC unroll 4
    for (int i = 0; i < kTall; ++i) {
      const auto at = static_cast<size_t>((output + i) * n_blocks + b);
      const __m256i w = Load<kType>(m.blocks[at]);
#pragma GCC unroll 4
      for (int j = 0; j < kWide; ++j) {
        const XBlock& block = x[j * n_blocks + b];
        const __m256 dot = _mm256_cvtepi32_ps(Products<kType>(w, block));
        sums[i][j] = _mm256_fmadd_ps(_mm256_set1_ps(m.scales[at] * block.d), dot, sums[i][j]);
      }
    }
  }
#pragma GCC unroll 4
  for (int i = 0; i < kTall; ++i) {
#pragma GCC unroll 4
    for (int j = 0; j < kWide; ++j) acc[j * kOutputs + output + i] += SumAcross(sums[i][j]);
  }
}

template <DType kType>
void FreeProduct(const FreeMatrix& m, int64_t n_blocks, const XBlock* x, int rows, float* acc) {
  if (rows == 1) {
    for (int o = 0; o < kOutputs; o += 4) FreeTile<kType, 4, 1>(m, n_blocks, o, x, acc);
    return;
  }
  for (int row = 0; row + 4 <= rows; row += 4) {
    for (int o = 0; o < kOutputs; o += 2) {
      FreeTile<kType, 2, 4>(m, n_blocks, o, x + row * n_blocks, acc + row * kOutputs);
    }
  }
}

std::vector<XBlock> Activations(int rows, int64_t n_blocks) {
  std::vector<float> x(static_cast<size_t>(rows * n_blocks * kBlock));
  std::mt19937 rng(2);
  std::normal_distribution<float> normal;
  for (float& value : x) value = normal(rng);
  std::vector<XBlock> blocks(static_cast<size_t>(rows * n_blocks)), extras(kMaxExtras);
  for (size_t b = 0; b < blocks.size(); ++b) {
    QuantizeSegment(x.data() + b * kBlock, 1, 0, &blocks[b], extras.data());
  }
  return blocks;
}

template <DType kType>
void BM_Inputs(benchmark::State& state, int rows, int64_t k) {
  const int64_t n_blocks = k / kBlock;
  FreeMatrix m;
  m.blocks.resize(static_cast<size_t>(kOutputs * n_blocks));
  m.scales.assign(m.blocks.size(), 0.01f);
  std::mt19937 rng(1);
  for (FreeBlock& block : m.blocks) {
    for (uint8_t& code : block.codes) code = static_cast<uint8_t>(rng());
  }
  const auto x = Activations(rows, n_blocks);
  std::vector<float> acc(static_cast<size_t>(rows * kOutputs));
  for (auto _ : state) {
    FreeProduct<kType>(m, n_blocks, x.data(), rows, acc.data());
    benchmark::DoNotOptimize(acc.data());
    benchmark::ClobberMemory();
  }
  const double ops = 2.0 * rows * kOutputs * static_cast<double>(k) * static_cast<double>(state.iterations());
  state.counters["Gop/s"] = benchmark::Counter(ops / 1e9, benchmark::Counter::kIsRate);
}

void BM_Outputs(benchmark::State& state, DType dtype, int rows, int64_t k) {
  const int64_t n_blocks = k / kBlock;
  const RandomWeights random(dtype, kOutputs, k, 1);
  SerialExecutor serial;
  const auto packed = std::move(PackMatrix(std::span(&random.view, 1), serial).value());
  const std::byte* group = static_cast<const CpuPackedMatrix&>(*packed).Group(0);
  const QuantKernel& kernel = QuantKernelOf(dtype);
  std::vector<PanelBlock> panel(static_cast<size_t>(n_blocks));
  for (int64_t b = 0; b < n_blocks; b += kPanelBlocks) {
    kernel.unpack(group, b, std::min<int64_t>(kPanelBlocks, n_blocks - b), panel.data() + b);
  }
  const auto x = Activations(rows, n_blocks);
  std::vector<float> acc(static_cast<size_t>(rows * kOutputs));
  if (kernel.begin != nullptr) kernel.begin(rows);
  for (auto _ : state) {
    if (rows == 1) {
      kernel.few[0](group, n_blocks, x.data(), n_blocks, acc.data());
    } else {
      kernel.many(panel.data(), n_blocks, x.data(), n_blocks, rows, {}, acc.data());
    }
    benchmark::DoNotOptimize(acc.data());
    benchmark::ClobberMemory();
  }
  if (kernel.end != nullptr) kernel.end();
  const double ops = 2.0 * rows * kOutputs * static_cast<double>(k) * static_cast<double>(state.iterations());
  state.counters["Gop/s"] = benchmark::Counter(ops / 1e9, benchmark::Counter::kIsRate);
}

void RegisterAll() {
  for (const int rows : {1, 8}) {
    for (const int64_t k : {576, 896, 1536}) {
      const std::string shape = std::to_string(rows) + "x" + std::to_string(k);
      const auto add = [&](const std::string& name, auto fn) {
        benchmark::RegisterBenchmark((name + shape).c_str(), fn);
      };
      add("BM_Order/q8_0/outputs/", [=](auto& s) { BM_Outputs(s, DType::kQ8_0, rows, k); });
      add("BM_Order/q8_0/inputs/", [=](auto& s) { BM_Inputs<DType::kQ8_0>(s, rows, k); });
      add("BM_Order/q4_0/outputs/", [=](auto& s) { BM_Outputs(s, DType::kQ4_0, rows, k); });
      add("BM_Order/q4_0/inputs/", [=](auto& s) { BM_Inputs<DType::kQ4_0>(s, rows, k); });
    }
  }
}

[[maybe_unused]] const bool registered = (RegisterAll(), true);

}  // namespace
}  // namespace surety::kernels::cpu
#endif
