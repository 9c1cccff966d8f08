#include "kv/page_pool.h"

#include <algorithm>
#include <set>

#include <gtest/gtest.h>

#include "base/random.h"

namespace surety::kv {
namespace {

KvLayout SmallLayout() { return {.n_layers = 2, .n_kv_heads = 3, .k_dim = 32, .v_dim = 32, .page_tokens = 16}; }

TEST(PagePoolTest, RandomUseConservesPages) {
  auto pool = *PagePool::Make(SmallLayout(), 20);
  std::vector<PageHandle> held;
  std::multiset<int32_t> model;  // the naive truth: one entry a reference
  for (uint64_t i = 0; i < 20'000; ++i) {
    const uint64_t draw = RandomBits({1, i, RandomPurpose::kTest});
    if (draw % 3 == 0) {
      PageHandle handle = pool->Allocate();
      const std::set<int32_t> distinct(model.begin(), model.end());
      ASSERT_EQ(static_cast<bool>(handle), distinct.size() < 20);
      if (handle) {
        ASSERT_FALSE(distinct.contains(handle.page()));
        model.insert(handle.page());
        held.push_back(std::move(handle));
      }
    } else if (draw % 3 == 1 && !held.empty()) {
      held.push_back(held[(draw >> 8) % held.size()].Share());
      model.insert(held.back().page());
    } else if (!held.empty()) {
      const size_t at = (draw >> 8) % held.size();
      model.erase(model.find(held[at].page()));
      std::swap(held[at], held.back());
      held.pop_back();
    }
    const std::set<int32_t> distinct(model.begin(), model.end());
    ASSERT_EQ(pool->n_used(), static_cast<int>(distinct.size()));
    for (int32_t page : distinct) ASSERT_EQ(pool->RefCount(page), static_cast<int>(model.count(page)));
  }
}

TEST(PagePoolTest, HeadsDoNotOverlapAndStayInside) {
  auto pool = *PagePool::Make(SmallLayout(), 4);
  const PagedKvView& view = pool->view();
  std::set<std::byte*> starts;
  for (int layer = 0; layer < 2; ++layer) {
    for (int page = 0; page < 4; ++page) {
      for (int head = 0; head < 3; ++head) starts.insert(view.Head(layer, page, head));
    }
  }
  ASSERT_EQ(starts.size(), 24u);
  for (auto it = starts.begin(); std::next(it) != starts.end(); ++it) {
    EXPECT_GE(*std::next(it) - *it, view.layout.HeadPageBytes());
    EXPECT_EQ(reinterpret_cast<uintptr_t>(*it) % 64, 0u);
  }
  EXPECT_LE(*starts.rbegin() + view.layout.HeadPageBytes(), view.base + pool->size_bytes());
}

TEST(PageTableTest, ExtendIsAllOrNothing) {
  auto pool = *PagePool::Make(SmallLayout(), 4);
  PageTable a(*pool), b(*pool);
  EXPECT_TRUE(a.Extend(33));  // three pages
  EXPECT_FALSE(b.Extend(17));
  EXPECT_EQ(b.capacity_tokens(), 0);
  a.Truncate(16);
  EXPECT_EQ(a.capacity_tokens(), 16);
  EXPECT_TRUE(b.Extend(48));
  EXPECT_EQ(pool->n_free(), 0);
}

TEST(PagePoolTest, CopyAndZeroTouchOnePageInAllLayers) {
  auto pool = *PagePool::Make(SmallLayout(), 3);
  const PagedKvView& view = pool->view();
  const auto fill = [&](int page, int value) {
    for (int layer = 0; layer < 2; ++layer) {
      std::fill_n(view.Head(layer, page, 0), view.layout.LayerPageBytes(), static_cast<std::byte>(value));
    }
  };
  fill(0, 1);
  fill(1, 2);
  fill(2, 3);
  pool->CopyPage(0, 1);
  pool->ZeroPage(2);
  for (int layer = 0; layer < 2; ++layer) {
    const int64_t last = view.layout.LayerPageBytes() - 1;
    EXPECT_EQ(view.Head(layer, 0, 0)[last], std::byte{1});
    EXPECT_EQ(view.Head(layer, 1, 0)[last], std::byte{1});
    EXPECT_EQ(view.Head(layer, 2, 0)[0], std::byte{0});
    EXPECT_EQ(view.Head(layer, 2, 0)[last], std::byte{0});
  }
}

TEST(PagePoolTest, MarkedPageIsOverwrittenWhenItsLastReferenceGoes) {
  auto pool = *PagePool::Make(SmallLayout(), 2);
  const auto all_are = [&](int32_t page, std::byte value) {
    for (std::byte b : pool->Bytes(page)) {
      if (b != value) return false;
    }
    return true;
  };
  PageHandle marked = pool->Allocate(), plain = pool->Allocate();
  const int32_t marked_page = marked.page(), plain_page = plain.page();
  for (int32_t page : {marked_page, plain_page}) std::ranges::fill(pool->Bytes(page), std::byte{9});
  PageHandle second = marked.Share();
  marked.MarkZeroOnRelease();
  marked.Reset();
  EXPECT_TRUE(all_are(marked_page, std::byte{9}));  // somebody still reads it
  EXPECT_EQ(pool->zeroed_bytes(), 0);
  second.Reset();
  plain.Reset();
  EXPECT_TRUE(all_are(marked_page, std::byte{0}));
  EXPECT_TRUE(all_are(plain_page, std::byte{9}));
  EXPECT_EQ(pool->zeroed_bytes(), pool->layout().PageBytes());
  PageHandle again = pool->Allocate(), other = pool->Allocate();
  EXPECT_FALSE(pool->ZeroOnRelease(marked_page));  // the mark went with the contents
}

TEST(PagePoolTest, CountsPagesThatOnlyACacheHolds) {
  auto pool = *PagePool::Make(SmallLayout(), 2);
  PageHandle cached = pool->Allocate();
  PageHandle sequence = cached.Share();
  pool->SetCached(cached.page(), true);
  EXPECT_EQ(pool->n_reclaimable(), 0);
  sequence.Reset();
  EXPECT_EQ(pool->n_reclaimable(), 1);
  sequence = cached.Share();
  EXPECT_EQ(pool->n_reclaimable(), 0);
  sequence.Reset();
  pool->SetCached(cached.page(), false);
  EXPECT_EQ(pool->n_reclaimable(), 0);
}

TEST(PageTableTest, AdoptsMatchedPagesAndMarksAllOfThem) {
  auto pool = *PagePool::Make(SmallLayout(), 3);
  PageHandle shared = pool->Allocate();
  std::vector<PageHandle> matched;
  matched.push_back(shared.Share());
  PageTable table(*pool);
  table.Adopt(std::move(matched));
  EXPECT_EQ(table.capacity_tokens(), 16);
  EXPECT_TRUE(table.Extend(32));
  table.MarkZeroOnRelease();
  EXPECT_TRUE(table.Extend(48));
  for (int32_t page : table.pages()) EXPECT_TRUE(pool->ZeroOnRelease(page));
  EXPECT_EQ(table.handles().size(), 3u);
  EXPECT_EQ(table.pages()[0], shared.page());
}

TEST(PagePoolTest, MakeRefusesWhatCannotBe) {
  KvLayout odd = SmallLayout();
  odd.page_tokens = 17;
  EXPECT_EQ(PagePool::Make(odd, 4).error().code(), StatusCode::kInvalidArgument);
  EXPECT_EQ(PagePool::Make(SmallLayout(), 0).error().code(), StatusCode::kInvalidArgument);
  KvLayout huge = SmallLayout();
  huge.n_layers = 10000;
  EXPECT_EQ(PagePool::Make(huge, 1 << 30).error().code(), StatusCode::kResourceExhausted);
}

}  // namespace
}  // namespace surety::kv
