// The cache with 100,000 pages in the tree: conversations of several turns over a few system prompts.
#include <benchmark/benchmark.h>

#include "base/random.h"
#include "kv/host_store.h"
#include "kv/prefix_cache.h"
#include "kv/testing/cache_fixture.h"

namespace surety::kv {
namespace {

using namespace surety::kv::testing;  // NOLINT: the fixture of these tests

constexpr int kTreePages = 100'000, kPromptPages = 125;  // prompts of 2,000 tokens

struct Filled {
  explicit Filled(bool with_tier) {
    pool = *PagePool::Make(TinyLayout(), kTreePages + 1000);
    if (with_tier) host = *HostStore::Make(*pool, 1000 * pool->layout().PageBytes());
    cache = *PrefixCache::Make(*pool, clock, {}, host.get());
    while (cache->n_pages() + kPromptPages <= kTreePages) {
      std::vector<int> pages;
      const int system = n_prompts++ % 20;
      for (int i = 0; i < kPromptPages; ++i) pages.push_back(i < 60 ? 1000 * system + i : n_prompts * 200 + 20'000 + i);
      prompts.push_back(TokensOf(pages));
      Run(prompts.back(), 25);  // five turns
    }
  }

  void Run(const std::vector<int32_t>& tokens, int pages_a_turn) {
    for (int end = pages_a_turn; end <= kPromptPages; end += pages_a_turn) {
      PrefixMatch match = cache->Match(scope, tokens, end * kPageTokens);
      while (static_cast<int>(match.pages.size()) < end) match.pages.push_back(pool->Allocate());
      cache->Insert(match.cursor, tokens, match.pages);
      clock.now_ns += kSecondNs / 100;
    }
  }

  ManualClock clock;
  std::unique_ptr<PagePool> pool;
  std::unique_ptr<HostStore> host;
  std::unique_ptr<PrefixCache> cache;
  ScopeKey scope = MakeScope("tenant");
  std::vector<std::vector<int32_t>> prompts;
  int n_prompts = 0;
};

void BM_Match(benchmark::State& state) {
  Filled filled(false);
  uint64_t n = 0;
  for (auto _ : state) {
    const auto& tokens = filled.prompts[RandomBits({1, ++n, RandomPurpose::kTest}) % filled.prompts.size()];
    PrefixMatch match = filled.cache->Match(filled.scope, tokens, static_cast<int>(tokens.size()));
    if (match.n_tokens != kPromptPages * kPageTokens) state.SkipWithError("a prompt was not found");
    benchmark::DoNotOptimize(match.pages.data());
  }
  state.counters["pages/s"] =
      benchmark::Counter(static_cast<double>(state.iterations()) * kPromptPages, benchmark::Counter::kIsRate);
}
BENCHMARK(BM_Match)->Unit(benchmark::kMicrosecond);

// The worst shape: every page was a match's end once, so each is a node.
void BM_MatchNodeAPage(benchmark::State& state) {
  Filled filled(false);
  for (const auto& tokens : filled.prompts) {
    for (int n = 1; n <= kPromptPages; ++n) filled.cache->Match(filled.scope, tokens, n * kPageTokens);
  }
  uint64_t n = 0;
  for (auto _ : state) {
    const auto& tokens = filled.prompts[RandomBits({1, ++n, RandomPurpose::kTest}) % filled.prompts.size()];
    benchmark::DoNotOptimize(filled.cache->Match(filled.scope, tokens, static_cast<int>(tokens.size())).n_tokens);
  }
}
BENCHMARK(BM_MatchNodeAPage)->Unit(benchmark::kMicrosecond);

// A decoding sequence that offers its pages after each step, one new page in sixteen.
void BM_InsertAfterStep(benchmark::State& state) {
  Filled filled(false);
  std::vector<int> pages;
  for (int i = 0; i < kPromptPages; ++i) pages.push_back(9'000'000 / 1000 + i);
  const auto tokens = TokensOf(pages);
  int64_t n_steps = 0;
  while (state.KeepRunningBatch(kPromptPages * kPageTokens)) {
    PrefixMatch match = filled.cache->Match(filled.scope, tokens, 0);
    for (int n = 1; n <= kPromptPages * kPageTokens; ++n, ++n_steps) {
      if (n % kPageTokens == 0) match.pages.push_back(filled.pool->Allocate());
      filled.cache->Insert(match.cursor, std::span(tokens).first(static_cast<size_t>(n)), match.pages);
    }
    match.pages.clear();
    filled.cache->EvictPages(kPromptPages);
  }
}
BENCHMARK(BM_InsertAfterStep)->Unit(benchmark::kNanosecond);

void BM_EvictOnePage(benchmark::State& state) {
  Filled filled(state.range(0) != 0);
  for (auto _ : state) {
    if (filled.cache->EvictPages(1) == 1) continue;
    state.PauseTiming();
    filled.cache.reset();
    filled.cache = *PrefixCache::Make(*filled.pool, filled.clock, {}, filled.host.get());
    for (const auto& tokens : filled.prompts) filled.Run(tokens, 25);
    state.ResumeTiming();
  }
}
BENCHMARK(BM_EvictOnePage)->Arg(0)->Arg(1)->Unit(benchmark::kNanosecond);

void BM_BuildScopeKey(benchmark::State& state) {
  for (auto _ : state) benchmark::DoNotOptimize(MakeScope("tenant", "salt").hash());
}
BENCHMARK(BM_BuildScopeKey)->Unit(benchmark::kMicrosecond);

}  // namespace
}  // namespace surety::kv
