// The prefix cache: KV pages of committed tokens, found again by scope and token ids, shared by handles.
//
// A sequence matches once (which pins what it gets), then inserts its full pages as steps complete them, through the
// cursor that the match gave it. Everything is addressed under a ScopeKey; nothing crosses from one to another.
//
// Eviction takes leaves that only the cache refers to, the cheapest loss first: cost to compute the page again, times
// its use, which decays. All uses decay at one rate, so the order of two pages does not change with time and stays in
// heaps. Floors hold for a family (all salts of a scope together): a salt comes from the caller, and must not buy room.
//
// Threads: one (the engine thread), also for the tiers and the pool. The cache must go before the pool and the tiers.
// Owns: a reference to each page in it. Cursors are values and may outlive what they point to.
// Errors: Make and SetPolicy: kInvalidArgument. Running out of pages is a shorter match, never an error.
// Invariants: (1) what Match answers was inserted under an equal scope and equal tokens. (2) nothing past its time to
// live or forgotten is answered, also if a running sequence of that time tries to insert it again. (3) a page that
// anyone else holds is not evicted. (4) demand of one family leaves another its floor. (5) Match answers at most
// max_tokens, in whole pages.
#pragma once

#include <climits>
#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <unordered_map>
#include <vector>

#include "base/clock.h"
#include "base/status.h"
#include "kv/indexed_heap.h"
#include "kv/page_pool.h"
#include "kv/radix_tree.h"
#include "kv/scope.h"
#include "kv/tier.h"

namespace surety::kv {

struct ScopePolicy {
  int64_t ttl_ns = 0;            // from when a page was computed, however often it is used; 0: no limit
  bool zero_on_release = false;  // overwrite memory that held the family's KV, in every tier
  int floor_pages = 0;           // of the family, that the demand of others does not take
  TierLevel lowest_tier = TierLevel::kDisk;

  Status Validate() const;  // kInvalidArgument, naming the field: a negative number
};

struct PrefixCacheOptions {
  int64_t use_half_life_ns = 300'000'000'000;
  int context_doubling_tokens = 4096;  // the position at which a token costs twice what the first one does
  int max_restored_pages = INT_MAX;    // brought back from tiers in one match: bounds how long it takes
  int tier_sweep_slots = 64;           // entries that Sweep looks at in each tier
  ScopePolicy default_policy;          // of families for which SetPolicy was not called
  uint64_t hash_mask = ~uint64_t{0};   // tests make hashes collide
};

// Where a sequence stands in the tree. Safe to keep whatever is evicted, and to copy for another sequence that
// continues the same tokens.
class PrefixCursor {
 public:
  const ScopeKey& scope() const { return scope_; }

