// Speed of the matrix product. BM_MatMul/<dtype>/<N>x<K>/rows: GB/s of weights and Gop/s (multiply and add = 2), and
// their share of two roofs that are measured first, on the same workers: reading memory, and 8-bit products in cache.
//
// SURETY_BENCH_WORKERS sets the number of workers (2).
#include <algorithm>
#include <chrono>
#include <cstdlib>
#include <map>
#include <numeric>
#include <string>
#include <utility>

#include "base/aligned_buffer.h"
#include "base/thread_pool.h"
#include "benchmark/benchmark.h"
#include "kernels/cpu/isa.h"
#include "kernels/cpu/matmul.h"
#include "kernels/cpu/matmul_kernels.h"
#include "kernels/cpu/matmul_test_util.h"

namespace surety::kernels::cpu {
namespace {

Executor& Workers() {
  static const auto pool = [] {
    const char* text = std::getenv("SURETY_BENCH_WORKERS");
    return MakeThreadPool({.n_workers = text != nullptr ? std::atoi(text) : 2});
  }();
  return *pool;
}

double SecondsOf(auto&& fn) {
  const auto begin = std::chrono::steady_clock::now();
  fn();
  return std::chrono::duration<double>(std::chrono::steady_clock::now() - begin).count();
}

// Bytes a second of plain reading from memory, best of several, all workers.
double ReadRoof() {
  static const double roof = [] {
    constexpr int64_t kBytes = int64_t{512} << 20;
    AlignedBuffer buffer(static_cast<size_t>(kBytes));
    std::fill_n(buffer.as<uint8_t>(), kBytes, uint8_t{1});
    double best = 0;
    for (int i = 0; i < 7; ++i) {
      const double seconds = SecondsOf([&] {
        Workers().Run([&](int worker) {
          const Share share = ShareOf(kBytes / 8, worker, Workers().n_workers(), 64);
          const uint64_t* p = buffer.as<uint64_t>();
          uint64_t sums[16] = {};
          for (int64_t at = share.begin; at < share.end; at += 16) {
            for (int j = 0; j < 16; ++j) sums[j] += p[at + j];
          }
          uint64_t sum = std::accumulate(sums, sums + 16, uint64_t{0});
          benchmark::DoNotOptimize(sum);
        });
      });
      best = std::max(best, static_cast<double>(kBytes) / seconds);
    }
    return best;
  }();
  return roof;
}

// Operations a second of the Q4 panel loop on data in the first-level cache: what a product could reach at best.
double PanelRoof() {
  static const double roof = [] {
    constexpr int kRows = 16, kBlocks = 8, kTurns = 4000;
    double best = 0;
    for (int i = 0; i < 7; ++i) {
      const double seconds = SecondsOf([&] {
        Workers().Run([&](int) {
          static thread_local PanelBlock panel[kBlocks];
          static thread_local XBlock x[kRows * kBlocks];
          static thread_local float acc[kRows * kGroup];
          const QuantKernel& kernel = QuantKernelOf(DType::kQ4_0);
          if (kernel.begin != nullptr) kernel.begin(kRows);
          for (int turn = 0; turn < kTurns; ++turn) kernel.many(panel, kBlocks, x, kBlocks, kRows, {}, acc);
          if (kernel.end != nullptr) kernel.end();
        });
      });
      best = std::max(best, 2.0 * kRows * kBlocks * kBlock * kGroup * kTurns * Workers().n_workers() / seconds);
    }
    return best;
  }();
  return roof;
}

// Enough copies of a matrix that one call after the other reads memory, not a cache.
struct Weights {
  std::vector<std::unique_ptr<PackedMatrix>> copies;
};

Weights& WeightsOf(DType dtype, int64_t n, int64_t k, bool cold) {
  static std::map<std::tuple<DType, int64_t, int64_t, bool>, Weights> all;
  if (all.size() > 2) all.clear();
  Weights& weights = all[{dtype, n, k, cold}];
  if (!weights.copies.empty()) return weights;
  const RandomWeights random(dtype, n, k, 1);
  const int64_t bytes = n * RowBytes(dtype, k);
  const int64_t wanted = cold ? std::max<int64_t>(1, (int64_t{256} << 20) / bytes) : 1;
  for (int64_t i = 0; i < wanted; ++i) {
    weights.copies.push_back(std::move(PackMatrix(std::span(&random.view, 1), Workers()).value()));
  }
  return weights;
}

void BM_MatMul(benchmark::State& state, DType dtype, int64_t n, int64_t k, int64_t rows) {
  Weights& weights = WeightsOf(dtype, n, k, rows <= 16);
  std::vector<float> x(static_cast<size_t>(rows * k)), out(static_cast<size_t>(rows * n));
  std::mt19937 rng(2);
  std::normal_distribution<float> normal;
  for (float& value : x) value = normal(rng);
  MatMul matmul;
  if (!matmul.Reserve(rows, k, Workers().n_workers()).ok()) std::abort();
  size_t turn = 0;
  for (auto _ : state) {
    const MatMulTask task{.weight = weights.copies[turn % weights.copies.size()].get(),
                          .out = MatrixF(out.data(), rows, n)};
    matmul.Run(Workers(), ConstMatrixF(x.data(), rows, k), std::span(&task, 1));
    ++turn;
  }
  const double calls = static_cast<double>(state.iterations());
  const double bytes = calls * static_cast<double>(weights.copies[0]->size_bytes());
  const double ops = calls * 2.0 * static_cast<double>(rows * n * k);
  using benchmark::Counter;
  state.counters["GB/s"] = Counter(bytes / 1e9, Counter::kIsRate);
  state.counters["Gop/s"] = Counter(ops / 1e9, Counter::kIsRate);
  state.counters["read_share"] = Counter(bytes / ReadRoof(), Counter::kIsRate);
  state.counters["panel_share"] = Counter(ops / PanelRoof(), Counter::kIsRate);
}

void RegisterAll() {
  const std::pair<int64_t, int64_t> shapes[] = {{576, 576},  {1536, 576},  {576, 1536},   {49152, 576}, {896, 896},
                                                {4864, 896}, {896, 4864},  {151936, 896}, {1536, 1536}, {8960, 1536},
                                                {1536, 8960}, {3072, 2048}};
  for (const DTypeInfo& info : AllDTypes()) {
    for (const auto& [n, k] : shapes) {
      if (k % info.block_elements != 0) continue;
      for (int64_t rows : {1, 2, 4, 8, 16, 64, 512}) {
        if (rows * n > (int64_t{64} << 20)) continue;
        const std::string name = "BM_MatMul/" + std::string(info.name) + "/" + std::to_string(n) + "x" +
                                 std::to_string(k) + "/" + std::to_string(rows);
        benchmark::RegisterBenchmark(name.c_str(), BM_MatMul, info.dtype, n, k, rows)->UseRealTime();
      }
    }
  }
}

[[maybe_unused]] const bool registered = (RegisterAll(), true);

}  // namespace
}  // namespace surety::kernels::cpu
