// Sixteen virtual lanes: the width in which all sums are formed, whatever the processor's vectors. One virtual vector
// is kParts real ones. Elementwise code takes vectors of any width, since each lane stands alone.
//
// Invariants: a reduction is lane-wise over 16 lanes in ascending order, then the tree l + (l + 8), l + (l + 4),
// l + (l + 2), l + (l + 1); so its bits are the same on every target.
#if defined(SURETY_KERNELS_CPU_LANES_INL_H_) == defined(HWY_TARGET_TOGGLE)
#ifdef SURETY_KERNELS_CPU_LANES_INL_H_
#undef SURETY_KERNELS_CPU_LANES_INL_H_
#else
#define SURETY_KERNELS_CPU_LANES_INL_H_
#endif

#include <cstddef>
#include <cstdint>

#include "hwy/highway.h"
#include "tensor/kv_layout.h"

HWY_BEFORE_NAMESPACE();
namespace surety::kernels::cpu::HWY_NAMESPACE {

namespace hn = hwy::HWY_NAMESPACE;

using Tag = hn::CappedTag<float, 16>;
using V = hn::Vec<Tag>;
inline constexpr int kLanes = static_cast<int>(hn::MaxLanes(Tag()));
inline constexpr int kParts = 16 / kLanes;  // real vectors in 16 virtual lanes
using OneTag = hn::FixedTag<float, 1>;      // for the last elements: the same operations, one lane

// Sum of 16 lanes by the fixed tree.
template <typename T>
HWY_INLINE T TreeSum16(const T* HWY_RESTRICT lanes) {
  T s[8];
  for (int i = 0; i < 8; ++i) s[i] = lanes[i] + lanes[i + 8];
  for (int i = 0; i < 4; ++i) s[i] += s[i + 4];
  for (int i = 0; i < 2; ++i) s[i] += s[i + 2];
  return s[0] + s[1];
}

HWY_INLINE float TreeSum(const V (&v)[kParts]) {
  HWY_ALIGN float lanes[16];
  for (int part = 0; part < kParts; ++part) hn::Store(v[part], Tag(), lanes + part * kLanes);
  return TreeSum16(lanes);
}

// Calls body(tag, i) for vectors of [0, n), then lane by lane for the rest.
template <typename Body>
HWY_INLINE void ForVectors(int64_t n, const Body& body) {
  int64_t i = 0;
  for (; i + kLanes <= n; i += kLanes) body(Tag(), i);
  for (; i < n; ++i) body(OneTag(), i);
}

// Elements of a KV cache as floats. Q8_0's are the bare integers: the caller multiplies by the scale.
template <KvType kType>
struct Element;

template <>
struct Element<KvType::kF32> {
  using Type = float;
  template <class D>
  static HWY_INLINE hn::Vec<D> Load(D d, const float* p) {
    return hn::LoadU(d, p);
  }
};
template <>
struct Element<KvType::kF16> {
  using Type = uint16_t;
  template <class D>
  static HWY_INLINE hn::Vec<D> Load(D d, const uint16_t* p) {
    const hn::Rebind<hwy::float16_t, D> dh;
    return hn::PromoteTo(d, hn::LoadU(dh, reinterpret_cast<const hwy::float16_t*>(p)));
  }
};
template <>
struct Element<KvType::kBF16> {
  using Type = uint16_t;
  template <class D>
  static HWY_INLINE hn::Vec<D> Load(D d, const uint16_t* p) {
    const hn::Rebind<hwy::bfloat16_t, D> dh;
    return hn::PromoteTo(d, hn::LoadU(dh, reinterpret_cast<const hwy::bfloat16_t*>(p)));
  }
};
template <>
struct Element<KvType::kQ8_0> {
  using Type = int8_t;
  template <class D>
  static HWY_INLINE hn::Vec<D> Load(D d, const int8_t* p) {
    const hn::Rebind<int8_t, D> d8;
    const hn::Rebind<int32_t, D> d32;
    return hn::ConvertTo(d, hn::PromoteTo(d32, hn::LoadU(d8, p)));
  }
};

}  // namespace surety::kernels::cpu::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#endif  // include guard
