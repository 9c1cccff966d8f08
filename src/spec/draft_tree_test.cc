#include "spec/draft_tree.h"

#include <array>
#include <bit>
#include <vector>

#include <gtest/gtest.h>

#include "base/random.h"

namespace surety::spec {
namespace {

std::vector<int> ChildrenOf(const DraftTree& tree, int node) {
  std::vector<int> result;
  for (const int child : tree.children(node)) result.push_back(child);
  return result;
}

TEST(DraftTreeTest, ARootAloneIsAChainOfDepthZero) {
  DraftTree tree(17);
  EXPECT_EQ(tree.size(), 1);
  EXPECT_EQ(tree.token(0), 17);
  EXPECT_EQ(tree.parent(0), -1);
  EXPECT_EQ(tree.depth(0), 0);
  EXPECT_EQ(tree.confidence(0), 1.0);
  EXPECT_EQ(tree.ancestors(0), 1u);
  EXPECT_TRUE(tree.children(0).empty());
  EXPECT_TRUE(tree.IsChain());
  EXPECT_EQ(DraftTree().token(0), -1);
}

TEST(DraftTreeTest, ChildrenStandInTheOrderOfInsertion) {
  DraftTree tree(1);
  const int a = tree.Add(0, 30, 0.5);
  const int below = tree.Add(a, 5, 0.9);
  const int b = tree.Add(0, 10, 0.3);
  const int c = tree.Add(0, 20, 0.1);
  EXPECT_EQ(ChildrenOf(tree, 0), (std::vector<int>{a, b, c}));
  EXPECT_EQ(ChildrenOf(tree, a), std::vector<int>{below});
  EXPECT_EQ(tree.depth(below), 2);
  EXPECT_EQ(tree.confidence(b), 0.3);
  EXPECT_EQ(tree.FindChild(0, 20), c);
  EXPECT_EQ(tree.FindChild(0, 5), -1);
}

TEST(DraftTreeTest, AnEqualTokenUnderTheSameParentIsTheSameNode) {
  DraftTree tree;
  const int a = tree.Add(0, 4, 0.25);
  EXPECT_EQ(tree.Add(0, 4, 0.5), a);
  EXPECT_EQ(tree.confidence(a), 0.5);
  EXPECT_EQ(tree.Add(0, 4, 0.125), a);
  EXPECT_EQ(tree.confidence(a), 0.5);
  EXPECT_NE(tree.Add(a, 4, 0.5), a);  // under another parent it is another node
  EXPECT_EQ(tree.size(), 3);
}

TEST(DraftTreeTest, IsAChainUntilANodeHasTwoChildren) {
  DraftTree tree;
  int node = 0;
  for (int i = 0; i < 5; ++i) node = tree.Add(node, i, 1);
  EXPECT_TRUE(tree.IsChain());
  tree.Add(2, 2, 1);  // known
  EXPECT_TRUE(tree.IsChain());
  tree.Add(2, 77, 1);
  EXPECT_FALSE(tree.IsChain());
  tree.Clear(9);
  EXPECT_TRUE(tree.IsChain());
  EXPECT_EQ(tree.size(), 1);
  EXPECT_TRUE(tree.children(0).empty());
  EXPECT_EQ(tree.token(0), 9);
}

TEST(DraftTreeTest, AFullTreeTakesKnownTokensAlone) {
  DraftTree tree;
  for (int i = 1; i < DraftTree::kMaxNodes; ++i) ASSERT_EQ(tree.Add(0, i, 0.5), i);
  EXPECT_EQ(tree.Add(0, 1000, 1), DraftTree::kFull);
  EXPECT_EQ(tree.Add(63, 1, 1), DraftTree::kFull);
  EXPECT_EQ(tree.size(), DraftTree::kMaxNodes);
  EXPECT_EQ(tree.Add(0, 63, 0.5), 63);
  EXPECT_EQ(tree.ancestors(63), uint64_t{1} << 63 | 1);
}

TEST(DraftTreeTest, AncestorsAreWhatWalkingUpFinds) {
  DraftTree tree;
  for (uint64_t seed = 0; seed < 50; ++seed) {
    tree.Clear();
    for (uint32_t i = 0; i < 200; ++i) {
      const uint64_t bits = RandomBits({.seed = seed, .purpose = RandomPurpose::kTest}, i);
      tree.Add(static_cast<int>(bits % static_cast<uint64_t>(tree.size())), static_cast<int32_t>(bits >> 32 & 7), 0.5);
    }
    for (int n = 0; n < tree.size(); ++n) {
      uint64_t mask = 0;
      int depth = -1;
      for (int m = n; m >= 0; m = tree.parent(m), ++depth) {
        mask |= uint64_t{1} << m;
        ASSERT_LT(tree.parent(m), m);
      }
      ASSERT_EQ(tree.ancestors(n), mask);
      ASSERT_EQ(tree.depth(n), depth);
    }
  }
}

// A random tree, and of its nodes some with all that are above them.
DraftTree RandomTree(uint64_t seed, uint64_t* keep) {
  DraftTree tree(3);
  *keep = 1;
  for (uint32_t i = 0; i < 60; ++i) {
    const uint64_t bits = RandomBits({.seed = seed, .purpose = RandomPurpose::kTest}, i);
    const int parent = static_cast<int>(bits % static_cast<uint64_t>(tree.size()));
    const int n_before = tree.size();
    const int n = tree.Add(parent, static_cast<int32_t>(bits >> 32 & 31), static_cast<double>(bits >> 40 & 15) / 16);
    if (n < n_before) continue;
    if ((*keep >> parent & 1) != 0 && (bits >> 50 & 7) > 0) *keep |= uint64_t{1} << n;
  }
  return tree;
}

TEST(DraftTreeTest, ArrangedNodesStandInPreorderWithTheirParents) {
  for (uint64_t seed = 0; seed < 200; ++seed) {
    uint64_t keep = 0;
    const DraftTree tree = RandomTree(seed, &keep);
    for (const bool by_confidence : {false, true}) {
      DraftTree out;
      std::array<int, DraftTree::kMaxNodes> from;
      ArrangeTree(tree, keep, by_confidence, out, from);
      ASSERT_EQ(out.size(), std::popcount(keep));
      int n_branches = 0, n_leaves = 0;
      for (int n = 0; n < out.size(); ++n) {
        const int old = from[static_cast<size_t>(n)];
        ASSERT_EQ(out.token(n), tree.token(old));
        ASSERT_EQ(out.depth(n), tree.depth(old));
        if (n > 0) {
          ASSERT_EQ(from[static_cast<size_t>(out.parent(n))], tree.parent(old));
        }
        // Preorder: a node that does not go on behind the one before it leaves a path that runs through that one.
        if (n > 0 && out.BeginsBranch(n)) {
          ++n_branches;
          ASSERT_NE(out.ancestors(n - 1) >> out.parent(n) & 1, 0u);
        }
        const auto children = ChildrenOf(out, n);
        n_leaves += children.empty() ? 1 : 0;
        for (size_t i = 1; i < children.size(); ++i) {
          const double before = out.confidence(children[i - 1]), after = out.confidence(children[i]);
          if (by_confidence) {
            ASSERT_GE(before, after);
          }
          if (!by_confidence) {
            ASSERT_LT(from[static_cast<size_t>(children[i - 1])], from[static_cast<size_t>(children[i])]);
          }
        }
      }
      ASSERT_EQ(n_branches + 1, n_leaves);
    }
  }
}

}  // namespace
}  // namespace surety::spec
