// Products with the formats in super-blocks of 256: Q2_K to Q6_K, IQ4_XS.
#include "kernels/cpu/isa.h"
#include "kernels/cpu/matmul_kernels.h"

#include "kernels/cpu/matmul_targets.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "kernels/cpu/matmul_super.cc"
#include "hwy/foreach_target.h"
// After foreach_target.
#include "kernels/cpu/matmul_quant-inl.h"
#include "kernels/cpu/matmul_tiles-inl.h"

HWY_BEFORE_NAMESPACE();
namespace surety::kernels::cpu {
namespace HWY_NAMESPACE {

HWY_INLINE const uint8_t* U8(const std::byte* p) { return reinterpret_cast<const uint8_t*>(p); }
HWY_INLINE const int8_t* I8(const std::byte* p) { return reinterpret_cast<const int8_t*>(p); }

template <DType kDType>
struct SuperSource {
  static constexpr DType kType = kDType;
  static constexpr PackedLayout kLayout = PackedLayoutOf(kDType);
  static constexpr int kScaleBytes = kDType == DType::kIQ4_XS ? kGroup : 2 * kGroup;  // for one block
  static constexpr int kSuperScaleBytes = kLayout.header_bytes - 8 * kScaleBytes;

  VF d[kVecs];
  const std::byte* scales;
  const std::byte* codes;

  HWY_INLINE SuperSource() {}  // spelled out, as an implicit one would not be compiled for the target
  HWY_INLINE void BeginSuper(const std::byte* super) {
    for (int v = 0; v < kVecs; ++v) d[v] = LoadHalves(super + v * 2 * kLanes);
  }
  HWY_INLINE void BeginBlock(const std::byte* super, int b) {
    scales = super + kSuperScaleBytes + b * kScaleBytes;
    codes = super + kLayout.header_bytes + b * kLayout.block_bytes;
  }
};

// A scale and a minimum for each block of 32; both products are exact in float.
template <DType kDType, Kind K>
struct WithMins : SuperSource<kDType> {
  static constexpr Kind kKind = K;
  VF neg_dmin[kVecs];

  HWY_INLINE WithMins() {}
  HWY_INLINE void BeginSuper(const std::byte* super) {
    SuperSource<kDType>::BeginSuper(super);
    for (int v = 0; v < kVecs; ++v) neg_dmin[v] = hn::Neg(LoadHalves(super + 2 * kGroup + v * 2 * kLanes));
  }
  HWY_INLINE VF Scale(int v) const {
    return hn::Mul(this->d[v], hn::ConvertTo(DF(), LoadBytes(U8(this->scales) + v * kLanes)));
  }
  HWY_INLINE VF Min(int v) const {
    return hn::Mul(neg_dmin[v], hn::ConvertTo(DF(), LoadBytes(U8(this->scales) + kGroup + v * kLanes)));
  }
  template <int Q>
  HWY_INLINE V8 W(int v) const {
    const V8 low = NibblePlane<Q>(this->codes, v);
    return kDType == DType::kQ4_K ? low : hn::Or(low, OneBitPlane<Q, 4>(this->codes + 256, v));
  }
};

// A signed integer scale for each 16 inputs, and an offset that is a power of two.
template <DType kDType, Kind K>
struct WithSubScales : SuperSource<kDType> {
  static constexpr Kind kKind = K;
  static constexpr int kOffsetBits = kDType == DType::kQ6_K ? 5 : 2;
  static_assert(K.offset == 1 << kOffsetBits);

  HWY_INLINE WithSubScales() {}
  HWY_INLINE V32 Integer(int half, int v) const { return LoadBytes(I8(this->scales) + half * kGroup + v * kLanes); }
  HWY_INLINE VF Scale(int v) const { return this->d[v]; }
  HWY_INLINE V16 Sub(int half, int v) const {
    const V32 scale = Integer(half, v);
    return PairUp(scale, scale);
  }
  HWY_INLINE V16 Extra(int v) const {
    return PairUp(hn::Neg(hn::ShiftLeft<kOffsetBits>(Integer(0, v))),
                  hn::Neg(hn::ShiftLeft<kOffsetBits>(Integer(1, v))));
  }
  template <int Q>
  HWY_INLINE V8 W(int v) const {
    if constexpr (kDType == DType::kQ6_K) {
      return hn::Or(NibblePlane<Q>(this->codes, v), TwoBitPlane<Q, 4>(this->codes + 256, v));
    } else {
      return hn::Or(TwoBitPlane<Q, 0>(this->codes, v), OneBitPlane<Q, 2>(this->codes + 128, v));
    }
  }
};

struct Q2Source : SuperSource<DType::kQ2_K> {
  static constexpr Kind kKind = kU2Sub;
  VF neg_dmin[kVecs];

  HWY_INLINE Q2Source() {}
  HWY_INLINE void BeginSuper(const std::byte* super) {
    SuperSource::BeginSuper(super);
    for (int v = 0; v < kVecs; ++v) neg_dmin[v] = hn::Neg(LoadHalves(super + 2 * kGroup + v * 2 * kLanes));
  }
  HWY_INLINE V32 Both(int half, int v) const { return LoadBytes(U8(scales) + half * kGroup + v * kLanes); }
  HWY_INLINE VF Scale(int v) const { return d[v]; }
  HWY_INLINE VF Min(int v) const { return neg_dmin[v]; }
  HWY_INLINE V16 Sub(int half, int v) const {
    const V32 scale = hn::And(Both(half, v), hn::Set(D32(), 15));
    return PairUp(scale, scale);
  }
  HWY_INLINE V16 Extra(int v) const { return PairUp(hn::ShiftRight<4>(Both(0, v)), hn::ShiftRight<4>(Both(1, v))); }
  template <int Q>
  HWY_INLINE V8 W(int v) const {
    return TwoBitPlane<Q, 0>(codes, v);
  }
};

struct IqSource : SuperSource<DType::kIQ4_XS> {
  static constexpr Kind kKind = kS8;
  HWY_INLINE IqSource() {}
  HWY_INLINE VF Scale(int v) const {
    return hn::Mul(d[v], hn::ConvertTo(DF(), LoadBytes(I8(scales) + v * kLanes)));
  }
  template <int Q>
  HWY_INLINE V8 W(int v) const {
    return IqValues(NibblePlane<Q>(codes, v));
  }
};

const QuantKernel* SuperKernels(DType dtype, bool tiles) {
  switch (dtype) {
    case DType::kQ2_K: return KernelOf<Q2Source>(tiles);
    case DType::kQ3_K: return KernelOf<WithSubScales<DType::kQ3_K, kU3Sub>>(tiles);
    case DType::kQ4_K: return KernelOf<WithMins<DType::kQ4_K, kU4Min>>(tiles);
    case DType::kQ5_K: return KernelOf<WithMins<DType::kQ5_K, kU5Min>>(tiles);
    case DType::kQ6_K: return KernelOf<WithSubScales<DType::kQ6_K, kU6Sub>>(tiles);
    case DType::kIQ4_XS: return KernelOf<IqSource>(tiles);
    default: return nullptr;
  }
}

}  // namespace HWY_NAMESPACE
}  // namespace surety::kernels::cpu
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace surety::kernels::cpu {

HWY_EXPORT(SuperKernels);

const QuantKernel* SuperQuantKernelOf(DType dtype) {
  return HWY_DYNAMIC_DISPATCH(SuperKernels)(dtype, IsaHasTiles());
}

}  // namespace surety::kernels::cpu
#endif  // HWY_ONCE
