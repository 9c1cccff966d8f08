// What a race costs for each candidate: BM_RaceWinner/<candidates>/<order of the law>.
#include <algorithm>

#include <benchmark/benchmark.h>

#include "spec/coupling.h"
#include "spec/testing/laws.h"

namespace surety::spec {
namespace {

enum RaceBenchOrder { kByToken, kAscending, kDescending };

testing::Entries RaceBenchLaw(int64_t n, int64_t order) {
  testing::Entries law = testing::RandomLaw(static_cast<int>(n), 1, 0, 8, 0);
  if (order == kByToken) std::sort(law.begin(), law.end());
  if (order != kByToken) std::sort(law.begin(), law.end(), [](auto& a, auto& b) { return a.second < b.second; });
  if (order == kDescending) std::reverse(law.begin(), law.end());
  return law;
}

void CountCandidates(benchmark::State& state, size_t n) {
  state.counters["s/candidate"] = benchmark::Counter(static_cast<double>(n) * static_cast<double>(state.iterations()),
                                                     benchmark::Counter::kIsRate | benchmark::Counter::kInvert);
}

void BM_RaceWinner(benchmark::State& state) {
  const auto law = RaceBenchLaw(state.range(0), state.range(1));
  uint64_t position = 0;
  for (auto _ : state) benchmark::DoNotOptimize(RaceWinner(law, {.seed = 1, .position = ++position}));
  CountCandidates(state, law.size());
}
BENCHMARK(BM_RaceWinner)->ArgsProduct({{50, 1000, 150'000}, {kByToken, kAscending, kDescending}});

void BM_RaceLeaders(benchmark::State& state) {
  const auto law = RaceBenchLaw(150'000, state.range(1));
  uint64_t position = 0;
  int32_t leaders[64];
  for (auto _ : state) {
    benchmark::DoNotOptimize(RaceLeaders(law, {.seed = 1, .position = ++position},
                                         std::span(leaders).first(static_cast<size_t>(state.range(0)))));
  }
  CountCandidates(state, law.size());
}
BENCHMARK(BM_RaceLeaders)->ArgsProduct({{1, 4, 16}, {kByToken, kAscending}});

}  // namespace
}  // namespace surety::spec
