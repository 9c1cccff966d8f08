// The quantised product's loops, over any source of weights: the packed bytes themselves or an unpacked panel.
//
// A source offers, for the block it stands on and vector v of the 16 outputs: W<q>(v), the codes of quad q; Scale(v);
// and as its Kind says Min(v), Sub(half, v), Extra(v) (see PanelBlock).
// Included once a target (foreach_target.h).
#if defined(SURETY_KERNELS_CPU_MATMUL_QUANT_INL_H_) == defined(HWY_TARGET_TOGGLE)
#ifdef SURETY_KERNELS_CPU_MATMUL_QUANT_INL_H_
#undef SURETY_KERNELS_CPU_MATMUL_QUANT_INL_H_
#else
#define SURETY_KERNELS_CPU_MATMUL_QUANT_INL_H_
#endif

#include "hwy/cache_control.h"
#include "kernels/cpu/matmul_kernels.h"
#include "kernels/cpu/matmul_vec-inl.h"

HWY_BEFORE_NAMESPACE();
namespace surety::kernels::cpu {
namespace HWY_NAMESPACE {

// What the loop must know of a type.
struct Kind {
  bool is_signed;     // codes are signed bytes
  int quads_per_sum;  // pair products of so many quads (2 * code * 127 each) fit 16 bits
  int offset;         // the code's value is code - offset
  bool min = false;   // there is Min, times x.d_sum
  bool sub = false;   // there are Sub scales for halves of a block
  bool int_min = false;  // Extra holds minima (times Min), not the offset
};
inline constexpr Kind kU4Offset = {false, 8, 8};
inline constexpr Kind kU4Min = {false, 8, 0, true};
inline constexpr Kind kU5Offset = {false, 4, 16};
inline constexpr Kind kU5Min = {false, 4, 0, true};
inline constexpr Kind kS8 = {true, 1, 0};
inline constexpr Kind kU6Sub = {false, 2, 32, false, true};
inline constexpr Kind kU3Sub = {false, 4, 4, false, true};
inline constexpr Kind kU2Sub = {false, 4, 0, false, true, true};

// How far ahead of the block at hand weights are fetched: memory answers later than the processor looks ahead. Few rows
// wait for memory alone, and more can be under way to the second-level cache than to the first.
inline constexpr int kFewRowsAhead = 8192, kUnpackAhead = 4096;

// The rows that one pass over weights serves, at most.
inline constexpr int kTile = kLanes == 16 ? 8 : 4;

struct PanelSource {
  const PanelBlock* p;