 private:
  friend class PrefixCache;
  friend struct PrefixMatch;
  explicit PrefixCursor(const ScopeKey& scope) : scope_(scope) {}
  ScopeKey scope_;
  uint64_t serial_ = 0;     // against those of Forget
  int64_t opened_ns_ = 0;   // no page that the sequence computed itself is older
  RadixNode* node_ = nullptr;
  uint64_t generation_ = 0;
  int pages_ = 0;           // of the sequence, that are in the tree up to node_
  int n_matched_ = 0;       // pages that came from the match
  int n_offered_ = 0;       // pages that earlier inserts were given
};

struct PrefixMatch {
  explicit PrefixMatch(const ScopeKey& scope) : cursor(scope) {}
  std::vector<PageHandle> pages;
  int n_tokens = 0;     // pages.size() pages
  int host_tokens = 0;  // of n_tokens, brought back from host memory
  int disk_tokens = 0;
  PrefixCursor cursor;
};

struct InsertResult {
  int first_new = 0;       // handles[first_new, first_new + n_new) are shared with the tree since this call
  int n_new = 0;
  bool forgotten = false;  // the scope was forgotten since the cursor's match: the sequence's pages stay its own
};

enum class FloorRule : uint8_t {
  kRespect,
  kBreak,  // nothing runs and nothing else can be had: a floor must not stop the whole server
};

enum class RemovalReason : uint8_t { kCapacity, kExpired, kForgotten };

struct PrefixCacheStats {
  int64_t queries = 0;
  int64_t query_tokens = 0;
  int64_t hit_tokens = 0;  // host_hit_tokens and disk_hit_tokens included
  int64_t host_hit_tokens = 0;
  int64_t disk_hit_tokens = 0;
  int64_t inserted_pages = 0;
  int64_t restored_pages = 0;
  int64_t evicted_pages = 0;    // for lack of room
  int64_t expired_pages = 0;
  int64_t forgotten_pages = 0;
  // Pages in the tree = inserted + restored - evicted - expired - forgotten.
};

struct ScopeUsage {
  std::string fingerprint;
  std::string family_fingerprint;
  int pages = 0;
};

struct FamilyRecord {
  explicit FamilyRecord(const FamilyKey& family_key) : key(family_key) {}
  FamilyKey key;
  ScopePolicy policy;
  int n_pages = 0;
  int n_scopes = 0;
  IndexedHeap<RadixNode, &RadixNode::leaf_slot, &RadixNode::leaf_key> leaves;
  double order_key = 0;  // the least of leaves
  int open_slot = -1;    // above its floor
  int floored_slot = -1;
};

struct ScopeRecord {
  explicit ScopeRecord(const ScopeKey& scope_key) : key(scope_key) {}
  ScopeKey key;
  FamilyRecord* family = nullptr;
  RadixNode* root = nullptr;
  int n_pages = 0;
  int busy = 0;  // > 0: stays though it has no pages
};

class PrefixCache {
 public:
  // `tier`: the topmost one, or null. kInvalidArgument, naming the option.
  static Result<std::unique_ptr<PrefixCache>> Make(PagePool& pool, Clock& clock, const PrefixCacheOptions& options = {},
                                                   PageTier* tier = nullptr);
  ~PrefixCache();
  PrefixCache(const PrefixCache&) = delete;
  PrefixCache& operator=(const PrefixCache&) = delete;

  // Also holds for what is cached already, in every tier. kInvalidArgument: as ScopePolicy::Validate.
  Status SetPolicy(const FamilyKey& family, const ScopePolicy& policy);
  const ScopePolicy& PolicyOf(const FamilyKey& family) const;

  // The longest cached run of whole pages that begins `tokens`, at most max_tokens, pinned by the handles.
  PrefixMatch Match(const ScopeKey& scope, std::span<const int32_t> tokens, int max_tokens);
  // What Match would find in the tree now, without pinning, counting or marking use.
  int PeekTokens(const ScopeKey& scope, std::span<const int32_t> tokens, int max_tokens) const;
  // Offers a sequence's full pages: `handles` in order from position 0, all written, `tokens` the committed tokens that
  // they hold (and perhaps more). Pages whose tokens are there already are not replaced.
  InsertResult Insert(PrefixCursor& cursor, std::span<const int32_t> tokens, std::span<const PageHandle> handles);
  // Whether the cursor's scope was forgotten since: the sequence should mark its pages zero-on-release.
  bool Forgotten(const PrefixCursor& cursor) const;

  // Frees up to n pages, moving their contents to the tier. `demander`: on whose behalf; it may go below its own floor.
  int EvictPages(int n, const ScopeKey* demander = nullptr, FloorRule floors = FloorRule::kRespect);
  // Removes up to max_pages expired pages, leaves first, and lets the tiers look for theirs. Returns the former.
  int Sweep(int max_pages);
  // Afterwards nothing computed before is ever matched. Overwrites memory whatever the policy.
  ForgetReceipt Forget(const ScopeSet& scopes);

