// Attention against plain loops in double, and bit equality between all the ways to compute the same rows.
#include "kernels/cpu/attention.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <string>
#include <vector>

#include "base/thread_pool.h"
#include "kernels/cpu/isa.h"
#include "kernels/cpu/testing/attention_rig.h"
#include "kernels/reference/attention_reference.h"

namespace surety::kernels::cpu {
namespace {

using testing::Chunk;
using testing::Rig;

struct Shape {
  int n_heads, n_kv_heads, k_dim, v_dim;
};

struct Case {
  Shape shape = {6, 2, 64, 64};
  KvType type = KvType::kF16;
  int page_tokens = 16;
  float soft_cap = 0;
  int window = 0;
  bool causal = true;
  bool sinks = false;

  std::string Name() const {
    return std::string(NameOf(type)) + " H" + std::to_string(shape.n_heads) + " K" + std::to_string(shape.n_kv_heads) +
           " E" + std::to_string(shape.k_dim) + " Ev" + std::to_string(shape.v_dim) + " P" +
           std::to_string(page_tokens) + " cap " + std::to_string(soft_cap) + " window " + std::to_string(window) +
           (causal ? "" : " encoder") + (sinks ? " sinks" : "");
  }
};

constexpr uint64_t kQueries = 3;

class AttentionRun {
 public:
  AttentionRun(const Case& c, int n_sequences, int max_tokens, uint64_t shuffle)
      : rig_({2, c.shape.n_kv_heads, c.shape.k_dim, c.shape.v_dim, c.page_tokens, c.type, false}, n_sequences,
             max_tokens, shuffle) {
    params_ = {c.shape.n_heads, c.shape.n_kv_heads, c.shape.k_dim, c.shape.v_dim,
               4.0f / std::sqrt(static_cast<float>(c.shape.k_dim)), c.soft_cap, c.window, c.causal, nullptr};
    for (int h = 0; h < c.shape.n_heads; ++h) sinks_.push_back(testing::NumberAt(9, 0, 0, static_cast<uint64_t>(h)));
    if (c.sinks) params_.sinks = sinks_.data();
  }

  Rig& rig() { return rig_; }
  const AttentionParams& params() const { return params_; }

  void Store(const std::vector<Chunk>& chunks) { rig_.Store(serial_, 1, chunks); }

  std::vector<float> Attend(Executor& executor, const std::vector<Chunk>& chunks) {
    const BatchView& batch = rig_.Batch(chunks);
    const int64_t rows = batch.n_rows();
    const int64_t q_cols = int64_t{params_.n_heads} * params_.k_dim;
    const int64_t out_cols = int64_t{params_.n_heads} * params_.v_dim;
    const std::vector<float> q = Rig::Rows(chunks, kQueries, q_cols);
    std::vector<float> out(static_cast<size_t>(rows * out_cols), -7.0f);
    Attention attention;
    EXPECT_TRUE(attention.Reserve(rows, executor.n_workers()).ok());
    attention.Run(executor, params_, 1, ConstMatrixF(q.data(), rows, q_cols), batch, rig_.kv(),
                  MatrixF(out.data(), rows, out_cols));
    return out;
  }

  reference::Bounded Expected(const std::vector<Chunk>& chunks) {
    const BatchView& batch = rig_.Batch(chunks);
    const int64_t q_cols = int64_t{params_.n_heads} * params_.k_dim;
    const std::vector<float> q = Rig::Rows(chunks, kQueries, q_cols);
    return reference::Attention(params_, 1, ConstMatrixF(q.data(), batch.n_rows(), q_cols), batch, rig_.kv());
  }

