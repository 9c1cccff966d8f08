// The KV memory as kernels see it: a base address and the layout. Page tables come with the batch (batch_view.h), so
// kernels never meet the module that owns the pages.
// Owns: nothing; valid while the page pool lives.
#pragma once

#include <cstddef>
#include <cstdint>

#include "tensor/kv_layout.h"

namespace surety {

struct PagedKvView {
  KvLayout layout;
  std::byte* base = nullptr;
  int64_t page_stride_bytes = 0;  // layout.PageStrideBytes()
  int n_pages = 0;

  // The same pages as a draft model of this layout sees them.
  PagedKvView Companion(const KvLayout& draft) const {
    return {draft, base + layout.CompanionOffset(), page_stride_bytes, n_pages};
  }

  // Start of one head's keys in one page of one layer.
  std::byte* Head(int layer, int32_t page, int kv_head) const {
    return base + page * page_stride_bytes + layer * layout.LayerPageBytes() + kv_head * layout.HeadPageBytes();
  }
};

}  // namespace surety
