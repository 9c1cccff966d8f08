// How pages leave the cache: for lack of room, by age, by request.
#include <algorithm>
#include <cmath>
#include <utility>

#include "base/check.h"
#include "kv/prefix_cache.h"

namespace surety::kv {

void PrefixCache::Refresh(FamilyRecord& family) {
  const bool any = !family.leaves.empty();
  const bool open = any && family.n_pages > family.policy.floor_pages;
  if (any) family.order_key = family.leaves.top()->leaf_key;
  const auto place = [&](auto& heap, int slot, bool in) {
    if (!in && slot >= 0) heap.Remove(&family);
    if (in) slot >= 0 ? heap.Update(&family) : heap.Push(&family);
  };
  place(open_, family.open_slot, open);
  place(floored_, family.floored_slot, any && !open);
}

FamilyRecord* PrefixCache::PickFamily(const ScopeKey* demander, FloorRule floors) {
  if (!open_.empty()) return open_.top();
  if (demander != nullptr) {
    const auto own = families_.find(demander->family());
    if (own != families_.end() && !own->second->leaves.empty()) return own->second.get();
  }
  return floors == FloorRule::kBreak && !floored_.empty() ? floored_.top() : nullptr;
}

void PrefixCache::Demote(const RadixNode& leaf) {
  const FamilyRecord& family = *leaf.scope->family;
  if (tier_ == nullptr || family.policy.lowest_tier < tier_->level()) return;
  const int64_t now_ns = clock_.NowNanos();
  TierEntry entry{.key = leaf.keys.back(), .scope = leaf.scope->key, .tokens = {}, .created_ns = leaf.created_ns.back(),
                  .policy = {family.policy.ttl_ns, family.policy.zero_on_release, family.policy.lowest_tier}};
  if (entry.policy.ExpiryOf(entry.created_ns) <= now_ns) return;
  entry.tokens.assign(leaf.tokens.end() - page_tokens_, leaf.tokens.end());
  tier_->Put(std::move(entry), pool_.Bytes(leaf.pages.back().page()), now_ns);
}

void PrefixCache::DropTail(RadixNode* node, RemovalReason reason) {
  ScopeRecord& scope = *node->scope;
  FamilyRecord& family = *scope.family;
  PageHandle handle = tree_.PopTail(node);
  pool_.SetCached(handle.page(), false);
  if (reason == RemovalReason::kForgotten) handle.MarkZeroOnRelease();
  (reason == RemovalReason::kCapacity  ? stats_.evicted_pages
   : reason == RemovalReason::kExpired ? stats_.expired_pages
                                       : stats_.forgotten_pages) += 1;
  --scope.n_pages;
  --family.n_pages;
  --n_pages_;
  if (!node->pages.empty()) {
    node->oldest_ns = *std::min_element(node->created_ns.begin(), node->created_ns.end());
    SetDeadline(*node);
    node->leaf_key = LeafKeyOf(*node);
    family.leaves.Update(node);
    Refresh(family);
    return;
  }
  family.leaves.Remove(node);
  if (node->deadline_slot >= 0) deadlines_.Remove(node);
  RadixNode* parent = tree_.Unlink(node);
  if (!parent->is_root() && parent->is_leaf()) {
    parent->leaf_key = LeafKeyOf(*parent);
    family.leaves.Push(parent);
  }
  Refresh(family);
  CloseScope(scope);
}

int PrefixCache::EvictPages(int n, const ScopeKey* demander, FloorRule floors) {
  int n_freed = 0;
  while (n_freed < n) {
    FamilyRecord* family = PickFamily(demander, floors);
    if (family == nullptr) break;
    RadixNode* leaf = family->leaves.top();
    if (pool_.RefCount(leaf->pages.back().page()) > 1) {
      // A sequence reads it. There are no more of these than sequences, since a sequence's pages end in one leaf.
      family->leaves.Remove(leaf);
      Refresh(*family);
      aside_.push_back(leaf);
      continue;
    }
    Demote(*leaf);
    DropTail(leaf, RemovalReason::kCapacity);
    ++n_freed;
  }
  for (RadixNode* leaf : aside_) {
    leaf->scope->family->leaves.Push(leaf);
    Refresh(*leaf->scope->family);
  }
  aside_.clear();
  return n_freed;
}

int PrefixCache::Sweep(int max_pages) {
  const int64_t now_ns = clock_.NowNanos();
  int n_dropped = 0;
  while (n_dropped < max_pages && !deadlines_.empty() && deadlines_.top()->deadline_ns <= now_ns) {
    // What lies below an expired page cannot be reached any more, so it goes first.
    RadixNode* leaf = deadlines_.top();
    while (!leaf->is_leaf()) leaf = leaf->first_child;
    DropTail(leaf, RemovalReason::kExpired);
    ++n_dropped;
  }
  for (PageTier* tier = tier_; tier != nullptr; tier = tier->below()) tier->Sweep(now_ns, options_.tier_sweep_slots);
  return n_dropped;
}

void PrefixCache::ForgetPages(ScopeRecord& scope, ForgetReceipt& receipt) {
  RadixNode* node = scope.root;
  while (true) {
    while (!node->is_leaf()) node = node->first_child;
    if (node->is_root()) return;
    RadixNode* parent = node->parent;
    for (int n = node->n_pages(); n > 0; --n) {
      const bool in_use = pool_.RefCount(node->pages.back().page()) > 1;
      ++receipt.pages;
      receipt.pages_in_use += in_use ? 1 : 0;
      receipt.bytes += in_use ? 0 : pool_.layout().PageBytes();
      DropTail(node, RemovalReason::kForgotten);
    }
    node = parent;
  }
}

ForgetReceipt PrefixCache::Forget(const ScopeSet& scopes) {
  NoteForgotten(scopes);
  std::vector<ScopeRecord*> covered;
  if (scopes.scope() != nullptr) {
    if (ScopeRecord* scope = FindScope(*scopes.scope())) covered.push_back(scope);
  } else {
    for (const auto& [key, scope] : scopes_) {
      if (scopes.Covers(key)) covered.push_back(scope.get());
    }
  }
  ForgetReceipt receipt;
  for (ScopeRecord* scope : covered) {
    ++scope->busy;
    ForgetPages(*scope, receipt);
    --scope->busy;
    CloseScope(*scope);
  }
  for (PageTier* tier = tier_; tier != nullptr; tier = tier->below()) receipt.Add(tier->Forget(scopes));
  return receipt;
}

void PrefixCache::NoteForgotten(const ScopeSet& scopes) {
  constexpr size_t kMostNotes = 4096;
  const uint64_t serial = ++last_serial_;
  if (forgotten_scopes_.size() + forgotten_families_.size() + forgotten_tenants_.size() >= kMostNotes) {
    // Rather than remembering ever more, distrust every cursor of before: their sequences insert nothing.
    all_forgotten_ = serial;
    forgotten_scopes_.clear();
    forgotten_families_.clear();
    forgotten_tenants_.clear();
  } else if (scopes.scope() != nullptr) {
    forgotten_scopes_[*scopes.scope()] = serial;
  } else if (scopes.family() != nullptr) {
    forgotten_families_[*scopes.family()] = serial;
  } else {
    forgotten_tenants_[*scopes.tenant()] = serial;
  }
}

bool PrefixCache::Forgotten(const PrefixCursor& cursor) const {
  if (cursor.serial_ < all_forgotten_) return true;
  const auto noted_since = [&](const auto& notes, const auto& key) {
    if (notes.empty()) return false;
    const auto at = notes.find(key);
    return at != notes.end() && at->second > cursor.serial_;
  };
  return noted_since(forgotten_scopes_, cursor.scope_) || noted_since(forgotten_families_, cursor.scope_.family()) ||
         noted_since(forgotten_tenants_, cursor.scope_.tenant());
}

void PrefixCache::ApplyPolicy(FamilyRecord& family, const ScopePolicy& policy) {
  family.policy = policy;
  std::vector<RadixNode*> nodes;
  for (const auto& [key, scope] : scopes_) {
    if (scope->family == &family) nodes.push_back(scope->root);
  }
  while (!nodes.empty()) {
    RadixNode* node = nodes.back();
    nodes.pop_back();
    if (!node->is_root()) SetDeadline(*node);
    if (policy.zero_on_release) {
      for (const PageHandle& handle : node->pages) handle.MarkZeroOnRelease();
    }
    for (RadixNode* child = node->first_child; child != nullptr; child = child->next_sibling) nodes.push_back(child);
  }
  Refresh(family);
}

}  // namespace surety::kv
