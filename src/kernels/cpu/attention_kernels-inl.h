// The inner loops of attention, on tiles of kTileTokens keys: scores, softmax, weighted values, merging.
//
// Shapes: keys in groups of 16 tokens, [E][16] each; values with 16 columns a strip, a token's 16 values contiguous.
// Invariants: score lane = token, summed over e ascending; value lane = column, summed over tokens ascending; so the
// blocking factors (lines, groups, strips) change no bits.
#if defined(SURETY_KERNELS_CPU_ATTENTION_KERNELS_INL_H_) == defined(HWY_TARGET_TOGGLE)
#ifdef SURETY_KERNELS_CPU_ATTENTION_KERNELS_INL_H_
#undef SURETY_KERNELS_CPU_ATTENTION_KERNELS_INL_H_
#else
#define SURETY_KERNELS_CPU_ATTENTION_KERNELS_INL_H_
#endif

#include <limits>

#include "hwy/cache_control.h"
#include "hwy/highway.h"
#include "kernels/cpu/attention_job.h"
#include "kernels/cpu/lanes-inl.h"
#include "kernels/cpu/math-inl.h"

HWY_BEFORE_NAMESPACE();
namespace surety::kernels::cpu::HWY_NAMESPACE {

namespace hn = hwy::HWY_NAMESPACE;

inline constexpr int kMaxLines = HWY_TARGET == HWY_SSE4 || HWY_TARGET == HWY_EMU128 ? 3 : 6;  // lines in registers
// Accumulators (real vectors) that a kernel may hold.
inline constexpr int kAccumulators = kLanes == 16 || HWY_TARGET == HWY_NEON ? 24 : 12;

// Virtual vectors side by side for kM lines.
template <int kM>
constexpr int Width() {
  const int w = kAccumulators / (kM * kParts);
  return w >= 4 ? 4 : w >= 2 ? 2 : 1;
}

// Where a tile's keys and values lie, in the element type that goes with it.
struct TileView {
  const void* keys[kTileGroups + 4];  // [E][16]; after the tile's last group those to come, for prefetching
  const uint16_t* k_scales[kTileGroups];  // [E/32][16], Q8_0
  const void* values[kTileGroups];     // token t of the group, strip s: values + t * row_step + s * strip_step
  int64_t row_step = 0, strip_step = 0;
  const float* v_scales = nullptr;     // [Ev/32][128], Q8_0
};

// The lines of a block: visible tokens [lo, hi) within the tile; empty lines have lo = kTileTokens, hi = 0.
struct LineRanges {
  const int32_t* lo;
  const int32_t* hi;
};

// The same pointer, but the compiler does not know it: what is loaded through it is loaded again. Keeping a broadcast
// for the next group would cost a register that an accumulator needs.
HWY_INLINE const float* Opaque(const float* p) {
  asm volatile("" : "+r"(p));
  return p;
}

// s[m][group][16] = sum_e q[e][m] * key[e], for kG groups from `group`; q is packed [n][kM].
template <KvType kType, int kM, int kG>
HWY_INLINE void ScoreKernel(const float* HWY_RESTRICT q, int n, const TileView& tile, int group, float* HWY_RESTRICT s,
                            int64_t line_step, int64_t group_step) {
  using E = Element<kType>;
  const Tag d;
  V acc[kM][kG][kParts];
#pragma GCC unroll 8
  for (int m = 0; m < kM; ++m) {
#pragma GCC unroll 8
    for (int g = 0; g < kG; ++g) {
#pragma GCC unroll 8
      for (int p = 0; p < kParts; ++p) acc[m][g][p] = hn::Zero(d);
    }
  }
  const typename E::Type* HWY_RESTRICT keys[kG];
  for (int g = 0; g < kG; ++g) keys[g] = static_cast<const typename E::Type*>(tile.keys[group + g]);
  constexpr bool kScaled = kType == KvType::kQ8_0;
  constexpr bool kPrefetch = kType != KvType::kF32;  // floats mostly come from the scratch
  const typename E::Type* HWY_RESTRICT next_keys[kG];
  const typename E::Type* HWY_RESTRICT values[kG];
  if constexpr (kPrefetch) {
    for (int g = 0; g < kG; ++g) {
      next_keys[g] = static_cast<const typename E::Type*>(tile.keys[group + kG + g]);
      values[g] = static_cast<const typename E::Type*>(tile.values[group + g]);
    }
  }
  const int block = kScaled ? 32 : n;
  for (int e0 = 0; e0 < n; e0 += block) {
    V scale[kScaled ? kG : 1][kParts];
    if constexpr (kScaled) {
      for (int g = 0; g < kG; ++g) {
        for (int p = 0; p < kParts; ++p) {
          scale[g][p] = Element<KvType::kF16>::Load(d, tile.k_scales[group + g] + e0 / 32 * 16 + p * kLanes);
        }
      }
    }
    for (int e = e0; e < e0 + block; ++e) {
#pragma GCC unroll 8
      for (int g = 0; g < kG; ++g) {
        const float* query = Opaque(q + int64_t{e} * kM);
        V key[kParts];
#pragma GCC unroll 8
        for (int p = 0; p < kParts; ++p) {
          key[p] = E::Load(d, keys[g] + int64_t{e} * 16 + p * kLanes);
          if constexpr (kScaled) key[p] = hn::Mul(key[p], scale[g][p]);
        }
        if constexpr (kPrefetch) {  // pages lie anywhere, so the processor cannot foresee the next one
          hwy::Prefetch(next_keys[g] + int64_t{e} * 16);
          hwy::Prefetch(values[g] + int64_t{e} * 16);
        }
#pragma GCC unroll 8
        for (int m = 0; m < kM; ++m) {
          const V x = hn::Set(d, query[m]);
#pragma GCC unroll 8
          for (int p = 0; p < kParts; ++p) acc[m][g][p] = hn::MulAdd(x, key[p], acc[m][g][p]);
        }
      }
    }
  }
#pragma GCC unroll 8
  for (int m = 0; m < kM; ++m) {
#pragma GCC unroll 8
    for (int g = 0; g < kG; ++g) {
#pragma GCC unroll 8
      for (int p = 0; p < kParts; ++p) {
        hn::StoreU(acc[m][g][p], d, s + m * line_step + (group + g) * group_step + p * kLanes);
      }
    }
  }
}

// Scores of kM lines for groups [first, end).
template <KvType kType, int kM>
HWY_NOINLINE void ScoreLines(const float* HWY_RESTRICT q, int n, const TileView& tile, int first, int end,
                             float* HWY_RESTRICT s, int64_t line_step, int64_t group_step) {
  constexpr int kG = Width<kM>();
  int group = first;
  for (; group + kG <= end; group += kG) {
    ScoreKernel<kType, kM, kG>(q, n, tile, group, s, line_step, group_step);
  }
  for (; group < end; ++group) ScoreKernel<kType, kM, 1>(q, n, tile, group, s, line_step, group_step);
}

// A block's lines go through the kernels kMaxLines or fewer at a time, in equal shares: line count of share i of n.
struct LineShares {
  int n_shares, base, extra;
  explicit LineShares(int n_lines)
      : n_shares((n_lines + kMaxLines - 1) / kMaxLines), base(n_lines / n_shares), extra(n_lines % n_shares) {}
  int Size(int share) const { return base + (share < extra ? 1 : 0); }
};

template <KvType kType>
HWY_INLINE void ScoreShare(int m, const float* q, int n, const TileView& tile, int first, int end, float* s,
                           int64_t line_step, int64_t group_step) {
  switch (m) {
    case 1: return ScoreLines<kType, 1>(q, n, tile, first, end, s, line_step, group_step);
    case 2: return ScoreLines<kType, 2>(q, n, tile, first, end, s, line_step, group_step);
    case 3: return ScoreLines<kType, 3>(q, n, tile, first, end, s, line_step, group_step);
    default: break;
  }
  if constexpr (kMaxLines > 3) {
    switch (m) {
      case 4: return ScoreLines<kType, 4>(q, n, tile, first, end, s, line_step, group_step);
      case 5: return ScoreLines<kType, 5>(q, n, tile, first, end, s, line_step, group_step);
      case 6: return ScoreLines<kType, 6>(q, n, tile, first, end, s, line_step, group_step);
      default: break;
    }
  }
}

// Turns the scores of a line's visible tokens [lo, hi) into weights exp(s - max), and gives max and their sum. Groups
// that hold a visible token are rewritten whole: their other tokens get weight 0.
HWY_INLINE void SoftmaxLine(float* HWY_RESTRICT s, int lo, int hi, float cap, float* max_out, float* sum_out) {
  const Tag d;
  const hn::RebindToSigned<Tag> di;
  const V minus_inf = hn::Set(d, -std::numeric_limits<float>::infinity());
  const V capv = hn::Set(d, cap);
  const V inv_cap = hn::Set(d, cap > 0 ? 1.0f / cap : 0.0f);
  const int begin = lo / 16 * 16;
  const int end = (hi + 15) / 16 * 16;
  V max = minus_inf;
  for (int i = begin; i < end; i += kLanes) {
    V v = hn::LoadU(d, s + i);
    if (cap > 0) v = hn::Mul(capv, Tanh(d, hn::Mul(v, inv_cap)));
    if (i < lo || i + kLanes > hi) {
      const auto index = hn::Iota(di, i);
      const auto visible = hn::And(hn::Gt(index, hn::Set(di, lo - 1)), hn::Lt(index, hn::Set(di, hi)));
      v = hn::IfThenElse(hn::RebindMask(d, visible), v, minus_inf);
    }
    hn::StoreU(v, d, s + i);
    max = hn::Max(max, v);
  }
  const float top = hn::GetLane(hn::MaxOfLanes(d, max));
  const V shift = hn::Set(d, top == -std::numeric_limits<float>::infinity() ? 0.0f : top);
  V sum[kParts];
  for (int p = 0; p < kParts; ++p) sum[p] = hn::Zero(d);
  for (int i = begin; i < end; i += 16) {
#pragma GCC unroll 8
    for (int p = 0; p < kParts; ++p) {
      const V w = ExpNonPositive(d, hn::Sub(hn::LoadU(d, s + i + p * kLanes), shift));
      hn::StoreU(w, d, s + i + p * kLanes);
      sum[p] = hn::Add(sum[p], w);
    }
  }
  *max_out = top;
  *sum_out = TreeSum(sum);
}

// Where weighted values go. With `keep` (a, b): out = a * out + b * sum, else out = sum. Empty lines stay as they are.
struct ValueSink {
  float* const* lines;  // one a line
  const float* a;       // null: store
  const float* b;
};

template <int kM, int kC>
HWY_INLINE void StoreValues(const V (&acc)[kM][kC][kParts], const ValueSink& sink, const LineRanges& ranges,
                            int column, int n_columns) {
  const Tag d;
  for (int m = 0; m < kM; ++m) {
    if (ranges.hi[m] <= ranges.lo[m]) continue;
    float* HWY_RESTRICT out = sink.lines[m] + column;
    HWY_ALIGN float tail[16 * kC];
    const bool whole = n_columns >= 16 * kC;
    if (!whole) {
      for (int i = 0; i < 16 * kC; ++i) tail[i] = i < n_columns ? out[i] : 0.0f;
    }
    float* HWY_RESTRICT to = whole ? out : tail;
    const bool merge = sink.a != nullptr;
    const V a = hn::Set(d, merge ? sink.a[m] : 0.0f);
    const V b = hn::Set(d, merge ? sink.b[m] : 0.0f);
#pragma GCC unroll 8
    for (int c = 0; c < kC; ++c) {
#pragma GCC unroll 8
      for (int p = 0; p < kParts; ++p) {
        float* at = to + c * 16 + p * kLanes;
        const V v = acc[m][c][p];
        hn::StoreU(merge ? hn::MulAdd(a, hn::LoadU(d, at), hn::Mul(b, v)) : v, d, at);
      }
    }
    if (!whole) {
      for (int i = 0; i < n_columns; ++i) out[i] = tail[i];
    }
  }
}

// The three parts of a tile's tokens: those in the middle are seen by every line, those before and after by some only.
template <int kM>
HWY_INLINE void FindBorders(const LineRanges& ranges, int borders[4]) {
  int lo_min = kTileTokens, lo_max = 0, hi_min = kTileTokens, hi_max = 0;
  for (int m = 0; m < kM; ++m) {
    lo_min = HWY_MIN(lo_min, ranges.lo[m]);
    lo_max = HWY_MAX(lo_max, ranges.lo[m]);
    hi_min = HWY_MIN(hi_min, ranges.hi[m]);
    hi_max = HWY_MAX(hi_max, ranges.hi[m]);
  }
  const int common_begin = HWY_MIN(lo_max, hi_max);
  const int common_end = HWY_MAX(common_begin, hi_min);
  borders[0] = HWY_MIN(lo_min, common_begin);
  borders[1] = common_begin;
  borders[2] = common_end;
  borders[3] = HWY_MAX(hi_max, common_end);
}

// Weighted sum of the values of kC strips from `strip` for kM lines; w is [kM][128].
template <KvType kType, int kM, int kC>
HWY_INLINE void ValueKernel(const float* HWY_RESTRICT w, const TileView& tile, const LineRanges& ranges, int strip,
                            int v_dim, const ValueSink& sink) {
  using E = Element<kType>;
  constexpr bool kScaled = kType == KvType::kQ8_0;
  const Tag d;
  V acc[kM][kC][kParts];
#pragma GCC unroll 8
  for (int m = 0; m < kM; ++m) {
#pragma GCC unroll 8
    for (int c = 0; c < kC; ++c) {
#pragma GCC unroll 8
      for (int p = 0; p < kParts; ++p) acc[m][c][p] = hn::Zero(d);
    }
  }
  const auto row = [&](int j) HWY_ATTR {
    return static_cast<const typename E::Type*>(tile.values[j / 16]) + (j % 16) * tile.row_step +
           strip * tile.strip_step;
  };
  const auto load = [&](const typename E::Type* at, int j, int c, int p) HWY_ATTR {
    V v = E::Load(d, at + c * tile.strip_step + p * kLanes);
    if constexpr (kScaled) v = hn::Mul(v, hn::Set(d, tile.v_scales[(strip + c) / 2 * kTileTokens + j]));
    return v;
  };
  int borders[4];
  FindBorders<kM>(ranges, borders);
  for (int segment = 0; segment < 3; ++segment) {
    const int end = borders[segment + 1];
    for (int j = borders[segment]; j < end && segment != 1; ++j) {
      const typename E::Type* at = row(j);
#pragma GCC unroll 8
      for (int m = 0; m < kM; ++m) {
        if (j < ranges.lo[m] || j >= ranges.hi[m]) continue;
        const V weight = hn::Set(d, w[m * kTileTokens + j]);
#pragma GCC unroll 8
        for (int c = 0; c < kC; ++c) {
#pragma GCC unroll 8
          for (int p = 0; p < kParts; ++p) acc[m][c][p] = hn::MulAdd(weight, load(at, j, c, p), acc[m][c][p]);
        }
      }
    }
    for (int j0 = borders[segment]; j0 < end && segment == 1;) {
      const int j1 = HWY_MIN(end, j0 / 16 * 16 + 16);
      const typename E::Type* HWY_RESTRICT at = row(j0);
      for (int j = j0; j < j1; ++j, at += tile.row_step) {
#pragma GCC unroll 8
        for (int c = 0; c < kC; ++c) {
          const float* weight = Opaque(w + j);
          V value[kParts];
#pragma GCC unroll 8
          for (int p = 0; p < kParts; ++p) value[p] = load(at, j, c, p);
#pragma GCC unroll 8
          for (int m = 0; m < kM; ++m) {
            const V x = hn::Set(d, weight[m * kTileTokens]);
#pragma GCC unroll 8
            for (int p = 0; p < kParts; ++p) acc[m][c][p] = hn::MulAdd(x, value[p], acc[m][c][p]);
          }
        }
      }
      j0 = j1;
    }
  }
  StoreValues<kM, kC>(acc, sink, ranges, strip * 16, v_dim - strip * 16);
}

template <KvType kType, int kM>
HWY_NOINLINE void ValueLines(const float* HWY_RESTRICT w, const TileView& tile, const LineRanges& ranges, int v_dim,
                             int first_strip, int end_strip, const ValueSink& sink) {
  constexpr int kC = Width<kM>();
  int strip = first_strip;
  for (; strip + kC <= end_strip; strip += kC) {
    ValueKernel<kType, kM, kC>(w, tile, ranges, strip, v_dim, sink);
  }
  for (; strip < end_strip; ++strip) ValueKernel<kType, kM, 1>(w, tile, ranges, strip, v_dim, sink);
}

template <KvType kType>
HWY_INLINE void ValueShare(int m, const float* w, const TileView& tile, const LineRanges& ranges, int v_dim, int first,
                           int end, const ValueSink& sink) {
  switch (m) {
    case 1: return ValueLines<kType, 1>(w, tile, ranges, v_dim, first, end, sink);
    case 2: return ValueLines<kType, 2>(w, tile, ranges, v_dim, first, end, sink);
    case 3: return ValueLines<kType, 3>(w, tile, ranges, v_dim, first, end, sink);
    default: break;
  }
  if constexpr (kMaxLines > 3) {
    switch (m) {
      case 4: return ValueLines<kType, 4>(w, tile, ranges, v_dim, first, end, sink);
      case 5: return ValueLines<kType, 5>(w, tile, ranges, v_dim, first, end, sink);
      case 6: return ValueLines<kType, 6>(w, tile, ranges, v_dim, first, end, sink);
      default: break;
    }
  }
}

// Takes a tile's (max, sum) of n lines into the running ones, and gives the factors for the values: running values
// count a, the tile's b. Arrays are padded to 16. A tile without visible keys (max -inf, sum 0) changes nothing.
HWY_INLINE void MergeStats(int n, const float* HWY_RESTRICT tile_max, const float* HWY_RESTRICT tile_sum,
                           float* HWY_RESTRICT max, float* HWY_RESTRICT sum, float* HWY_RESTRICT a,
                           float* HWY_RESTRICT b) {
  const Tag d;
  const V minus_inf = hn::Set(d, -std::numeric_limits<float>::infinity());
  for (int i = 0; i < n; i += kLanes) {
    const V old_max = hn::LoadU(d, max + i);
    const V new_max = hn::LoadU(d, tile_max + i);
    const V top = hn::Max(old_max, new_max);
    const V shift = hn::IfThenZeroElse(hn::Eq(top, minus_inf), top);
    const V av = ExpNonPositive(d, hn::Sub(old_max, shift));
    const V bv = ExpNonPositive(d, hn::Sub(new_max, shift));
    hn::StoreU(top, d, max + i);
    hn::StoreU(hn::MulAdd(av, hn::LoadU(d, sum + i), hn::Mul(bv, hn::LoadU(d, tile_sum + i))), d, sum + i);
    hn::StoreU(av, d, a + i);
    hn::StoreU(bv, d, b + i);
  }
}

// factor[i] = what the values are multiplied by at the end: 1 / sum, with the sink (if any) in the sum; 0 for a line
// that saw nothing.
HWY_INLINE void FinishStats(int n, const float* HWY_RESTRICT max, const float* HWY_RESTRICT sum,
                            const float* HWY_RESTRICT sinks, float* HWY_RESTRICT factor) {
  const Tag d;
  for (int i = 0; i < n; i += kLanes) {
    V total = hn::LoadU(d, sum + i);
    V scale = hn::Set(d, 1.0f);
    if (sinks != nullptr) {
      const V old_max = hn::LoadU(d, max + i);
      const V sink = hn::LoadU(d, sinks + i);
      const V top = hn::Max(old_max, sink);
      const V shift = hn::IfThenZeroElse(hn::Eq(top, hn::Set(d, -std::numeric_limits<float>::infinity())), top);
      scale = ExpNonPositive(d, hn::Sub(old_max, shift));
      total = hn::MulAdd(scale, total, ExpNonPositive(d, hn::Sub(sink, shift)));
    }
    const V result = hn::Div(scale, total);
    hn::StoreU(hn::IfThenElseZero(hn::Gt(total, hn::Zero(d)), result), d, factor + i);
  }
}

}  // namespace surety::kernels::cpu::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#endif  // include guard
