// Vectors for the 8-bit products, per target: 16 outputs as kVecs native vectors of 32-bit lanes, and the multiply-add
// steps that Highway has no portable name for. Included once a target (foreach_target.h).
#if defined(SURETY_KERNELS_CPU_MATMUL_VEC_INL_H_) == defined(HWY_TARGET_TOGGLE)
#ifdef SURETY_KERNELS_CPU_MATMUL_VEC_INL_H_
#undef SURETY_KERNELS_CPU_MATMUL_VEC_INL_H_
#else
#define SURETY_KERNELS_CPU_MATMUL_VEC_INL_H_
#endif

#include <cstdint>
#include <cstring>

#include "hwy/highway.h"
#include "kernels/cpu/packed_matrix.h"

// Highway 1.0 tests the processor for AVX512-VNNI but compiles this target with the 256-bit AVX-VNNI instead; add the
// former. (The list must hold all of Highway's own features, or its functions could not be inlined.)
// Tile instructions are allowed too: a compiler never makes them up, and they run only where IsaHasTiles() says so.
#if HWY_TARGET == HWY_AVX3_DL
#undef HWY_TARGET_STR
#if SURETY_KERNELS_HAVE_TILES
#define HWY_TARGET_STR  \
  HWY_TARGET_STR_AVX3   \
  ",vpclmulqdq,avx512vbmi,avx512vbmi2,vaes,avxvnni,avx512vnni,avx512bitalg,avx512vpopcntdq,amx-tile,amx-int8"
#else
#define HWY_TARGET_STR  \
  HWY_TARGET_STR_AVX3   \
  ",vpclmulqdq,avx512vbmi,avx512vbmi2,vaes,avxvnni,avx512vnni,avx512bitalg,avx512vpopcntdq"
#endif
#endif

