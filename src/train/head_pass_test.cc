#include "train/head_pass.h"

#include <algorithm>
#include <cmath>
#include <map>

#include <gtest/gtest.h>

#include "base/thread_pool.h"
#include "train/testing/plain_head.h"

namespace surety::train {
namespace {

const HeadShape kSmallHead = {.d_model = 12, .n_taps = 3, .n_heads = 4, .n_kv_heads = 2, .head_dim = 6, .d_ff = 20,
                              .draft_vocab = 17, .norm_eps = 1e-3, .rope_base = 100};
constexpr int kDepths = 4;
const std::vector<double> kDepthWeights = {0.4, 0.3, 0.2, 0.1};

double LossOf(HeadPass<double>& pass, const std::vector<double>& weights, const HeadBatch<double>& batch) {
  double loss = 0;
  const auto results = pass.Run(weights.data(), batch, kDepthWeights, nullptr);
  for (size_t k = 0; k < results.size(); ++k) loss += kDepthWeights[k] * results[k].loss;
  return loss;
}

using SeenLogits = std::map<int, std::vector<double>>;
void Keep(void* context, int depth, int64_t, int64_t n_rows, const double* logits) {
  auto& rows = (*static_cast<SeenLogits*>(context))[depth];
  rows.insert(rows.end(), logits, logits + n_rows * kSmallHead.draft_vocab);
}

TEST(HeadPassTest, UnrolledLogitsAreThoseOfDraftingTokenByToken) {
  SerialExecutor serial;
  for (const int prompt : {0, 3}) {
    const RandomTexts made = MakeRandomTexts(kSmallHead, {9, 2, 14}, prompt, kDepths, 5, 11);
    const auto weights = RandomWeights(kSmallHead, 12);
    HeadPass<double> pass(kSmallHead, serial);
    SeenLogits seen;
    pass.WatchLogits(Keep, &seen);
    pass.Run(weights.data(), made.batch, kDepthWeights, nullptr);
    std::map<int, size_t> next;
    size_t compared = 0;
    for (const PlainText& text : made.texts) {
      for (int root = prompt; root + 1 < static_cast<int>(text.taps.size()); ++root) {
        const auto expected = PlainDraft(kSmallHead, weights, text, root, kDepths);
        for (int k = 0; k < static_cast<int>(expected.size()); ++k) {
          for (const double logit : expected[static_cast<size_t>(k)]) {
            ASSERT_NEAR(seen[k][next[k]++], logit, 1e-11) << "root " << root << " depth " << k;
            ++compared;
          }
        }
      }
    }
    for (const auto& [depth, logits] : seen) EXPECT_EQ(next[depth], logits.size()) << depth;
    EXPECT_GT(compared, 500u);
  }
}

TEST(HeadPassTest, GradientOfEveryTensorIsThatOfFiniteDifferences) {
  SerialExecutor serial;
  const RandomTexts made = MakeRandomTexts(kSmallHead, {7, 2, 10}, 1, kDepths, 5, 21);
  std::vector<double> weights = RandomWeights(kSmallHead, 22);
  const HeadLayout layout(kSmallHead);
  HeadPass<double> pass(kSmallHead, serial);
  std::vector<double> gradient(weights.size(), 0.0);
  pass.Run(weights.data(), made.batch, kDepthWeights, gradient.data());
  // Central differences: the error is h^2 / 6 of the third derivative plus rounding over h, both below 1e-9 here.
  constexpr double kStep = 1e-5;
  for (const HeadTensorPlace& place : layout.tensors) {
    double largest = 0;
    for (int64_t i = 0; i < place.size(); i += place.size() > 60 ? 7 : 1) {
      const auto at = static_cast<size_t>(place.offset + i);
      const double was = weights[at];
      weights[at] = was + kStep;
      const double above = LossOf(pass, weights, made.batch);
      weights[at] = was - kStep;
      const double below = LossOf(pass, weights, made.batch);
      weights[at] = was;
      ASSERT_NEAR(gradient[at], (above - below) / (2 * kStep), 2e-9) << place.name << " " << i;
      largest = std::max(largest, std::abs(gradient[at]));
    }
    EXPECT_GT(largest, 1e-4) << place.name;
  }
}

TEST(HeadPassTest, LargeScoresOfAttentionLeaveNumbers) {
  SerialExecutor serial;
  const RandomTexts made = MakeRandomTexts(kSmallHead, {9, 14}, 0, kDepths, 5, 15);
  auto exact = RandomWeights(kSmallHead, 16);
  const HeadLayout layout(kSmallHead);
  for (const HeadTensor t : {kQuery, kKey}) {
    for (int64_t i = 0; i < layout.tensors[t].size(); ++i) {
      exact[static_cast<size_t>(layout.tensors[t].offset + i)] *= 12;
    }
  }
  const std::vector<float> weights(exact.begin(), exact.end());
  const auto batch = ToFloat(made.batch);
  HeadPass<float> pass(kSmallHead, serial);
  std::vector<float> gradient(weights.size(), 0.0f);
  for (const DepthResult& result : pass.Run(weights.data(), batch, kDepthWeights, gradient.data())) {
    EXPECT_TRUE(std::isfinite(result.loss));
  }
  for (const float g : gradient) ASSERT_TRUE(std::isfinite(g));
}

TEST(HeadPassTest, GradientsAreAdded) {
  SerialExecutor serial;
  const RandomTexts made = MakeRandomTexts(kSmallHead, {8}, 1, kDepths, 5, 31);
  const auto weights = RandomWeights(kSmallHead, 32);
  HeadPass<double> pass(kSmallHead, serial);
  std::vector<double> once(weights.size(), 0.0), twice(weights.size(), 0.0);
  pass.Run(weights.data(), made.batch, kDepthWeights, once.data());
  for (int i = 0; i < 2; ++i) pass.Run(weights.data(), made.batch, kDepthWeights, twice.data());
  for (size_t i = 0; i < once.size(); ++i) ASSERT_NEAR(twice[i], 2 * once[i], 1e-12);
}

TEST(HeadPassTest, BitsDoNotDependOnWorkersNorOnWhatWasComputedBefore) {
  const HeadShape shape = {.d_model = 40, .n_heads = 6, .n_kv_heads = 3, .head_dim = 10, .d_ff = 70,
                           .draft_vocab = 1500};
  const auto exact = RandomWeights(shape, 42);
  const std::vector<float> weights(exact.begin(), exact.end());
  const auto batch = ToFloat(MakeRandomTexts(shape, {60, 3, 90, 41}, 5, kDepths, 8, 41).batch);
  const auto other = ToFloat(MakeRandomTexts(shape, {100, 80, 31}, 0, kDepths, 8, 43).batch);
  std::vector<float> first;
  for (const int workers : {1, 2, 3}) {
    const auto pool = MakeThreadPool({.n_workers = workers, .pin = false});
    HeadPass<float> pass(shape, *pool);
    std::vector<float> gradient(weights.size(), 0.0f);
    if (workers > 1) {
      pass.Run(weights.data(), other, kDepthWeights, gradient.data());
      std::fill(gradient.begin(), gradient.end(), 0.0f);
    }
    std::vector<char> shift(static_cast<size_t>(workers) * 24 + 1);  // other addresses
    const auto results = pass.Run(weights.data(), batch, kDepthWeights, gradient.data());
    EXPECT_GT(results[0].n_tried, results[1].n_tried);
    if (first.empty()) first = gradient;
    ASSERT_EQ(gradient, first) << workers;
  }
}

TEST(HeadPassTest, HitsCountDraftsThatHeldAtAllDepthsBefore) {
  SerialExecutor serial;
  RandomTexts made = MakeRandomTexts(kSmallHead, {12, 9}, 2, kDepths, 5, 51);
  const auto weights = RandomWeights(kSmallHead, 52);
  HeadPass<double> pass(kSmallHead, serial);
  SeenLogits seen;
  pass.WatchLogits(Keep, &seen);
  pass.Run(weights.data(), made.batch, kDepthWeights, nullptr);
  // Let two thirds of the likeliest drafts be right, then count by hand.
  std::map<int32_t, int> reached;  // active root -> depth up to which its drafts held
  std::vector<int64_t> tried(kDepths), held(kDepths);
  for (int k = 0; k < kDepths; ++k) {
    auto& depth = made.batch.depths[static_cast<size_t>(k)];
    for (size_t r = 0; r < depth.rows.size(); ++r) {
      const auto* row = &seen[k][r * static_cast<size_t>(kSmallHead.draft_vocab)];
      const auto best = static_cast<int32_t>(std::max_element(row, row + kSmallHead.draft_vocab) - row);
      depth.most_likely[r] = r % 3 == 0 ? (best + 1) % kSmallHead.draft_vocab : best;
      if (k > 0 && reached[depth.rows[r]] != k) continue;
      ++tried[static_cast<size_t>(k)];
      if (r % 3 == 0) continue;
      ++held[static_cast<size_t>(k)];
      if (depth.goes_on[r]) reached[depth.rows[r]] = k + 1;
    }
  }
  pass.WatchLogits(nullptr, nullptr);
  const auto results = pass.Run(weights.data(), made.batch, kDepthWeights, nullptr);
  for (int k = 0; k < kDepths; ++k) {
    EXPECT_EQ(results[static_cast<size_t>(k)].n_tried, tried[static_cast<size_t>(k)]) << k;
    EXPECT_EQ(results[static_cast<size_t>(k)].n_held, held[static_cast<size_t>(k)]) << k;
  }
  EXPECT_GT(held[1], 0);
}

}  // namespace
}  // namespace surety::train
