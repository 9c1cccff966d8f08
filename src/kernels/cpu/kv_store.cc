#include "kernels/cpu/kv_store.h"

#include <algorithm>
#include <cstring>

#include "base/check.h"
#include "kernels/cpu/attention_job.h"
#include "kernels/cpu/parallel.h"
#include "kernels/cpu/simd_targets.h"
#include "tensor/half.h"

#ifndef SURETY_KERNELS_CPU_KV_STORE_ONCE_
#define SURETY_KERNELS_CPU_KV_STORE_ONCE_
namespace surety::kernels::cpu {

// `rows` rows of one head, consecutive tokens of one page; from `slot` in the page and within one group of 16.
struct HeadRows {
  const float* k;
  int64_t k_stride;
  const float* v;  // null: latent
  int64_t v_stride;
  int rows;
  int slot;
};

}  // namespace surety::kernels::cpu
#endif

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "kernels/cpu/kv_store.cc"
#include "hwy/foreach_target.h"  // IWYU pragma: keep
#include "hwy/highway.h"
#include "kernels/cpu/lanes-inl.h"

HWY_BEFORE_NAMESPACE();
namespace surety::kernels::cpu::HWY_NAMESPACE {

constexpr bool kHasHalfConversion =
    HWY_TARGET == HWY_AVX2 || HWY_TARGET == HWY_AVX3 || HWY_TARGET == HWY_AVX3_DL || HWY_TARGET == HWY_NEON;

HWY_INLINE void RowToF16(const float* HWY_RESTRICT x, int n, uint16_t* HWY_RESTRICT out) {
  int i = 0;
  if constexpr (kHasHalfConversion) {
    const Tag d;
    const hn::Rebind<hwy::float16_t, Tag> dh;
    for (; i + kLanes <= n; i += kLanes) {
      hn::StoreU(hn::DemoteTo(dh, hn::LoadU(d, x + i)), dh, reinterpret_cast<hwy::float16_t*>(out + i));
    }
  }
  for (; i < n; ++i) out[i] = F32ToF16(x[i]);
}

HWY_INLINE void RowToBf16(const float* HWY_RESTRICT x, int n, uint16_t* HWY_RESTRICT out) {
  for (int i = 0; i < n; ++i) out[i] = F32ToBF16(x[i]);
}

// One block of 32; gives the scale's half.
HWY_INLINE uint16_t BlockToQ8(const float* HWY_RESTRICT x, int8_t* HWY_RESTRICT out) {
  const Tag d;
  const hn::RebindToSigned<Tag> di;
  auto largest = hn::Zero(di);  // magnitudes compare as their bits do, and NaN lies above infinity
  for (int i = 0; i < 32; i += kLanes) largest = hn::Max(largest, hn::BitCast(di, hn::Abs(hn::LoadU(d, x + i))));
  const int32_t bits = hn::GetLane(hn::MaxOfLanes(di, largest));
  if (bits >= 0x7F800000) {
    std::memset(out, 0, 32);
    return 0x7E00;
  }
  float magnitude;
  std::memcpy(&magnitude, &bits, sizeof(magnitude));
  const uint16_t half = F32ToF16(magnitude / 127.0f);
  const float scale = F16ToF32(half);
  if (scale == 0.0f || half == 0x7C00) {  // too small or too large for a half
    std::memset(out, 0, 32);
    return half == 0x7C00 ? 0x7E00 : 0;
  }
  const hn::Rebind<int16_t, Tag> d16;
  const hn::Rebind<int8_t, Tag> d8;
  for (int i = 0; i < 32; i += kLanes) {
    const V scaled = hn::Div(hn::LoadU(d, x + i), hn::Set(d, scale));
    const auto q = hn::NearestInt(hn::Min(hn::Max(scaled, hn::Set(d, -127.0f)), hn::Set(d, 127.0f)));
    hn::StoreU(hn::DemoteTo(d8, hn::DemoteTo(d16, q)), d8, out + i);
  }
  return half;
}

// A row of n elements as T, converted by `convert`, to `n` places `step` apart.
template <typename T, typename Convert>
HWY_INLINE void StoreKeys(const HeadRows& in, int n, std::byte* head, const Convert& convert) {
  HWY_ALIGN T row[kMaxKeyDim];
  T* group = reinterpret_cast<T*>(head) + int64_t{in.slot} / 16 * 16 * n + in.slot % 16;
  for (int r = 0; r < in.rows; ++r) {
    convert(in.k + r * in.k_stride, row, r);
    for (int e = 0; e < n; ++e) group[int64_t{e} * 16 + r] = row[e];
  }
}

template <typename T, typename Convert>
HWY_INLINE void StorePlain(const KvLayout& layout, const HeadRows& in, std::byte* head, const Convert& convert) {
  if (layout.latent) {
    for (int r = 0; r < in.rows; ++r) {
      convert(in.k + r * in.k_stride, layout.k_dim,
              reinterpret_cast<T*>(head) + int64_t{in.slot + r} * layout.k_dim);
    }
    return;
  }
  StoreKeys<T>(in, layout.k_dim, head, [&](const float* x, T* row, int) HWY_ATTR { convert(x, layout.k_dim, row); });
  for (int r = 0; r < in.rows; ++r) {
    convert(in.v + r * in.v_stride, layout.v_dim,
            reinterpret_cast<T*>(head + layout.ValueOffset()) + int64_t{in.slot + r} * layout.v_dim);
  }
}

void StoreQ8(const KvLayout& layout, const HeadRows& in, std::byte* head) {
  const int k_blocks = layout.k_dim / 32, v_blocks = layout.v_dim / 32;
  auto* k_scales = reinterpret_cast<uint16_t*>(head + layout.KeyScaleOffset()) + in.slot / 16 * 16 * k_blocks +
                   in.slot % 16;
  StoreKeys<int8_t>(in, layout.k_dim, head, [&](const float* x, int8_t* row, int r) HWY_ATTR {
    for (int b = 0; b < k_blocks; ++b) k_scales[b * 16 + r] = BlockToQ8(x + b * 32, row + b * 32);
  });
  for (int r = 0; r < in.rows; ++r) {
    const int slot = in.slot + r;
    auto* values = reinterpret_cast<int8_t*>(head + layout.ValueOffset()) + int64_t{slot} * layout.v_dim;
    auto* scales = reinterpret_cast<uint16_t*>(head + layout.ValueScaleOffset()) + int64_t{slot} * v_blocks;
    for (int b = 0; b < v_blocks; ++b) scales[b] = BlockToQ8(in.v + r * in.v_stride + b * 32, values + b * 32);
  }
}

void StoreHead(const KvLayout& layout, const HeadRows& in, std::byte* head) {
  switch (layout.type) {
    case KvType::kF32:
      return StorePlain<float>(layout, in, head, [](const float* x, int n, float* out) HWY_ATTR {
        std::memcpy(out, x, static_cast<size_t>(n) * sizeof(float));
      });
    case KvType::kF16: return StorePlain<uint16_t>(layout, in, head, RowToF16);
    case KvType::kBF16: return StorePlain<uint16_t>(layout, in, head, RowToBf16);
    case KvType::kQ8_0: return StoreQ8(layout, in, head);
  }
}

}  // namespace surety::kernels::cpu::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace surety::kernels::cpu {

