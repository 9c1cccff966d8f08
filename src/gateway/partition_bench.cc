// What a request pays for its key and for a look-up in the response cache.
#include <benchmark/benchmark.h>

#include <cmath>
#include <random>

#include "gateway/response_cache.h"
#include "gateway/testing/partition_fixture.h"

namespace surety::gateway {
namespace {

AnswerBasis BenchBasis() {
  AnswerBasis basis = SomeBasis();
  for (int i = 1; i < 8; ++i) BasisField(basis, i) = std::string(64, static_cast<char>('a' + i));  // digests
  basis.conversation = std::string(1500, 'c');
  return basis;
}

std::string BenchQuestion(int i) { return "What is the fee for a transfer abroad with the card " + std::to_string(i); }

void BM_Canonical(benchmark::State& state) {
  const Circumstances raw = SomeCircumstances();
  for (auto _ : state) benchmark::DoNotOptimize(Canonical(raw));
}
BENCHMARK(BM_Canonical);

void BM_CanonicalUnicode(benchmark::State& state) {
  Circumstances raw = SomeCircumstances();
  TextOf(raw, Dimension::kProduct) = "kreditkarte f\u00fcr \u043a\u043b\u0438\u0435\u043d\u0442\u043e\u0432";
  for (auto _ : state) benchmark::DoNotOptimize(Canonical(raw));
}
BENCHMARK(BM_CanonicalUnicode);

void BM_MakePartition(benchmark::State& state) {
  const auto canonical = Canonical(SomeCircumstances());
  for (auto _ : state) benchmark::DoNotOptimize(Partition::Make(*canonical));
}
BENCHMARK(BM_MakePartition);

void BM_AnswerKey(benchmark::State& state) {
  const Partition partition = SiblingPartition(-1);
  const AnswerBasis basis = BenchBasis();
  const std::string question = BenchQuestion(1);
  for (auto _ : state) benchmark::DoNotOptimize(AnswerKey(partition, basis, question));
}
BENCHMARK(BM_AnswerKey);

// range(0): entries; range(1): every look-up is one of them, or none is.
void BM_Find(benchmark::State& state) {
  PartitionTestClock clock;
  const auto cache = ResponseCache::Make(int64_t{1} << 30, clock);
  const Partition partition = SiblingPartition(-1);
  const AnswerBasis basis = BenchBasis();
  const int n = static_cast<int>(state.range(0));
  for (int i = 0; i < n; ++i) {
    CachedAnswer answer;
    answer.answer.text = std::string(800, 'a');
    const Status stored = cache->Store(partition, basis, BenchQuestion(i), {}, std::move(answer), 1'000'000'000);
    if (!stored.ok()) return state.SkipWithError(stored.message().c_str());
  }
  std::vector<std::string> questions;
  for (int i = 0; i < 1024; ++i) questions.push_back(BenchQuestion((i * 37) % n + (state.range(1) ? 0 : n)));
  size_t at = 0;
  for (auto _ : state) {
    const auto hit = cache->Find(partition, basis, questions[at++ % questions.size()], 0);
    if (hit.has_value() != (state.range(1) != 0)) return state.SkipWithError("a look-up went wrong");
  }
}
BENCHMARK(BM_Find)->ArgNames({"entries", "hit"})->ArgsProduct({{1000, 50'000}, {1, 0}});

void BM_FindSimilar(benchmark::State& state) {
  constexpr int kDimensions = 768;
  PartitionTestClock clock;
  const auto cache = ResponseCache::Make(int64_t{1} << 30, clock);
  const Partition partition = SiblingPartition(-1);
  const AnswerBasis basis = BenchBasis();
  std::mt19937 random(1);
  std::normal_distribution<float> normal;
  std::vector<float> vector(kDimensions);
  for (int i = 0; i < state.range(0); ++i) {
    double norm = 0;
    for (float& x : vector) norm += std::pow(x = normal(random), 2);
    for (float& x : vector) x = static_cast<float>(x / std::sqrt(norm));
    CachedAnswer answer;
    answer.answer.text = std::string(800, 'a');
    (void)cache->Store(partition, basis, BenchQuestion(i), vector, std::move(answer), 1'000'000'000);
  }
  const std::string question = BenchQuestion(static_cast<int>(state.range(0)) - 1) + " please";
  for (auto _ : state) {
    if (!cache->FindSimilar(partition, basis, question, vector, 0.95, 0)) return state.SkipWithError("not found");
  }
}
BENCHMARK(BM_FindSimilar)->Arg(100)->Arg(10'000)->Unit(benchmark::kMicrosecond);

void BM_SameHardFacts(benchmark::State& state) {
  for (auto _ : state) {
    benchmark::DoNotOptimize(SameHardFacts("What is the fee for sending $1,000 from checking to a card abroad?",
                                           "what's the fee for sending 1000 dollars from checking to cards abroad"));
  }
}
BENCHMARK(BM_SameHardFacts);

}  // namespace
}  // namespace surety::gateway
