// How keys and values lie in memory. A *page* is the KV of P consecutive tokens in every layer; it is the unit of
// allocation, sharing and transfer.
//
// Shapes: P = page_tokens (a multiple of 16), K = n_kv_heads, E = k_dim, Ev = v_dim.
// Within a page, layer by layer, head by head:
//   keys    [P/16][E][16]      tokens in groups of 16, the token fastest: a dot product with q walks E and keeps one
//                              token a SIMD lane, so its order does not depend on the SIMD width
//   k scale [P/16][E/32][16]   half, Q8_0 only: one for each token and 32 elements
//   values  [P][Ev]            token by token
//   v scale [P][Ev/32]         half, Q8_0 only
// A latent (MLA) cache has one head, keys [P][E] token by token, and no values: the first v_dim columns of a key are
// the value.
// Each of the parts starts on a 64-byte border. Memory: page p starts at p * PageStrideBytes(), so that a page is one
// piece to move, and a cache takes physical memory as it fills.
// Source: paging after Kwon et al., "Efficient Memory Management for Large Language Model Serving with PagedAttention".
#pragma once

#include <cstdint>
#include <string_view>

#include "base/status.h"

namespace surety {

enum class KvType : uint8_t { kF32, kF16, kBF16, kQ8_0 };

std::string_view NameOf(KvType type);
Result<KvType> KvTypeFromName(std::string_view name);  // "f32", "f16", "bf16", "q8_0"

inline constexpr int kKvLaneTokens = 16;  // tokens in an interleaved group of keys
// What fits the scratch of attention, and keeps every size in bytes far inside 63 bits.
inline constexpr int kMaxKeyDim = 640;  // DeepSeek's latent of 512 with 64 for positions is 576
inline constexpr int kMaxValueDim = 512;
inline constexpr int kMaxPageTokens = 4096;
inline constexpr int kMaxKvHeads = 65536;
inline constexpr int kMaxKvLayers = 10000;

struct KvLayout {
  int n_layers = 0;
  int n_kv_heads = 0;
  int k_dim = 0;
  int v_dim = 0;
  int page_tokens = 16;
  KvType type = KvType::kF16;
  bool latent = false;  // MLA: one shared head whose value is a prefix of its key
  // Further bytes of a page, behind its layers: the same tokens' keys and values of a draft model, in its own layout,
  // so that they are found, shared, moved and overwritten together. A multiple of 64.
  int64_t companion_bytes = 0;

  // kInvalidArgument, naming the field: page_tokens not a positive multiple of 16, a size <= 0 or above its kMax, Q8_0
  // with a head size that is not a multiple of 32, a latent layout with more than one head or in Q8_0.
  Status Validate() const;

  int64_t ElementBytes() const { return type == KvType::kF32 ? 4 : type == KvType::kQ8_0 ? 1 : 2; }
  // Bytes of the parts for one head of one page in one layer, and their offsets from that head's start.
  int64_t KeyBytes() const;
  int64_t KeyScaleOffset() const { return KeyBytes(); }
  int64_t KeyScaleBytes() const;
  int64_t ValueOffset() const { return KeyScaleOffset() + KeyScaleBytes(); }
  int64_t ValueBytes() const;
  int64_t ValueScaleOffset() const { return ValueOffset() + ValueBytes(); }
  int64_t ValueScaleBytes() const;
  int64_t HeadPageBytes() const { return ValueScaleOffset() + ValueScaleBytes(); }
  int64_t LayerPageBytes() const { return n_kv_heads * HeadPageBytes(); }
  int64_t CompanionOffset() const { return n_layers * LayerPageBytes(); }
  int64_t PageBytes() const { return CompanionOffset() + companion_bytes; }
  // PageBytes() and at most two LayerPageBytes() of padding, so that one layer of neighbouring pages does not compete
  // for the same sets of a cache.
  int64_t PageStrideBytes() const;

  // By formula, without padding: layers * heads * (k_dim + v_dim) * bytes, plus scales.
  double BytesPerToken() const;
};

}  // namespace surety
