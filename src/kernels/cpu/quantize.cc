#include <cstring>
#include <limits>

#include "kernels/cpu/quantized_x.h"

#include "kernels/cpu/matmul_targets.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "kernels/cpu/quantize.cc"
#include "hwy/foreach_target.h"
// After foreach_target.
#include "hwy/highway.h"
#include "kernels/cpu/lanes-inl.h"

HWY_BEFORE_NAMESPACE();
namespace surety::kernels::cpu {
namespace HWY_NAMESPACE {
namespace hn = hwy::HWY_NAMESPACE;

void QuantizeRowTarget(const float* x, int64_t n, XBlock* out) {
  const Tag df;
  const hn::RebindToSigned<Tag> d32;
  const hn::Rebind<int16_t, Tag> d16;
  const hn::Rebind<int8_t, Tag> d8;
  HWY_ALIGN float products[16];
  HWY_ALIGN int32_t squares[16];
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
    int32_t sums[2];
    for (int half = 0; half < 2; ++half) {
      auto sum = hn::Zero(d32);
      for (int j = 0; j < kParts; ++j) {
        const int at = half * 16 + j * kLanes;
        const auto scaled = hn::Mul(hn::LoadU(df, x + at), inverse);
        const auto q = usable ? hn::NearestInt(scaled) : hn::Zero(d32);
        sum = hn::Add(sum, q);
        // Not fused, so that processors without a fused multiply-add give the same bits.
        const auto product = hn::Mul(scaled, hn::ConvertTo(df, q));
        const auto square = hn::Mul(q, q);
        float* lane = products + j * kLanes;
        int32_t* square_lane = squares + j * kLanes;
        hn::Store(half == 0 ? product : hn::Add(hn::Load(df, lane), product), df, lane);
        hn::Store(half == 0 ? square : hn::Add(hn::Load(d32, square_lane), square), d32, square_lane);
        hn::StoreU(hn::DemoteTo(d8, hn::DemoteTo(d16, q)), d8, out->q + at);
      }
      sums[half] = hn::GetLane(hn::SumOfLanes(d32, sum));
      out->sums[half] = static_cast<int16_t>(sums[half]);
    }
    if (usable) {
      // The step that fits these integers best: least squares.
      out->d = magnitude / 127.0f * (TreeSum16(products) / static_cast<float>(TreeSum16(squares)));
    } else {
      out->d = finite ? 0.0f : std::numeric_limits<float>::quiet_NaN();
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
