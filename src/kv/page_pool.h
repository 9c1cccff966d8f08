// The KV memory: a fixed number of pages, counted references, handles that give them back.
//
// Threads: one (the engine thread). Owns: the memory, made at once in Make.
// Errors: Make: kInvalidArgument (layout), kResourceExhausted (memory, with the size asked for). Allocate: an empty
// handle when no page is free; that is an expected state, to which the scheduler answers.
// Invariants: (1) free + used = n_pages. (2) a page is free iff nobody holds a handle to it. (3) contents of a page are
// written only by its single holder; a draft model's part (KvLayout::companion_bytes), a function of the same tokens,
// by any holder. (4) a page marked zero-on-release holds zero bytes once it is free, whoever held
// the last reference; the mark ends with that.
#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <vector>

#include "base/aligned_buffer.h"
#include "base/status.h"
#include "tensor/paged_kv_view.h"

namespace surety::kv {

class PagePool;

// A move-only reference to one page. Returns it to the pool when the last reference goes.
class PageHandle {
 public:
  PageHandle() = default;
  ~PageHandle() { Reset(); }
  PageHandle(PageHandle&& other) noexcept;
  PageHandle& operator=(PageHandle&& other) noexcept;
  explicit operator bool() const { return pool_ != nullptr; }
  int32_t page() const { return page_; }
  PageHandle Share() const;  // one more reference to the same page
  // The page's memory is overwritten with zero bytes when its last reference goes.
  void MarkZeroOnRelease() const;
  void Reset();

 private:
  friend class PagePool;
  PageHandle(PagePool* pool, int32_t page) : pool_(pool), page_(page) {}
  PagePool* pool_ = nullptr;
  int32_t page_ = -1;
};

class PagePool {
 public:
  static Result<std::unique_ptr<PagePool>> Make(const KvLayout& layout, int n_pages);
  ~PagePool();
  PagePool(const PagePool&) = delete;
  PagePool& operator=(const PagePool&) = delete;

  PageHandle Allocate();
  const PagedKvView& view() const { return view_; }
  const KvLayout& layout() const { return view_.layout; }
  int n_pages() const { return view_.n_pages; }
  int n_free() const { return static_cast<int>(free_.size()); }
  int n_used() const { return n_pages() - n_free(); }
  int64_t size_bytes() const { return static_cast<int64_t>(memory_.size_bytes()); }
  // Differs from what it was before when the page has been given out anew since.
  uint32_t Serial(int32_t page) const { return serials_[static_cast<size_t>(page)]; }
  // What lies in a page from some token on will be other tokens': notes by Serial no longer hold.
  void Renew(int32_t page) { ++serials_[static_cast<size_t>(page)]; }
  int RefCount(int32_t page) const { return ref_counts_[static_cast<size_t>(page)]; }
  bool ZeroOnRelease(int32_t page) const { return marks_[static_cast<size_t>(page)] & kZero; }
  // Bytes overwritten because of such marks, so far.
  int64_t zeroed_bytes() const { return zeroed_bytes_; }
  std::span<std::byte> Bytes(int32_t page) {
    return {view_.Head(0, page, 0), static_cast<size_t>(layout().PageBytes())};
  }

  // A cache says of a page that one of its references is its own. Pages that only a cache refers to can be had by
  // evicting them: n_reclaimable counts them at no cost.
  void SetCached(int32_t page, bool cached);
  bool Cached(int32_t page) const { return marks_[static_cast<size_t>(page)] & kCached; }
  int n_reclaimable() const { return n_reclaimable_; }

  // Copies the contents of a page (all layers) to another: copy-on-write and tests.
  void CopyPage(int32_t from, int32_t to);
  // Overwrites a page's memory with zero bytes.
  void ZeroPage(int32_t page);

 private:
  friend class PageHandle;
  PagePool() = default;
  static constexpr uint8_t kZero = 1, kCached = 2;
  void AddRef(int32_t page);
  void Release(int32_t page);
  void MarkZero(int32_t page) { marks_[static_cast<size_t>(page)] |= kZero; }

  AlignedBuffer memory_;
  PagedKvView view_;
  std::vector<int32_t> free_;        // a stack: the page freed last is used first
  std::vector<int32_t> ref_counts_;
  std::vector<uint8_t> marks_;
  std::vector<uint32_t> serials_;
  int n_reclaimable_ = 0;
  int64_t zeroed_bytes_ = 0;
};

// The pages of one sequence, in order of position.
class PageTable {
 public:
  explicit PageTable(PagePool& pool) : pool_(&pool) {}
  // Makes sure that positions [0, n_tokens) have pages; false (and unchanged) if the pool has too few.
  bool Extend(int n_tokens);
  // Keeps the pages of positions [0, n_tokens), returns the others.
  void Truncate(int n_tokens);
  // Takes these pages as the first ones. Precondition: the table is empty.
  void Adopt(std::vector<PageHandle> handles);
  // All pages, now and later, are overwritten when they are free.
  void MarkZeroOnRelease();
  bool zero_on_release() const { return zero_on_release_; }
  std::span<const int32_t> pages() const { return pages_; }
  std::span<const PageHandle> handles() const { return handles_; }
  int capacity_tokens() const;

 private:
  PagePool* pool_;
  bool zero_on_release_ = false;
  std::vector<PageHandle> handles_;
  std::vector<int32_t> pages_;
};

}  // namespace surety::kv
