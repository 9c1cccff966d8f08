// The bookkeeping of a tier: a fixed number of slots, each free, holding an entry under its key, or held by somebody.
// Where a slot's bytes lie is the tier's matter.
//
// Threads: one. Owns: nothing outside. Invariants: (1) free + entries + held = slots. (2) a key has one slot at most.
// (3) a slot's generation is new each time that it is filled, and never comes again.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <unordered_map>
#include <vector>

#include "base/status.h"
#include "kv/tier.h"

namespace surety::kv {

struct TierSlot {
  enum class State : uint8_t { kFree, kEntry, kHeld };
  State state = State::kFree;
  bool zero = false;            // overwrite when it becomes free
  uint64_t generation = 0;
  std::optional<TierEntry> entry;  // of kEntry
  std::optional<ScopeKey> scope;   // of kHeld
  int64_t expires_ns = kNeverNs;
  int older = -1;  // entries in order of arrival
  int newer = -1;
};

class SlotTable {
 public:
  explicit SlotTable(int n_slots);

  int n_slots() const { return static_cast<int>(slots_.size()); }
  int n_free() const { return static_cast<int>(free_.size()); }
  int n_held() const { return n_held_; }
  int n_entries() const { return static_cast<int>(by_key_.size()); }
  TierSlot& at(int slot) { return slots_[static_cast<size_t>(slot)]; }
  const TierSlot& at(int slot) const { return slots_[static_cast<size_t>(slot)]; }

  int FreeSlot() const { return free_.empty() ? -1 : free_.back(); }
  // Fill the slot that FreeSlot answered.
  void Bind(TierEntry entry);  // no slot has its key
  void Hold(const ScopeKey& scope, bool zero);
  void Free(int slot);

  int Find(const TierKey& key) const;  // -1: none
  // The slot under this key, if it is not past its expiry and holds these tokens; else -1.
  int FindLive(const TierKey& key, std::span<const int32_t> tokens, int64_t now_ns) const;
  bool ContainsLive(const TierKey& key, int64_t now_ns) const;
  int oldest() const { return oldest_; }  // -1: no entries
  // Looks at one slot, going round: its number if it expired, else -1.
  int SweepOne(int64_t now_ns);
  Status Audit() const;

 private:
  int TakeFree();

  std::vector<TierSlot> slots_;
  std::vector<int> free_;
  std::unordered_map<TierKey, int, TierKeyHash> by_key_;
  int oldest_ = -1;
  int newest_ = -1;
  int n_held_ = 0;
  int hand_ = 0;
  uint64_t last_generation_ = 0;
};

}  // namespace surety::kv
