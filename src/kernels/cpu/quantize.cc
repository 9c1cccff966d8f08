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

// Answers sum(q^2), or 0 where q is all zeros.
HWY_INLINE int32_t QuantizeBlock(const float* HWY_RESTRICT x, XBlock* out) {
  const Tag df;
  const hn::RebindToSigned<Tag> d32;
  const hn::Rebind<int16_t, Tag> d16;
  const hn::Rebind<int8_t, Tag> d8;
  HWY_ALIGN float products[16];
  HWY_ALIGN int32_t squares[16];
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
  const int32_t sum_of_squares = TreeSum16(squares);
  if (usable) {
    out->d = magnitude / 127.0f * (TreeSum16(products) / static_cast<float>(sum_of_squares));
  } else {
    out->d = finite ? 0.0f : std::numeric_limits<float>::quiet_NaN();
  }
  out->d_sum = out->d * static_cast<float>(sums[0] + sums[1]);
  out->index = 0;
  return sum_of_squares;
}

int QuantizeSegmentTarget(const float* x, int n_blocks, int first_index, XBlock* out, XBlock* extras) {
  constexpr float kLargestWithExtra = 0x1p100f;  // far from where d q overflows
  int n_extras = 0;
  for (int b = 0; b < n_blocks; ++b, x += kBlock, ++out) {
    const int32_t squares = QuantizeBlock(x, out);
    if (squares > kOutlierSquares || squares == 0 || n_extras == kMaxExtras) continue;
    if (!(out->d < kLargestWithExtra)) continue;
    HWY_ALIGN float rest[kBlock];
    for (int i = 0; i < kBlock; ++i) rest[i] = x[i] - out->d * static_cast<float>(out->q[i]);
    if (QuantizeBlock(rest, extras + n_extras) == 0) continue;
    extras[n_extras++].index = first_index + b;
  }
  return n_extras;
}

}  // namespace HWY_NAMESPACE
}  // namespace surety::kernels::cpu
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace surety::kernels::cpu {

HWY_EXPORT(QuantizeSegmentTarget);

int QuantizeSegment(const float* x, int n_blocks, int first_index, XBlock* out, XBlock* extras) {
  return HWY_DYNAMIC_DISPATCH(QuantizeSegmentTarget)(x, n_blocks, first_index, out, extras);
}

}  // namespace surety::kernels::cpu
#endif  // HWY_ONCE
