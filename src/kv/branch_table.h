// The pages of one branch of a draft tree: those of the path that it leaves, as far as they are whole, and from there
// on pages of its own, which go back when the branch does.
//
// Threads: the engine thread. Owns: its own pages. The others are held by the sequence and by the branch it left, which
// outlive it.
#pragma once

#include <optional>
#include <span>
#include <vector>

#include "kv/page_pool.h"

namespace surety::kv {

class BranchTable {
 public:
  // A branch whose first row stands at `first_position` and whose last one at n_tokens - 1, beside a path with these
  // pages. None where the pool has too few pages. `zero_on_release`: as the sequence's own.
  static std::optional<BranchTable> Make(PagePool& pool, std::span<const int32_t> beside, int first_position,
                                         int n_tokens, bool zero_on_release);
  static int PagesFor(const KvLayout& layout, int first_position, int n_tokens) {
    return (n_tokens + layout.page_tokens - 1) / layout.page_tokens - first_position / layout.page_tokens;
  }
  std::span<const int32_t> pages() const { return pages_; }
  // From here to its first row the path's keys and values have to be copied; they are none where both are equal.
  int first_copied() const { return first_copied_; }

 private:
  std::vector<PageHandle> own_;
  std::vector<int32_t> pages_;
  int first_copied_ = 0;
};

}  // namespace surety::kv