HWY_EXPORT(StoreHead);

void KvStore(Executor& executor, int layer, ConstMatrixF k, ConstMatrixF v, const BatchView& batch,
             const PagedKvView& kv) {
  const KvLayout& layout = kv.layout;
  SURETY_CHECK(k.rows == batch.n_rows() && k.cols == int64_t{layout.n_kv_heads} * layout.k_dim);
  SURETY_CHECK(layout.latent || (v.rows == k.rows && v.cols == int64_t{layout.n_kv_heads} * layout.v_dim));
  SURETY_CHECK(layout.k_dim <= kMaxKeyDim);
  const auto store = HWY_DYNAMIC_DISPATCH(StoreHead);
  ForRows(executor, k.rows, 2 * (k.cols + v.cols), [&](int64_t row) {
    const auto after = std::upper_bound(batch.sequences.begin(), batch.sequences.end(), row,
                                        [](int64_t r, const SequenceRows& s) { return r < s.first_row; });
    const SequenceRows& sequence = *(after - 1);
    const int index = static_cast<int>(row) - sequence.first_row;
    const int position = sequence.first_position + index;
    if (index > 0 && position % kKvLaneTokens != 0) return;  // the group's first row stores all of its rows
    const int slot = position % layout.page_tokens;
    const int rows = std::min(kKvLaneTokens - position % kKvLaneTokens, sequence.n_rows - index);
    const int32_t page = sequence.page_table[static_cast<size_t>(position / layout.page_tokens)];
    for (int head = 0; head < layout.n_kv_heads; ++head) {
      const float* values = layout.latent ? nullptr : v.Row(row) + int64_t{head} * layout.v_dim;
      store(layout, {k.Row(row) + int64_t{head} * layout.k_dim, k.stride, values, v.stride, rows, slot},
            kv.Head(layer, page, head));
    }
  });
}

}  // namespace surety::kernels::cpu
#endif  // HWY_ONCE
