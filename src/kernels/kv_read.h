// Single numbers of a paged KV cache, as stored: the layout of tensor/kv_layout.h in plain code, for references and
// self-checks.
// Threads: any. Errors: none; the position must be covered by the page table.
#pragma once

#include <cstdint>
#include <cstring>
#include <span>

#include "tensor/half.h"
#include "tensor/paged_kv_view.h"

namespace surety::kernels {

namespace internal {
inline float StoredNumber(KvType type, const std::byte* base, int64_t index) {
  uint16_t half;
  float value;
  switch (type) {
    case KvType::kF32: std::memcpy(&value, base + 4 * index, 4); return value;
    case KvType::kF16: std::memcpy(&half, base + 2 * index, 2); return F16ToF32(half);
    case KvType::kBF16: std::memcpy(&half, base + 2 * index, 2); return BF16ToF32(half);
    case KvType::kQ8_0: return static_cast<float>(static_cast<int8_t>(base[index]));
  }
  return 0.0f;
}
}  // namespace internal

inline float StoredKey(const PagedKvView& kv, int layer, std::span<const int32_t> page_table, int kv_head,
                       int position, int e) {
  const KvLayout& layout = kv.layout;
  const int slot = position % layout.page_tokens;
  const std::byte* head = kv.Head(layer, page_table[static_cast<size_t>(position / layout.page_tokens)], kv_head);
  if (layout.latent) return internal::StoredNumber(layout.type, head, int64_t{slot} * layout.k_dim + e);
  const int64_t group = slot / kKvLaneTokens, lane = slot % kKvLaneTokens;
  const float value = internal::StoredNumber(layout.type, head, (group * layout.k_dim + e) * kKvLaneTokens + lane);
  if (layout.type != KvType::kQ8_0) return value;
  return value * internal::StoredNumber(KvType::kF16, head + layout.KeyScaleOffset(),
                                        (group * (layout.k_dim / 32) + e / 32) * kKvLaneTokens + lane);
}

inline float StoredValue(const PagedKvView& kv, int layer, std::span<const int32_t> page_table, int kv_head,
                         int position, int c) {
  const KvLayout& layout = kv.layout;
  if (layout.latent) return StoredKey(kv, layer, page_table, kv_head, position, c);
  const int64_t slot = position % layout.page_tokens;
  const std::byte* head = kv.Head(layer, page_table[static_cast<size_t>(position / layout.page_tokens)], kv_head);
  const float value = internal::StoredNumber(layout.type, head + layout.ValueOffset(), slot * layout.v_dim + c);
  if (layout.type != KvType::kQ8_0) return value;
  return value * internal::StoredNumber(KvType::kF16, head + layout.ValueScaleOffset(),
                                        slot * (layout.v_dim / 32) + c / 32);
}

}  // namespace surety::kernels
