#include "cli/roofs.h"

#include <algorithm>
#include <atomic>
#include <cstdint>
#include <cstring>
#include <memory>
#include <vector>

#include "base/aligned_buffer.h"
#include "base/clock.h"
#include "base/memory_info.h"

#if defined(__x86_64__)
#include <immintrin.h>
#endif

// The accumulators must live in registers, which they do only where the loop over them is gone.
#if defined(__clang__)
#define SURETY_UNROLL _Pragma("unroll")
#else
#define SURETY_UNROLL _Pragma("GCC unroll 16")
#endif

namespace surety::cli {
namespace {

constexpr int kRepetitions = 5;
constexpr int64_t kComputeRounds = 2'000'000;
constexpr int kChains = 12;  // independent accumulators: latency of 4 to 6 cycles times two units

using ReadFn = uint64_t (*)(const std::byte* data, size_t size_bytes);  // size a multiple of 512
using ComputeFn = uint64_t (*)(int64_t rounds);  // the result only keeps the compiler from leaving the work out

struct Probe {
  ComputeFn run;
  double ops_per_round;
  const char* name;
};

uint64_t ReadPlain(const std::byte* data, size_t size_bytes) {
  uint64_t sums[4] = {};
  for (size_t at = 0; at + 32 <= size_bytes; at += 32) {
    uint64_t words[4];
    std::memcpy(words, data + at, 32);
    for (int i = 0; i < 4; ++i) sums[i] += words[i];
  }
  return sums[0] ^ sums[1] ^ sums[2] ^ sums[3];
}

uint64_t Fp32Plain(int64_t rounds) {
  float sums[kChains] = {};
  for (int64_t r = 0; r < rounds; ++r) {
    for (float& sum : sums) sum = sum * 0.999f + 0.5f;
  }
  uint64_t bits = 0;
  for (const float sum : sums) bits += static_cast<uint64_t>(sum);
  return bits;
}

uint64_t Int8Plain(int64_t rounds) {
  int32_t sums[kChains] = {};
  for (int64_t r = 0; r < rounds; ++r) {
    for (int i = 0; i < kChains; ++i) sums[i] += static_cast<int8_t>(r) * static_cast<int8_t>(r + i);
  }
  uint64_t bits = 0;
  for (const int32_t sum : sums) bits += static_cast<uint64_t>(sum);
  return bits;
}

#if defined(__x86_64__)

__attribute__((target("avx2"))) uint64_t ReadAvx2(const std::byte* data, size_t size_bytes) {
  __m256i sums[4] = {};
  for (size_t at = 0; at < size_bytes; at += 128) {
    SURETY_UNROLL
    for (size_t i = 0; i < 4; ++i) {
      sums[i] = _mm256_xor_si256(sums[i], _mm256_load_si256(reinterpret_cast<const __m256i*>(data + at + 32 * i)));
    }
  }
  const __m256i sum = _mm256_xor_si256(_mm256_xor_si256(sums[0], sums[1]), _mm256_xor_si256(sums[2], sums[3]));
  return static_cast<uint64_t>(_mm256_extract_epi64(sum, 0) ^ _mm256_extract_epi64(sum, 3));
}

__attribute__((target("avx512f"))) uint64_t ReadAvx512(const std::byte* data, size_t size_bytes) {
  __m512i sums[4] = {};
  for (size_t at = 0; at < size_bytes; at += 256) {
    SURETY_UNROLL
    for (size_t i = 0; i < 4; ++i) sums[i] = _mm512_xor_si512(sums[i], _mm512_load_si512(data + at + 64 * i));
  }
  const __m512i sum = _mm512_xor_si512(_mm512_xor_si512(sums[0], sums[1]), _mm512_xor_si512(sums[2], sums[3]));
  return static_cast<uint64_t>(_mm512_reduce_add_epi64(sum));
}

__attribute__((target("avx2,fma"))) uint64_t Fp32Avx2(int64_t rounds) {
  const __m256 a = _mm256_set1_ps(0.999f), b = _mm256_set1_ps(0.5f);
  __m256 sums[kChains];
  for (auto& sum : sums) sum = _mm256_set1_ps(1.0f);
  for (int64_t r = 0; r < rounds; ++r) {
    SURETY_UNROLL
    for (auto& sum : sums) sum = _mm256_fmadd_ps(sum, a, b);
  }
  float bits = 0;
  for (const auto& sum : sums) bits += _mm256_cvtss_f32(sum);
  return static_cast<uint64_t>(bits);
}

__attribute__((target("avx512f"))) uint64_t Fp32Avx512(int64_t rounds) {
  const __m512 a = _mm512_set1_ps(0.999f), b = _mm512_set1_ps(0.5f);
  __m512 sums[kChains];
  for (auto& sum : sums) sum = _mm512_set1_ps(1.0f);
  for (int64_t r = 0; r < rounds; ++r) {
    SURETY_UNROLL
    for (auto& sum : sums) sum = _mm512_fmadd_ps(sum, a, b);
  }
  float bits = 0;
  for (const auto& sum : sums) bits += _mm512_cvtss_f32(sum);
  return static_cast<uint64_t>(bits);
}

// Products of 8 bits by maddubs, widened to 32 bits by madd: three instructions for 32 multiply-adds.
__attribute__((target("avx2"))) uint64_t Int8Avx2(int64_t rounds) {
  const __m256i ones = _mm256_set1_epi16(1);
  __m256i a = _mm256_set1_epi8(3), b = _mm256_set1_epi8(-5);
  __m256i sums[8] = {};
  for (int64_t r = 0; r < rounds; ++r) {
    asm volatile("" : "+x"(a), "+x"(b));  // the products must be made anew each round
    SURETY_UNROLL
    for (auto& sum : sums) {
      __m256i product = _mm256_maddubs_epi16(a, b);
      asm volatile("" : "+x"(product));
      sum = _mm256_add_epi32(sum, _mm256_madd_epi16(product, ones));
    }
  }
  int64_t bits = 0;
  for (const auto& sum : sums) bits += _mm256_extract_epi32(sum, 0);
  return static_cast<uint64_t>(bits);
}

__attribute__((target("avx512f,avx512vnni"))) uint64_t Int8Vnni(int64_t rounds) {
  __m512i a = _mm512_set1_epi8(3), b = _mm512_set1_epi8(-5);
  __m512i sums[kChains];
  for (auto& sum : sums) sum = _mm512_setzero_si512();
  for (int64_t r = 0; r < rounds; ++r) {
    asm volatile("" : "+v"(a), "+v"(b));
    SURETY_UNROLL
    for (auto& sum : sums) sum = _mm512_dpbusd_epi32(sum, a, b);
  }
  int64_t bits = 0;
  for (const auto& sum : sums) bits += _mm512_reduce_add_epi32(sum);
  return static_cast<uint64_t>(bits);
}

ReadFn BestRead() {
  if (__builtin_cpu_supports("avx512f")) return ReadAvx512;
  return __builtin_cpu_supports("avx2") ? ReadAvx2 : ReadPlain;
}
Probe BestFp32() {
  if (__builtin_cpu_supports("avx512f")) return {Fp32Avx512, kChains * 32.0, "avx512 fma"};
  if (__builtin_cpu_supports("fma") && __builtin_cpu_supports("avx2")) return {Fp32Avx2, kChains * 16.0, "avx2 fma"};
  return {Fp32Plain, kChains * 2.0, "plain loop"};
}
Probe BestInt8() {
  if (__builtin_cpu_supports("avx512vnni")) return {Int8Vnni, kChains * 128.0, "avx512 vpdpbusd"};
  if (__builtin_cpu_supports("avx2")) return {Int8Avx2, 8 * 64.0, "avx2 maddubs"};
  return {Int8Plain, kChains * 2.0, "plain loop"};
}

#else

ReadFn BestRead() { return ReadPlain; }
Probe BestFp32() { return {Fp32Plain, kChains * 2.0, "plain loop"}; }
Probe BestInt8() { return {Int8Plain, kChains * 2.0, "plain loop"}; }

#endif

std::atomic<uint64_t> g_sink{0};

double SecondsOf(Executor& executor, FunctionRef<void(int worker)> work) {
  const int64_t start = Clock::Real().NowNanos();
  executor.Run(work);
  return std::max(1e-9, NanosToSeconds(Clock::Real().NowNanos() - start));
}

double ComputeRate(Executor& executor, const Probe& probe, int64_t rounds) {
  double best = 0;
  for (int i = 0; i < kRepetitions; ++i) {
    const double seconds = SecondsOf(executor, [&](int) { g_sink += probe.run(rounds); });
    const double ops = probe.ops_per_round * static_cast<double>(rounds) * executor.n_workers();
    best = std::max(best, ops / seconds);
  }
  return best;
}

// Of many short series, so that one in which the system took a processor away does not count.
double BarrierSeconds(Executor& executor) {
  constexpr int kSeries = 51, kBarriers = 40;
  if (executor.n_workers() == 1) return 0;
  std::vector<double> seconds;
  for (int i = 0; i < kSeries; ++i) {
    seconds.push_back(SecondsOf(executor, [&](int worker) {
      for (int k = 0; k < kBarriers; ++k) executor.Barrier(worker);
    }) / kBarriers);
  }
  std::nth_element(seconds.begin(), seconds.begin() + kSeries / 2, seconds.end());
  return seconds[kSeries / 2];
}

}  // namespace

void Roofs::RaiseTo(const Roofs& other) {
  read_bytes_per_s = std::max(read_bytes_per_s, other.read_bytes_per_s);
  fp32_flop_per_s = std::max(fp32_flop_per_s, other.fp32_flop_per_s);
  int8_op_per_s = std::max(int8_op_per_s, other.int8_op_per_s);
  barrier_seconds = std::min(barrier_seconds, other.barrier_seconds);
}

double MeasureReadRate(Executor& executor, int64_t size_bytes, bool quick) {
  constexpr int64_t kGrain = 4096;
  const int64_t available = AvailableMemoryBytes();
  if (available > 0) size_bytes = std::min(size_bytes, available / 2);
  size_bytes = std::max<int64_t>(size_bytes, 16 << 20) / kGrain * kGrain;
  auto buffer = AlignedBuffer::TryAllocate(static_cast<size_t>(size_bytes));
  if (!buffer) return 0;
  executor.Run([&](int worker) {  // each worker makes its own share real memory
    const Share share = ShareOf(size_bytes, worker, executor.n_workers(), kGrain);
    std::memset(buffer->data() + share.begin, 1, static_cast<size_t>(share.end - share.begin));
  });
  const ReadFn read = BestRead();
  const int64_t wanted_bytes = int64_t{quick ? 256 : 2048} << 20;
  const int64_t repetitions = std::max<int64_t>(kRepetitions, wanted_bytes / size_bytes);
  double best = 0;
  for (int64_t i = 0; i < repetitions; ++i) {
    const double seconds = SecondsOf(executor, [&](int worker) {
      const Share share = ShareOf(size_bytes, worker, executor.n_workers(), kGrain);
      g_sink += read(buffer->data() + share.begin, static_cast<size_t>(share.end - share.begin));
    });
    best = std::max(best, static_cast<double>(size_bytes) / seconds);
  }
  return best;
}

Roofs MeasureRoofs(Executor& executor, int64_t read_bytes, bool quick) {
  Roofs roofs;
  const int64_t rounds = quick ? kComputeRounds / 20 : kComputeRounds;
  const Probe fp32 = BestFp32();
  const Probe int8 = BestInt8();
  roofs.fp32_flop_per_s = ComputeRate(executor, fp32, rounds);
  roofs.fp32_instruction = fp32.name;
  roofs.int8_op_per_s = ComputeRate(executor, int8, rounds);
  roofs.int8_instruction = int8.name;
  roofs.read_bytes_per_s = MeasureReadRate(executor, read_bytes, quick);
  roofs.barrier_seconds = BarrierSeconds(executor);
  return roofs;
}

}  // namespace surety::cli
