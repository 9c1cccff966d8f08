#include "kv/page_pool.h"

#include <algorithm>
#include <cstring>
#include <string>
#include <utility>

#include "base/check.h"

namespace surety::kv {

PageHandle::PageHandle(PageHandle&& other) noexcept
    : pool_(std::exchange(other.pool_, nullptr)), page_(std::exchange(other.page_, -1)) {}

PageHandle& PageHandle::operator=(PageHandle&& other) noexcept {
  if (this != &other) {
    Reset();
    pool_ = std::exchange(other.pool_, nullptr);
    page_ = std::exchange(other.page_, -1);
  }
  return *this;
}

PageHandle PageHandle::Share() const {
  SURETY_CHECK(pool_ != nullptr);
  pool_->AddRef(page_);
  return PageHandle(pool_, page_);
}

void PageHandle::MarkZeroOnRelease() const {
  SURETY_CHECK(pool_ != nullptr);
  pool_->MarkZero(page_);
}

void PageHandle::Reset() {
  if (pool_ == nullptr) return;
  std::exchange(pool_, nullptr)->Release(page_);
  page_ = -1;
}

Result<std::unique_ptr<PagePool>> PagePool::Make(const KvLayout& layout, int n_pages) {
  SURETY_RETURN_IF_ERROR(layout.Validate());
  if (n_pages <= 0) {
    return Error(InvalidArgumentError("page pool: n_pages is " + std::to_string(n_pages) + ", but must be positive"));
  }
  auto pool = std::unique_ptr<PagePool>(new PagePool());
  pool->view_.layout = layout;
  pool->view_.page_stride_bytes = layout.PageStrideBytes();
  auto memory = AlignedBuffer::TryAllocate(static_cast<size_t>(n_pages * pool->view_.page_stride_bytes));
  if (!memory) return Error(memory.error().WithContext("KV cache of " + std::to_string(n_pages) + " pages"));
  pool->memory_ = *std::move(memory);
  pool->view_.n_pages = n_pages;
  pool->view_.base = pool->memory_.data();
  pool->ref_counts_.assign(static_cast<size_t>(n_pages), 0);
  pool->marks_.assign(static_cast<size_t>(n_pages), 0);
  pool->serials_.assign(static_cast<size_t>(n_pages), 0);
  pool->free_.resize(static_cast<size_t>(n_pages));
  for (int32_t i = 0; i < n_pages; ++i) pool->free_[static_cast<size_t>(i)] = n_pages - 1 - i;  // page 0 on top
  return pool;
}

PagePool::~PagePool() { SURETY_CHECK_MSG(n_used() == 0, "page pool destroyed while pages are held"); }

PageHandle PagePool::Allocate() {
  if (free_.empty()) return {};
  const int32_t page = free_.back();
  free_.pop_back();
  ref_counts_[static_cast<size_t>(page)] = 1;
  ++serials_[static_cast<size_t>(page)];
  return PageHandle(this, page);
}

void PagePool::AddRef(int32_t page) {
  if (ref_counts_[static_cast<size_t>(page)]++ == 1 && Cached(page)) --n_reclaimable_;
}

void PagePool::Release(int32_t page) {
  int32_t& count = ref_counts_[static_cast<size_t>(page)];
  SURETY_CHECK(count > 0);
  if (--count == 1 && Cached(page)) ++n_reclaimable_;
  if (count > 0) return;
  uint8_t& marks = marks_[static_cast<size_t>(page)];
  SURETY_CHECK_MSG((marks & kCached) == 0, "a cached page lost its last reference");
  if (marks & kZero) {
    ZeroPage(page);
    zeroed_bytes_ += layout().PageBytes();
    marks = 0;
  }
  free_.push_back(page);
}

void PagePool::SetCached(int32_t page, bool cached) {
  SURETY_CHECK(Cached(page) != cached && RefCount(page) > 0);
  marks_[static_cast<size_t>(page)] ^= kCached;
  if (RefCount(page) == 1) n_reclaimable_ += cached ? 1 : -1;
}

void PagePool::CopyPage(int32_t from, int32_t to) {
  std::memcpy(view_.Head(0, to, 0), view_.Head(0, from, 0), static_cast<size_t>(layout().PageBytes()));
}

void PagePool::ZeroPage(int32_t page) {
  std::memset(view_.Head(0, page, 0), 0, static_cast<size_t>(layout().PageBytes()));
}

bool PageTable::Extend(int n_tokens) {
  const int page_tokens = pool_->layout().page_tokens;
  const auto wanted = static_cast<size_t>((n_tokens + page_tokens - 1) / page_tokens);
  if (wanted <= handles_.size()) return true;
  if (static_cast<int>(wanted - handles_.size()) > pool_->n_free()) return false;
  while (handles_.size() < wanted) {
    handles_.push_back(pool_->Allocate());
    pages_.push_back(handles_.back().page());
    if (zero_on_release_) handles_.back().MarkZeroOnRelease();
  }
  return true;
}

void PageTable::Truncate(int n_tokens) {
  const int page_tokens = pool_->layout().page_tokens;
  const auto kept = static_cast<size_t>((n_tokens + page_tokens - 1) / page_tokens);
  if (kept >= handles_.size()) return;
  handles_.resize(kept);
  pages_.resize(kept);
}

void PageTable::Adopt(std::vector<PageHandle> handles) {
  SURETY_CHECK(handles_.empty());
  handles_ = std::move(handles);
  for (const PageHandle& handle : handles_) {
    pages_.push_back(handle.page());
    if (zero_on_release_) handle.MarkZeroOnRelease();
  }
}

void PageTable::MarkZeroOnRelease() {
  zero_on_release_ = true;
  for (const PageHandle& handle : handles_) handle.MarkZeroOnRelease();
}

int PageTable::capacity_tokens() const { return static_cast<int>(pages_.size()) * pool_->layout().page_tokens; }

}  // namespace surety::kv
