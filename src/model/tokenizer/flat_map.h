// A map from 64-bit keys to small values, built once and then only read: open addressing in one array.
// Threads: immutable after the last Insert.
#pragma once

#include <bit>
#include <cstddef>
#include <cstdint>
#include <vector>

namespace surety::model {

template <typename Value>
class FlatMap {
 public:
  // Room for n keys without growing.
  void Reserve(size_t n) {
    if (slots_.size() < 2 * n) Grow(std::bit_ceil(2 * n + 2));
  }

  // The value stays as it is if the key is there. The key 2^64 - 1 is not allowed.
  void Insert(uint64_t key, const Value& value) {
    if (2 * (size_ + 1) > slots_.size()) Grow(slots_.empty() ? 16 : 2 * slots_.size());
    Slot& slot = slots_[Place(key)];
    if (slot.key == key) return;
    slot = {key, value};
    ++size_;
  }

  // Null if absent.
  const Value* Find(uint64_t key) const {
    if (slots_.empty()) return nullptr;
    const Slot& slot = slots_[Place(key)];
    return slot.key == key ? &slot.value : nullptr;
  }

 private:
  static constexpr uint64_t kEmpty = ~uint64_t{0};
  struct Slot {
    uint64_t key = kEmpty;
    Value value{};
  };

  // Where the key is or would go.
  size_t Place(uint64_t key) const {
    uint64_t h = key * 0x9E3779B97F4A7C15u;
    h ^= h >> 32;
    const size_t mask = slots_.size() - 1;
    size_t at = h & mask;
    while (slots_[at].key != key && slots_[at].key != kEmpty) at = (at + 1) & mask;
    return at;
  }

  void Grow(size_t n) {
    std::vector<Slot> old(n);
    old.swap(slots_);
    for (const Slot& slot : old) {
      if (slot.key != kEmpty) slots_[Place(slot.key)] = slot;
    }
  }

  std::vector<Slot> slots_;
  size_t size_ = 0;
};

}  // namespace surety::model
