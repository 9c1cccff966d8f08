#include "kernels/cpu/norm.h"

#include <cmath>

#include "base/check.h"
#include "kernels/cpu/parallel.h"
#include "kernels/cpu/simd_targets.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "kernels/cpu/norm.cc"
#include "hwy/foreach_target.h"  // IWYU pragma: keep
#include "hwy/highway.h"
#include "kernels/cpu/lanes-inl.h"

HWY_BEFORE_NAMESPACE();
namespace surety::kernels::cpu::HWY_NAMESPACE {

using TagD = hn::CappedTag<double, 16>;
using VD = hn::Vec<TagD>;
constexpr int kLanesD = static_cast<int>(hn::MaxLanes(TagD()));
constexpr int kPartsD = 16 / kLanesD;

// Sum over i of term(x[i]) in double: lane l takes the elements l, l + 16, ... in order; then the fixed tree.
template <typename Term>
HWY_INLINE double SumDouble(const float* HWY_RESTRICT x, int64_t n, const Term& term) {
  const TagD d;
  const hn::Rebind<float, TagD> df;
  VD acc[kPartsD];
#pragma GCC unroll 8
  for (int p = 0; p < kPartsD; ++p) acc[p] = hn::Zero(d);
  int64_t i = 0;
  for (; i + 16 <= n; i += 16) {
#pragma GCC unroll 8
    for (int p = 0; p < kPartsD; ++p) acc[p] = term(d, hn::PromoteTo(d, hn::LoadU(df, x + i + p * kLanesD)), acc[p]);
  }
  HWY_ALIGN double lanes[16];
  for (int p = 0; p < kPartsD; ++p) hn::Store(acc[p], d, lanes + p * kLanesD);
  const hn::FixedTag<double, 1> d1;
  for (int l = 0; i < n; ++i, ++l) {
    lanes[l] = hn::GetLane(term(d1, hn::Set(d1, static_cast<double>(x[i])), hn::Set(d1, lanes[l])));
  }
  return TreeSum16(lanes);
}

HWY_INLINE double SumOfSquares(const float* x, int64_t n) {
  return SumDouble(x, n, [](auto, auto v, auto acc) HWY_ATTR { return hn::MulAdd(v, v, acc); });
}

HWY_INLINE void ScaleByWeight(const float* x, double sum, const float* weight, int64_t n, float eps, float* out) {
  const auto inv = static_cast<float>(1.0 / std::sqrt(sum / static_cast<double>(n) + static_cast<double>(eps)));
  ForVectors(n, [&](auto d, int64_t i) HWY_ATTR {
    hn::StoreU(hn::Mul(hn::Mul(hn::LoadU(d, x + i), hn::Set(d, inv)), hn::LoadU(d, weight + i)), d, out + i);
  });
}

void RmsNormRow(const float* x, const float* weight, int64_t n_cols, int64_t weight_size, float eps, float* out) {
  for (int64_t c = 0; c < n_cols; c += weight_size) {
    ScaleByWeight(x + c, SumOfSquares(x + c, weight_size), weight, weight_size, eps, out + c);
  }
}

void AddRmsNormRow(float* residual, const float* delta, const float* weight, int64_t n, float eps, float* out) {
  ForVectors(n, [&](auto d, int64_t i) HWY_ATTR {
    hn::StoreU(hn::Add(hn::LoadU(d, residual + i), hn::LoadU(d, delta + i)), d, residual + i);
  });
  ScaleByWeight(residual, SumOfSquares(residual, n), weight, n, eps, out);
}

void LayerNormRow(const float* x, const float* weight, const float* bias, int64_t n, float eps, float* out) {
  const double mean =
      SumDouble(x, n, [](auto, auto v, auto acc) HWY_ATTR { return hn::Add(acc, v); }) / static_cast<double>(n);
  const double squares = SumDouble(x, n, [mean](auto d, auto v, auto acc) HWY_ATTR {
    const auto centred = hn::Sub(v, hn::Set(d, mean));
    return hn::MulAdd(centred, centred, acc);
  });
  const double inv = 1.0 / std::sqrt(squares / static_cast<double>(n) + static_cast<double>(eps));
  for (int64_t i = 0; i < n; ++i) {  // in double: x - mean may cancel
    const auto normal = static_cast<float>((static_cast<double>(x[i]) - mean) * inv);
    out[i] = normal * weight[i] + (bias != nullptr ? bias[i] : 0.0f);
  }
}

}  // namespace surety::kernels::cpu::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace surety::kernels::cpu {

HWY_EXPORT(RmsNormRow);
HWY_EXPORT(AddRmsNormRow);
HWY_EXPORT(LayerNormRow);

void RmsNorm(Executor& executor, ConstMatrixF x, const float* weight, int64_t weight_size, float eps, MatrixF out) {
  SURETY_CHECK(weight_size > 0 && x.cols % weight_size == 0 && x.rows == out.rows && x.cols == out.cols);
  const auto row_fn = HWY_DYNAMIC_DISPATCH(RmsNormRow);
  ForRows(executor, x.rows, x.cols, [&](int64_t row) {
    row_fn(x.Row(row), weight, x.cols, weight_size, eps, out.Row(row));
  });
}

void AddRmsNorm(Executor& executor, MatrixF residual, ConstMatrixF delta, const float* weight, float eps, MatrixF out) {
  SURETY_CHECK(residual.rows == delta.rows && residual.rows == out.rows);
  SURETY_CHECK(residual.cols == delta.cols && residual.cols == out.cols);
  const auto row_fn = HWY_DYNAMIC_DISPATCH(AddRmsNormRow);
  ForRows(executor, out.rows, out.cols, [&](int64_t row) {
    row_fn(residual.Row(row), delta.Row(row), weight, out.cols, eps, out.Row(row));
  });
}

void LayerNorm(Executor& executor, ConstMatrixF x, const float* weight, const float* bias, float eps, MatrixF out) {
  SURETY_CHECK(x.rows == out.rows && x.cols == out.cols);
  const auto row_fn = HWY_DYNAMIC_DISPATCH(LayerNormRow);
  ForRows(executor, x.rows, x.cols, [&](int64_t row) {
    row_fn(x.Row(row), weight, bias, x.cols, eps, out.Row(row));
  });
}

}  // namespace surety::kernels::cpu
#endif  // HWY_ONCE
