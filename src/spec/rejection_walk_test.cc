// The verifier with its real random numbers, as an engine would call it, step after step: chi-square against the
// target's joint law. Seeds are fixed; a right implementation fails one such test with probability 1e-6.
#include <algorithm>
#include <array>
#include <functional>
#include <vector>

#include <gtest/gtest.h>

#include "model/testing/allocation_counter.h"
#include "spec/rejection.h"
#include "spec/testing/laws.h"

namespace surety::spec {
namespace {

using testing::Entries;
using testing::Language;

constexpr double kUnlikely = 1e-6;
constexpr int kMaxTrials = 3;

// Drafts trees of `levels` levels with k trials a node, verifies them, and goes on until a text is full.
class WalkingEngine {
 public:
  WalkingEngine(const Language& language, ProposalKind kind, int k, int levels)
      : language_(language), kind_(kind), k_(k), levels_(levels), verifier_(language.shape().vocab) {}

  // The context of a text of language.shape().length tokens, the first of them at output position `start`.
  uint32_t Text(RejectionKey start) {
    uint32_t context = 0;
    int n_tokens = 0;
    while (n_tokens < language_.shape().length) {
      key_ = {start.seed, start.position + static_cast<uint64_t>(n_tokens), start.lane};
      contexts_[0] = context;
      Draft();
      verifier_.Walk(
          key_, [this](int node) { return LawsOf(node); },
          [&](int32_t token, int node) {
            n_accepted_ += node >= 0;
            context = Language::Next(context, token);
            return ++n_tokens < language_.shape().length;  // a full text cuts the run
          });
      ++n_steps_;
    }
    return context;
  }

  double accepted_per_step() const { return static_cast<double>(n_accepted_) / static_cast<double>(n_steps_); }

 private:
  void Draft() {
    tree_.Clear();
    n_trials_.fill(0);
    for (int node = 0; node < tree_.size(); ++node) {
      const int depth = tree_.depth(node);
      const uint32_t context = contexts_[static_cast<size_t>(node)];
      if (depth == levels_ || context >= LastContext()) continue;
      std::array<int32_t, kMaxTrials> tokens;
      const int n = DrawTokens(node, {key_.seed, key_.position + static_cast<uint64_t>(depth), key_.lane}, tokens);
      for (int i = 0; i < n; ++i) {
        const int32_t token = tokens[static_cast<size_t>(i)];
        const int child = tree_.Add(node, token, 0.5);
        contexts_[static_cast<size_t>(child)] = Language::Next(context, token);
        trials_[static_cast<size_t>(node)][static_cast<size_t>(i)] = {token, child};
      }
      n_trials_[static_cast<size_t>(node)] = n;
    }
  }

  // The first context that has as many tokens as a text, so that no law follows it.
  uint32_t LastContext() const { return 1u << 3 * (language_.shape().length - 1); }

  int DrawTokens(int node, const RejectionKey& key, std::array<int32_t, kMaxTrials>& tokens) {
    const Entries& q = language_.q(contexts_[static_cast<size_t>(node)]);
    const auto out = std::span(tokens).first(static_cast<size_t>(k_));
    if (kind_ == ProposalKind::kWithoutReplacement) return DraftWithoutReplacement(q, key, node, out);
    if (kind_ == ProposalKind::kIndependent) {
      DraftIndependent(q, key, node, out);
      return k_;
    }
    int n = 0;  // chosen: the first entries of q, whatever they are
    for (; n < k_ && n < static_cast<int>(q.size()); ++n) out[static_cast<size_t>(n)] = q[static_cast<size_t>(n)].first;
    return n;
  }

  NodeLaws LawsOf(int node) const {
    const auto i = static_cast<size_t>(node);
    const auto trials = std::span(trials_[i]).first(static_cast<size_t>(n_trials_[i]));
    return {language_.p(contexts_[i]), {kind_, language_.q(contexts_[i]), trials}};
  }

