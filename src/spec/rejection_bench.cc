// What a decision at one node costs with laws of a whole vocabulary in order of token, as the sampler lists them:
// BM_VerifyNode/<kind>/<trials>; all are refused.
#include <algorithm>
#include <vector>

#include <benchmark/benchmark.h>

#include "spec/rejection.h"
#include "spec/testing/laws.h"

namespace surety::spec {
namespace {

constexpr int kBenchVocab = 150'000;

void BM_VerifyNode(benchmark::State& state) {
  auto p = testing::RandomLaw(kBenchVocab, 1, 0, 8, 0);
  auto q = testing::RandomLaw(kBenchVocab, 1, 1, 8, 0);
  std::sort(p.begin(), p.end());
  std::sort(q.begin(), q.end());
  std::vector<Trial> trials;
  for (int i = 0; i < state.range(1); ++i) {  // without mass under p, so each is refused
    const size_t at = p.size() / 2 + static_cast<size_t>(i);
    trials.push_back({p[at].first, i + 1});
    p[at].second = 0;
  }
  RejectionVerifier verifier(kBenchVocab);
  const NodeLaws laws = {p, {static_cast<ProposalKind>(state.range(0)), q, trials}};
  RejectionKey key = {.seed = 1};
  for (auto _ : state) {
    benchmark::DoNotOptimize(verifier.VerifyNode(laws, key).token);
    ++key.position;
  }
}
BENCHMARK(BM_VerifyNode)->ArgsProduct({{0, 1, 2}, {0, 1, 4}})->Unit(benchmark::kMicrosecond);

}  // namespace
}  // namespace surety::spec
