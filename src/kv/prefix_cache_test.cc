#include "kv/prefix_cache.h"

#include <algorithm>
#include <cmath>

#include <gtest/gtest.h>

#include "base/random.h"
#include "kv/testing/cache_fixture.h"

namespace surety::kv {
namespace {

using namespace surety::kv::testing;  // NOLINT: the fixture of these tests

class PrefixCacheTest : public ::testing::Test {
 protected:
  PrefixCacheTest() { Reset(64, {}); }

  void Reset(int n_pages, const PrefixCacheOptions& options) {
    cache_.reset();
    pool_ = *PagePool::Make(TinyLayout(), n_pages);
    cache_ = *PrefixCache::Make(*pool_, clock_, options);
  }
  void TearDown() override {
    EXPECT_TRUE(cache_->Audit().ok()) << cache_->Audit().ToString();
    cache_.reset();
    EXPECT_EQ(pool_->n_used(), 0);
  }

  std::vector<PageHandle> Compute(const std::string& scope, std::span<const int32_t> tokens, int from = 0) {
    std::vector<PageHandle> handles;
    for (int n = from; n < static_cast<int>(tokens.size()) / kPageTokens; ++n) {
      handles.push_back(pool_->Allocate());
      const auto prefix = tokens.first(static_cast<size_t>(n + 1) * kPageTokens);
      WritePage(*pool_, handles.back().page(), ContentsFor(scope, prefix, pool_->layout().PageBytes()));
    }
    return handles;
  }
  // Runs a sequence to its end: match, compute the rest, insert, give back. Returns the tokens that were cached.
  int Use(const std::string& tenant, const std::vector<int>& pages) {
    const ScopeKey scope = MakeScope(tenant);
    const std::vector<int32_t> tokens = TokensOf(pages);
    PrefixMatch match = cache_->Match(scope, tokens, static_cast<int>(tokens.size()));
    std::vector<PageHandle> handles = std::move(match.pages);
    for (PageHandle& handle : Compute(tenant, tokens, match.n_tokens / kPageTokens)) {
      handles.push_back(std::move(handle));
    }
    cache_->Insert(match.cursor, tokens, handles);
    return match.n_tokens;
  }
  int Cached(const std::string& tenant, const std::vector<int>& pages) {
    const auto tokens = TokensOf(pages);
    return cache_->PeekTokens(MakeScope(tenant), tokens, static_cast<int>(tokens.size())) / kPageTokens;
  }

