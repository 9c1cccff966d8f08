#include "kv/radix_tree.h"

#include <algorithm>

#include <gtest/gtest.h>

#include "base/random.h"
#include "kv/indexed_heap.h"
#include "kv/testing/cache_fixture.h"

namespace surety::kv {
namespace {

using namespace surety::kv::testing;  // NOLINT: the fixture of these tests

class RadixTreeTest : public ::testing::Test {
 protected:
  RadixTreeTest() : pool_(*PagePool::Make(TinyLayout(), 32)), tree_(kPageTokens, 8, TokenHash(1, 2)) {
    root_ = tree_.NewRoot(nullptr);
  }
  void TearDown() override {
    EXPECT_TRUE(tree_.Audit(root_, [](const RadixNode&) { return OkStatus(); }).ok());
    Clear(root_);
  }
  RadixPage Page(const std::vector<int32_t>& tokens) { return {pool_->Allocate(), tokens, 0, nullptr}; }
  RadixNode* Chain(RadixNode* parent, const std::vector<int>& pages) {
    RadixNode* node = tree_.AddChild(parent, Page(TokensOf({pages[0]})));
    for (size_t i = 1; i < pages.size(); ++i) tree_.Append(node, Page(TokensOf({pages[i]})));
    return node;
  }
  void Clear(RadixNode* node) {
    while (!node->is_leaf()) Clear(node->first_child);
    if (node->is_root()) return;
    while (node->n_pages() > 0) tree_.PopTail(node);
    tree_.Unlink(node);
  }

  std::unique_ptr<PagePool> pool_;
  RadixTree tree_;
  RadixNode* root_;
};

TEST_F(RadixTreeTest, SplitsNodeWhereTokensDiverge) {
  RadixNode* node = Chain(root_, {1, 2, 3, 4});
  const uint64_t generation = node->generation;
  const int32_t third = node->pages[2].page();
  const auto tokens = TokensOf({1, 2, 9});
  EXPECT_EQ(tree_.CommonPages(node, 0, tokens.data(), 3), 2);
  RadixNode* upper = tree_.Split(node, 2);
  EXPECT_EQ(upper->parent, root_);
  EXPECT_EQ(upper->end(), 2);
  EXPECT_EQ(node->parent, upper);
  EXPECT_EQ(node->depth, 2);
  EXPECT_EQ(node->pages[0].page(), third);
  RadixNode* branch = Chain(upper, {9});
  EXPECT_EQ(tree_.FindChild(root_, tokens.data()), upper);
  EXPECT_EQ(tree_.FindChild(upper, tokens.data() + 2 * kPageTokens), branch);
  EXPECT_EQ(tree_.FindChild(upper, TokensOf({3}).data()), node);
  EXPECT_EQ(tree_.FindChild(upper, TokensOf({1}).data()), nullptr);
  EXPECT_EQ(tree_.n_nodes(), 3);
  EXPECT_EQ(tree_.CountTable(), 3);
  // A position in the part that moved up is found there; one in the rest where it was.
  EXPECT_EQ(tree_.Resume(node, generation, 2)->node, upper);
  EXPECT_EQ(tree_.Resume(node, generation, 3)->node, node);
  EXPECT_EQ(tree_.Resume(node, generation, 0)->node, root_);
}

TEST_F(RadixTreeTest, PositionsEndWithThePagesThatTheyCount) {
  RadixNode* node = Chain(root_, {1, 2});
  const uint64_t generation = node->generation;
  EXPECT_TRUE(tree_.Resume(node, generation, 2));
  tree_.PopTail(node);
  EXPECT_FALSE(tree_.Resume(node, generation, 2));
  EXPECT_FALSE(tree_.Resume(node, generation, 1));  // conservative: the caller walks again
  tree_.Append(node, Page(TokensOf({7})));
  EXPECT_FALSE(tree_.Resume(node, generation, 2));
  const uint64_t later = node->generation;
  Clear(root_);
  EXPECT_FALSE(tree_.Resume(node, later, 1));
  EXPECT_EQ(Chain(root_, {5}), node);  // its memory is used again
  EXPECT_FALSE(tree_.Resume(node, later, 1));
  EXPECT_FALSE(tree_.Resume(nullptr, 0, 0));
}

struct HeapItem {
  int slot = -1;
  double key = 0;
};

TEST(IndexedHeapTest, TopIsTheLeastAfterAnyChange) {
  std::vector<HeapItem> items(50);
  IndexedHeap<HeapItem, &HeapItem::slot, &HeapItem::key> heap;
  uint64_t n_draws = 0;
  const auto draw = [&](uint64_t n) { return RandomBits({5, ++n_draws, RandomPurpose::kTest}) % n; };
  for (int step = 0; step < 20'000; ++step) {
    HeapItem& item = items[draw(items.size())];
    if (item.slot < 0) {
      item.key = static_cast<double>(draw(30));
      heap.Push(&item);
    } else if (draw(2) == 0) {
      heap.Remove(&item);
    } else {
      item.key = static_cast<double>(draw(30));
      heap.Update(&item);
    }
    ASSERT_TRUE(heap.Valid());
    double least = 1e9;
    size_t n_inside = 0;
    for (const HeapItem& one : items) {
      ASSERT_EQ(heap.Contains(&one), one.slot >= 0);
      if (one.slot < 0) continue;
      least = std::min(least, one.key);
      ++n_inside;
    }
    ASSERT_EQ(heap.size(), n_inside);
    ASSERT_TRUE(heap.empty() || heap.top()->key == least);
  }
}

}  // namespace
}  // namespace surety::kv
