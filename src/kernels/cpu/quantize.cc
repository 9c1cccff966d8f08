#include <cstring>
#include <limits>

#include "kernels/cpu/quantized_x.h"

#include "kernels/cpu/matmul_targets.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "kernels/cpu/quantize.cc"
#include "hwy/foreach_target.h"
// After foreach_target.
#include "hwy/highway.h"

HWY_BEFORE_NAMESPACE();
namespace surety::kernels::cpu {
namespace HWY_NAMESPACE {
namespace hn = hwy::HWY_NAMESPACE;

void QuantizeRowTarget(const float* x, int64_t n, XBlock* out) {
  using D = hn::CappedTag<float, 16>;
  const D df;
  const hn::RebindToSigned<D> d32;
  constexpr int kLanes = static_cast<int>(HWY_MIN(16, HWY_LANES(float)));
  constexpr int kHalf = 16 / kLanes;  // vectors for 16 elements
  const hn::Rebind<int16_t, D> d16;
  const hn::Rebind<int8_t, D> d8;
  for (int64_t i = 0; i < n; i += kBlock, x += kBlock, ++out) {
    // Magnitudes compare as integers do, NaN above infinity above all numbers.
    auto largest = hn::Zero(d32);
    for (int j = 0; j < kBlock; j += kLanes) {
      largest = hn::Max(largest, hn::BitCast(d32, hn::Abs(hn::LoadU(df, x + j))));
    }
    const int32_t bits = hn::GetLane(hn::MaxOfLanes(d32, largest));
    float magnitude;
    std::memcpy(&magnitude, &bits, 4);
    const bool finite = bits < 0x7F800000;
    const bool usable = finite && magnitude >= 0x1p-100f;
    const auto inverse = hn::Set(df, usable ? 127.0f / magnitude : 0.0f);
    out->d = usable ? magnitude / 127.0f : finite ? 0.0f : std::numeric_limits<float>::quiet_NaN();
    int32_t sums[2];
    for (int half = 0; half < 2; ++half) {
      auto sum = hn::Zero(d32);
      for (int j = 0; j < kHalf; ++j) {
        const int at = half * 16 + j * kLanes;
        const auto scaled = hn::Mul(hn::LoadU(df, x + at), inverse);
        const auto q = usable ? hn::NearestInt(scaled) : hn::Zero(d32);
        sum = hn::Add(sum, q);
        hn::StoreU(hn::DemoteTo(d8, hn::DemoteTo(d16, q)), d8, out->q + at);
      }
      sums[half] = hn::GetLane(hn::SumOfLanes(d32, sum));
      out->sums[half] = static_cast<int16_t>(sums[half]);
    }
    out->d_sum = out->d * static_cast<float>(sums[0] + sums[1]);
    out->unused = 0;
  }
}

}  // namespace HWY_NAMESPACE
}  // namespace surety::kernels::cpu
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace surety::kernels::cpu {

HWY_EXPORT(QuantizeRowTarget);

void QuantizeRow(const float* x, int64_t n, XBlock* out) { HWY_DYNAMIC_DISPATCH(QuantizeRowTarget)(x, n, out); }

}  // namespace surety::kernels::cpu
#endif  // HWY_ONCE