  template <int Q>
  HWY_INLINE V8 W(int v) const {
    return hn::Load(D8(), p->codes[Q] + v * 4 * kLanes);
  }
  HWY_INLINE VF Scale(int v) const { return hn::Load(DF(), p->scale + v * kLanes); }
  HWY_INLINE VF Min(int v) const { return hn::Load(DF(), p->min + v * kLanes); }
  HWY_INLINE V16 Sub(int half, int v) const { return hn::BitCast(D16(), hn::Load(D32(), p->sub[half] + v * kLanes)); }
  HWY_INLINE V16 Extra(int v) const { return hn::BitCast(D16(), hn::Load(D32(), p->extra + v * kLanes)); }
};

// sum (+)= the pair products of quads [Q, kEnd).
template <Kind K, int Q, int kEnd, bool kFirst, int T, class S>
HWY_INLINE void SumQuads(const S& s, const XBlock* x, int64_t stride, V16 (&sum)[T][kVecs]) {
  V8 w[kVecs];
  for (int v = 0; v < kVecs; ++v) w[v] = s.template W<Q>(v);
  HWY_UNROLL(8)
  for (int t = 0; t < T; ++t) {
    const V8 xq = Broadcast4(x[t * stride].q + 4 * Q);
    HWY_UNROLL(4)
    for (int v = 0; v < kVecs; ++v) {
      const V16 pairs = K.is_signed ? PairsSigned(w[v], xq) : Pairs(w[v], xq);
      sum[t][v] = kFirst ? pairs : hn::Add(sum[t][v], pairs);
      KeepOrder(sum[t][v]);
    }
  }
  if constexpr (Q + 1 < kEnd) SumQuads<K, Q + 1, kEnd, false, T>(s, x, stride, sum);
}

// dot += the products of quads [Q, 8), with 16-bit sums as long as they fit.
template <Kind K, int Q, int T, class S>
HWY_INLINE void DotByPairs(const S& s, const XBlock* x, int64_t stride, V32 (&dot)[T][kVecs]) {
  V16 sum[T][kVecs];
  SumQuads<K, Q, Q + K.quads_per_sum, true, T>(s, x, stride, sum);
  V16 factor[kVecs];
  for (int v = 0; v < kVecs; ++v) {
    if constexpr (K.sub) {
      factor[v] = s.Sub(Q / 4, v);
    } else {
      factor[v] = hn::Set(D16(), 1);
    }
  }
  HWY_UNROLL(8)
  for (int t = 0; t < T; ++t) {
    HWY_UNROLL(4)
    for (int v = 0; v < kVecs; ++v) {
      dot[t][v] = hn::Add(dot[t][v], Madd(sum[t][v], factor[v]));
      KeepOrder(dot[t][v]);
    }
  }
  if constexpr (Q + K.quads_per_sum < kQuads) DotByPairs<K, Q + K.quads_per_sum, T>(s, x, stride, dot);
}

// dot += the products of quads [Q, kEnd), four at a time.
template <int Q, int kEnd, int T, class S>
HWY_INLINE void DotByQuads(const S& s, const XBlock* x, int64_t stride, V32 (&dot)[T][kVecs]) {
  V8 w[kVecs];
  for (int v = 0; v < kVecs; ++v) w[v] = s.template W<Q>(v);
  HWY_UNROLL(8)
  for (int t = 0; t < T; ++t) {
    const V8 xq = Broadcast4(x[t * stride].q + 4 * Q);
    HWY_UNROLL(4)
    for (int v = 0; v < kVecs; ++v) dot[t][v] = Dot(dot[t][v], w[v], xq);
  }
  if constexpr (Q + 1 < kEnd) DotByQuads<Q + 1, kEnd, T>(s, x, stride, dot);
}

template <int kHalf, int T, class S>
HWY_INLINE void DotHalf(const S& s, const XBlock* x, int64_t stride, V32 (&dot)[T][kVecs]) {
  V32 part[T][kVecs];
  for (int t = 0; t < T; ++t) {
    for (int v = 0; v < kVecs; ++v) part[t][v] = hn::Zero(D32());
  }
  DotByQuads<4 * kHalf, 4 * kHalf + 4, T>(s, x, stride, part);
  HWY_UNROLL(4)
  for (int v = 0; v < kVecs; ++v) {
    const V32 factor = hn::ShiftRight<16>(hn::BitCast(D32(), s.Sub(kHalf, v)));
    HWY_UNROLL(8)
    for (int t = 0; t < T; ++t) dot[t][v] = hn::Add(dot[t][v], hn::Mul(part[t][v], factor));
  }
}

// Adds one block's products to acc, in the order that matmul_kernels.h states.
template <Kind K, int T, class S>
HWY_INLINE void AddBlock(const S& s, const XBlock* x, int64_t stride, VF (&acc)[T][kVecs]) {
  constexpr int kOffset = K.is_signed && kDotUnsigned ? 128 : K.offset;
  V32 dot[T][kVecs];
  HWY_UNROLL(8)
  for (int t = 0; t < T; ++t) {
    HWY_UNROLL(4)
    for (int v = 0; v < kVecs; ++v) {
      if constexpr (kOffset == 0) {
        dot[t][v] = hn::Zero(D32());
      } else if constexpr (K.sub) {
        dot[t][v] = Madd(s.Extra(v), BroadcastPair(x[t * stride].sums));
      } else {
        dot[t][v] = Madd(hn::Set(D16(), -kOffset), BroadcastPair(x[t * stride].sums));
      }
    }
  }
  if constexpr (!kDot) {
    DotByPairs<K, 0, T>(s, x, stride, dot);
  } else if constexpr (K.sub) {
    DotHalf<0, T>(s, x, stride, dot);
    DotHalf<1, T>(s, x, stride, dot);
  } else {
    DotByQuads<0, kQuads, T>(s, x, stride, dot);
  }
  HWY_UNROLL(4)
  for (int v = 0; v < kVecs; ++v) {
    const VF scale = s.Scale(v);
    HWY_UNROLL(8)
    for (int t = 0; t < T; ++t) {
      const XBlock& xb = x[t * stride];
      acc[t][v] = hn::MulAdd(hn::ConvertTo(DF(), dot[t][v]), hn::Mul(scale, hn::Set(DF(), xb.d)), acc[t][v]);
      if constexpr (K.min) acc[t][v] = hn::MulAdd(s.Min(v), hn::Set(DF(), xb.d_sum), acc[t][v]);
      if constexpr (K.int_min) {
        const VF minima = hn::ConvertTo(DF(), Madd(s.Extra(v), BroadcastPair(xb.sums)));
        acc[t][v] = hn::MulAdd(minima, hn::Mul(s.Min(v), hn::Set(DF(), xb.d)), acc[t][v]);
      }
    }
  }
}

template <int T>
HWY_INLINE void LoadAcc(const float* from, VF (&acc)[T][kVecs]) {
  HWY_UNROLL(8)
  for (int t = 0; t < T; ++t) {
    for (int v = 0; v < kVecs; ++v) acc[t][v] = hn::LoadU(DF(), from + t * kGroup + v * kLanes);
  }
}
template <int T>
HWY_INLINE void StoreAcc(const VF (&acc)[T][kVecs], float* to) {
  HWY_UNROLL(8)
  for (int t = 0; t < T; ++t) {
    for (int v = 0; v < kVecs; ++v) hn::StoreU(acc[t][v], DF(), to + t * kGroup + v * kLanes);
  }
}

// Asks for a block's share of the weights that are kAhead bytes behind block b, into the cache of that level.
template <PackedLayout kLayout, int kAhead, int kLevel>
HWY_INLINE void FetchAhead(const std::byte* super, int b) {
  constexpr int64_t kShare = kLayout.super_bytes() / kLayout.blocks_per_super;
  const std::byte* ahead = super + kAhead + b * kShare;
  for (int64_t i = 0; i < kShare; i += 64) __builtin_prefetch(ahead + i, 0, 4 - kLevel);
}

template <class Source, int T>
void FewRows(const std::byte* group, int64_t n_blocks, const XBlock* x, int64_t stride, float* out) {
  constexpr PackedLayout kLayout = PackedLayoutOf(Source::kType);
  VF acc[T][kVecs];
  LoadAcc<T>(out, acc);
  Source source;
  for (int64_t done = 0; done < n_blocks; done += kLayout.blocks_per_super, group += kLayout.super_bytes()) {
    source.BeginSuper(group);
    for (int b = 0; b < kLayout.blocks_per_super; ++b, ++x) {
      FetchAhead<kLayout, kFewRowsAhead, 2>(group, b);
      source.BeginBlock(group, b);
      AddBlock<Source::kKind, T>(source, x, stride, acc);
    }
  }
  StoreAcc<T>(acc, out);
}

template <class Source>
void OneBlock(const std::byte* group, int64_t block, const XBlock* x, float* out) {
  constexpr PackedLayout kLayout = PackedLayoutOf(Source::kType);
  VF acc[1][kVecs];
  LoadAcc<1>(out, acc);
  Source source;
  const std::byte* super = group + block / kLayout.blocks_per_super * kLayout.super_bytes();
  source.BeginSuper(super);
  source.BeginBlock(super, static_cast<int>(block % kLayout.blocks_per_super));
  AddBlock<Source::kKind, 1>(source, x, 0, acc);
  StoreAcc<1>(acc, out);
}

HWY_INLINE void FetchBlock(const Ahead& ahead, int64_t b) {
  for (int64_t i = 0; i < ahead.bytes_per_block; i += 64) hwy::Prefetch(ahead.from + b * ahead.bytes_per_block + i);
}

template <Kind K, int T>
HWY_INLINE void PanelTile(const PanelBlock* panel, int64_t n, const XBlock* x, int64_t stride, const Ahead& ahead,
                          float* out) {
  VF acc[T][kVecs];
  LoadAcc<T>(out, acc);
  for (int64_t b = 0; b < n; ++b) {
    FetchBlock(ahead, b);
    AddBlock<K, T>(PanelSource{panel + b}, x + b, stride, acc);
  }
  StoreAcc<T>(acc, out);
}

template <Kind K>
void ManyRows(const PanelBlock* panel, int64_t n, const XBlock* x, int64_t stride, int64_t rows, Ahead ahead,
              float* out) {
  int64_t t = 0;
  for (; t + kTile <= rows; t += kTile) {
    PanelTile<K, kTile>(panel, n, x + t * stride, stride, ahead, out + t * kGroup);
    ahead = {};
  }
  if constexpr (kTile > 4) {
    for (; t + 4 <= rows; t += 4) PanelTile<K, 4>(panel, n, x + t * stride, stride, ahead, out + t * kGroup);
  }
  for (; t + 2 <= rows; t += 2) PanelTile<K, 2>(panel, n, x + t * stride, stride, ahead, out + t * kGroup);
  for (; t < rows; ++t) PanelTile<K, 1>(panel, n, x + t * stride, stride, ahead, out + t * kGroup);
}

template <int Q, class S>
HWY_INLINE void StoreQuads(const S& s, PanelBlock* to) {
  for (int v = 0; v < kVecs; ++v) hn::Store(s.template W<Q>(v), D8(), to->codes[Q] + v * 4 * kLanes);
  if constexpr (Q + 1 < kQuads) StoreQuads<Q + 1>(s, to);
}

// kStore(source, panel block) for blocks [first, first + n) of a group.
template <class Source, auto kStore>
void UnpackWith(const std::byte* group, int64_t first, int64_t n, PanelBlock* panel) {
  constexpr PackedLayout kLayout = PackedLayoutOf(Source::kType);
  static_assert(kPanelBlocks % kLayout.blocks_per_super == 0);
  group += first / kLayout.blocks_per_super * kLayout.super_bytes();
  Source s;
  for (int64_t done = 0; done < n; done += kLayout.blocks_per_super, group += kLayout.super_bytes()) {
    s.BeginSuper(group);
    for (int b = 0; b < kLayout.blocks_per_super; ++b, ++panel) {
      FetchAhead<kLayout, kUnpackAhead, 1>(group, b);
      s.BeginBlock(group, b);
      kStore(s, panel);
    }
  }
}

template <class Source>
HWY_INLINE void StoreBlock(const Source& s, PanelBlock* to) {
  constexpr Kind K = Source::kKind;
  StoreQuads<0>(s, to);
  for (int v = 0; v < kVecs; ++v) {
    const int at = v * kLanes;
    hn::Store(s.Scale(v), DF(), to->scale + at);
    if constexpr (K.min || K.int_min) hn::Store(s.Min(v), DF(), to->min + at);
    if constexpr (K.sub) {
      hn::Store(hn::BitCast(D32(), s.Sub(0, v)), D32(), to->sub[0] + at);
      hn::Store(hn::BitCast(D32(), s.Sub(1, v)), D32(), to->sub[1] + at);
      hn::Store(hn::BitCast(D32(), s.Extra(v)), D32(), to->extra + at);
    }
  }
}

// QuantKernel::few for T rows, where registers hold so many rows' sums.
using FewFunction = void (*)(const std::byte* group, int64_t n_blocks, const XBlock* x, int64_t stride, float* acc);
template <class Source, int T>
constexpr FewFunction FewOf() {
  if constexpr (T <= kTile) {
    return FewRows<Source, T>;
  } else {
    return nullptr;
  }
}

// Codes that need little work to take apart are better read packed again than unpacked, up to more rows; where all
// registers hold 16 lanes, any codes are.
template <class Source>
inline constexpr int kDirectRowsOf =
    kLanes == kGroup || Source::kKind.quads_per_sum == 8 || Source::kKind.is_signed ? 16 : 8;

template <class Source>
inline constexpr QuantKernel kKernelOf = {
    kDirectRowsOf<Source>,
    kTile,
    {FewOf<Source, 1>(), FewOf<Source, 2>(), FewOf<Source, 3>(), FewOf<Source, 4>(), FewOf<Source, 5>(),
     FewOf<Source, 6>(), FewOf<Source, 7>(), FewOf<Source, 8>()},
    UnpackWith<Source, StoreBlock<Source>>,
    ManyRows<Source::kKind>,
    OneBlock<Source>,
    nullptr,
    nullptr,
};

// --- codes out of the packed planes ---------------------------------------------------------------------------------

// All bytes' bits moved up by N (down if negative); what crosses a byte's border must be masked away.
template <int N>
HWY_INLINE V8 MoveBits(V8 x) {
  if constexpr (N == 0) {
    return x;
  } else if constexpr (N > 0) {
    return hn::BitCast(D8(), hn::ShiftLeft<N>(hn::BitCast(hn::RepartitionToWide<D8>(), x)));
  } else {
    return hn::BitCast(D8(), hn::ShiftRight<-N>(hn::BitCast(hn::RepartitionToWide<D8>(), x)));
  }
}
HWY_INLINE V8 Byte(int value) { return hn::Set(D8(), static_cast<uint8_t>(value)); }

template <int Q>
HWY_INLINE V8 NibblePlane(const std::byte* plane, int v) {
  const V8 bytes = LoadCodes(plane + Q % 4 * 64 + v * 4 * kLanes);
  return hn::And(MoveBits<Q < 4 ? 0 : -4>(bytes), Byte(15));
}
// Quad Q's two bits, moved to bit kTo.
template <int Q, int kTo>
HWY_INLINE V8 TwoBitPlane(const std::byte* plane, int v) {
  const V8 bytes = LoadCodes(plane + Q / 4 * 64 + v * 4 * kLanes);
  return hn::And(MoveBits<kTo - 2 * (Q % 4)>(bytes), Byte(3 << kTo));
}
template <int Q, int kTo>
HWY_INLINE V8 OneBitPlane(const std::byte* plane, int v) {
  return hn::And(MoveBits<kTo - Q>(LoadCodes(plane + v * 4 * kLanes)), Byte(1 << kTo));
}
// The signed value of IQ4's 4-bit codes; with the top bit turned where Dot wants unsigned weights.
HWY_INLINE V8 IqValues(V8 codes) {
  constexpr uint8_t kTurn = kDotUnsigned ? 0x80 : 0;
  alignas(16) static constexpr uint8_t kTable[16] = {
      uint8_t(-127) ^ kTurn, uint8_t(-104) ^ kTurn, uint8_t(-83) ^ kTurn, uint8_t(-65) ^ kTurn,
      uint8_t(-49) ^ kTurn,  uint8_t(-35) ^ kTurn,  uint8_t(-22) ^ kTurn, uint8_t(-10) ^ kTurn,
      1 ^ kTurn,             13 ^ kTurn,            25 ^ kTurn,           38 ^ kTurn,
      53 ^ kTurn,            69 ^ kTurn,            89 ^ kTurn,           113 ^ kTurn};
  return hn::TableLookupBytes(hn::LoadDup128(D8(), kTable), codes);
}

}  // namespace HWY_NAMESPACE
}  // namespace surety::kernels::cpu
HWY_AFTER_NAMESPACE();

#endif  // per-target include guard
