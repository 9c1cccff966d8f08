// Where a tile's keys and values come from: straight from the pages, converted to floats in the worker's scratch,
// transposed from a latent cache, or computed from the latents.
//
// Invariants: all ways give the same numbers for the same stored data (a half, bfloat16 or scaled integer is exact in
// float32), so the choice changes no bits. Only groups that hold a visible token are touched.
#if defined(SURETY_KERNELS_CPU_ATTENTION_TILES_INL_H_) == defined(HWY_TARGET_TOGGLE)
#ifdef SURETY_KERNELS_CPU_ATTENTION_TILES_INL_H_
#undef SURETY_KERNELS_CPU_ATTENTION_TILES_INL_H_
#else
#define SURETY_KERNELS_CPU_ATTENTION_TILES_INL_H_
#endif

#include <cstring>

#include "hwy/highway.h"
#include "kernels/cpu/attention_job.h"
#include "kernels/cpu/attention_kernels-inl.h"
#include "kernels/cpu/lanes-inl.h"

HWY_BEFORE_NAMESPACE();
namespace surety::kernels::cpu::HWY_NAMESPACE {

namespace hn = hwy::HWY_NAMESPACE;

// The stored parts of one group of 16 tokens.
struct StoredGroup {
  const std::byte* keys;  // interleaved: of this group; latent: of this group's first token
  const std::byte* k_scales;
  const std::byte* values;
  const std::byte* v_scales;
};

HWY_INLINE StoredGroup FindGroup(const PagedKvView& kv, int layer, const SequenceRows& sequence, int kv_head,
                                 int position) {
  const KvLayout& layout = kv.layout;
  const int slot = position % layout.page_tokens;
  const std::byte* head =
      kv.Head(layer, sequence.page_table[static_cast<size_t>(position / layout.page_tokens)], kv_head);
  const int64_t bytes = layout.ElementBytes();
  StoredGroup group;
  group.keys = head + slot * layout.k_dim * bytes;
  group.k_scales = head + layout.KeyScaleOffset() + slot * (layout.k_dim / 32) * 2;
  group.values = head + layout.ValueOffset() + slot * layout.v_dim * bytes;
  group.v_scales = head + layout.ValueScaleOffset() + slot * (layout.v_dim / 32) * 2;
  return group;
}

// The scales of the values of groups [first, end) as floats, [Ev/32][128].
HWY_INLINE void LoadValueScales(const StoredGroup* groups, int first, int end, int v_dim, float* HWY_RESTRICT scales) {
  const Tag d;
  const int n = v_dim / 32;
  HWY_ALIGN float row[16 * (kMaxValueDim / 32)];
  for (int g = first; g < end; ++g) {
    const auto* stored = reinterpret_cast<const uint16_t*>(groups[g].v_scales);
    for (int i = 0; i < 16 * n; i += kLanes) hn::Store(Element<KvType::kF16>::Load(d, stored + i), d, row + i);
    for (int t = 0; t < 16; ++t) {
      for (int i = 0; i < n; ++i) scales[i * kTileTokens + g * 16 + t] = row[t * n + i];
    }
  }
}

// Pages as they are. groups[end .. end + 4) are the next ones.
HWY_INLINE TileView StoredTile(const StoredGroup* groups, int first, int end, KvType type, int v_dim,
                               const AttentionScratch& scratch) {
  TileView tile;
  for (int g = end; g < end + 4; ++g) tile.keys[g] = groups[g].keys;
  for (int g = first; g < end; ++g) {
    tile.keys[g] = groups[g].keys;
    tile.k_scales[g] = reinterpret_cast<const uint16_t*>(groups[g].k_scales);
    tile.values[g] = groups[g].values;
  }
  tile.row_step = v_dim;
  tile.strip_step = 16;
  if (type == KvType::kQ8_0) {
    LoadValueScales(groups, first, end, v_dim, scratch.v_scales);
    tile.v_scales = scratch.v_scales;
  }
  return tile;
}

HWY_INLINE TileView ScratchTile(float* keys, float* values, int k_dim) {
  TileView tile;
  for (int g = 0; g < kTileGroups; ++g) {
    tile.keys[g] = keys + int64_t{g} * k_dim * 16;
    tile.values[g] = values + g * 16 * 16;
  }
  tile.row_step = 16;
  tile.strip_step = kTileTokens * 16;
  return tile;
}

// Token-by-token rows of a group, as strips of 16 columns: out[strip][16 tokens][16], strips kTileTokens * 16 apart.
// Columns past v_dim become 0.
template <KvType kType>
HWY_INLINE void ConvertValues(const typename Element<kType>::Type* HWY_RESTRICT rows, int64_t row_step, int v_dim,
                              const float* HWY_RESTRICT scales, float* HWY_RESTRICT out) {
  using E = Element<kType>;
  const Tag d;
  const OneTag d1;
  const int whole = v_dim / 16;
  for (int t = 0; t < 16; ++t) {
    const typename E::Type* row = rows + t * row_step;
    for (int s = 0; s < whole; ++s) {
      for (int p = 0; p < kParts; ++p) {
        V v = E::Load(d, row + s * 16 + p * kLanes);
        if constexpr (kType == KvType::kQ8_0) v = hn::Mul(v, hn::Set(d, scales[s / 2 * kTileTokens + t]));
        hn::StoreU(v, d, out + (int64_t{s} * kTileTokens + t) * 16 + p * kLanes);
      }
    }
    if (v_dim % 16 != 0) {  // never Q8_0
      float* tail = out + (int64_t{whole} * kTileTokens + t) * 16;
      for (int c = 0; c < 16; ++c) {
        tail[c] = whole * 16 + c < v_dim ? hn::GetLane(E::Load(d1, row + whole * 16 + c)) : 0.0f;
      }
    }
  }
}

// Pages as floats in the scratch.
template <KvType kType>
HWY_NOINLINE TileView ConvertTile(const StoredGroup* groups, int first, int end, int k_dim, int v_dim,
                                  const AttentionScratch& scratch) {
  using E = Element<kType>;
  const Tag d;
  if constexpr (kType == KvType::kQ8_0) LoadValueScales(groups, first, end, v_dim, scratch.v_scales);
  for (int g = first; g < end; ++g) {
    const auto* keys = reinterpret_cast<const typename E::Type*>(groups[g].keys);
    float* HWY_RESTRICT out = scratch.keys + int64_t{g} * k_dim * 16;
    for (int e = 0; e < k_dim; ++e) {
      for (int p = 0; p < kParts; ++p) {
        V key = E::Load(d, keys + e * 16 + p * kLanes);
        if constexpr (kType == KvType::kQ8_0) {
          const auto* scales = reinterpret_cast<const uint16_t*>(groups[g].k_scales) + e / 32 * 16 + p * kLanes;
          key = hn::Mul(key, Element<KvType::kF16>::Load(d, scales));
        }
        hn::StoreU(key, d, out + e * 16 + p * kLanes);
      }
    }
    ConvertValues<kType>(reinterpret_cast<const typename E::Type*>(groups[g].values), v_dim, v_dim,
                         scratch.v_scales + g * 16, scratch.values + g * 16 * 16);
  }
  return ScratchTile(scratch.keys, scratch.values, k_dim);
}

// Latent rows of a group as [n][16 tokens] floats.
template <KvType kType>
HWY_INLINE void TransposeGroup(const typename Element<kType>::Type* HWY_RESTRICT rows, int n, float* HWY_RESTRICT out) {
  using E = Element<kType>;
  const Tag d;
  const OneTag d1;
  HWY_ALIGN float block[16][16];
  for (int e0 = 0; e0 < n; e0 += 16) {
    const int width = HWY_MIN(16, n - e0);
    for (int t = 0; t < 16; ++t) {
      const typename E::Type* row = rows + int64_t{t} * n + e0;
      if (width == 16) {
        for (int p = 0; p < kParts; ++p) hn::Store(E::Load(d, row + p * kLanes), d, block[t] + p * kLanes);
      } else {
        for (int i = 0; i < width; ++i) block[t][i] = hn::GetLane(E::Load(d1, row + i));
      }
    }
    for (int i = 0; i < width; ++i) {
      float* to = out + int64_t{e0 + i} * 16;
      for (int t = 0; t < 16; ++t) to[t] = block[t][i];
    }
  }
}

// A latent cache: keys transposed, values = the first v_dim columns of the keys.
template <KvType kType>
HWY_NOINLINE TileView LatentTile(const StoredGroup* groups, int first, int end, int k_dim, int v_dim,
                                 const AttentionScratch& scratch) {
  for (int g = first; g < end; ++g) {
    const auto* rows = reinterpret_cast<const typename Element<kType>::Type*>(groups[g].keys);
    TransposeGroup<kType>(rows, k_dim, scratch.keys + int64_t{g} * k_dim * 16);
    if (v_dim > 0) ConvertValues<kType>(rows, k_dim, v_dim, nullptr, scratch.values + g * 16 * 16);
  }
  return ScratchTile(scratch.keys, scratch.values, k_dim);
}

// Keys and values of one head from the latents: rows of kv_b (nope rows of W_UK, then v rows of W_UV) times the
// transposed latents, summed over the latent dimension ascending; the keys' rotated part comes from the cache.
template <KvType kType>
HWY_NOINLINE TileView MadeTile(const AttentionJob& job, int head, const StoredGroup* groups, int first, int end,
                               const AttentionScratch& scratch) {
  const int latent = job.latent_dim;
  const TileView latents = LatentTile<kType>(groups, first, end, latent + job.rope_dim, 0, scratch);
  const float* weights = job.kv_b + int64_t{head} * (job.nope_dim + job.v_dim) * latent;
  float* packed = scratch.scores;  // free at this point: [latent][kMaxLines]
  HWY_ALIGN float made[kMaxLines * kTileTokens];
  for (int row = 0; row < job.nope_dim + job.v_dim;) {
    const bool is_key = row < job.nope_dim;
    const int left = (is_key ? job.nope_dim : job.nope_dim + job.v_dim) - row;
    const int n = HWY_MIN(left, kMaxLines);
    for (int m = 0; m < n; ++m) {
      const float* from = weights + int64_t{row + m} * latent;
      for (int r = 0; r < latent; ++r) packed[r * n + m] = from[r];
    }
    if (is_key) {
      ScoreShare<KvType::kF32>(n, packed, latent, latents, first, end, scratch.made_keys + row * 16, 16,
                               int64_t{job.k_dim} * 16);
    } else {
      ScoreShare<KvType::kF32>(n, packed, latent, latents, first, end, made, kTileTokens, 16);
      for (int m = 0; m < n; ++m) {
        const int column = row + m - job.nope_dim;
        float* to = scratch.made_values + int64_t{column / 16} * kTileTokens * 16 + column % 16;
        for (int t = first * 16; t < end * 16; ++t) to[t * 16] = made[m * kTileTokens + t];
      }
    }
    row += n;
  }
  for (int g = first; g < end; ++g) {
    std::memcpy(scratch.made_keys + (int64_t{g} * job.k_dim + job.nope_dim) * 16,
                static_cast<const float*>(latents.keys[g]) + int64_t{latent} * 16,
                static_cast<size_t>(job.rope_dim) * 16 * sizeof(float));
  }
  return ScratchTile(scratch.made_keys, scratch.made_values, job.k_dim);
}

}  // namespace surety::kernels::cpu::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#endif  // include guard
