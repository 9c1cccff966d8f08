// Random use of the cache against a naive model: a map from (scope, token prefix) to a page, with Audit after each
// operation. Pages hold bytes that depend on scope and tokens, so a page of another scope or prefix shows itself.
#include <algorithm>
#include <map>
#include <set>

#include <gtest/gtest.h>

#include "base/random.h"
#include "kv/prefix_cache.h"
#include "kv/testing/cache_fixture.h"

namespace surety::kv {
namespace {

using namespace surety::kv::testing;  // NOLINT: the fixture of these tests

constexpr int kPoolPages = 40;
constexpr int kFamilies = 3, kSalts = 2, kScopes = kFamilies * kSalts;

struct ModelPage {
  int32_t page = -1;
  int64_t created_ns = 0;
};

struct Sequence {
  int scope = 0;
  std::vector<int32_t> tokens;
  std::vector<PageHandle> pages;
  PrefixCursor cursor;
  int n_matched = 0;
  int n_offered = 0;
  int64_t opened_ns = 0;
  bool forgotten = false;
};

class CacheWorld {
 public:
  CacheWorld(uint64_t seed, uint64_t hash_mask) : seed_(seed) {
    pool_ = *PagePool::Make(TinyLayout(), kPoolPages);
    PrefixCacheOptions options;
    options.hash_mask = hash_mask;
    cache_ = *PrefixCache::Make(*pool_, clock_, options);
    for (int scope = 0; scope < kScopes; ++scope) {
      keys_.push_back(MakeScope("tenant" + std::to_string(scope / kSalts), std::to_string(scope % kSalts)));
    }
    policies_[0] = {.ttl_ns = 0, .zero_on_release = false, .floor_pages = 5};
    policies_[1] = {.ttl_ns = 20 * kSecondNs, .zero_on_release = true, .floor_pages = 0};
    policies_[2] = {.ttl_ns = 50 * kSecondNs, .zero_on_release = false, .floor_pages = 3};
    for (int family = 0; family < kFamilies; ++family) {
      EXPECT_TRUE(cache_->SetPolicy(keys_[static_cast<size_t>(family * kSalts)].family(), policies_[family]).ok());
    }
  }

  void Step() {
    switch (Draw(12)) {
      case 0: case 1: case 2: Start(); break;
      case 3: case 4: case 5: case 6: Grow(); break;
      case 7: Finish(); break;
      case 8: Evict(); break;
      case 9: clock_.now_ns += static_cast<int64_t>(Draw(8)) * kSecondNs; break;
      case 10: Sweep(Draw(4) == 0 ? 1000 : static_cast<int>(Draw(5))); break;
      case 11: if (Draw(6) == 0) Forget(); break;
    }
    Check();
  }

 private:
  using Key = std::pair<int, std::vector<int32_t>>;

  uint64_t Draw(uint64_t n) { return RandomBits({seed_, ++n_draws_, RandomPurpose::kTest}) % n; }
  static Key KeyOf(int scope, std::span<const int32_t> tokens, int n_pages) {
    return {scope, {tokens.begin(), tokens.begin() + static_cast<ptrdiff_t>(n_pages) * kPageTokens}};
  }
  const ScopePolicy& PolicyOf(int scope) const { return policies_[scope / kSalts]; }
  bool Expired(int scope, const ModelPage& page) const {
    return PolicyOf(scope).ttl_ns > 0 && page.created_ns + PolicyOf(scope).ttl_ns <= clock_.now_ns;
  }
  // Pages of the prefix that are cached and alive; `blocked` if the next one is there, but expired.
  int Prefix(int scope, std::span<const int32_t> tokens, int limit, bool* blocked = nullptr) const {
    for (int n = 0; n < limit; ++n) {
      const auto at = model_.find(KeyOf(scope, tokens, n + 1));
      if (at == model_.end()) return n;
      if (Expired(scope, at->second)) {
        if (blocked != nullptr) *blocked = true;
        return n;
      }
    }
    return limit;
  }
  std::vector<std::byte> Contents(int scope, std::span<const int32_t> tokens, int n_pages) const {
    return ContentsFor(std::to_string(scope), tokens.first(static_cast<size_t>(n_pages) * kPageTokens),
                       pool_->layout().PageBytes());
  }
  bool Held(int32_t page) const {
    for (const auto& sequence : sequences_) {
      for (const PageHandle& handle : sequence->pages) {
        if (handle.page() == page) return true;
      }
    }
    return false;
  }

