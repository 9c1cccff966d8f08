#include "kv/prefix_cache.h"

#include <algorithm>
#include <cmath>
#include <random>
#include <string>
#include <utility>

#include "base/check.h"

namespace surety::kv {
namespace {

// A key that nobody outside knows or needs: it only spreads nodes over buckets.
TokenHash RandomTokenHash() {
  std::random_device device;
  const auto word = [&] { return (static_cast<uint64_t>(device()) << 32) | device(); };
  const uint64_t first = word();
  return {first, word()};
}

constexpr int64_t kMaxTtlNs = int64_t{1} << 61;  // two of them can be added

}  // namespace

Status ScopePolicy::Validate() const {
  const auto negative = [](std::string_view field, int64_t value) {
    return InvalidArgumentError("prefix cache policy: " + std::string(field) + " is " + std::to_string(value) +
                                ", but must be 0 or more");
  };
  if (ttl_ns < 0) return negative("ttl_ns", ttl_ns);
  if (floor_pages < 0) return negative("floor_pages", floor_pages);
  return OkStatus();
}

Result<std::unique_ptr<PrefixCache>> PrefixCache::Make(PagePool& pool, Clock& clock, const PrefixCacheOptions& options,
                                                       PageTier* tier) {
  SURETY_RETURN_IF_ERROR(options.default_policy.Validate());
  const auto positive = [](std::string_view field, int64_t value) {
    if (value > 0) return OkStatus();
    return InvalidArgumentError("prefix cache: " + std::string(field) + " is " + std::to_string(value) +
                                ", but must be positive");
  };
  SURETY_RETURN_IF_ERROR(positive("use_half_life_ns", options.use_half_life_ns));
  SURETY_RETURN_IF_ERROR(positive("context_doubling_tokens", options.context_doubling_tokens));
  SURETY_RETURN_IF_ERROR(positive("max_restored_pages", options.max_restored_pages));
  SURETY_RETURN_IF_ERROR(positive("tier_sweep_slots", options.tier_sweep_slots));
  return std::unique_ptr<PrefixCache>(new PrefixCache(pool, clock, options, tier));
}

PrefixCache::PrefixCache(PagePool& pool, Clock& clock, const PrefixCacheOptions& options, PageTier* tier)
    : pool_(pool), clock_(clock), options_(options), half_life_ns_(static_cast<double>(options.use_half_life_ns)),
      tier_(tier), page_tokens_(pool.layout().page_tokens),
      tree_(pool.layout().page_tokens, pool.n_pages(), RandomTokenHash(), options.hash_mask) {
  options_.default_policy.ttl_ns = std::min(options.default_policy.ttl_ns, kMaxTtlNs);
}

PrefixCache::~PrefixCache() {
  while (!scopes_.empty()) {
    RadixNode* node = scopes_.begin()->second->root;
    while (!node->is_leaf()) node = node->first_child;
    DropTail(node, RemovalReason::kCapacity);
  }
}

Status PrefixCache::SetPolicy(const FamilyKey& family, const ScopePolicy& policy) {
  SURETY_RETURN_IF_ERROR(policy.Validate());
  ScopePolicy& kept = policies_[family];
  kept = policy;
  kept.ttl_ns = std::min(policy.ttl_ns, kMaxTtlNs);
  if (const auto at = families_.find(family); at != families_.end()) ApplyPolicy(*at->second, kept);
  for (PageTier* tier = tier_; tier != nullptr; tier = tier->below()) {
    tier->SetPolicy(family, {kept.ttl_ns, kept.zero_on_release, kept.lowest_tier});
  }
  return OkStatus();
}

const ScopePolicy& PrefixCache::PolicyOf(const FamilyKey& family) const {
  const auto at = policies_.find(family);
  return at == policies_.end() ? options_.default_policy : at->second;
}

ScopeRecord* PrefixCache::FindScope(const ScopeKey& scope) const {
  const auto at = scopes_.find(scope);
  return at == scopes_.end() ? nullptr : at->second.get();
}

ScopeRecord& PrefixCache::OpenScope(const ScopeKey& key) {
  auto& scope = scopes_[key];
  if (!scope) {
    scope = std::make_unique<ScopeRecord>(key);
    auto& family = families_[key.family()];
    if (!family) {
      family = std::make_unique<FamilyRecord>(key.family());
      family->policy = PolicyOf(key.family());
    }
    ++family->n_scopes;
    scope->family = family.get();
    scope->root = tree_.NewRoot(scope.get());
  }
  return *scope;
}

void PrefixCache::CloseScope(ScopeRecord& scope) {
  if (scope.busy > 0 || !scope.root->is_leaf()) return;
  SURETY_CHECK(scope.n_pages == 0);
  tree_.FreeRoot(scope.root);
  const ScopeKey key = scope.key;
  if (--scope.family->n_scopes == 0) families_.erase(key.family());
  scopes_.erase(key);
}

int PrefixCache::LivePages(const RadixNode& node, int64_t now_ns) const {
  const int64_t ttl_ns = node.scope->family->policy.ttl_ns;
  if (ttl_ns == 0 || node.oldest_ns + ttl_ns > now_ns) return node.n_pages();
  const auto expired = std::find_if(node.created_ns.begin(), node.created_ns.end(),
                                    [&](int64_t created_ns) { return created_ns + ttl_ns <= now_ns; });
  return static_cast<int>(expired - node.created_ns.begin());
}

RadixTree::Position PrefixCache::Descend(RadixTree::Position at, std::span<const int32_t> tokens, int limit,
                                         bool* blocked) const {
  const int64_t now_ns = clock_.NowNanos();
  while (at.pages < limit) {
    const int32_t* next = tokens.data() + static_cast<ptrdiff_t>(at.pages) * page_tokens_;
    if (at.pages == at.node->end()) {
      RadixNode* child = tree_.FindChild(at.node, next);
      if (child == nullptr) break;
      at.node = child;
    }
    const int from = at.pages - at.node->depth;
    const int common = tree_.CommonPages(at.node, from, next, limit - at.pages);
    const int live = std::max(LivePages(*at.node, now_ns) - from, 0);
    if (live < common) {
      at.pages += live;
      *blocked = true;
      break;
    }
    at.pages += common;
    if (at.pages < at.node->end()) break;
  }
  // A child that gave no page is none of ours.
  if (at.pages == at.node->depth && !at.node->is_root()) at.node = at.node->parent;
  return at;
}

RadixNode* PrefixCache::SplitAt(RadixNode* node, int n) {
  RadixNode* upper = tree_.Split(node, n);
  for (RadixNode* part : {upper, node}) {
    part->oldest_ns = *std::min_element(part->created_ns.begin(), part->created_ns.end());
    SetDeadline(*part);
  }
  return upper;
}

void PrefixCache::Touch(RadixNode& node, int64_t now_ns) {
  const double now = UseNow(now_ns);
  const double high = std::max(node.use, now);
  node.use = high + std::log2(1 + std::exp2(std::min(node.use, now) - high));
  node.sealed = true;
  if (node.leaf_slot < 0) return;
  node.leaf_key = LeafKeyOf(node);
  node.scope->family->leaves.Update(&node);
  Refresh(*node.scope->family);
}

double PrefixCache::LeafKeyOf(const RadixNode& node) const {
  const double position = static_cast<double>(node.end() - 1) * page_tokens_;
  return node.use + std::log2(1 + position / options_.context_doubling_tokens);
}

void PrefixCache::SetDeadline(RadixNode& node) {
  const int64_t ttl_ns = node.scope->family->policy.ttl_ns;
  if (ttl_ns == 0) {
    if (node.deadline_slot >= 0) deadlines_.Remove(&node);
    return;
  }
  node.deadline_ns = node.oldest_ns + ttl_ns;
  node.deadline_slot < 0 ? deadlines_.Push(&node) : deadlines_.Update(&node);
}

PrefixMatch PrefixCache::Match(const ScopeKey& scope, std::span<const int32_t> tokens, int max_tokens) {
  PrefixMatch match(scope);
  const int64_t now_ns = clock_.NowNanos();
  match.cursor.serial_ = ++last_serial_;
  match.cursor.opened_ns_ = now_ns;
  ++stats_.queries;
  stats_.query_tokens += static_cast<int64_t>(tokens.size());
  const int limit = static_cast<int>(std::min(tokens.size(), static_cast<size_t>(std::max(max_tokens, 0)))) /
                    page_tokens_;
  if (limit == 0) return match;
  ScopeRecord* record = FindScope(scope);
  if (record == nullptr && tier_ != nullptr) record = &OpenScope(scope);
  if (record == nullptr) return match;
  ++record->busy;
  bool blocked = false;
  RadixTree::Position at = Descend({record->root, 0}, tokens, limit, &blocked);
  if (at.pages < at.node->end()) at.node = SplitAt(at.node, at.pages - at.node->depth);
  match.pages.resize(static_cast<size_t>(at.pages));
  for (RadixNode* node = at.node; !node->is_root(); node = node->parent) {
    for (int i = 0; i < node->n_pages(); ++i) {
      match.pages[static_cast<size_t>(node->depth + i)] = node->pages[static_cast<size_t>(i)].Share();
    }
    Touch(*node, now_ns);
  }
  match.cursor.node_ = at.node;
  if (tier_ != nullptr && !blocked && at.pages < limit) Restore(*record, at.node, tokens, limit, match);
  match.cursor.generation_ = match.cursor.node_->generation;
  match.cursor.pages_ = match.cursor.n_matched_ = match.cursor.n_offered_ = static_cast<int>(match.pages.size());
  match.n_tokens = match.cursor.pages_ * page_tokens_;
  stats_.hit_tokens += match.n_tokens;
  stats_.host_hit_tokens += match.host_tokens;
  stats_.disk_hit_tokens += match.disk_tokens;
  --record->busy;
  CloseScope(*record);
  return match;
}

TierKey PrefixCache::KeyAfter(const ScopeRecord& scope, RadixTree::Position at) const {
  if (at.pages == 0) return TierKey::Root(scope.key);
  return at.node->keys[static_cast<size_t>(at.pages - at.node->depth - 1)];
}

bool PrefixCache::InTiers(const TierKey& key, int64_t now_ns) const {
  for (const PageTier* tier = tier_; tier != nullptr; tier = tier->below()) {
    if (tier->Contains(key, now_ns)) return true;
  }
  return false;
}

std::optional<TierHit> PrefixCache::TakeFromTiers(const TierKey& key, std::span<const int32_t> page_tokens,
                                                  int64_t now_ns, std::span<std::byte> page) {
  for (PageTier* tier = tier_; tier != nullptr; tier = tier->below()) {
    if (!tier->Contains(key, now_ns)) continue;
    if (const auto hit = tier->Take(key, page_tokens, now_ns, page)) return hit;
  }
  return std::nullopt;
}

void PrefixCache::Restore(ScopeRecord& scope, RadixNode* node, std::span<const int32_t> tokens, int limit,
                          PrefixMatch& match) {
  const int64_t now_ns = clock_.NowNanos();
  RadixTree::Position at{node, static_cast<int>(match.pages.size())};
  TierKey key = KeyAfter(scope, at);
  const int last = std::min<int64_t>(limit, int64_t{at.pages} + options_.max_restored_pages);
  for (; at.pages < last; ++at.pages) {
    const auto page_tokens = tokens.subspan(static_cast<size_t>(at.pages) * static_cast<size_t>(page_tokens_),
                                            static_cast<size_t>(page_tokens_));
    key = key.Next(page_tokens);
    if (!InTiers(key, now_ns)) break;
    PageHandle handle = pool_.Allocate();
    // What was matched so far is pinned, so this cannot take it; it may push the entry down or out, hence the new look.
    if (!handle && EvictPages(1, &scope.key) == 1) handle = pool_.Allocate();
    if (!handle) break;
    if (scope.family->policy.zero_on_release) handle.MarkZeroOnRelease();
    const std::optional<TierHit> hit = TakeFromTiers(key, page_tokens, now_ns, pool_.Bytes(handle.page()));
    if (!hit) {
      handle.MarkZeroOnRelease();  // half a page of somebody's KV may have arrived
      break;
    }
    match.pages.push_back(handle.Share());
    (hit->level == TierLevel::kHost ? match.host_tokens : match.disk_tokens) += page_tokens_;
    at.node = AppendAt(at, {std::move(handle), page_tokens, hit->created_ns, &key});
    ++stats_.restored_pages;
  }
  if (at.node == node) return;
  at.node->sealed = true;
  match.cursor.node_ = at.node;
}

int PrefixCache::PeekTokens(const ScopeKey& scope, std::span<const int32_t> tokens, int max_tokens) const {
  const ScopeRecord* record = FindScope(scope);
  if (record == nullptr) return 0;
  const size_t most = std::min(tokens.size(), static_cast<size_t>(std::max(max_tokens, 0)));
  bool blocked = false;
  return Descend({record->root, 0}, tokens, static_cast<int>(most) / page_tokens_, &blocked).pages * page_tokens_;
}

RadixNode* PrefixCache::AppendAt(RadixTree::Position at, RadixPage page) {
  RadixNode* node = at.node;
  FamilyRecord& family = *node->scope->family;
  pool_.SetCached(page.handle.page(), true);
  if (family.policy.zero_on_release) page.handle.MarkZeroOnRelease();
  const int64_t created_ns = page.created_ns;
  if (at.pages < node->end()) node = SplitAt(node, at.pages - node->depth);
  if (!node->is_root() && node->is_leaf() && !node->sealed) {
    tree_.Append(node, std::move(page));
    node->use = std::max(node->use, UseNow(clock_.NowNanos()));
    node->oldest_ns = std::min(node->oldest_ns, created_ns);
  } else {
    if (node->leaf_slot >= 0) family.leaves.Remove(node);
    node = tree_.AddChild(node, std::move(page));
    node->use = UseNow(clock_.NowNanos());
    node->oldest_ns = created_ns;
  }
  SetDeadline(*node);
  node->leaf_key = LeafKeyOf(*node);
  node->leaf_slot < 0 ? family.leaves.Push(node) : family.leaves.Update(node);
  ++node->scope->n_pages;
  ++family.n_pages;
  ++n_pages_;
  Refresh(family);
  return node;
}

InsertResult PrefixCache::Insert(PrefixCursor& cursor, std::span<const int32_t> tokens,
                                 std::span<const PageHandle> handles) {
  const int n = static_cast<int>(std::min(tokens.size() / static_cast<size_t>(page_tokens_), handles.size()));
  InsertResult result{.first_new = n};
  if (Forgotten(cursor)) {
    for (const PageHandle& handle : handles) handle.MarkZeroOnRelease();
    result.forgotten = true;
    return result;
  }
  if (n <= cursor.pages_) return result;
  ScopeRecord& scope = OpenScope(cursor.scope_);
  ++scope.busy;
  bool blocked = false;
  auto resumed = tree_.Resume(cursor.node_, cursor.generation_, cursor.pages_);
  // A caller that mixed up its sequences must not join two contexts: the page before the cursor is looked at again.
  if (resumed && resumed->pages > 0 && !tree_.EndsWith(*resumed, tokens)) resumed.reset();
  RadixTree::Position at = Descend(resumed.value_or(RadixTree::Position{scope.root, 0}), tokens, n, &blocked);
  const int64_t now_ns = clock_.NowNanos(), ttl_ns = scope.family->policy.ttl_ns;
  // A time to live runs from when a page was computed. Pages that earlier calls were given may be as old as the
  // cursor; matched ones may be older still, so those are not put back once they are gone.
  const bool too_old = ttl_ns > 0 && (at.pages < cursor.n_matched_ ||
                                      (at.pages < cursor.n_offered_ && cursor.opened_ns_ + ttl_ns <= now_ns));
  if (!blocked && !too_old) {
    result.first_new = at.pages;
    std::optional<TierKey> key;
    if (tier_ != nullptr && at.pages < n) key = KeyAfter(scope, at);
    for (; at.pages < n; ++at.pages) {
      const auto page = tokens.subspan(static_cast<size_t>(at.pages) * static_cast<size_t>(page_tokens_),
                                       static_cast<size_t>(page_tokens_));
      if (key) key = key->Next(page);
      const int64_t created_ns = at.pages < cursor.n_offered_ ? cursor.opened_ns_ : now_ns;
      at.node = AppendAt(at, {handles[static_cast<size_t>(at.pages)].Share(), page, created_ns, key ? &*key : nullptr});
    }
    result.n_new = n - result.first_new;
    stats_.inserted_pages += result.n_new;
  }
  cursor.node_ = at.node;
  cursor.generation_ = at.node->generation;
  cursor.pages_ = at.pages;
  cursor.n_offered_ = std::max(cursor.n_offered_, n);
  --scope.busy;
  CloseScope(scope);
  return result;
}

}  // namespace surety::kv
