// The claim about isolation, on a million random pairs of requests, and the cache over its tiers under random use.
#include <unistd.h>

#include <map>
#include <set>

#include <gtest/gtest.h>

#include "base/random.h"
#include "kv/disk_tier.h"
#include "kv/host_store.h"
#include "kv/prefix_cache.h"
#include "kv/testing/cache_fixture.h"

namespace surety::kv {
namespace {

using namespace surety::kv::testing;  // NOLINT: the fixture of these tests

// Every dimension of a scope, as a request would bring it.
struct RequestScope {
  std::array<std::string, 8> values;  // tenant, region, product, policy, language, eligibility, date, salt
  std::vector<std::string> permissions;
  Sha256Digest model{};
  KvLayout layout = TinyLayout();

  ScopeKey Key() const {
    ScopeKeyBuilder builder(TestSecret());
    builder.Tenant(values[0]).Region(values[1]).Product(values[2]).PolicyVersion(values[3]).Language(values[4]);
    builder.Eligibility(values[5]).EffectiveDate(values[6]).Salt(values[7]).Model(model, layout);
    for (const std::string& permission : permissions) builder.Permission(permission);
    return *builder.Build();
  }
};

class Draws {
 public:
  explicit Draws(uint64_t seed) : seed_(seed) {}
  uint64_t operator()(uint64_t n) { return RandomBits({seed_, ++n_draws_, RandomPurpose::kTest}) % n; }

 private:
  uint64_t seed_;
  uint64_t n_draws_ = 0;
};

constexpr int kDimensions = 12;

// A scope that differs from `scope` in one dimension.
RequestScope Vary(RequestScope scope, int dimension, Draws& draw) {
  if (dimension < 8) {
    std::string& value = scope.values[static_cast<size_t>(dimension)];
    // One letter more, one less, or another one.
    const uint64_t how = draw(3);
    if (how == 0 || value.empty()) {
      value.push_back('x');
    } else if (how == 1) {
      value.pop_back();
    } else {
      value[draw(value.size())] ^= 1;
    }
  } else if (dimension == 8) {
    scope.permissions.push_back("extra" + std::to_string(draw(100)));
  } else if (dimension == 9) {
    scope.model[draw(32)] ^= 1;
  } else if (dimension == 10) {
    scope.layout.type = KvType::kBF16;
  } else {
    scope.layout.page_tokens *= 2;
  }
  return scope;
}

TEST(PrefixCacheScopeTest, AMillionPairsThatDifferInOneDimensionShareNothingAndEqualPairsShare) {
  constexpr int kPairs = 1'000'000;
  auto pool = *PagePool::Make(TinyLayout(), 1000);
  ManualClock clock;
  auto cache = *PrefixCache::Make(*pool, clock);
  Draws draw(11);
  std::array<int, kDimensions> by_dimension{};
  int64_t shared = 0, controls_missed = 0;
  RequestScope base;
  std::optional<ScopeKey> key;
  PageHandle page;
  std::vector<int32_t> tokens;
  for (int pair = 0; pair < kPairs; ++pair) {
    if (pair % 10 == 0) {  // ten variations of one request: the first's key is made once
      page.Reset();
      for (std::string& value : base.values) value = std::string(draw(4), static_cast<char>('a' + draw(3)));
      base.permissions.clear();
      for (uint64_t n = draw(3); n > 0; --n) base.permissions.push_back(std::to_string(draw(5)));
      key = base.Key();
      tokens = TokensOf({static_cast<int>(draw(50))});  // prompts repeat among tenants
      PrefixMatch match = cache->Match(*key, tokens, kPageTokens);
      if (match.n_tokens > 0) {
        page = std::move(match.pages[0]);
      } else {
        page = pool->Allocate();
        if (!page && cache->EvictPages(50) > 0) page = pool->Allocate();
        ASSERT_TRUE(page);
        ASSERT_EQ(cache->Insert(match.cursor, tokens, {&page, 1}).n_new, 1);
      }
    }
    const int dimension = static_cast<int>(draw(kDimensions));
    ++by_dimension[static_cast<size_t>(dimension)];
    const ScopeKey other = Vary(base, dimension, draw).Key();
    // The other scope may have a page of its own from an earlier round, never this one.
    const PrefixMatch theirs = cache->Match(other, tokens, kPageTokens);
    shared += other == *key || (theirs.n_tokens > 0 && theirs.pages[0].page() == page.page()) ? 1 : 0;
    if (pair % 10 == 0) {
      const PrefixMatch again = cache->Match(base.Key(), tokens, kPageTokens);
      controls_missed += again.n_tokens == kPageTokens && again.pages[0].page() == page.page() ? 0 : 1;
    }
  }
  EXPECT_EQ(shared, 0);
  EXPECT_EQ(controls_missed, 0);
  for (int count : by_dimension) EXPECT_GT(count, kPairs / kDimensions / 2);
  EXPECT_TRUE(cache->Audit().ok()) << cache->Audit().ToString();
}

// The cache over host memory and a real file. All that was inserted and neither expired nor was forgotten may be
// answered, nothing else; and with tiers large enough for everything, all of it must be.
class TieredWorld {
 public:
  TieredWorld(uint64_t seed, int host_pages, int disk_pages, bool lossless)
      : draw_(seed), lossless_(lossless), pool_(*PagePool::Make(TinyLayout(), 12)) {
    const int64_t page_bytes = pool_->layout().PageBytes();
    disk_ = *DiskTier::Make(*OpenTierFile(::testing::TempDir()), page_bytes, disk_pages * 4096);
    host_ = *HostStore::Make(*pool_, host_pages * page_bytes, disk_.get());
    cache_ = *PrefixCache::Make(*pool_, clock_, {}, host_.get());
    for (int scope = 0; scope < 4; ++scope) {
      keys_.push_back(MakeScope("tenant" + std::to_string(scope / 2), std::to_string(scope % 2)));
    }
    EXPECT_TRUE(cache_->SetPolicy(keys_[0].family(), {.ttl_ns = kTtlNs, .zero_on_release = true}).ok());
  }