 private:
  Rig rig_;
  AttentionParams params_;
  std::vector<float> sinks_;
  SerialExecutor serial_;
};

// The largest error met so far as a share of its bound, to see that the bounds are neither loose nor lucky.
double g_worst_share = 0;

void ExpectWithinBound(const std::vector<float>& got, const reference::Bounded& want, const std::string& what) {
  ASSERT_EQ(got.size(), want.value.size()) << what;
  int failures = 0;
  for (size_t i = 0; i < got.size() && failures < 3; ++i) {
    const double error = std::abs(got[i] - want.value[i]);
    g_worst_share = std::max(g_worst_share, error / want.bound[i]);
    if (!(error <= want.bound[i])) {
      ADD_FAILURE() << what << " element " << i << ": " << got[i] << ", expected " << want.value[i] << ", error "
                    << error << ", bound " << want.bound[i];
      ++failures;
    }
  }
}

std::vector<Case> AllCases() {
  std::vector<Case> cases;
  for (KvType type : {KvType::kF32, KvType::kF16, KvType::kBF16, KvType::kQ8_0}) {
    cases.push_back({.type = type});
    cases.push_back({.shape = {9, 3, 64, 64}, .type = type, .page_tokens = 32, .window = 37});
    cases.push_back({.shape = {7, 1, 32, 96}, .type = type, .soft_cap = 3.0f, .sinks = true});
    cases.push_back({.shape = {4, 4, 96, 32}, .type = type, .page_tokens = 48, .causal = false});
    if (type == KvType::kQ8_0) continue;
    cases.push_back({.shape = {3, 1, 7, 5}, .type = type, .window = 1});
    cases.push_back({.shape = {2, 2, 80, 72}, .type = type, .page_tokens = 64, .sinks = true});
    cases.push_back({.shape = {71, 1, 17, 33}, .type = type, .soft_cap = 1.5f});
    cases.push_back({.shape = {1, 1, 1, 1}, .type = type, .window = 200});
  }
  return cases;
}

class EachIsa : public ::testing::Test {
 protected:
  void TearDown() override { EXPECT_TRUE(SetIsa(BestIsa()).ok()); }