  // The model forgets what has left the tree; `allowed` says whether it may have.
  template <typename Allowed>
  int Learn(Allowed allowed) {
    std::vector<Key> gone;
    for (const auto& [key, page] : model_) {
      if (!pool_->Cached(page.page)) gone.push_back(key);
    }
    for (const Key& key : gone) EXPECT_TRUE(allowed(key, model_.at(key)));
    for (const Key& key : gone) model_.erase(key);
    return static_cast<int>(gone.size());
  }

  PageHandle Allocate(int scope) {
    PageHandle handle = pool_->Allocate();
    if (handle) return handle;
    EvictSome(2, scope, FloorRule::kRespect);
    return pool_->Allocate();
  }

  void Start() {
    if (sequences_.size() >= 5) return;
    const int scope = static_cast<int>(Draw(kScopes));
    std::vector<int> pages;
    for (uint64_t n = 1 + Draw(7); n > 0; --n) pages.push_back(static_cast<int>(Draw(2)));
    std::vector<int32_t> tokens = TokensOf(pages);
    tokens.resize(tokens.size() - Draw(kPageTokens));
    const int most = static_cast<int>(Draw(tokens.size() + 20));
    const int limit = std::min(most, static_cast<int>(tokens.size())) / kPageTokens;
    const int expected = Prefix(scope, tokens, limit);
    ASSERT_EQ(cache_->PeekTokens(keys_[static_cast<size_t>(scope)], tokens, most), expected * kPageTokens);
    PrefixMatch match = cache_->Match(keys_[static_cast<size_t>(scope)], tokens, most);
    ASSERT_EQ(match.n_tokens, expected * kPageTokens);
    ASSERT_EQ(static_cast<int>(match.pages.size()), expected);
    for (int i = 0; i < expected; ++i) {
      const int32_t page = match.pages[static_cast<size_t>(i)].page();
      ASSERT_EQ(page, model_.at(KeyOf(scope, tokens, i + 1)).page);
      ASSERT_TRUE(PageHolds(*pool_, page, Contents(scope, tokens, i + 1)));
    }
    sequences_.push_back(std::make_unique<Sequence>(Sequence{scope, std::move(tokens), std::move(match.pages),
                                                             match.cursor, expected, expected, clock_.now_ns, false}));
  }

  void Grow() {
    if (sequences_.empty()) return;
    Sequence& sequence = *sequences_[Draw(sequences_.size())];
    if (sequence.tokens.size() > 12 * kPageTokens) return;
    const auto more = TokensOf({static_cast<int>(Draw(2))});
    const size_t tail = sequence.tokens.size() % kPageTokens;  // complete a page, sometimes begin another
    sequence.tokens.insert(sequence.tokens.end(), more.begin() + static_cast<ptrdiff_t>(tail), more.end());
    if (Draw(2) == 0) sequence.tokens.push_back(3);
    int full = static_cast<int>(sequence.tokens.size()) / kPageTokens;
    while (static_cast<int>(sequence.pages.size()) < full) {
      PageHandle handle = Allocate(sequence.scope);
      if (!handle) break;
      const int n = static_cast<int>(sequence.pages.size()) + 1;
      WritePage(*pool_, handle.page(), Contents(sequence.scope, sequence.tokens, n));
      sequence.pages.push_back(std::move(handle));
    }
    full = static_cast<int>(sequence.pages.size());
    Insert(sequence, std::min(full, static_cast<int>(sequence.tokens.size()) / kPageTokens));
  }

