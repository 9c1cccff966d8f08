// The KV memory: a fixed number of pages, counted references, handles that give them back.
//
// Threads: one (the engine thread). Owns: the memory, made at once in Make.
// Errors: Make: kInvalidArgument (layout), kResourceExhausted (memory, with the size asked for). Allocate: an empty
// handle when no page is free; that is an expected state, to which the scheduler answers.
// Invariants: (1) free + used = n_pages. (2) a page is free iff nobody holds a handle to it. (3) contents of a page are
// written only by its single holder.
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
  int RefCount(int32_t page) const { return ref_counts_[static_cast<size_t>(page)]; }

  // Copies the contents of a page (all layers) to another: copy-on-write and tests.
  void CopyPage(int32_t from, int32_t to);
  // Overwrites a page's memory with zero bytes.
  void ZeroPage(int32_t page);

 private:
  friend class PageHandle;
  PagePool() = default;
  void AddRef(int32_t page);
  void Release(int32_t page);

  AlignedBuffer memory_;
  PagedKvView view_;
  std::vector<int32_t> free_;        // a stack: the page freed last is used first
  std::vector<int32_t> ref_counts_;
};

// The pages of one sequence, in order of position.
class PageTable {
 public:
  explicit PageTable(PagePool& pool) : pool_(&pool) {}
  // Makes sure that positions [0, n_tokens) have pages; false (and unchanged) if the pool has too few.
  bool Extend(int n_tokens);
  // Keeps the pages of positions [0, n_tokens), returns the others.
  void Truncate(int n_tokens);
  std::span<const int32_t> pages() const { return pages_; }
  int capacity_tokens() const;

 private:
  PagePool* pool_;
  std::vector<PageHandle> handles_;
  std::vector<int32_t> pages_;
};

}  // namespace surety::kv
