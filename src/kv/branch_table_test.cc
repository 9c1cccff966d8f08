#include "kv/branch_table.h"

#include <vector>

#include <gtest/gtest.h>

namespace surety::kv {
namespace {

KvLayout LayoutOfBranches() { return {.n_layers = 1, .n_kv_heads = 1, .k_dim = 16, .v_dim = 16, .page_tokens = 16}; }

TEST(BranchTableTest, SharesWholePagesAndTakesTheRest) {
  auto pool = *PagePool::Make(LayoutOfBranches(), 10);
  PageTable main(*pool);
  ASSERT_TRUE(main.Extend(40));  // three pages
  for (int first = 17; first < 48; ++first) {
    for (int n_tokens = first + 1; n_tokens < first + 40; ++n_tokens) {
      const int n_before = pool->n_free();
      const int n_pages = BranchTable::PagesFor(pool->layout(), first, n_tokens);
      const auto branch = BranchTable::Make(*pool, main.pages(), first, n_tokens, false);
      ASSERT_EQ(branch.has_value(), n_pages <= n_before);
      ASSERT_EQ(pool->n_free(), n_before - (branch ? n_pages : 0));
      if (!branch) continue;
      ASSERT_EQ(static_cast<int>(branch->pages().size()), (n_tokens + 15) / 16);
      for (size_t i = 0; i < branch->pages().size(); ++i) {
        const bool is_shared = static_cast<int>(i) < first / 16;
        const bool is_main = i < 3 && branch->pages()[i] == main.pages()[i];
        ASSERT_EQ(is_main, is_shared);
        ASSERT_EQ(pool->RefCount(branch->pages()[i]), 1);
      }
      ASSERT_EQ(branch->first_copied(), first / 16 * 16);
    }
    ASSERT_EQ(pool->n_free(), 7);
  }
}

TEST(BranchTableTest, LeavesZeroBytesWhereTheSequenceMust) {
  auto pool = *PagePool::Make(LayoutOfBranches(), 4);
  PageTable main(*pool);
  ASSERT_TRUE(main.Extend(16));
  int32_t page = -1;
  {
    const auto branch = BranchTable::Make(*pool, main.pages(), 3, 5, true);
    ASSERT_TRUE(branch.has_value());
    page = branch->pages()[0];
    for (std::byte& byte : pool->Bytes(page)) byte = std::byte{7};
  }
  for (const std::byte byte : pool->Bytes(page)) ASSERT_EQ(byte, std::byte{0});
}

}  // namespace
}  // namespace surety::kv