  void Insert(Sequence& sequence, int n) {
    bool blocked = false;
    const int there = Prefix(sequence.scope, sequence.tokens, n, &blocked);
    const int64_t ttl_ns = PolicyOf(sequence.scope).ttl_ns;
    const bool stale = ttl_ns > 0 && (there < sequence.n_matched ||
                                      (there < sequence.n_offered && sequence.opened_ns + ttl_ns <= clock_.now_ns));
    const bool stored = !sequence.forgotten && !blocked && !stale;
    const auto handles = std::span<const PageHandle>(sequence.pages).first(static_cast<size_t>(n));
    const bool anything = n > sequence.n_offered || there < n;
    const InsertResult result = cache_->Insert(sequence.cursor, sequence.tokens, handles);
    ASSERT_EQ(result.forgotten, sequence.forgotten);
    ASSERT_EQ(cache_->Forgotten(sequence.cursor), sequence.forgotten);
    // With nothing new to offer the cache need not look whether older pages are still there.
    if (!anything || (n <= sequence.n_offered && result.n_new == 0)) {
      ASSERT_EQ(result.n_new, 0);
      return;
    }
    if (blocked && result.n_new > 0) {
      // A cursor does not look back: below an expired page that was not swept yet, it goes on. Nobody can match it.
      for (int i = 0; i < result.first_new; ++i) {
        ASSERT_TRUE(model_.contains(KeyOf(sequence.scope, sequence.tokens, i + 1)));
      }
      ASSERT_EQ(result.first_new + result.n_new, n);
    } else {
      ASSERT_EQ(result.n_new, stored ? n - there : 0);
      ASSERT_TRUE(!stored || result.first_new == there);
    }
    for (int i = result.first_new; i < result.first_new + result.n_new; ++i) {
      const int64_t created_ns = i < sequence.n_offered ? sequence.opened_ns : clock_.now_ns;
      model_[KeyOf(sequence.scope, sequence.tokens, i + 1)] = {handles[static_cast<size_t>(i)].page(), created_ns};
    }
    if (!sequence.forgotten) sequence.n_offered = std::max(sequence.n_offered, n);
  }

  void Finish() {
    if (sequences_.empty()) return;
    const size_t at = Draw(sequences_.size());
    std::swap(sequences_[at], sequences_.back());
    sequences_.pop_back();
    std::erase_if(owed_, [&](int32_t page) {
      if (pool_->RefCount(page) > 0) return false;
      EXPECT_TRUE(IsZero(pool_->Bytes(page)));
      return true;
    });
  }

  void Evict() {
    const uint64_t who = Draw(kScopes + 1);
    EvictSome(static_cast<int>(Draw(8)), who == kScopes ? -1 : static_cast<int>(who),
              Draw(5) == 0 ? FloorRule::kBreak : FloorRule::kRespect);
  }

  std::map<int, int> FamilyPages() const {
    std::map<int, int> pages;
    for (const auto& [key, page] : model_) ++pages[key.first / kSalts];
    return pages;
  }
  bool HasChild(const Key& key) const {
    const auto next = model_.upper_bound(key);
    return next != model_.end() && next->first.first == key.first && next->first.second.size() > key.second.size() &&
           std::equal(key.second.begin(), key.second.end(), next->first.second.begin());
  }

  void EvictSome(int n, int demander, FloorRule floors) {
    const auto before = FamilyPages();
    const int family = demander < 0 ? -1 : demander / kSalts;
    const int freed = cache_->EvictPages(n, demander < 0 ? nullptr : &keys_[static_cast<size_t>(demander)], floors);
    const auto unheld = [&](const Key&, const ModelPage& page) { return !Held(page.page); };
    ASSERT_EQ(Learn(unheld), freed);
    ASSERT_LE(freed, n);
    for (const auto& [key, page] : model_) {  // what is left hangs together: leaves went
      const size_t size = key.second.size();
      if (size > kPageTokens) {
        ASSERT_TRUE(model_.contains(KeyOf(key.first, key.second, static_cast<int>(size) / kPageTokens - 1)));
      }
    }
    auto after = FamilyPages();
    if (floors == FloorRule::kRespect) {
      for (const auto& [one, pages] : before) {
        ASSERT_TRUE(one == family || after[one] >= std::min(pages, policies_[one].floor_pages));
      }
    }
    if (freed == n) return;
    for (const auto& [key, page] : model_) {  // fewer than asked: nothing else could go
      const int one = key.first / kSalts;
      const bool protects = one != family && floors == FloorRule::kRespect && after[one] <= policies_[one].floor_pages;
      ASSERT_TRUE(HasChild(key) || Held(page.page) || protects);
    }
  }

