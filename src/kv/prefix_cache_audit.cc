// What the cache says of itself, for metrics, and whether it is true.
#include <algorithm>
#include <string>
#include <unordered_map>
#include <unordered_set>

#include "kv/prefix_cache.h"

namespace surety::kv {
namespace {

Status Wrong(const std::string& what) { return InternalError("prefix cache: " + what); }

}  // namespace

int PrefixCache::PagesOf(const ScopeKey& scope) const {
  const ScopeRecord* record = FindScope(scope);
  return record == nullptr ? 0 : record->n_pages;
}

int PrefixCache::PagesOf(const FamilyKey& family) const {
  const auto at = families_.find(family);
  return at == families_.end() ? 0 : at->second->n_pages;
}

std::vector<ScopeUsage> PrefixCache::Usage() const {
  std::vector<ScopeUsage> usage;
  usage.reserve(scopes_.size());
  for (const auto& [key, scope] : scopes_) {
    usage.push_back({key.Fingerprint(), key.family().Fingerprint(), scope->n_pages});
  }
  return usage;
}

int64_t PrefixCache::ZeroedBytes() const {
  int64_t bytes = pool_.zeroed_bytes();
  for (const PageTier* tier = tier_; tier != nullptr; tier = tier->below()) bytes += tier->stats().zeroed_bytes;
  return bytes;
}

Status PrefixCache::AuditNode(const RadixNode& node) const {
  const FamilyRecord& family = *node.scope->family;
  for (const PageHandle& handle : node.pages) {
    const int32_t page = handle.page();
    if (!handle || pool_.RefCount(page) < 1) return Wrong("a page without a reference");
    if (!pool_.Cached(page)) return Wrong("page " + std::to_string(page) + " is not marked as cached");
    if (family.policy.zero_on_release && !pool_.ZeroOnRelease(page)) {
      return Wrong("page " + std::to_string(page) + " would not be overwritten");
    }
  }
  if ((node.keys.empty() ? 0 : node.n_pages()) != (tier_ == nullptr ? 0 : node.n_pages())) {
    return Wrong("keys of tiers are missing or too many");
  }
  if (node.is_leaf() != (node.leaf_slot >= 0) || (node.is_leaf() && !family.leaves.Contains(&node))) {
    return Wrong("the heap of leaves and the tree disagree");
  }
  if (node.is_leaf() && node.leaf_key != LeafKeyOf(node)) return Wrong("a leaf's key is out of date");
  if (node.oldest_ns != *std::min_element(node.created_ns.begin(), node.created_ns.end())) {
    return Wrong("a node's oldest page is not the oldest");
  }
  const int64_t ttl_ns = family.policy.ttl_ns;
  if ((ttl_ns > 0) != (node.deadline_slot >= 0) || (ttl_ns > 0 && !deadlines_.Contains(&node)) ||
      (ttl_ns > 0 && node.deadline_ns != node.oldest_ns + ttl_ns)) {
    return Wrong("a node's deadline is wrong");
  }
  return OkStatus();
}

Status PrefixCache::AuditFamilies() const {
  std::unordered_map<const FamilyRecord*, std::pair<int, int>> counts;  // pages, scopes
  for (const auto& [key, scope] : scopes_) {
    auto& [pages, scopes] = counts[scope->family];
    pages += scope->n_pages;
    ++scopes;
  }
  if (counts.size() != families_.size()) return Wrong("families without scopes");
  for (const auto& [key, family] : families_) {
    const auto& [pages, scopes] = counts[family.get()];
    if (family->n_pages != pages || family->n_scopes != scopes) return Wrong("a family's counts are wrong");
    if (!family->leaves.Valid()) return Wrong("a family's heap of leaves is out of order");
    const bool any = !family->leaves.empty();
    const bool open = any && pages > family->policy.floor_pages;
    if (open != (family->open_slot >= 0) || (any && !open) != (family->floored_slot >= 0)) {
      return Wrong("a family is in the wrong heap");
    }
    if (any && family->order_key != family->leaves.top()->leaf_key) return Wrong("a family's key is out of date");
  }
  if (!open_.Valid() || !floored_.Valid() || !deadlines_.Valid()) return Wrong("a heap is out of order");
  return OkStatus();
}

Status PrefixCache::Audit() const {
  std::unordered_set<int32_t> seen;
  int n_nodes = 0, n_pages = 0;
  for (const auto& [key, scope] : scopes_) {
    int scope_pages = 0;
    const auto visit = [&](const RadixNode& node) {
      ++n_nodes;
      scope_pages += node.n_pages();
      for (const PageHandle& handle : node.pages) {
        if (!seen.insert(handle.page()).second) {
          return Wrong("page " + std::to_string(handle.page()) + " stands in the tree twice");
        }
      }
      return AuditNode(node);
    };
    if (!(scope->key == key) || scope->root->scope != scope.get()) return Wrong("a scope under another's key");
    SURETY_RETURN_IF_ERROR(tree_.Audit(scope->root, visit));
    if (scope_pages != scope->n_pages) return Wrong("a scope's count of pages is wrong");
    if (scope_pages == 0 || scope->busy != 0) return Wrong("an empty scope was kept");
    n_pages += scope_pages;
  }
  if (n_pages != n_pages_ || n_nodes != tree_.n_nodes() || n_nodes != tree_.CountTable()) {
    return Wrong("counts of pages or nodes are wrong");
  }
  if (n_pages_ != stats_.inserted_pages + stats_.restored_pages - stats_.evicted_pages - stats_.expired_pages -
                      stats_.forgotten_pages) {
    return Wrong("counters do not add up to the pages held");
  }
  int n_cached = 0, n_reclaimable = 0;
  for (int32_t page = 0; page < pool_.n_pages(); ++page) {
    n_cached += pool_.Cached(page) ? 1 : 0;
    n_reclaimable += pool_.Cached(page) && pool_.RefCount(page) == 1 ? 1 : 0;
  }
  if (n_cached != n_pages_) return Wrong("the pool counts other cached pages than the tree");
  if (n_reclaimable != pool_.n_reclaimable()) return Wrong("the pool's count of reclaimable pages is wrong");
  SURETY_RETURN_IF_ERROR(AuditFamilies());
  for (const PageTier* tier = tier_; tier != nullptr; tier = tier->below()) SURETY_RETURN_IF_ERROR(tier->Audit());
  return OkStatus();
}

}  // namespace surety::kv