  const Language& language_;
  ProposalKind kind_;
  int k_, levels_;
  RejectionVerifier verifier_;
  RejectionKey key_;
  DraftTree tree_;
  std::array<uint32_t, DraftTree::kMaxNodes> contexts_;
  std::array<std::array<Trial, kMaxTrials>, DraftTree::kMaxNodes> trials_;
  std::array<int, DraftTree::kMaxNodes> n_trials_;
  int64_t n_accepted_ = 0, n_steps_ = 0;
};

double PValueOfTexts(const Language& language, int n_texts, const std::function<uint32_t(uint64_t)>& text) {
  std::vector<int64_t> counts(language.Nothing().size());
  for (int i = 0; i < n_texts; ++i) ++counts[text(static_cast<uint64_t>(i))];
  return testing::FitPValue(counts, language.Truth());
}

TEST(RejectionWalkTest, AMillionTextsByChainsHaveTheTargetsLaw) {
  // Texts lie one after another at the positions of one seed.
  const Language language({.vocab = 4, .length = 4, .zero_share = 0.15}, 5);
  WalkingEngine engine(language, ProposalKind::kIndependent, 1, 2);
  EXPECT_GT(PValueOfTexts(language, 1'000'000, [&](uint64_t i) { return engine.Text({.seed = 1, .position = 4 * i}); }),
            kUnlikely);
  EXPECT_GT(engine.accepted_per_step(), 0.5);  // or the drafts were never at work
  EXPECT_LT(engine.accepted_per_step(), 1.9);
}

TEST(RejectionWalkTest, AMillionTextsByTreesOfIndependentDrawsHaveTheTargetsLaw) {
  // The same positions under a million seeds.
  const Language language({.vocab = 4, .length = 3}, 6);
  WalkingEngine engine(language, ProposalKind::kIndependent, 3, 2);
  EXPECT_GT(PValueOfTexts(language, 1'000'000, [&](uint64_t i) { return engine.Text({.seed = i}); }), kUnlikely);
  EXPECT_GT(engine.accepted_per_step(), 0.5);
}

TEST(RejectionWalkTest, AMillionTextsByTreesOfDrawsWithoutReplacementHaveTheTargetsLaw) {
  const Language language({.vocab = 5, .length = 3, .zero_share = 0.2}, 7);
  WalkingEngine engine(language, ProposalKind::kWithoutReplacement, 2, 2);
  EXPECT_GT(PValueOfTexts(language, 1'000'000,
                          [&](uint64_t i) { return engine.Text({.seed = 99, .position = 10 * i, .lane = 3}); }),
            kUnlikely);
  EXPECT_GT(engine.accepted_per_step(), 0.5);
}

TEST(RejectionWalkTest, AMillionTextsByTreesOfChosenTokensHaveTheTargetsLaw) {
  const Language language({.vocab = 5, .length = 3, .spread = 4}, 8);
  WalkingEngine engine(language, ProposalKind::kOneHot, 2, 2);
  // The lane is the counter.
  EXPECT_GT(PValueOfTexts(language, 1'000'000,
                          [&](uint64_t i) { return engine.Text({.seed = 3, .lane = static_cast<uint32_t>(i)}); }),
            kUnlikely);
  EXPECT_GT(engine.accepted_per_step(), 0.3);
}

TEST(RejectionWalkTest, StreamsOfDifferentUseAndPlaceDiffer) {
  const RejectionKey key = {.seed = 4, .position = 9, .lane = 1};
  std::vector<double> values = {ResidualUniform(key), BonusUniform(key)};
  for (int trial = 0; trial < 64; ++trial) values.push_back(AcceptUniform(key, trial));
  for (int node = 0; node < 64; ++node) {
    for (int draw = 0; draw < 64; ++draw) values.push_back(DraftUniform(key, node, draw));
  }
  for (const RejectionKey& other : {RejectionKey{5, 9, 1}, RejectionKey{4, 10, 1}, RejectionKey{4, 9, 2}}) {
    values.push_back(AcceptUniform(other, 0));
    values.push_back(DraftUniform(other, 0, 0));
  }
  std::sort(values.begin(), values.end());
  EXPECT_EQ(std::adjacent_find(values.begin(), values.end()), values.end());
}

TEST(RejectionWalkTest, ACutRunEndsWhereTheCallerSays) {
  // A draft that is always right: each of its tokens is accepted, then one more comes.
  DraftTree tree;
  for (int i = 0; i < 4; ++i) tree.Add(i, 10 + i, 1);
  RejectionVerifier verifier(20);
  std::array<Trial, DraftTree::kMaxNodes> trials;
  Entries p;
  const auto laws_of = [&](int node) {
    p = testing::OneHot(10 + node);
    return NodeLaws{p, {.trials = std::span(trials).first(static_cast<size_t>(ChildTrials(tree, node, trials)))}};
  };
  for (int cut = 1; cut <= 6; ++cut) {
    std::vector<int32_t> tokens;
    const int last = verifier.Walk({}, laws_of, [&](int32_t token, int) {
      tokens.push_back(token);
      return static_cast<int>(tokens.size()) < cut;
    });
    EXPECT_EQ(last, std::min(cut, 4));
    ASSERT_EQ(static_cast<int>(tokens.size()), std::min(cut, 5));
    for (size_t i = 0; i < tokens.size(); ++i) EXPECT_EQ(tokens[i], 10 + static_cast<int32_t>(i));
  }
}

TEST(RejectionWalkTest, DrawsWithoutReplacementStopWhereTheLawEnds) {
  const Entries q = {{5, 0.0}, {3, 1 - 1e-15}, {8, 1e-15}};
  std::array<int32_t, 4> tokens;
  ASSERT_EQ(DraftWithoutReplacement(q, {}, 0, tokens), 2);
  EXPECT_EQ(tokens[0], 3);
  EXPECT_EQ(tokens[1], 8);
}

TEST(RejectionWalkTest, AStepAllocatesNothing) {
  const Language language({.vocab = 5, .length = 4}, 9);
  using enum ProposalKind;
  for (const ProposalKind kind : {kIndependent, kWithoutReplacement, kOneHot}) {
    WalkingEngine engine(language, kind, 3, 3);
    const int64_t before = model::AllocationsSoFar();
    for (uint64_t i = 0; i < 100; ++i) engine.Text({.seed = i});
    EXPECT_EQ(model::AllocationsSoFar(), before);
  }
}

}  // namespace
}  // namespace surety::spec
