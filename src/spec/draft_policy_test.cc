// The choice of draft lengths against a search of all combinations.
#include "spec/draft_policy.h"

#include <algorithm>
#include <array>
#include <bit>
#include <functional>

#include <gtest/gtest.h>

#include "base/random.h"

namespace surety::spec {
namespace {

class PolicyDraws {
 public:
  explicit PolicyDraws(uint64_t seed) : seed_(seed) {}
  int Below(int n) { return static_cast<int>(Uniform() * n); }
  double Uniform() { return RandomUniform({seed_, n_++, RandomPurpose::kTest}); }

 private:
  uint64_t seed_, n_ = 0;
};

struct PolicyCase {
  std::vector<std::vector<double>> acceptance;
  std::vector<double> cost;  // by rows
  int n_rows = 1, n_yields = 1, most = 0;

  double Cost(int rows) const { return cost[static_cast<size_t>(rows)]; }
  // Expected further tokens of these lengths, from the meaning of the probabilities.
  double Expected(const std::vector<int>& lengths) const {
    double sum = 0;
    for (size_t i = 0; i < acceptance.size(); ++i) {
      double all = 1;
      for (int k = 0; k < lengths[i]; ++k) sum += all *= acceptance[i][static_cast<size_t>(k)];
    }
    return sum;
  }
  double Rate(const std::vector<int>& lengths) const {
    int rows = n_rows;
    for (const int length : lengths) rows += length;
    return Cost(rows) > 0 ? (n_yields + Expected(lengths)) / Cost(rows) : 0;
  }
  double BestRate() const {
    std::vector<int> lengths(acceptance.size(), 0);
    double best = 0;
    const std::function<void(size_t, int)> visit = [&](size_t i, int left) {
      if (i == acceptance.size()) {
        best = std::max(best, Rate(lengths));
        return;
      }
      for (int n = 0; n <= std::min(left, static_cast<int>(acceptance[i].size())); ++n) {
        lengths[i] = n;
        visit(i + 1, left - n);
      }
      lengths[i] = 0;
    };
    visit(0, std::max(0, most));
    return best;
  }
};

DraftTree ChainOf(const std::vector<double>& acceptance) {
  DraftTree tree;
  for (size_t i = 0; i < acceptance.size(); ++i) {
    tree.Add(static_cast<int>(i), static_cast<int32_t>(100 + i), acceptance[i]);
  }
  return tree;
}

enum class CostKind { kFlat, kLinear, kStairs, kConcave, kAny };

PolicyCase RandomCase(PolicyDraws& draws, CostKind kind) {
  PolicyCase c;
  const int n_offers = draws.Below(5);
  c.n_yields = n_offers + draws.Below(3) + (n_offers == 0 ? 1 : 0);
  c.n_rows = c.n_yields;
  c.most = draws.Below(9);
  for (int i = 0; i < n_offers; ++i) {
    std::vector<double>& acceptance = c.acceptance.emplace_back();
    for (int n = draws.Below(6); n > 0; --n) acceptance.push_back(draws.Below(8) == 0 ? 1.0 : draws.Uniform());
  }
  double cost = 1 + draws.Uniform();
  const int step = 2 + draws.Below(4);
  for (int rows = 0; rows <= 40; ++rows) {
    switch (kind) {
      case CostKind::kFlat: break;
      case CostKind::kLinear: cost += 0.2; break;
      case CostKind::kStairs: cost += rows % step == 0 ? 0.7 : 0.01; break;
      case CostKind::kConcave: cost += 0.5 / (1 + rows); break;
      case CostKind::kAny: cost = 0.5 + 2 * draws.Uniform(); break;
    }
    c.cost.push_back(cost);
  }
  return c;
}

class DraftPolicyCostTest : public ::testing::TestWithParam<CostKind> {};

INSTANTIATE_TEST_SUITE_P(Costs, DraftPolicyCostTest,
                         ::testing::Values(CostKind::kFlat, CostKind::kLinear, CostKind::kStairs, CostKind::kConcave,
                                           CostKind::kAny));

// Conditional probabilities are at most 1, so products fall along a draft: the k rows that are worth most can be had
// for every k, and one at a time is as good as all combinations, whatever the cost is.
TEST_P(DraftPolicyCostTest, OneRowAtATimeReachesTheBestOfAllCombinations) {
  PolicyDraws draws(static_cast<uint64_t>(GetParam()));
  int n_with_drafts = 0, n_without = 0;
  for (int round = 0; round < 3000; ++round) {
    const PolicyCase c = RandomCase(draws, GetParam());
    std::vector<DraftTree> trees;
    for (const auto& acceptance : c.acceptance) trees.push_back(ChainOf(acceptance));
    std::vector<DraftOffer> offers;
    for (const DraftTree& tree : trees) offers.push_back({.tree = &tree, .chosen = 99});
    const double expected =
        ChooseDrafts(offers, c.n_rows, c.n_yields, c.most, [&](int rows) { return c.Cost(rows); });
    std::vector<int> lengths;
    int sum = 0;
    for (size_t i = 0; i < offers.size(); ++i) {
      lengths.push_back(offers[i].n_chosen());
      sum += offers[i].n_chosen();
      ASSERT_EQ(offers[i].chosen, (uint64_t{2} << offers[i].n_chosen()) - 1);  // the first ones of the chain
      ASSERT_LE(offers[i].n_chosen(), static_cast<int>(c.acceptance[i].size()));
    }
    ASSERT_LE(sum, c.most);
    ASSERT_NEAR(expected, c.Expected(lengths), 1e-12);
    ASSERT_NEAR(c.Rate(lengths), c.BestRate(), 1e-12) << round;
    ASSERT_GE(c.Rate(lengths), c.n_yields / c.Cost(c.n_rows) - 1e-12);  // never worse than no drafts
    ++(sum > 0 ? n_with_drafts : n_without);
  }
  EXPECT_GT(n_with_drafts, 300);
  EXPECT_GT(n_without, 300);
}

TEST(DraftPolicyTest, RowsComeInGroupsWhereOneAloneDoesNotPay) {
  // Four rows cost no more than two, but two cost half as much again as one.
  const DraftTree tree = ChainOf({0.4, 0.9, 0.9});
  DraftOffer offer = {.tree = &tree};
  const auto cost = [](int rows) { return rows == 1 ? 1.0 : 1.5; };
  const double expected = ChooseDrafts(std::span(&offer, 1), 1, 1, 8, cost);
  EXPECT_EQ(offer.n_chosen(), 3);
  EXPECT_NEAR(expected, 0.4 + 0.36 + 0.324, 1e-12);
  ChooseDrafts(std::span(&offer, 1), 1, 1, 1, cost);
  EXPECT_EQ(offer.n_chosen(), 0);  // one row is all there may be, and does not pay
}

TEST(DraftPolicyTest, NothingIsVerifiedBeforeAnythingIsKnownAboutTheCost) {
  const DraftTree tree = ChainOf({1.0, 1.0});
  DraftOffer offer = {.tree = &tree, .chosen = 7};
  EXPECT_EQ(ChooseDrafts(std::span(&offer, 1), 1, 1, 8, [](int) { return 0.0; }), 0.0);
  EXPECT_EQ(offer.n_chosen(), 0);
}

TEST(DraftPolicyTest, OfEqualDraftsTheFirstSequenceComesFirst) {
  const DraftTree tree = ChainOf({0.9});
  std::vector<DraftOffer> offers(3, {.tree = &tree});
  ChooseDrafts(offers, 3, 3, 2, [](int) { return 1.0; });
  EXPECT_EQ(offers[0].n_chosen(), 1);
  EXPECT_EQ(offers[1].n_chosen(), 1);
  EXPECT_EQ(offers[2].n_chosen(), 0);
}

// Siblings most confident first, as drafts are arranged.
DraftTree RandomSortedTree(PolicyDraws& draws, int n_nodes) {
  DraftTree tree, sorted;
  for (int i = 0; i < n_nodes; ++i) tree.Add(draws.Below(tree.size()), 100 + i, 0.05 + 0.95 * draws.Uniform());
  std::array<int, DraftTree::kMaxNodes> from;
  ArrangeTree(tree, ~uint64_t{0} >> (64 - tree.size()), true, sorted, from);
  return sorted;
}

double ExpectedNodes(const DraftTree& tree, uint64_t chosen) {
  double sum = 0;
  for (int n = 1; n < tree.size(); ++n) {
    if ((chosen >> n & 1) == 0) continue;
    double joint = 1;
    for (int m = n; m > 0; m = tree.parent(m)) joint *= tree.confidence(m);
    sum += joint;
  }
  return sum;
}

int LeavesOf(const DraftTree& tree, uint64_t chosen) {
  int leaves = 0;
  for (int n = 0; n < tree.size(); ++n) {
    bool has_child = false;
    for (const int child : tree.children(n)) has_child |= (chosen >> child & 1) != 0;
    leaves += (chosen >> n & 1) != 0 && !has_child ? 1 : 0;
  }
  return leaves;
}

// Each node's parent is chosen, and its earlier siblings.
bool IsClosed(const DraftTree& tree, uint64_t chosen) {
  for (int n = 0; n < tree.size(); ++n) {
    bool before = true;
    for (const int child : tree.children(n)) {
      const bool is_in = (chosen >> child & 1) != 0;
      if (is_in && ((chosen >> n & 1) == 0 || !before)) return false;
      before = is_in;
    }
  }
  return true;
}

TEST(DraftPolicyTest, TreesReachTheBestOfAllWhereBranchesAreFreeAndNeverLessThanChains) {
  PolicyDraws draws(77);
  int n_with_branches = 0, n_chains = 0;
  for (int round = 0; round < 800; ++round) {
    const DraftTree trees[] = {RandomSortedTree(draws, draws.Below(7)), RandomSortedTree(draws, draws.Below(6))};
    const double branch = round % 3 == 0 ? 0 : round % 3 == 1 ? 0.1 * draws.Uniform() : 50;
    const double slope = 0.3 * draws.Uniform();
    const int most = draws.Below(12), leaves = round % 2 == 0 ? 63 : 1 + draws.Below(3);
    const auto cost = [&](int rows) { return 1 + slope * rows; };
    DraftOffer offers[] = {{&trees[0], branch, leaves}, {&trees[1], branch, leaves}};
    const double expected = ChooseDrafts(offers, 2, 2, most, cost);
    double best = 2 / cost(2), best_chain = best;
    for (uint64_t a = 1; a < uint64_t{1} << trees[0].size(); a += 2) {
      if (!IsClosed(trees[0], a) || LeavesOf(trees[0], a) > leaves) continue;
      for (uint64_t b = 1; b < uint64_t{1} << trees[1].size(); b += 2) {
        if (!IsClosed(trees[1], b) || LeavesOf(trees[1], b) > leaves) continue;
        const int rows = std::popcount(a) + std::popcount(b) - 2;
        const int further = LeavesOf(trees[0], a) + LeavesOf(trees[1], b) - 2;
        if (rows > most) continue;
        const double tokens = 2 + ExpectedNodes(trees[0], a) + ExpectedNodes(trees[1], b);
        best = std::max(best, tokens / (cost(2 + rows) + branch * further));
        if (further == 0) best_chain = std::max(best_chain, tokens / cost(2 + rows));
      }
    }
    const int rows = offers[0].n_chosen() + offers[1].n_chosen();
    const int further = LeavesOf(trees[0], offers[0].chosen) + LeavesOf(trees[1], offers[1].chosen) - 2;
    const double rate = (2 + expected) / (cost(2 + rows) + branch * further);
    for (int i = 0; i < 2; ++i) {
      ASSERT_TRUE(IsClosed(trees[i], offers[i].chosen));
      ASSERT_LE(LeavesOf(trees[i], offers[i].chosen), leaves);
    }
    ASSERT_LE(rows, most);
    ASSERT_NEAR(expected, ExpectedNodes(trees[0], offers[0].chosen) + ExpectedNodes(trees[1], offers[1].chosen), 1e-12);
    ASSERT_GE(rate, best_chain - 1e-12) << round;
    ASSERT_LE(rate, best + 1e-12);
    if (branch == 0 && leaves == 63) {
      ASSERT_NEAR(rate, best, 1e-12) << round;
    }
    ASSERT_GE(rate, 0.9 * best) << round;
    if (branch == 50) {
      ASSERT_EQ(further, 0);
    }
    ++(further > 0 ? n_with_branches : n_chains);
  }
  EXPECT_GT(n_with_branches, 150);
  EXPECT_GT(n_chains, 150);
}

TEST(DraftPolicyTest, AShapeHasTheNodesThatAreReachedMostProbably) {
  PolicyDraws draws(78);
  for (int round = 0; round < 200; ++round) {
    double values[4][4];
    for (auto& by_rank : values) {
      double left = 1;
      for (double& value : by_rank) left -= value = left * 0.9 * draws.Uniform();
      std::sort(std::begin(by_rank), std::end(by_rank), std::greater<>());
    }
    const auto of = [&](int depth, int rank) { return rank < 4 ? values[depth][rank] : 0.0; };
    const int n_nodes = 1 + draws.Below(20), depth = 1 + draws.Below(4);
    DraftTree tree;
    ShapeTree(n_nodes, depth, 63, 0, of, tree);
    std::vector<double> all;  // the joint of each node that there could be
    const std::function<void(int, double)> visit = [&](int d, double above) {
      for (int rank = 0; d < depth && rank < 4; ++rank) {
        all.push_back(above * of(d, rank));
        visit(d + 1, above * of(d, rank));
      }
    };
    visit(0, 1);
    std::sort(all.begin(), all.end(), std::greater<>());
    double best = 0;
    for (size_t i = 0; i < std::min(all.size(), static_cast<size_t>(n_nodes)); ++i) best += all[i];
    ASSERT_NEAR(ExpectedNodes(tree, ~uint64_t{0}), best, 1e-9);
    ASSERT_LE(tree.size(), n_nodes + 1);
    DraftTree chain;
    ShapeTree(n_nodes, depth, 1, 0, of, chain);
    ASSERT_TRUE(chain.IsChain());
    ASSERT_EQ(chain.size(), std::min(n_nodes, depth) + 1);
  }
}

}  // namespace
}  // namespace surety::spec
