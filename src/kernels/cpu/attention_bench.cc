// Attention over shuffled pages. Counters: GB/s of keys and values read once, GFLOP/s of both products over the visible
// pairs, and their share of the roofs that the environment gives (SURETY_ROOF_GBS, SURETY_ROOF_GFLOPS; else 40 and 200,
// measured with two threads on the 2-core machine of record).
#include <benchmark/benchmark.h>

#include <algorithm>
#include <cmath>
#include <cstdlib>
#include <memory>
#include <string>
#include <vector>

#include "base/thread_pool.h"
#include "kernels/cpu/attention.h"
#include "kernels/cpu/testing/attention_rig.h"

namespace surety::kernels::cpu {
namespace {

using testing::Chunk;
using testing::Rig;

struct Shape {
  int heads, kv_heads, dim;
};

double Roof(const char* name, double otherwise) {
  const char* value = std::getenv(name);
  return value != nullptr ? std::atof(value) : otherwise;
}

// `layers` layers, visited in turn as a model does, so that short contexts are not measured from the first caches only.
void Run(benchmark::State& state, Shape shape, KvType type, const std::vector<Chunk>& chunks, int workers, int layers) {
  const auto pool = MakeThreadPool({.n_workers = workers});
  int tokens = 0, sequences = 0;
  for (const Chunk& c : chunks) {
    tokens = std::max(tokens, c.first + c.n);
    sequences = std::max(sequences, c.id + 1);
  }
  const KvLayout layout = {layers, shape.kv_heads, shape.dim, shape.dim, 16, type, false};
  Rig rig(layout, sequences, tokens, 7);
  for (int layer = 0; layer < layers; ++layer) {
    for (int id = 0; id < sequences; ++id) rig.Store(*pool, layer, {{id, 0, tokens}});
  }
  const BatchView& batch = rig.Batch(chunks);
  const int64_t rows = batch.n_rows(), cols = int64_t{shape.heads} * shape.dim;
  const std::vector<float> q = Rig::Rows(chunks, 3, cols);
  std::vector<float> out(q.size());
  AttentionParams params;
  params.n_heads = shape.heads;
  params.n_kv_heads = shape.kv_heads;
  params.k_dim = params.v_dim = shape.dim;
  params.scale = 1.0f / std::sqrt(static_cast<float>(shape.dim));
  Attention attention;
  if (!attention.Reserve(rows, workers).ok()) return state.SkipWithError("no memory");
  double bytes = 0, flops = 0;
  for (const Chunk& c : chunks) {
    bytes += (c.first + c.n) * layout.BytesPerToken() / layers;
    for (int i = 0; i < c.n; ++i) flops += 4.0 * (c.first + i + 1) * shape.heads * shape.dim;
  }
  int layer = 0;
  for (auto _ : state) {
    attention.Run(*pool, params, layer, ConstMatrixF(q.data(), rows, cols), batch, rig.kv(),
                  MatrixF(out.data(), rows, cols));
    layer = (layer + 1) % layers;
  }
  const auto rate = [&](double amount) {
    return benchmark::Counter(amount, benchmark::Counter::kIsIterationInvariantRate);
  };
  state.counters["GB/s"] = rate(bytes / 1e9);
  state.counters["GFLOP/s"] = rate(flops / 1e9);
  state.counters["of_GB/s"] = rate(bytes / 1e9 / Roof("SURETY_ROOF_GBS", 40));
  state.counters["of_GFLOP/s"] = rate(flops / 1e9 / Roof("SURETY_ROOF_GFLOPS", 200));
}

void Register(const std::string& name, Shape shape, KvType type, std::vector<Chunk> chunks, int layers) {
  for (int workers : {1, 2}) {
    benchmark::RegisterBenchmark((name + "/threads:" + std::to_string(workers)).c_str(),
                                 [=](benchmark::State& state) { Run(state, shape, type, chunks, workers, layers); })
        ->UseRealTime()
        ->Unit(benchmark::kMicrosecond);
  }
}

const bool kRegistered = [] {
  const std::pair<const char*, Shape> shapes[] = {
      {"H9K3E64", {9, 3, 64}}, {"H14K2E64", {14, 2, 64}}, {"H12K2E128", {12, 2, 128}}};
  for (const auto& [shape_name, shape] : shapes) {
    for (KvType type : {KvType::kF16, KvType::kQ8_0, KvType::kBF16, KvType::kF32}) {
      const std::string base = std::string(NameOf(type)) + "/" + shape_name;
      for (int depth : {512, 4096, 16384}) {
        // Enough layers that the keys and values do not fit the last cache.
        const int layers = std::max(2, 30 * 4096 / depth / (shape.dim / 64));
        Register("BM_AttentionDecode/" + base + "/depth:" + std::to_string(depth), shape, type, {{0, depth - 1, 1}},
                 std::min(layers, 60));
      }
      for (int n : {512, 2048}) {
        Register("BM_AttentionPrefill/" + base + "/rows:" + std::to_string(n), shape, type, {{0, 0, n}}, 2);
      }
    }
    std::vector<Chunk> batch;
    for (int i = 0; i < 16; ++i) batch.push_back({i, 511, 1});
    Register(std::string("BM_AttentionDecode16/f16/") + shape_name + "/depth:512", shape, KvType::kF16, batch, 4);
  }
  return true;
}();

}  // namespace
}  // namespace surety::kernels::cpu