  template <typename Body>
  void ForEachIsa(const Body& body) {
    for (Isa isa : SupportedIsas()) {
      ASSERT_TRUE(SetIsa(isa).ok());
      SCOPED_TRACE(std::string(NameOf(isa)));
      body(isa);
    }
  }
};

class AttentionTest : public EachIsa {};

TEST_F(AttentionTest, MatchesPlainLoopsWithinTheErrorBound) {
  SerialExecutor serial;
  for (const Case& c : AllCases()) {
    AttentionRun run(c, 3, 300, 1);
    run.Store({{0, 0, 150}, {1, 0, 1}, {2, 0, 290}});
    const std::vector<Chunk> chunks = {{0, 125, 25}, {1, 0, 1}, {2, 289, 1}};
    const reference::Bounded want = run.Expected(chunks);
    ForEachIsa([&](Isa) { ExpectWithinBound(run.Attend(serial, chunks), want, c.Name()); });
  }
  RecordProperty("worst_share_of_bound", std::to_string(g_worst_share));
}

// Memory that was never written holds NaN, which one look at a hidden key would show.
TEST_F(AttentionTest, KeysBeforeTheFirstVisibleOneAreNotLookedAt) {
  SerialExecutor serial;
  for (const Case& c : AllCases()) {
    AttentionRun run(c, 3, 300, 1);
    run.Store({{0, 1, 149}, {1, 37, 3}, {2, 130, 160}});
    const std::vector<Chunk> chunks = {{0, 125, 25, 1}, {1, 37, 3, 37}, {2, 288, 2, 130}};
    const reference::Bounded want = run.Expected(chunks);
    ForEachIsa([&](Isa) { ExpectWithinBound(run.Attend(serial, chunks), want, c.Name()); });
  }
}

TEST_F(AttentionTest, RowsHaveTheSameBitsHoweverTheyAreComputed) {
  SerialExecutor serial;
  // Workers sleep at once: there may be more of them than processors.
  const auto two = MakeThreadPool({.n_workers = 2, .pin = false, .spin_nanos = 0});
  const auto three = MakeThreadPool({.n_workers = 3, .pin = false, .spin_nanos = 0});
  for (Case c : AllCases()) {
    constexpr int kTokens = 281;
    AttentionRun whole(c, 2, kTokens, 0);
    whole.Store({{0, 0, kTokens}, {1, 0, 40}});
    const size_t cols = static_cast<size_t>(c.shape.n_heads * c.shape.v_dim);
    ForEachIsa([&](Isa isa) {
      const std::vector<float> all = whole.Attend(serial, {{0, 0, kTokens}});
      EXPECT_EQ(all, whole.Attend(*two, {{0, 0, kTokens}})) << c.Name();
      EXPECT_EQ(all, whole.Attend(*three, {{0, 0, kTokens}})) << c.Name();
      if (isa == Isa::kAvx512 || isa == Isa::kAvx512Vnni) {
        ASSERT_TRUE(SetIsa(Isa::kAvx2).ok());
        EXPECT_EQ(all, whole.Attend(serial, {{0, 0, kTokens}})) << c.Name();
        ASSERT_TRUE(SetIsa(isa).ok());
      }
      if (!c.causal) return;
      // Chunks, stored and attended one after another in shuffled pages of other sizes.
      for (int page_tokens : {16, 32, 64, 256}) {
        Case other = c;
        other.page_tokens = page_tokens;
        AttentionRun chunked(other, 2, kTokens, static_cast<uint64_t>(page_tokens));
        chunked.Store({{1, 0, 40}});
        std::vector<float> rows;
        int first = 0;
        for (int n : {1, 2, 5, 13, 27, 64, 3, 110, 1, 1, 54}) {
          chunked.Store({{0, first, n}});
          // Alone and with another sequence before it.
          const std::vector<float> alone = chunked.Attend(page_tokens == 32 ? *two : serial, {{0, first, n}});
          const std::vector<float> both =
              chunked.Attend(page_tokens == 32 ? *three : serial, {{1, 33, 7}, {0, first, n}});
          EXPECT_EQ(alone, std::vector<float>(both.begin() + static_cast<std::ptrdiff_t>(7 * cols), both.end()));
          rows.insert(rows.end(), alone.begin(), alone.end());
          first += n;
        }
        ASSERT_EQ(first, kTokens);
        EXPECT_EQ(all, rows) << c.Name() << " in pages of " << page_tokens;
      }
    });
  }
}

TEST_F(AttentionTest, DecodeOfEachRowEqualsPrefill) {
  SerialExecutor serial;
  const auto two = MakeThreadPool({.n_workers = 2, .pin = false, .spin_nanos = 0});
  for (const Case& c : AllCases()) {
    if (!c.causal) continue;
    constexpr int kTokens = 270;
    AttentionRun run(c, 1, kTokens, 5);
    run.Store({{0, 0, kTokens}});
    const size_t cols = static_cast<size_t>(c.shape.n_heads * c.shape.v_dim);
    const std::vector<float> all = run.Attend(serial, {{0, 0, kTokens}});
    for (int row = 0; row < kTokens; row += 7) {
      const std::vector<float> want(all.begin() + static_cast<std::ptrdiff_t>(static_cast<size_t>(row) * cols),
                                    all.begin() + static_cast<std::ptrdiff_t>(static_cast<size_t>(row + 1) * cols));
      EXPECT_EQ(want, run.Attend(serial, {{0, row, 1}})) << c.Name() << " row " << row;
      EXPECT_EQ(want, run.Attend(*two, {{0, row, 1}})) << c.Name() << " row " << row;
    }
  }
}

TEST_F(AttentionTest, LongContextsSplitOverManyWorkersKeepTheirBits) {
  SerialExecutor serial;
  const auto five = MakeThreadPool({.n_workers = 5, .pin = false, .spin_nanos = 0});
  for (int window : {0, 1000}) {
    const Case c = {.shape = {9, 3, 64, 64}, .window = window};
    constexpr int kTokens = 3000;
    AttentionRun run(c, 2, kTokens, 3);
    run.Store({{0, 0, kTokens}, {1, 0, 1500}});
    const std::vector<Chunk> chunks = {{0, kTokens - 1, 1}, {1, 1492, 8}};
    const std::vector<float> one = run.Attend(serial, chunks);
    EXPECT_EQ(one, run.Attend(*five, chunks));
    ExpectWithinBound(one, run.Expected(chunks), c.Name());
  }
}

TEST_F(AttentionTest, PartialResultsBeyondTheirMemoryRunInWaves) {
  SerialExecutor serial;
  const auto two = MakeThreadPool({.n_workers = 2, .pin = false, .spin_nanos = 0});
  const Case c = {.shape = {8, 1, 16, 512}, .type = KvType::kF32};
  constexpr int kTokens = 20000;  // 157 tiles * 8 lines * 514 floats a row: three rows fit
  AttentionRun run(c, 1, kTokens, 3);
  run.Store({{0, 0, kTokens}});
  EXPECT_EQ(run.Attend(serial, {{0, kTokens - 1, 1}}), run.Attend(*two, {{0, kTokens - 1, 1}}));
  EXPECT_EQ(run.Attend(serial, {{0, kTokens - 7, 7}}), run.Attend(*two, {{0, kTokens - 7, 7}}));
}

TEST_F(AttentionTest, InfinitiesOfLaterTokensDoNotReachEarlierRows) {
  SerialExecutor serial;
  const Case c = {.type = KvType::kF32};
  AttentionRun run(c, 1, 64, 0);
  run.Store({{0, 0, 40}});
  const std::vector<float> before = run.Attend(serial, {{0, 0, 20}});
  // Overwrite the values of tokens 20.. with infinity and NaN.
  const KvLayout& layout = run.rig().kv().layout;
  const BatchView& batch = run.rig().Batch({{0, 0, 40}});
  for (int head = 0; head < layout.n_kv_heads; ++head) {
    for (int t = 20; t < 40; ++t) {
      auto* values = reinterpret_cast<float*>(
          run.rig().kv().Head(1, batch.sequences[0].page_table[static_cast<size_t>(t / 16)], head) +
          layout.ValueOffset());
      for (int e = 0; e < layout.v_dim; ++e) values[t % 16 * layout.v_dim + e] = t % 2 == 0 ? INFINITY : NAN;
    }
  }
  EXPECT_EQ(before, run.Attend(serial, {{0, 0, 20}}));
  const std::vector<float> longer = run.Attend(serial, {{0, 0, 40}});
  EXPECT_EQ(before, std::vector<float>(longer.begin(), longer.begin() + static_cast<std::ptrdiff_t>(before.size())));
}

TEST_F(AttentionTest, HugeScoresGiveTheValueOfTheLargest) {
  SerialExecutor serial;
  const Case c = {.shape = {1, 1, 16, 16}, .type = KvType::kF32};
  AttentionRun run(c, 1, 300, 0);
  run.Store({{0, 0, 300}});
  const std::vector<Chunk> chunks = {{0, 299, 1}};
  const BatchView& batch = run.rig().Batch(chunks);
  std::vector<float> q = Rig::Rows(chunks, kQueries, 16);
  for (float& x : q) x *= 1e6f;
  std::vector<float> out(16);
  Attention attention;
  ASSERT_TRUE(attention.Reserve(1, 1).ok());
  attention.Run(serial, run.params(), 1, ConstMatrixF(q.data(), 1, 16), batch, run.rig().kv(),
                MatrixF(out.data(), 1, 16));
  const reference::Bounded want =
      reference::Attention(run.params(), 1, ConstMatrixF(q.data(), 1, 16), batch, run.rig().kv());
  for (size_t i = 0; i < 16; ++i) EXPECT_NEAR(out[i], want.value[i], 1e-6);
}

}  // namespace
}  // namespace surety::kernels::cpu
