#include "kv/slot_table.h"

#include <algorithm>
#include <string>
#include <utility>

#include "base/check.h"

namespace surety::kv {

SlotTable::SlotTable(int n_slots) : slots_(static_cast<size_t>(n_slots)), free_(static_cast<size_t>(n_slots)) {
  for (int i = 0; i < n_slots; ++i) free_[static_cast<size_t>(i)] = n_slots - 1 - i;
}

int SlotTable::TakeFree() {
  SURETY_CHECK(!free_.empty());
  const int slot = free_.back();
  free_.pop_back();
  at(slot).generation = ++last_generation_;
  return slot;
}

void SlotTable::Bind(TierEntry entry) {
  const int slot = TakeFree();
  SURETY_CHECK(by_key_.emplace(entry.key, slot).second);
  TierSlot& taken = at(slot);
  taken.state = TierSlot::State::kEntry;
  taken.zero = entry.policy.zero_on_release;
  taken.expires_ns = entry.policy.ExpiryOf(entry.created_ns);
  taken.entry = std::move(entry);
  taken.older = std::exchange(newest_, slot);
  (taken.older < 0 ? oldest_ : at(taken.older).newer) = slot;
}

void SlotTable::Hold(const ScopeKey& scope, bool zero) {
  TierSlot& taken = at(TakeFree());
  taken.state = TierSlot::State::kHeld;
  taken.zero = zero;
  taken.scope = scope;
  ++n_held_;
}

void SlotTable::Free(int slot) {
  TierSlot& freed = at(slot);
  SURETY_CHECK(freed.state != TierSlot::State::kFree);
  if (freed.state == TierSlot::State::kHeld) {
    --n_held_;
  } else {
    by_key_.erase(freed.entry->key);
    (freed.older < 0 ? oldest_ : at(freed.older).newer) = freed.newer;
    (freed.newer < 0 ? newest_ : at(freed.newer).older) = freed.older;
  }
  const uint64_t generation = freed.generation;
  freed = TierSlot{};
  freed.generation = generation;
  free_.push_back(slot);
}

int SlotTable::Find(const TierKey& key) const {
  const auto found = by_key_.find(key);
  return found == by_key_.end() ? -1 : found->second;
}

bool SlotTable::ContainsLive(const TierKey& key, int64_t now_ns) const {
  const int slot = Find(key);
  return slot >= 0 && at(slot).expires_ns > now_ns;
}

int SlotTable::FindLive(const TierKey& key, std::span<const int32_t> tokens, int64_t now_ns) const {
  if (!ContainsLive(key, now_ns)) return -1;
  const int slot = Find(key);
  return std::ranges::equal(at(slot).entry->tokens, tokens) ? slot : -1;
}

int SlotTable::SweepOne(int64_t now_ns) {
  if (slots_.empty()) return -1;
  const int slot = hand_;
  hand_ = (hand_ + 1) % n_slots();
  return at(slot).state == TierSlot::State::kEntry && at(slot).expires_ns <= now_ns ? slot : -1;
}

Status SlotTable::Audit() const {
  const auto wrong = [](const std::string& what) { return InternalError("tier slots: " + what); };
  int n_free = 0, n_entries = 0, n_held = 0;
  for (int slot = 0; slot < n_slots(); ++slot) {
    const TierSlot& one = at(slot);
    n_free += one.state == TierSlot::State::kFree ? 1 : 0;
    n_held += one.state == TierSlot::State::kHeld ? 1 : 0;
    if (one.state != TierSlot::State::kEntry) continue;
    ++n_entries;
    if (Find(one.entry->key) != slot) return wrong("an entry is not found under its key");
    if (one.expires_ns != one.entry->policy.ExpiryOf(one.entry->created_ns)) return wrong("an expiry is out of date");
  }
  if (n_free != this->n_free() || n_entries != this->n_entries() || n_held != n_held_) return wrong("counts disagree");
  int in_order = 0, previous = -1;
  for (int slot = oldest_; slot >= 0; previous = slot, slot = at(slot).newer) {
    if (at(slot).older != previous || ++in_order > n_entries) return wrong("the order of arrival is broken");
  }
  return in_order == n_entries && previous == newest_ ? OkStatus() : wrong("the order of arrival is incomplete");
}

}  // namespace surety::kv