HWY_BEFORE_NAMESPACE();
namespace surety::kernels::cpu {
namespace HWY_NAMESPACE {
namespace hn = hwy::HWY_NAMESPACE;

#if HWY_TARGET == HWY_SCALAR || HWY_TARGET == HWY_EMU128
#error "the matrix kernels need a vector target: SSE4, AVX2, AVX-512 or NEON"
#endif

using DF = hn::CappedTag<float, kGroup>;
using D32 = hn::RebindToSigned<DF>;
using D16 = hn::Repartition<int16_t, D32>;
using D8 = hn::Repartition<uint8_t, D32>;
using DHalf = hn::Rebind<hwy::float16_t, DF>;
using VF = hn::Vec<DF>;
using V32 = hn::Vec<D32>;
using V16 = hn::Vec<D16>;
using V8 = hn::Vec<D8>;

inline constexpr int kLanes = HWY_MIN(kGroup, HWY_LANES(float));
inline constexpr int kVecs = kGroup / kLanes;

// kDot: four byte products are added into a 32-bit lane at once. kDotUnsigned: that takes unsigned weights only.
#if HWY_TARGET == HWY_AVX3_DL
inline constexpr bool kDot = true, kDotUnsigned = true;
#elif HWY_TARGET == HWY_NEON && defined(__ARM_FEATURE_DOTPROD)
inline constexpr bool kDot = true, kDotUnsigned = false;
#else
inline constexpr bool kDot = false, kDotUnsigned = false;
#endif

// Makes x count as changed here. Without it the compiler turns a chain of integer sums into a tree of all its products
// at once, which do not fit the registers.
template <class V>
HWY_INLINE void KeepOrder(V& x) {
#if HWY_ARCH_X86
  asm("" : "+v"(x.raw));
#elif HWY_ARCH_ARM
  asm("" : "+w"(x.raw));
#endif
}

// The same four bytes in every lane.
HWY_INLINE V8 Broadcast4(const void* from) {
  int32_t word;
  std::memcpy(&word, from, 4);
  return hn::BitCast(D8(), hn::Set(D32(), word));
}
HWY_INLINE V16 BroadcastPair(const int16_t* from) {
  int32_t word;
  std::memcpy(&word, from, 4);
  return hn::BitCast(D16(), hn::Set(D32(), word));
}

// Sums of neighbouring byte products as 16-bit lanes: w unsigned, x signed. The sums must fit.
// PairsSigned: w signed as well, x not -128.
// Madd: sums of neighbouring 16-bit products as 32-bit lanes.
#if HWY_TARGET == HWY_AVX3 || HWY_TARGET == HWY_AVX3_DL
HWY_INLINE V16 Pairs(V8 w, V8 x) { return V16{_mm512_maddubs_epi16(w.raw, x.raw)}; }
HWY_INLINE V16 PairsSigned(V8 w, V8 x) {
  const __m512i flipped = _mm512_mask_sub_epi8(x.raw, _mm512_movepi8_mask(w.raw), _mm512_setzero_si512(), x.raw);
  return V16{_mm512_maddubs_epi16(_mm512_abs_epi8(w.raw), flipped)};
}
HWY_INLINE V32 Madd(V16 a, V16 b) { return V32{_mm512_madd_epi16(a.raw, b.raw)}; }
#elif HWY_TARGET == HWY_AVX2
HWY_INLINE V16 Pairs(V8 w, V8 x) { return V16{_mm256_maddubs_epi16(w.raw, x.raw)}; }
HWY_INLINE V16 PairsSigned(V8 w, V8 x) {
  return V16{_mm256_maddubs_epi16(_mm256_abs_epi8(w.raw), _mm256_sign_epi8(x.raw, w.raw))};
}
HWY_INLINE V32 Madd(V16 a, V16 b) { return V32{_mm256_madd_epi16(a.raw, b.raw)}; }
#elif HWY_ARCH_X86
HWY_INLINE V16 Pairs(V8 w, V8 x) { return V16{_mm_maddubs_epi16(w.raw, x.raw)}; }
HWY_INLINE V16 PairsSigned(V8 w, V8 x) {
  return V16{_mm_maddubs_epi16(_mm_abs_epi8(w.raw), _mm_sign_epi8(x.raw, w.raw))};
}
HWY_INLINE V32 Madd(V16 a, V16 b) { return V32{_mm_madd_epi16(a.raw, b.raw)}; }
#elif HWY_TARGET == HWY_NEON
HWY_INLINE V16 PairsSigned(V8 w, V8 x) {
  const int8x16_t ws = vreinterpretq_s8_u8(w.raw), xs = vreinterpretq_s8_u8(x.raw);
  return V16{vpaddq_s16(vmull_s8(vget_low_s8(ws), vget_low_s8(xs)), vmull_s8(vget_high_s8(ws), vget_high_s8(xs)))};
}
HWY_INLINE V16 Pairs(V8 w, V8 x) { return PairsSigned(w, x); }  // unsigned weights are below 128
HWY_INLINE V32 Madd(V16 a, V16 b) {
  return V32{vpaddq_s32(vmull_s16(vget_low_s16(a.raw), vget_low_s16(b.raw)),
                        vmull_s16(vget_high_s16(a.raw), vget_high_s16(b.raw)))};
}
#else
#error "no byte products for this target"
#endif

// acc + the four byte products of each lane.
HWY_INLINE V32 Dot(V32 acc, V8 w, V8 x) {
#if HWY_TARGET == HWY_AVX3_DL
  return V32{_mm512_dpbusd_epi32(acc.raw, w.raw, x.raw)};
#elif HWY_TARGET == HWY_NEON && defined(__ARM_FEATURE_DOTPROD)
  return V32{vdotq_s32(acc.raw, vreinterpretq_s8_u8(w.raw), vreinterpretq_s8_u8(x.raw))};
#else
  return hn::Add(acc, Madd(Pairs(w, x), hn::Set(D16(), 1)));
#endif
}

// kLanes IEEE halves.
HWY_INLINE VF LoadHalves(const std::byte* from) {
  return hn::PromoteTo(DF(), hn::LoadU(DHalf(), reinterpret_cast<const hwy::float16_t*>(from)));
}
// kLanes bytes as 32-bit lanes.
HWY_INLINE V32 LoadBytes(const uint8_t* from) {
  return hn::PromoteTo(D32(), hn::LoadU(hn::Rebind<uint8_t, D32>(), from));
}
HWY_INLINE V32 LoadBytes(const int8_t* from) {
  return hn::PromoteTo(D32(), hn::LoadU(hn::Rebind<int8_t, D32>(), from));
}
HWY_INLINE V8 LoadCodes(const std::byte* from) { return hn::LoadU(D8(), reinterpret_cast<const uint8_t*>(from)); }

// 16-bit lanes (low, high) from two vectors of small 32-bit numbers.
HWY_INLINE V16 PairUp(V32 low, V32 high) {
  return hn::BitCast(D16(), hn::Or(hn::And(low, hn::Set(D32(), 0xFFFF)), hn::ShiftLeft<16>(high)));
}

}  // namespace HWY_NAMESPACE
}  // namespace surety::kernels::cpu
HWY_AFTER_NAMESPACE();

#endif  // per-target include guard