  int n_pages() const { return n_pages_; }
  int PagesOf(const ScopeKey& scope) const;
  int PagesOf(const FamilyKey& family) const;
  std::vector<ScopeUsage> Usage() const;  // scopes that have pages, in no particular order
  const PrefixCacheStats& stats() const { return stats_; }
  // Overwritten in pool and tiers.
  int64_t ZeroedBytes() const;

  // Checks every invariant that can be seen from inside, against the pool. O(pages); for tests and debugging.
  Status Audit() const;

 private:
  PrefixCache(PagePool& pool, Clock& clock, const PrefixCacheOptions& options, PageTier* tier);
  ScopeRecord* FindScope(const ScopeKey& scope) const;
  ScopeRecord& OpenScope(const ScopeKey& scope);
  void CloseScope(ScopeRecord& scope);  // drops an empty record
  int LivePages(const RadixNode& node, int64_t now_ns) const;
  RadixTree::Position Descend(RadixTree::Position at, std::span<const int32_t> tokens, int limit, bool* blocked) const;
  RadixNode* SplitAt(RadixNode* node, int n);
  RadixNode* AppendAt(RadixTree::Position at, RadixPage page);
  void Restore(ScopeRecord& scope, RadixNode* node, std::span<const int32_t> tokens, int limit, PrefixMatch& match);
  bool InTiers(const TierKey& key, int64_t now_ns) const;
  std::optional<TierHit> TakeFromTiers(const TierKey& key, std::span<const int32_t> page_tokens, int64_t now_ns,
                                       std::span<std::byte> page);
  TierKey KeyAfter(const ScopeRecord& scope, RadixTree::Position at) const;

  double UseNow(int64_t now_ns) const { return static_cast<double>(now_ns) / half_life_ns_; }
  void Touch(RadixNode& node, int64_t now_ns);
  double LeafKeyOf(const RadixNode& node) const;
  void SetDeadline(RadixNode& node);
  void Refresh(FamilyRecord& family);
  FamilyRecord* PickFamily(const ScopeKey* demander, FloorRule floors);
  void Demote(const RadixNode& leaf);
  void DropTail(RadixNode* leaf, RemovalReason reason);
  void ApplyPolicy(FamilyRecord& family, const ScopePolicy& policy);
  void NoteForgotten(const ScopeSet& scopes);
  void ForgetPages(ScopeRecord& scope, ForgetReceipt& receipt);
  Status AuditFamilies() const;
  Status AuditNode(const RadixNode& node) const;

  PagePool& pool_;
  Clock& clock_;
  PrefixCacheOptions options_;
  double half_life_ns_;
  PageTier* tier_;
  int page_tokens_;
  RadixTree tree_;
  std::unordered_map<FamilyKey, ScopePolicy, KeyHash> policies_;
  std::unordered_map<ScopeKey, std::unique_ptr<ScopeRecord>, KeyHash> scopes_;
  std::unordered_map<FamilyKey, std::unique_ptr<FamilyRecord>, KeyHash> families_;
  IndexedHeap<FamilyRecord, &FamilyRecord::open_slot, &FamilyRecord::order_key> open_;        // above their floors
  IndexedHeap<FamilyRecord, &FamilyRecord::floored_slot, &FamilyRecord::order_key> floored_;  // the others
  IndexedHeap<RadixNode, &RadixNode::deadline_slot, &RadixNode::deadline_ns> deadlines_;
  std::vector<RadixNode*> aside_;
  // When scopes were forgotten; bounded, see NoteForgotten.
  std::unordered_map<ScopeKey, uint64_t, KeyHash> forgotten_scopes_;
  std::unordered_map<FamilyKey, uint64_t, KeyHash> forgotten_families_;
  std::unordered_map<TenantKey, uint64_t, KeyHash> forgotten_tenants_;
  uint64_t all_forgotten_ = 0;
  uint64_t last_serial_ = 0;
  int n_pages_ = 0;
  PrefixCacheStats stats_;
};

}  // namespace surety::kv
