#include "kernels/cpu/rope.h"

#include "base/check.h"
#include "kernels/cpu/parallel.h"
#include "kernels/cpu/simd_targets.h"
#include "kernels/cpu/sincos.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "kernels/cpu/rope.cc"
#include "hwy/foreach_target.h"  // IWYU pragma: keep
#include "hwy/highway.h"
#include "kernels/cpu/lanes-inl.h"

HWY_BEFORE_NAMESPACE();
namespace surety::kernels::cpu::HWY_NAMESPACE {

// (a, b) -> (a cos - b sin, b cos + a sin)
template <class VecT>
HWY_INLINE void Rotate(VecT cos, VecT sin, VecT& a, VecT& b) {
  const VecT a0 = a;
  a = hn::MulSub(a0, cos, hn::Mul(b, sin));
  b = hn::MulAdd(b, cos, hn::Mul(a0, sin));
}

void RotateHead(const float* HWY_RESTRICT table, int n, bool interleaved, float* HWY_RESTRICT x) {
  const float* HWY_RESTRICT cos = table;
  const float* HWY_RESTRICT sin = table + n;
  if (!interleaved) {
    ForVectors(n, [&](auto d, int64_t i) HWY_ATTR {
      auto a = hn::LoadU(d, x + i);
      auto b = hn::LoadU(d, x + n + i);
      Rotate(hn::LoadU(d, cos + i), hn::LoadU(d, sin + i), a, b);
      hn::StoreU(a, d, x + i);
      hn::StoreU(b, d, x + n + i);
    });
    return;
  }
  const Tag d;
  int i = 0;
  for (; i + kLanes <= n; i += kLanes) {
    V a, b;
    hn::LoadInterleaved2(d, x + 2 * i, a, b);
    Rotate(hn::LoadU(d, cos + i), hn::LoadU(d, sin + i), a, b);
    hn::StoreInterleaved2(a, b, d, x + 2 * i);
  }
  const OneTag d1;
  for (; i < n; ++i) {
    auto a = hn::LoadU(d1, x + 2 * i);
    auto b = hn::LoadU(d1, x + 2 * i + 1);
    Rotate(hn::LoadU(d1, cos + i), hn::LoadU(d1, sin + i), a, b);
    hn::StoreU(a, d1, x + 2 * i);
    hn::StoreU(b, d1, x + 2 * i + 1);
  }
}

}  // namespace surety::kernels::cpu::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace surety::kernels::cpu {

HWY_EXPORT(RotateHead);

void RopeTable(Executor& executor, const RopeSpec& spec, std::span<const int32_t> positions, MatrixF table) {
  const int64_t n = spec.n_freqs;
  SURETY_CHECK(table.rows == static_cast<int64_t>(positions.size()) && table.cols == 2 * n);
  ForRows(executor, table.rows, 32 * n, [&](int64_t row) {  // an entry costs some thirty elements of other work
    float* out = table.Row(row);
    for (int64_t i = 0; i < n; ++i) {
      const SinCos v = SinCosOf(static_cast<double>(positions[static_cast<size_t>(row)]) * spec.inv_freq[i]);
      out[i] = static_cast<float>(v.cos * spec.magnitude);
      out[n + i] = static_cast<float>(v.sin * spec.magnitude);
    }
  });
}

void Rope(Executor& executor, const RopeSpec& spec, ConstMatrixF table, int n_heads, int head_dim, int offset,
          MatrixF x) {
  SURETY_CHECK(offset >= 0 && offset + 2 * spec.n_freqs <= head_dim && x.cols >= int64_t{n_heads} * head_dim);
  SURETY_CHECK(table.rows == x.rows && table.cols == 2 * int64_t{spec.n_freqs});
  const auto rotate = HWY_DYNAMIC_DISPATCH(RotateHead);
  ForRows(executor, x.rows, 2 * int64_t{spec.n_freqs} * n_heads, [&](int64_t row) {
    for (int head = 0; head < n_heads; ++head) {
      rotate(table.Row(row), spec.n_freqs, spec.interleaved, x.Row(row) + int64_t{head} * head_dim + offset);
    }
  });
}

}  // namespace surety::kernels::cpu
#endif  // HWY_ONCE