  void Step() {
    const uint64_t what = draw_(20);
    if (what < 15) {
      Request();
    } else if (what < 16) {
      clock_.now_ns += static_cast<int64_t>(draw_(10)) * kSecondNs;
    } else if (what < 18) {
      cache_->Sweep(static_cast<int>(draw_(6)));
    } else if (what < 19) {
      cache_->EvictPages(static_cast<int>(draw_(12)));
    } else if (draw_(4) == 0) {
      Forget();
    }
    const Status audit = cache_->Audit();
    ASSERT_TRUE(audit.ok()) << audit.ToString();
    ASSERT_EQ(pool_->n_used(), cache_->n_pages());
  }

  int64_t host_tokens = 0, disk_tokens = 0;

 private:
  static constexpr int64_t kTtlNs = 30 * kSecondNs;
  using Key = std::pair<int, std::vector<int32_t>>;

  Key KeyOf(int scope, std::span<const int32_t> tokens, int n_pages) const {
    return {scope, {tokens.begin(), tokens.begin() + static_cast<ptrdiff_t>(n_pages) * kPageTokens}};
  }
  std::vector<std::byte> Contents(int scope, std::span<const int32_t> tokens, int n_pages) const {
    return ContentsFor(std::to_string(scope), tokens.first(static_cast<size_t>(n_pages) * kPageTokens),
                       pool_->layout().PageBytes());
  }
  int MostThatMayBe(int scope, std::span<const int32_t> tokens) const {
    for (int n = 0;; ++n) {
      if (n == static_cast<int>(tokens.size()) / kPageTokens) return n;
      const auto at = computed_ns_.find(KeyOf(scope, tokens, n + 1));
      if (at == computed_ns_.end() || (scope < 2 && at->second + kTtlNs <= clock_.now_ns)) return n;
    }
  }