  ManualClock clock_;
  std::unique_ptr<PagePool> pool_;
  std::unique_ptr<PrefixCache> cache_;
};

TEST_F(PrefixCacheTest, MatchesWholePagesUpToTheLimit) {
  EXPECT_EQ(Use("a", {1, 2, 3}), 0);
  const auto tokens = TokensOf({1, 2, 3});
  const ScopeKey scope = MakeScope("a");
  EXPECT_EQ(cache_->Match(scope, tokens, 48).n_tokens, 48);
  EXPECT_EQ(cache_->Match(scope, tokens, 47).n_tokens, 32);  // a prompt's last row must be computed
  EXPECT_EQ(cache_->Match(scope, tokens, 15).n_tokens, 0);
  EXPECT_EQ(cache_->Match(scope, tokens, 0).n_tokens, 0);
  EXPECT_EQ(cache_->Match(scope, tokens, -1).n_tokens, 0);
  EXPECT_EQ(cache_->Match(scope, {}, 100).n_tokens, 0);
  EXPECT_EQ(cache_->Match(scope, std::span(tokens).first(40), 1000).n_tokens, 32);
  EXPECT_EQ(cache_->Match(scope, TokensOf({1, 9, 3}), 48).n_tokens, 16);
  EXPECT_EQ(cache_->Match(MakeScope("b"), tokens, 48).n_tokens, 0);
  EXPECT_EQ(cache_->Match(MakeScope("a", "salt"), tokens, 48).n_tokens, 0);
  EXPECT_EQ(cache_->stats().hit_tokens, 48 + 32 + 32 + 16);
}

TEST_F(PrefixCacheTest, ASecondSequenceSharesWhileTheFirstStillPrefills) {
  const auto tokens = TokensOf({1, 2, 3, 4});
  const ScopeKey scope = MakeScope("a");
  PrefixMatch first = cache_->Match(scope, tokens, 63);
  const auto pages = Compute("a", tokens);
  EXPECT_EQ(cache_->Insert(first.cursor, tokens, std::span(pages).first(2)).n_new, 2);
  PrefixMatch second = cache_->Match(scope, tokens, 63);
  EXPECT_EQ(second.n_tokens, 32);
  EXPECT_EQ(second.pages[1].page(), pages[1].page());
  const InsertResult rest = cache_->Insert(first.cursor, tokens, pages);
  EXPECT_EQ(rest.first_new, 2);
  EXPECT_EQ(rest.n_new, 2);
  // The second computed the same pages meanwhile: those in the tree stay.
  std::vector<PageHandle> own = std::move(second.pages);
  for (PageHandle& handle : Compute("a", tokens, 2)) own.push_back(std::move(handle));
  EXPECT_EQ(cache_->Insert(second.cursor, tokens, own).n_new, 0);
  EXPECT_EQ(cache_->Match(scope, tokens, 64).pages[3].page(), pages[3].page());
}

TEST_F(PrefixCacheTest, CursorSurvivesSplitsAndEvictionOfItsNodes) {
  const auto tokens = TokensOf({1, 2, 3, 4, 5, 6});
  const ScopeKey scope = MakeScope("a");
  PrefixMatch other = cache_->Match(scope, tokens, 96);
  {
    const auto pages = Compute("a", tokens);
    cache_->Insert(other.cursor, tokens, std::span(pages).first(4));
  }
  PrefixMatch mine = cache_->Match(scope, tokens, 0);  // nothing matched: all pages are its own
  const auto pages = Compute("a", tokens);
  EXPECT_EQ(cache_->Insert(mine.cursor, tokens, std::span(pages).first(4)).n_new, 0);
  EXPECT_EQ(cache_->Match(scope, tokens, 32).n_tokens, 32);  // splits the node under the cursor
  EXPECT_EQ(cache_->Insert(mine.cursor, tokens, std::span(pages).first(5)).n_new, 1);
  EXPECT_EQ(cache_->EvictPages(10), 0);  // its own page is the leaf
  PrefixCursor forked = mine.cursor;
  cache_->Forget(MakeScope("nobody"));
  EXPECT_EQ(cache_->Insert(forked, tokens, pages).n_new, 1);
  EXPECT_EQ(cache_->Insert(mine.cursor, tokens, pages).n_new, 0);

  PrefixMatch third = cache_->Match(scope, TokensOf({1, 2, 7, 8}), 32);
  const auto branch = Compute("a", TokensOf({1, 2, 7, 8}), 0);
  cache_->Insert(third.cursor, TokensOf({1, 2, 7, 8}), std::span(branch).first(3));
  EXPECT_EQ(cache_->PagesOf(scope), 7);
}

TEST_F(PrefixCacheTest, CursorWhoseNodeWasReusedFallsBackToTheRoot) {
  const ScopeKey scope = MakeScope("a");
  const auto tokens = TokensOf({1, 2, 3});
  PrefixMatch mine = cache_->Match(scope, tokens, 0);
  const auto pages = Compute("a", tokens);
  Use("a", {1, 2});                                              // somebody else's copies
  cache_->Insert(mine.cursor, tokens, std::span(pages).first(2));  // the cursor now stands in their node
  EXPECT_EQ(cache_->EvictPages(2), 2);
  Use("a", {5, 6});  // takes over the node's memory
  EXPECT_EQ(cache_->Insert(mine.cursor, tokens, pages).n_new, 3);
  EXPECT_EQ(Cached("a", {1, 2, 3}), 3);
  EXPECT_EQ(Cached("a", {5, 6, 3}), 2);
}

TEST_F(PrefixCacheTest, CursorOfAnotherSequenceJoinsNothing) {
  const ScopeKey scope = MakeScope("a");
  const auto mine = TokensOf({1, 2, 3}), other = TokensOf({1, 7, 8});
  PrefixMatch match = cache_->Match(scope, mine, 0);
  const auto my_pages = Compute("a", mine), other_pages = Compute("a", other);
  cache_->Insert(match.cursor, mine, std::span(my_pages).first(2));
  EXPECT_EQ(cache_->Insert(match.cursor, other, other_pages).n_new, 2);
  EXPECT_EQ(Cached("a", {1, 2, 8}), 2);
  EXPECT_EQ(Cached("a", {1, 7, 8}), 3);
}

TEST_F(PrefixCacheTest, PinnedPagesAreNotEvicted) {
  Use("a", {1, 2, 3});
  const ScopeKey scope = MakeScope("a");
  PrefixMatch match = cache_->Match(scope, TokensOf({1, 2}), 32);
  EXPECT_EQ(pool_->n_reclaimable(), 1);
  EXPECT_EQ(cache_->EvictPages(10), 1);  // only the third
  EXPECT_EQ(Cached("a", {1, 2, 3}), 2);
  match.pages.clear();
  EXPECT_EQ(cache_->EvictPages(10), 2);
  EXPECT_EQ(cache_->n_pages(), 0);
  EXPECT_EQ(cache_->EvictPages(10), 0);
}

TEST_F(PrefixCacheTest, EvictsTheLeastUsedFirstAndForgetsOldUse) {
  Use("a", {1});
  for (int i = 0; i < 3; ++i) Use("a", {2});
  EXPECT_EQ(cache_->EvictPages(1), 1);
  EXPECT_EQ(Cached("a", {2}), 1);  // three uses beat one
  clock_.now_ns += 3600 * kSecondNs;  // twelve half-lives: 3/4096 of a use is left
  Use("a", {3});
  EXPECT_EQ(cache_->EvictPages(1), 1);
  EXPECT_EQ(Cached("a", {3}), 1);
}

TEST_F(PrefixCacheTest, EvictsWhatIsCheaperToComputeAgain) {
  PrefixCacheOptions options;
  options.context_doubling_tokens = 32;
  Reset(64, options);
  Use("a", {1, 2, 3, 4, 5, 6, 7, 8});  // its leaf costs 4.5 times as much as a first page
  Use("a", {9});
  EXPECT_EQ(cache_->EvictPages(1), 1);
  EXPECT_EQ(Cached("a", {9}), 0);
  for (int i = 0; i < 8; ++i) Use("a", {9});  // now its use outweighs that
  EXPECT_EQ(cache_->EvictPages(1), 1);
  EXPECT_EQ(Cached("a", {9}), 1);
}

TEST_F(PrefixCacheTest, APrivateTailDoesNotInheritThePrefixUse) {
  for (int i = 0; i < 5; ++i) Use("a", {1, 2});  // a popular system prompt
  Use("a", {1, 2, 3});
  Use("a", {4});
  Use("a", {4});
  EXPECT_EQ(cache_->EvictPages(1), 1);
  EXPECT_EQ(Cached("a", {1, 2, 3}), 2);
  EXPECT_EQ(Cached("a", {4}), 1);
}

// The order of eviction against scores computed by definition: cost times the sum of 2^(-age / half-life).
TEST_F(PrefixCacheTest, EvictionOrderIsTheOrderOfScores) {
  PrefixCacheOptions options;
  options.use_half_life_ns = 10 * kSecondNs;
  options.context_doubling_tokens = 64;
  Reset(512, options);
  struct Chain {
    std::vector<int> pages;
    std::vector<int64_t> uses_ns;
  };
  std::vector<Chain> chains;
  uint64_t n_draws = 0;
  const auto draw = [&](uint64_t n) { return RandomBits({3, ++n_draws, RandomPurpose::kTest}) % n; };
  for (int i = 0; i < 40; ++i) {
    Chain chain;
    for (uint64_t n = 1 + draw(8); n > 0; --n) chain.pages.push_back(100 * i + static_cast<int>(n));
    chains.push_back(chain);
  }
  for (int i = 0; i < 300; ++i) {
    Chain& chain = chains[draw(chains.size())];
    clock_.now_ns += static_cast<int64_t>(draw(kSecondNs));
    if (chain.uses_ns.empty()) Use("a", chain.pages);  // insert
    else EXPECT_EQ(Use("a", chain.pages), static_cast<int>(chain.pages.size()) * kPageTokens);
    chain.uses_ns.push_back(clock_.now_ns);
  }
  clock_.now_ns += 5 * kSecondNs;
  const auto score = [&](const Chain& chain) {
    double use = 0;
    for (int64_t at_ns : chain.uses_ns) use += std::exp2(-static_cast<double>(clock_.now_ns - at_ns) / 10e9);
    return use * (1 + static_cast<double>(chain.pages.size() - 1) * kPageTokens / 64);
  };
  for (int left = cache_->n_pages(); left > 0; --left) {
    const auto least = std::ranges::min_element(chains, [&](const Chain& a, const Chain& b) {
      return a.pages.empty() != b.pages.empty() ? b.pages.empty() : score(a) < score(b);
    });
    ASSERT_EQ(Cached("a", least->pages), static_cast<int>(least->pages.size()));
    ASSERT_EQ(cache_->EvictPages(1), 1);
    ASSERT_EQ(Cached("a", least->pages), static_cast<int>(least->pages.size()) - 1);
    least->pages.pop_back();
  }
}

TEST_F(PrefixCacheTest, FloorHoldsAgainstOthersAndNotAgainstOneself) {
  const FamilyKey a = MakeScope("a").family();
  ASSERT_TRUE(cache_->SetPolicy(a, {.floor_pages = 2}).ok());
  Use("a", {1, 2, 3});
  clock_.now_ns += 3600 * kSecondNs;
  Use("b", {1, 2});
  const ScopeKey scope_a = MakeScope("a", "any salt"), scope_b = MakeScope("b");
  EXPECT_EQ(cache_->EvictPages(10, &scope_b), 3);  // one of a's, both of b's
  EXPECT_EQ(cache_->PagesOf(a), 2);
  EXPECT_EQ(cache_->EvictPages(10), 0);
  EXPECT_EQ(cache_->EvictPages(1, &scope_a), 1);
  EXPECT_EQ(cache_->EvictPages(10, &scope_b, FloorRule::kBreak), 1);
}

TEST_F(PrefixCacheTest, SaltsBuyNoRoomUnderAFloor) {
  ASSERT_TRUE(cache_->SetPolicy(MakeScope("a").family(), {.floor_pages = 2}).ok());
  const auto tokens = TokensOf({1});
  for (int salt = 0; salt < 10; ++salt) {
    PrefixMatch match = cache_->Match(MakeScope("a", std::to_string(salt)), tokens, 16);
    cache_->Insert(match.cursor, tokens, Compute("a", tokens));
  }
  const ScopeKey other = MakeScope("b");
  EXPECT_EQ(cache_->EvictPages(10, &other), 8);
}

TEST_F(PrefixCacheTest, TimeToLiveRunsFromComputingHoweverOftenAPageIsUsed) {
  ASSERT_TRUE(cache_->SetPolicy(MakeScope("a").family(), {.ttl_ns = 10 * kSecondNs}).ok());
  Use("a", {1, 2});
  for (int i = 0; i < 9; ++i) {
    clock_.now_ns += kSecondNs;
    EXPECT_EQ(Use("a", {1, 2}), 32);
  }
  clock_.now_ns += kSecondNs;
  EXPECT_EQ(Cached("a", {1, 2}), 0);  // before any sweep
  EXPECT_EQ(cache_->Match(MakeScope("a"), TokensOf({1, 2}), 32).n_tokens, 0);
  EXPECT_EQ(cache_->n_pages(), 2);
  EXPECT_EQ(cache_->Sweep(1), 1);
  EXPECT_EQ(cache_->Sweep(10), 1);
  EXPECT_EQ(cache_->stats().expired_pages, 2);
  EXPECT_EQ(Use("a", {1, 2}), 0);
  EXPECT_EQ(Use("a", {1, 2}), 32);
}

TEST_F(PrefixCacheTest, ARunningSequenceDoesNotRenewExpiredPages) {
  ASSERT_TRUE(cache_->SetPolicy(MakeScope("a").family(), {.ttl_ns = 10 * kSecondNs}).ok());
  const auto tokens = TokensOf({1, 2, 3});
  PrefixMatch match = cache_->Match(MakeScope("a"), tokens, 0);
  const auto pages = Compute("a", tokens);
  cache_->Insert(match.cursor, tokens, std::span(pages).first(2));
  clock_.now_ns += 11 * kSecondNs;
  EXPECT_EQ(cache_->Sweep(10), 2);
  EXPECT_EQ(cache_->Insert(match.cursor, tokens, pages).n_new, 0);
  EXPECT_EQ(Cached("a", {1, 2, 3}), 0);
}

TEST_F(PrefixCacheTest, PolicySetLateHoldsForWhatIsThere) {
  Use("a", {1, 2});
  Use("b", {1, 2});
  clock_.now_ns += 10 * kSecondNs;
  ASSERT_TRUE(cache_->SetPolicy(MakeScope("a").family(), {.ttl_ns = 5 * kSecondNs, .zero_on_release = true}).ok());
  EXPECT_TRUE(cache_->Audit().ok());
  EXPECT_EQ(Cached("a", {1, 2}), 0);
  EXPECT_EQ(Cached("b", {1, 2}), 2);
  EXPECT_EQ(cache_->Sweep(10), 2);
  EXPECT_EQ(cache_->ZeroedBytes(), 2 * pool_->layout().PageBytes());
}

TEST_F(PrefixCacheTest, ZeroOnReleaseAlsoWhereASequenceHoldsTheLastReference) {
  ASSERT_TRUE(cache_->SetPolicy(MakeScope("a").family(), {.zero_on_release = true}).ok());
  Use("a", {1, 2});
  PrefixMatch match = cache_->Match(MakeScope("a"), TokensOf({1, 2}), 32);
  const int32_t first = match.pages[0].page(), second = match.pages[1].page();
  match.pages.pop_back();
  EXPECT_EQ(cache_->EvictPages(5), 1);
  EXPECT_TRUE(IsZero(pool_->Bytes(second)));
  const ForgetReceipt receipt = cache_->Forget(MakeScope("a"));
  EXPECT_EQ(receipt.pages, 1);
  EXPECT_EQ(receipt.pages_in_use, 1);
  EXPECT_EQ(receipt.bytes, 0);
  EXPECT_TRUE(PageHolds(*pool_, first, ContentsFor("a", TokensOf({1}), pool_->layout().PageBytes())));
  match.pages.clear();
  EXPECT_TRUE(IsZero(pool_->Bytes(first)));
}

TEST_F(PrefixCacheTest, ForgetIsFinalForRunningSequencesToo) {
  const auto tokens = TokensOf({1, 2, 3});
  const ScopeKey scope = MakeScope("a", "salt");
  PrefixMatch match = cache_->Match(scope, tokens, 0);
  PrefixMatch other = cache_->Match(MakeScope("b"), tokens, 0);
  const auto pages = Compute("a", tokens);
  cache_->Insert(match.cursor, tokens, std::span(pages).first(2));
  EXPECT_EQ(cache_->Forget(MakeScope("a")).pages, 0);  // another salt
  EXPECT_FALSE(cache_->Forgotten(match.cursor));
  EXPECT_EQ(cache_->Forget(scope.family()).pages, 2);
  EXPECT_TRUE(cache_->Forgotten(match.cursor));
  EXPECT_FALSE(cache_->Forgotten(other.cursor));
  EXPECT_TRUE(cache_->Insert(match.cursor, tokens, pages).forgotten);
  for (const PageHandle& page : pages) EXPECT_TRUE(pool_->ZeroOnRelease(page.page()));
  EXPECT_EQ(cache_->n_pages(), 0);
  PrefixMatch after = cache_->Match(scope, tokens, 48);  // what is computed from now on may be cached
  EXPECT_EQ(cache_->Insert(after.cursor, tokens, Compute("a", tokens)).n_new, 3);
}

TEST_F(PrefixCacheTest, ATenantIsForgottenWhateverItsScopes) {
  const auto tokens = TokensOf({1, 2});
  const auto of = [](std::string_view tenant, std::string_view region) {
    return *ScopeKeyBuilder(TestSecret()).Tenant(tenant).Region(region).Model(Sha256Digest{}, TinyLayout()).Build();
  };
  const ScopeKey east = of("a", "east"), west = of("a", "west"), other = of("b", "east");
  std::vector<PrefixMatch> running;
  for (const ScopeKey& scope : {east, west, other}) {
    running.push_back(cache_->Match(scope, tokens, 0));
    EXPECT_EQ(cache_->Insert(running.back().cursor, tokens, Compute("x", tokens)).n_new, 2);
  }
  EXPECT_EQ(cache_->Forget(east.tenant()).pages, 4);
  EXPECT_EQ(cache_->PeekTokens(east, tokens, 32), 0);
  EXPECT_EQ(cache_->PeekTokens(west, tokens, 32), 0);
  EXPECT_EQ(cache_->PeekTokens(other, tokens, 32), 32);
  EXPECT_TRUE(cache_->Insert(running[1].cursor, tokens, Compute("x", tokens)).forgotten);
  EXPECT_FALSE(cache_->Insert(running[2].cursor, tokens, Compute("x", tokens)).forgotten);
}

TEST_F(PrefixCacheTest, ManyForgetsKeepNoGrowingList) {
  const auto tokens = TokensOf({1});
  PrefixMatch old_cursor = cache_->Match(MakeScope("a"), tokens, 0);
  for (int i = 0; i < 5000; ++i) cache_->Forget(MakeScope("gone" + std::to_string(i)));
  EXPECT_TRUE(cache_->Insert(old_cursor.cursor, tokens, Compute("a", tokens)).forgotten);  // distrusted, safely
  EXPECT_EQ(Use("a", {1}), 0);
  EXPECT_EQ(Use("a", {1}), 16);
}

TEST_F(PrefixCacheTest, UsageNamesScopesByFingerprintAlone) {
  Use("secret tenant name", {1, 2});
  const auto usage = cache_->Usage();
  ASSERT_EQ(usage.size(), 1u);
  EXPECT_EQ(usage[0].pages, 2);
  EXPECT_EQ(usage[0].fingerprint, MakeScope("secret tenant name").Fingerprint());
}

TEST_F(PrefixCacheTest, RefusesOptionsAndPoliciesThatMakeNoSense) {
  const auto code = [&](auto change) {
    PrefixCacheOptions options;
    change(options);
    const auto made = PrefixCache::Make(*pool_, clock_, options);
    return made ? StatusCode::kOk : made.error().code();
  };
  EXPECT_EQ(code([](auto& o) { o.use_half_life_ns = 0; }), StatusCode::kInvalidArgument);
  EXPECT_EQ(code([](auto& o) { o.context_doubling_tokens = 0; }), StatusCode::kInvalidArgument);
  EXPECT_EQ(code([](auto& o) { o.max_restored_pages = 0; }), StatusCode::kInvalidArgument);
  EXPECT_EQ(code([](auto& o) { o.default_policy.ttl_ns = -1; }), StatusCode::kInvalidArgument);
  EXPECT_EQ(cache_->SetPolicy(MakeScope("a").family(), {.floor_pages = -1}).code(), StatusCode::kInvalidArgument);
  EXPECT_TRUE(cache_->SetPolicy(MakeScope("a").family(), {.ttl_ns = INT64_MAX}).ok());
  Use("a", {1});
  EXPECT_EQ(Cached("a", {1}), 1);
}

}  // namespace
}  // namespace surety::kv
