// What a head finds in pages: runs of slots that end where they are asked for, states at positions; nothing in pages
// that are given out anew.
#include "engine/head_cache.h"

#include <cstring>
#include <random>

#include <gtest/gtest.h>

namespace surety::engine {
namespace {

constexpr int kPageTokens = 16;

class HeadCacheTest : public ::testing::Test {
 protected:
  HeadCacheTest() {
    recipe_.method = model::HeadMethod::kEagle3;
    recipe_.taps = {{0}, {1}};
    recipe_.target_dim = 24;
    recipe_.n_kv_heads = 2;
    recipe_.head_dim = 16;
    KvLayout layout;
    layout.n_layers = 3;
    layout.n_kv_heads = 1;
    layout.k_dim = layout.v_dim = 32;
    layout.page_tokens = kPageTokens;
    layout.companion_bytes = HeadCache::CompanionBytes(recipe_, layout);
    EXPECT_TRUE(layout.Validate().ok());
    pool_ = *kv::PagePool::Make(layout, 12);
    cache_.emplace(recipe_, *pool_);
  }

  model::HeadRecipe recipe_;
  std::unique_ptr<kv::PagePool> pool_;
  std::optional<HeadCache> cache_;
};

TEST_F(HeadCacheTest, CoveredRunsEqualAMapOfSlots) {
  std::mt19937 random(3);
  for (int trial = 0; trial < 300; ++trial) {
    kv::PageTable table(*pool_);
    ASSERT_TRUE(table.Extend(5 * kPageTokens));
    std::vector<bool> written(5 * kPageTokens);
    for (int step = 0; step < 6; ++step) {
      const int begin = 1 + static_cast<int>(random() % (5 * kPageTokens - 1));
      const int end = std::min(5 * kPageTokens, begin + 1 + static_cast<int>(random() % 40));
      cache_->NoteWritten(table.pages(), begin, end);
      // A note holds one run of a page: a run apart from it takes its place.
      for (int page = begin / kPageTokens; page * kPageTokens < end; ++page) {
        const int start = page * kPageTokens, from = std::max(begin, start), to = std::min(end, start + kPageTokens);
        bool joins = false;
        for (int s = std::max(start, from - 1); s < std::min(start + kPageTokens, to + 1); ++s) {
          joins |= written[static_cast<size_t>(s)];
        }
        for (int s = start; s < start + kPageTokens && !joins; ++s) written[static_cast<size_t>(s)] = false;
        for (int s = from; s < to; ++s) written[static_cast<size_t>(s)] = true;
      }
      for (int e = 1; e <= 5 * kPageTokens; ++e) {
        int first = e;
        while (first > 1 && written[static_cast<size_t>(first - 1)]) --first;
        ASSERT_EQ(cache_->FirstCovered(table.pages(), e), first) << "trial " << trial << " end " << e;
        ASSERT_EQ(cache_->Covers(table.pages(), e), e < 5 * kPageTokens && written[static_cast<size_t>(e)]);
      }
    }
  }
}

TEST_F(HeadCacheTest, StatesAreFoundAtTheirPositionAlone) {
  kv::PageTable table(*pool_);
  ASSERT_TRUE(table.Extend(40));
  std::vector<float> state(48, 2.5f);
  cache_->KeepState(table.pages(), 15, state.data());
  state.assign(48, 7.0f);
  cache_->KeepState(table.pages(), 20, state.data());
  ASSERT_NE(cache_->StateAt(table.pages(), 15), nullptr);
  EXPECT_EQ(cache_->StateAt(table.pages(), 15)[47], 2.5f);
  EXPECT_EQ(cache_->StateAt(table.pages(), 20)[0], 7.0f);
  for (const int other : {-1, 0, 14, 16, 19, 21, 33, 1000}) EXPECT_EQ(cache_->StateAt(table.pages(), other), nullptr);
  cache_->KeepState(table.pages(), 1000, state.data());  // no such page: nothing happens
  // A later state of the page takes the place; the head's keys and the target's are not touched.
  cache_->KeepState(table.pages(), 21, state.data());
  EXPECT_EQ(cache_->StateAt(table.pages(), 20), nullptr);
  const KvLayout& layout = pool_->layout();
  const PagedKvView& view = cache_->view();
  for (int32_t page : table.pages()) {
    const std::byte* state_begin = view.Head(0, page, 0) + view.layout.PageBytes();
    EXPECT_GE(state_begin, pool_->Bytes(page).data() + layout.CompanionOffset());
    EXPECT_LE(state_begin + 48 * sizeof(float), pool_->Bytes(page).data() + layout.PageBytes());
  }
}

TEST_F(HeadCacheTest, NothingIsFoundInPagesThatAreGivenOutAnew) {
  {
    kv::PageTable table(*pool_);
    ASSERT_TRUE(table.Extend(12 * kPageTokens));
    cache_->NoteWritten(table.pages(), 1, 12 * kPageTokens);
    const std::vector<float> state(48, 1.0f);
    for (int page = 0; page < 12; ++page) cache_->KeepState(table.pages(), page * kPageTokens + 15, state.data());
    EXPECT_EQ(cache_->FirstCovered(table.pages(), 12 * kPageTokens), 1);
    // Of a page whose end will be other tokens' nothing is known any more.
    pool_->Renew(table.pages()[4]);
    EXPECT_EQ(cache_->FirstCovered(table.pages(), 12 * kPageTokens), 5 * kPageTokens);
    EXPECT_EQ(cache_->FirstCovered(table.pages(), 4 * kPageTokens + 3), 4 * kPageTokens + 3);
    EXPECT_EQ(cache_->StateAt(table.pages(), 4 * kPageTokens + 15), nullptr);
  }
  kv::PageTable table(*pool_);
  ASSERT_TRUE(table.Extend(12 * kPageTokens));
  for (int end = 1; end < 12 * kPageTokens; ++end) EXPECT_EQ(cache_->FirstCovered(table.pages(), end), end);
  for (int page = 0; page < 12; ++page) EXPECT_EQ(cache_->StateAt(table.pages(), page * kPageTokens + 15), nullptr);
}

}  // namespace
}  // namespace surety::engine