  void Request() {
    const int scope = static_cast<int>(draw_(4));
    std::vector<int> named;
    for (uint64_t n = 1 + draw_(6); n > 0; --n) named.push_back(static_cast<int>(draw_(2)));
    const std::vector<int32_t> tokens = TokensOf(named);
    const int n_pages = static_cast<int>(named.size()), most = MostThatMayBe(scope, tokens);
    PrefixMatch match = cache_->Match(keys_[static_cast<size_t>(scope)], tokens, static_cast<int>(tokens.size()));
    const int n_matched = static_cast<int>(match.pages.size());
    ASSERT_LE(n_matched, most);
    ASSERT_TRUE(!lossless_ || n_matched == most);
    for (int i = 0; i < n_matched; ++i) {
      ASSERT_TRUE(PageHolds(*pool_, match.pages[static_cast<size_t>(i)].page(), Contents(scope, tokens, i + 1)));
    }
    host_tokens += match.host_tokens;
    disk_tokens += match.disk_tokens;
    while (static_cast<int>(match.pages.size()) < n_pages) {
      PageHandle page = pool_->Allocate();
      if (!page && cache_->EvictPages(1) == 1) page = pool_->Allocate();
      ASSERT_TRUE(page);
      WritePage(*pool_, page.page(), Contents(scope, tokens, static_cast<int>(match.pages.size()) + 1));
      match.pages.push_back(std::move(page));
    }
    const InsertResult result = cache_->Insert(match.cursor, tokens, match.pages);
    for (int i = result.first_new; i < result.first_new + result.n_new; ++i) {
      computed_ns_[KeyOf(scope, tokens, i + 1)] = clock_.now_ns;
    }
  }

  void Forget() {
    const int scope = static_cast<int>(draw_(4));
    const uint64_t extent = draw_(3);  // each tenant has one family here
    const bool whole_family = extent != 0;
    const ScopeKey& key = keys_[static_cast<size_t>(scope)];
    const ForgetReceipt receipt = extent == 0   ? cache_->Forget(key)
                                  : extent == 1 ? cache_->Forget(key.family())
                                                : cache_->Forget(key.tenant());
    ASSERT_EQ(receipt.bytes, receipt.pages * pool_->layout().PageBytes());
    std::erase_if(computed_ns_, [&](const auto& entry) {
      return whole_family ? entry.first.first / 2 == scope / 2 : entry.first.first == scope;
    });
  }

  Draws draw_;
  bool lossless_;
  ManualClock clock_;
  std::unique_ptr<PagePool> pool_;
  std::unique_ptr<DiskTier> disk_;
  std::unique_ptr<HostStore> host_;
  std::unique_ptr<PrefixCache> cache_;
  std::vector<ScopeKey> keys_;
  std::map<Key, int64_t> computed_ns_;
};

void RunTiered(int host_pages, int disk_pages, bool lossless) {
  int64_t host_tokens = 0, disk_tokens = 0;
  for (uint64_t seed = 0; seed < 12; ++seed) {
    TieredWorld world(seed, host_pages, disk_pages, lossless);
    for (int step = 0; step < 400; ++step) {
      world.Step();
      if (::testing::Test::HasFailure()) FAIL() << "seed " << seed << ", step " << step;
    }
    host_tokens += world.host_tokens;
    disk_tokens += world.disk_tokens;
  }
  EXPECT_GT(host_tokens, 1000);
  EXPECT_GT(disk_tokens, 1000);
}

TEST(PrefixCacheTiersTest, LargeTiersLoseNothingAndAnswerOnlyTheRightBytes) { RunTiered(20, 2000, true); }

TEST(PrefixCacheTiersTest, SmallTiersAnswerOnlyTheRightBytes) { RunTiered(5, 15, false); }

}  // namespace
}  // namespace surety::kv
