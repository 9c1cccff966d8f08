// Products with float weights: F32, F16, BF16.
#include "base/check.h"
#include "kernels/cpu/matmul_kernels.h"

#include "kernels/cpu/matmul_targets.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "kernels/cpu/matmul_float.cc"
#include "hwy/foreach_target.h"
// After foreach_target.
#include "kernels/cpu/matmul_vec-inl.h"

HWY_BEFORE_NAMESPACE();
namespace surety::kernels::cpu {
namespace HWY_NAMESPACE {

// Vector v of the 16 weights of input k.
struct F32Weights {
  static constexpr int kBytes = 4;
  static HWY_INLINE VF Load(const std::byte* input, int v) {
    return hn::LoadU(DF(), reinterpret_cast<const float*>(input) + v * kLanes);
  }
};
struct F16Weights {
  static constexpr int kBytes = 2;
  static HWY_INLINE VF Load(const std::byte* input, int v) { return LoadHalves(input + v * 2 * kLanes); }
};
struct BF16Weights {
  static constexpr int kBytes = 2;
  static HWY_INLINE VF Load(const std::byte* input, int v) {
    const hn::Rebind<uint16_t, DF> d16;
    const auto bits = hn::LoadU(d16, reinterpret_cast<const uint16_t*>(input) + v * kLanes);
    return hn::BitCast(DF(), hn::ShiftLeft<16>(hn::PromoteTo(D32(), bits)));
  }
};

// T rows and kGroups groups: enough independent sums to hide the latency of the multiply-add.
template <class W, int T, int kGroups>
HWY_INLINE void FewRowsGroups(const std::byte* groups, int64_t group_bytes, int64_t n_inputs, const float* x,
                              int64_t stride, float* acc) {
  constexpr int kSums = T * kGroups * kVecs;  // [row][group][vector]
  VF total[kSums];
  for (int i = 0; i < kSums; ++i) total[i] = hn::Zero(DF());
  for (int64_t begin = 0; begin < n_inputs; begin += kChunk) {
    const int64_t end = HWY_MIN(begin + kChunk, n_inputs);
    VF sum[kSums];
    for (int i = 0; i < kSums; ++i) sum[i] = hn::Zero(DF());
    const std::byte* input = groups + begin * kGroup * W::kBytes;
    for (int64_t k = begin; k < end; ++k, input += kGroup * W::kBytes) {
      VF xk[T];
      for (int t = 0; t < T; ++t) xk[t] = hn::Set(DF(), x[t * stride + k]);
      HWY_UNROLL(4)
      for (int g = 0; g < kGroups; ++g) {
        HWY_UNROLL(4)
        for (int v = 0; v < kVecs; ++v) {
          const VF w = W::Load(input + g * group_bytes, v);
          HWY_UNROLL(4)
          for (int t = 0; t < T; ++t) {
            VF& s = sum[(t * kGroups + g) * kVecs + v];
            s = hn::MulAdd(xk[t], w, s);
          }
        }
      }
    }
    for (int i = 0; i < kSums; ++i) total[i] = hn::Add(total[i], sum[i]);
  }
  for (int t = 0; t < T; ++t) {
    for (int g = 0; g < kGroups; ++g) {
      for (int v = 0; v < kVecs; ++v) {
        hn::StoreU(total[(t * kGroups + g) * kVecs + v], DF(), acc + (g * T + t) * kGroup + v * kLanes);
      }
    }
  }
}

template <class W, int T>
void FewFloatRows(const std::byte* groups, int64_t group_bytes, int n_groups, int64_t n_inputs, const float* x,
                  int64_t stride, float* acc) {
  constexpr int kTogether = T == 1 ? 4 : T == 2 ? 2 : 1;
  int g = 0;
  for (; g + kTogether <= n_groups; g += kTogether) {
    FewRowsGroups<W, T, kTogether>(groups + g * group_bytes, group_bytes, n_inputs, x, stride, acc + g * T * kGroup);
  }
  for (; g < n_groups; ++g) {
    FewRowsGroups<W, T, 1>(groups + g * group_bytes, group_bytes, n_inputs, x, stride, acc + g * T * kGroup);
  }
}

template <class W>
const float* UnpackFloats(const std::byte* inputs, int64_t n, float* scratch) {
  if constexpr (W::kBytes == 4) return reinterpret_cast<const float*>(inputs);
  for (int64_t k = 0; k < n; ++k) {
    for (int v = 0; v < kVecs; ++v) {
      hn::StoreU(W::Load(inputs + k * kGroup * W::kBytes, v), DF(), scratch + k * kGroup + v * kLanes);
    }
  }
  return scratch;
}

inline constexpr int kFloatTile = kLanes == 16 ? 8 : kLanes == 8 ? 6 : 4;

template <int T>
HWY_INLINE void FloatTile(const float* panel, int64_t n, const float* x, int64_t stride, float* acc) {
  VF sum[T][kVecs];
  for (int t = 0; t < T; ++t) {
    for (int v = 0; v < kVecs; ++v) sum[t][v] = hn::Zero(DF());
  }
  for (int64_t k = 0; k < n; ++k) {
    VF w[kVecs];
    for (int v = 0; v < kVecs; ++v) w[v] = hn::LoadU(DF(), panel + k * kGroup + v * kLanes);
    HWY_UNROLL(8)
    for (int t = 0; t < T; ++t) {
      const VF xk = hn::Set(DF(), x[t * stride + k]);
      HWY_UNROLL(4)
      for (int v = 0; v < kVecs; ++v) sum[t][v] = hn::MulAdd(xk, w[v], sum[t][v]);
    }
  }
  for (int t = 0; t < T; ++t) {
    for (int v = 0; v < kVecs; ++v) {
      float* to = acc + t * kGroup + v * kLanes;
      hn::StoreU(hn::Add(hn::LoadU(DF(), to), sum[t][v]), DF(), to);
    }
  }
}

// rows <= T.
template <int T>
HWY_INLINE void FloatTileOf(const float* panel, int64_t n, const float* x, int64_t stride, int64_t rows, float* acc) {
  if constexpr (T > 1) {
    if (rows < T) return FloatTileOf<T - 1>(panel, n, x, stride, rows, acc);
  }
  FloatTile<T>(panel, n, x, stride, acc);
}

void ManyFloatRows(const float* panel, int64_t n, const float* x, int64_t stride, int64_t rows, float* acc) {
  while (rows > 0) {  // tiles of nearly the same size: a small last one would wait for its few sums
    const int64_t n_tiles = (rows + kFloatTile - 1) / kFloatTile;
    const int64_t tile = (rows + n_tiles - 1) / n_tiles;
    FloatTileOf<kFloatTile>(panel, n, x, stride, tile, acc);
    rows -= tile;
    x += tile * stride;
    acc += tile * kGroup;
  }
}

template <class W>
inline constexpr FloatKernel kFloatKernel = {
    {FewFloatRows<W, 1>, FewFloatRows<W, 2>, FewFloatRows<W, 3>, FewFloatRows<W, 4>},
    UnpackFloats<W>,
    ManyFloatRows,
};

const FloatKernel* FloatKernels(DType dtype) {
  switch (dtype) {
    case DType::kF32: return &kFloatKernel<F32Weights>;
    case DType::kF16: return &kFloatKernel<F16Weights>;
    case DType::kBF16: return &kFloatKernel<BF16Weights>;
    default: return nullptr;
  }
}

}  // namespace HWY_NAMESPACE
}  // namespace surety::kernels::cpu
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace surety::kernels::cpu {

HWY_EXPORT(FloatKernels);

const FloatKernel& FloatKernelOf(DType dtype) {
  const FloatKernel* kernel = HWY_DYNAMIC_DISPATCH(FloatKernels)(dtype);
  SURETY_CHECK_MSG(kernel != nullptr, "not a float type");
  return *kernel;
}

}  // namespace surety::kernels::cpu
#endif  // HWY_ONCE
