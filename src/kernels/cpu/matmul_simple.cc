// Products with the simple block formats: Q4_0, Q4_1, Q5_0, Q5_1, Q8_0, IQ4_NL.
#include "kernels/cpu/isa.h"
#include "kernels/cpu/matmul_kernels.h"

#include "kernels/cpu/matmul_targets.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "kernels/cpu/matmul_simple.cc"
#include "hwy/foreach_target.h"
// After foreach_target.
#include "kernels/cpu/matmul_quant-inl.h"
#include "kernels/cpu/matmul_tiles-inl.h"

HWY_BEFORE_NAMESPACE();
namespace surety::kernels::cpu {
namespace HWY_NAMESPACE {

// A block with a scale in its header and perhaps a minimum behind it.
struct SimpleSource {
  const std::byte* scales;
  const std::byte* codes;

  HWY_INLINE void Begin(const std::byte* super, int header_bytes) {
    scales = super;
    codes = super + header_bytes;
  }
  HWY_INLINE void BeginBlock(const std::byte*, int) {}
  HWY_INLINE VF Scale(int v) const { return LoadHalves(scales + v * 2 * kLanes); }
  HWY_INLINE VF Min(int v) const { return LoadHalves(scales + 2 * kGroup + v * 2 * kLanes); }
};

template <DType kDType, Kind K>
struct Nibbles : SimpleSource {
  static constexpr DType kType = kDType;
  static constexpr Kind kKind = K;
  HWY_INLINE void BeginSuper(const std::byte* super) { Begin(super, PackedLayoutOf(kDType).header_bytes); }
  template <int Q>
  HWY_INLINE V8 W(int v) const {
    return NibblePlane<Q>(codes, v);
  }
};

template <DType kDType, Kind K>
struct FiveBits : SimpleSource {
  static constexpr DType kType = kDType;
  static constexpr Kind kKind = K;
  HWY_INLINE void BeginSuper(const std::byte* super) { Begin(super, PackedLayoutOf(kDType).header_bytes); }
  template <int Q>
  HWY_INLINE V8 W(int v) const {
    return hn::Or(NibblePlane<Q>(codes, v), OneBitPlane<Q, 4>(codes + 256, v));
  }
};

struct Bytes : SimpleSource {
  static constexpr DType kType = DType::kQ8_0;
  static constexpr Kind kKind = kS8;
  HWY_INLINE void BeginSuper(const std::byte* super) { Begin(super, PackedLayoutOf(kType).header_bytes); }
  template <int Q>
  HWY_INLINE V8 W(int v) const {
    const V8 signed_codes = LoadCodes(codes + Q * 64 + v * 4 * kLanes);
    return kDotUnsigned ? hn::Xor(signed_codes, Byte(0x80)) : signed_codes;
  }
};

struct IqNibbles : SimpleSource {
  static constexpr DType kType = DType::kIQ4_NL;
  static constexpr Kind kKind = kS8;
  HWY_INLINE void BeginSuper(const std::byte* super) { Begin(super, PackedLayoutOf(kType).header_bytes); }
  template <int Q>
  HWY_INLINE V8 W(int v) const {
    return IqValues(NibblePlane<Q>(codes, v));
  }
};

const QuantKernel* SimpleKernels(DType dtype, bool tiles) {
  switch (dtype) {
    case DType::kQ4_0: return KernelOf<Nibbles<DType::kQ4_0, kU4Offset>>(tiles);
    case DType::kQ4_1: return KernelOf<Nibbles<DType::kQ4_1, kU4Min>>(tiles);
    case DType::kQ5_0: return KernelOf<FiveBits<DType::kQ5_0, kU5Offset>>(tiles);
    case DType::kQ5_1: return KernelOf<FiveBits<DType::kQ5_1, kU5Min>>(tiles);
    case DType::kQ8_0: return KernelOf<Bytes>(tiles);
    case DType::kIQ4_NL: return KernelOf<IqNibbles>(tiles);
    default: return nullptr;
  }
}

}  // namespace HWY_NAMESPACE
}  // namespace surety::kernels::cpu
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace surety::kernels::cpu {

HWY_EXPORT(SimpleKernels);

const QuantKernel* SimpleQuantKernelOf(DType dtype) {
  return HWY_DYNAMIC_DISPATCH(SimpleKernels)(dtype, IsaHasTiles());
}

}  // namespace surety::kernels::cpu
#endif  // HWY_ONCE
