// A binary min-heap of pointers whose elements know their place, so that one can be removed or moved after its key
// changed, in O(log n).
//
// kSlot: an int member of T that is -1 outside the heap; an element is in one heap for each such member.
// kKey: the member compared; after changing it, call Update. Owns: nothing. Threads: one.
#pragma once

#include <cstddef>
#include <span>
#include <utility>
#include <vector>

#include "base/check.h"

namespace surety::kv {

template <typename T, auto kSlot, auto kKey>
class IndexedHeap {
 public:
  bool empty() const { return items_.empty(); }
  size_t size() const { return items_.size(); }
  T* top() const { return items_.front(); }
  bool Contains(const T* item) const {
    const auto slot = static_cast<size_t>(item->*kSlot);
    return item->*kSlot >= 0 && slot < items_.size() && items_[slot] == item;
  }

  void Push(T* item) {
    SURETY_CHECK(item->*kSlot < 0);
    item->*kSlot = static_cast<int>(items_.size());
    items_.push_back(item);
    Up(items_.size() - 1);
  }

  void Remove(T* item) {
    SURETY_CHECK(Contains(item));
    const auto slot = static_cast<size_t>(item->*kSlot);
    T* last = items_.back();
    items_.pop_back();
    item->*kSlot = -1;
    if (last == item) return;
    Place(last, slot);
    Update(last);
  }

  void Update(T* item) {
    Up(static_cast<size_t>(item->*kSlot));
    Down(static_cast<size_t>(item->*kSlot));
  }

  // Every element is where it says it is, and no element is smaller than the one above it.
  bool Valid() const {
    for (size_t i = 0; i < items_.size(); ++i) {
      if (items_[i]->*kSlot != static_cast<int>(i) || (i > 0 && Less(i, (i - 1) / 2))) return false;
    }
    return true;
  }

 private:
  bool Less(size_t a, size_t b) const { return items_[a]->*kKey < items_[b]->*kKey; }
  void Place(T* item, size_t slot) {
    items_[slot] = item;
    item->*kSlot = static_cast<int>(slot);
  }
  void Swap(size_t a, size_t b) {
    T* item = items_[a];
    Place(items_[b], a);
    Place(item, b);
  }
  void Up(size_t slot) {
    for (; slot > 0 && Less(slot, (slot - 1) / 2); slot = (slot - 1) / 2) Swap(slot, (slot - 1) / 2);
  }
  void Down(size_t slot) {
    while (true) {
      size_t least = slot;
      for (size_t child : {2 * slot + 1, 2 * slot + 2}) {
        if (child < items_.size() && Less(child, least)) least = child;
      }
      if (least == slot) return;
      Swap(slot, least);
      slot = least;
    }
  }

  std::vector<T*> items_;
};

}  // namespace surety::kv