  void Sweep(int budget) {
    const auto expired_above = [&](const Key& key, const ModelPage&) {
      for (int n = 1; n <= static_cast<int>(key.second.size()) / kPageTokens; ++n) {
        const auto at = model_.find(KeyOf(key.first, key.second, n));
        if (at != model_.end() && Expired(key.first, at->second)) return true;
      }
      return false;
    };
    const int dropped = cache_->Sweep(budget);
    ASSERT_LE(dropped, budget);
    ASSERT_EQ(Learn(expired_above), dropped);
    if (dropped == budget) return;
    for (const auto& [key, page] : model_) ASSERT_FALSE(Expired(key.first, page));
  }

  void Forget() {
    const int scope = static_cast<int>(Draw(kScopes));
    const uint64_t extent = Draw(3);  // each tenant has one family here
    const bool whole_family = extent != 0;
    const ScopeKey& key = keys_[static_cast<size_t>(scope)];
    const auto covered = [&](int other) {
      return whole_family ? other / kSalts == scope / kSalts : other == scope;
    };
    int64_t pages = 0, in_use = 0;
    std::vector<int32_t> free_now;
    for (const auto& [at, page] : model_) {
      if (!covered(at.first)) continue;
      ++pages;
      Held(page.page) ? void(++in_use) : free_now.push_back(page.page);
      if (Held(page.page)) owed_.insert(page.page);
    }
    const ForgetReceipt receipt = extent == 0   ? cache_->Forget(key)
                                  : extent == 1 ? cache_->Forget(key.family())
                                                : cache_->Forget(key.tenant());
    ASSERT_EQ(receipt.pages, pages);
    ASSERT_EQ(receipt.pages_in_use, in_use);
    ASSERT_EQ(receipt.bytes, (pages - in_use) * pool_->layout().PageBytes());
    for (int32_t page : free_now) ASSERT_TRUE(IsZero(pool_->Bytes(page)));
    Learn([&](const Key& at, const ModelPage&) { return covered(at.first); });
    for (const auto& [at, page] : model_) ASSERT_FALSE(covered(at.first));
    for (auto& sequence : sequences_) sequence->forgotten |= covered(sequence->scope);
  }

  void Check() {
    const Status audit = cache_->Audit();
    ASSERT_TRUE(audit.ok()) << audit.ToString();
    std::set<int32_t> used;
    std::array<int, kScopes> counts{};
    for (const auto& [key, page] : model_) {
      ASSERT_TRUE(used.insert(page.page).second);
      ASSERT_TRUE(PageHolds(*pool_, page.page, Contents(key.first, key.second, static_cast<int>(key.second.size()) /
                                                                                   kPageTokens)));
      ++counts[static_cast<size_t>(key.first)];
    }
    ASSERT_EQ(cache_->n_pages(), static_cast<int>(model_.size()));
    for (size_t i = 0; i < kScopes; ++i) ASSERT_EQ(cache_->PagesOf(keys_[i]), counts[i]);
    for (const auto& sequence : sequences_) {
      for (const PageHandle& handle : sequence->pages) used.insert(handle.page());
    }
    ASSERT_EQ(pool_->n_used(), static_cast<int>(used.size()));
  }

  uint64_t seed_;
  uint64_t n_draws_ = 0;
  ManualClock clock_;
  std::unique_ptr<PagePool> pool_;
  std::vector<ScopeKey> keys_;
  std::array<ScopePolicy, kFamilies> policies_;
  std::unique_ptr<PrefixCache> cache_;
  std::vector<std::unique_ptr<Sequence>> sequences_;
  std::map<Key, ModelPage> model_;
  std::set<int32_t> owed_;  // pages of forgotten scopes that were in use: to be overwritten
};

void RunWorlds(uint64_t hash_mask) {
  for (uint64_t seed = 0; seed < 40; ++seed) {
    CacheWorld world(seed, hash_mask);
    for (int step = 0; step < 400; ++step) {
      world.Step();
      if (::testing::Test::HasFailure()) {
        FAIL() << "seed " << seed << ", step " << step;
      }
    }
  }
}

TEST(PrefixCachePropertyTest, AgreesWithANaiveMapUnderRandomUse) { RunWorlds(~uint64_t{0}); }

TEST(PrefixCachePropertyTest, AgreesWithANaiveMapWhereHashesCollide) { RunWorlds(1); }

}  // namespace
}  // namespace surety::kv
