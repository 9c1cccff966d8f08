#include <algorithm>
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

// One block, whatever is in it. Answers sum(q^2), or 0 where q is all zeros.
HWY_NOINLINE int32_t QuantizeBlock(const float* HWY_RESTRICT x, XBlock* out) {
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

// --- four blocks at once, whose reductions then share their last steps -----------------------------------------------

inline constexpr int kAtOnce = 4;
using D4F = hn::FixedTag<float, kAtOnce>;
using D4I = hn::FixedTag<int32_t, kAtOnce>;
using V4F = hn::Vec<D4F>;
using V4I = hn::Vec<D4I>;
using VI = hn::Vec<hn::RebindToSigned<Tag>>;

// The tree's first two steps, op(l, l + 8) and op(l, l + 4), of 16 lanes of T.
template <typename T, class Vec, class Op>
HWY_INLINE hn::Vec<hn::FixedTag<T, 4>> FoldTo4(const Vec (&v)[kParts], const Op& op) {
  if constexpr (kParts == 4) {
    return op(op(v[0], v[2]), op(v[1], v[3]));
  } else {
    const hn::FixedTag<T, 8> d8;
    const hn::FixedTag<T, 4> d4;
    if constexpr (kParts == 2) {
      const auto eight = op(v[0], v[1]);
      return op(hn::LowerHalf(d4, eight), hn::UpperHalf(d4, eight));
    } else {
      const auto eight = op(hn::LowerHalf(d8, v[0]), hn::UpperHalf(d8, v[0]));
      return op(hn::LowerHalf(d4, eight), hn::UpperHalf(d4, eight));
    }
  }
}
// The last two, of four blocks: a lane each.
template <class D, class Vec, class Op>
HWY_INLINE Vec FoldFour(D d, const Vec (&v)[kAtOnce], const Op& op) {
  const Vec ab = op(hn::InterleaveLower(d, v[0], v[1]), hn::InterleaveUpper(d, v[0], v[1]));
  const Vec cd = op(hn::InterleaveLower(d, v[2], v[3]), hn::InterleaveUpper(d, v[2], v[3]));
  return op(hn::ConcatLowerLower(d, cd, ab), hn::ConcatUpperUpper(d, cd, ab));
}

// 16 numbers within a byte's range.
HWY_INLINE void StoreBytes(const VI (&q)[kParts], int8_t* to) {
#if HWY_TARGET == HWY_AVX3 || HWY_TARGET == HWY_AVX3_DL
  _mm_storeu_si128(reinterpret_cast<__m128i*>(to), _mm512_cvtepi32_epi8(q[0].raw));
#else
  const hn::Rebind<int16_t, Tag> d16;
  const hn::Rebind<int8_t, Tag> d8;
  for (int j = 0; j < kParts; ++j) hn::StoreU(hn::DemoteTo(d8, hn::DemoteTo(d16, q[j])), d8, to + j * kLanes);
#endif
}

// What a block's sums are made of: 4 lanes to go.
struct BlockSums {
  V4F products, squares;
  V4I halves;  // of q: of the first half, plus 2^16 times that of the second
};

// Rounds one block with a usable magnitude.
HWY_INLINE BlockSums RoundBlock(const float* HWY_RESTRICT x, float inverse, int8_t* to) {
  const Tag df;
  const auto factor = hn::Set(df, inverse);
  V products[kParts], squares[kParts];
  VI halves[kParts];
  for (int half = 0; half < 2; ++half) {
    VI q[kParts];
    for (int j = 0; j < kParts; ++j) {
      const V scaled = hn::Mul(hn::LoadU(df, x + half * 16 + j * kLanes), factor);
      q[j] = hn::NearestInt(scaled);
      const V rounded = hn::ConvertTo(df, q[j]);
      // Not fused, so that processors without a fused multiply-add give the same bits.
      const V product = hn::Mul(scaled, rounded), square = hn::Mul(rounded, rounded);
      products[j] = half == 0 ? product : hn::Add(products[j], product);
      squares[j] = half == 0 ? square : hn::Add(squares[j], square);
      halves[j] = half == 0 ? q[j] : hn::Add(halves[j], hn::ShiftLeft<16>(q[j]));
    }
    StoreBytes(q, to + half * 16);
  }
  const auto add = [](auto a, auto b) HWY_ATTR { return hn::Add(a, b); };
  return {FoldTo4<float>(products, add), FoldTo4<float>(squares, add), FoldTo4<int32_t>(halves, add)};
}

// QuantizeBlock for four blocks; `squares` gets what it answers. False, and nothing is done, where one of them has no
// usable magnitude.
HWY_INLINE bool QuantizeFour(const float* HWY_RESTRICT x, XBlock* out, int32_t* squares) {
  const Tag df;
  const hn::RebindToSigned<Tag> d32;
  const D4F d4f;
  const D4I d4i;
  const auto max = [](auto a, auto b) HWY_ATTR { return hn::Max(a, b); };
  const auto add = [](auto a, auto b) HWY_ATTR { return hn::Add(a, b); };
  V4I fours[kAtOnce];
  for (int b = 0; b < kAtOnce; ++b) {
    VI largest[kParts];
    for (int j = 0; j < kParts; ++j) {
      const float* at = x + b * kBlock + j * kLanes;
      largest[j] = hn::Max(hn::BitCast(d32, hn::Abs(hn::LoadU(df, at))),
                           hn::BitCast(d32, hn::Abs(hn::LoadU(df, at + 16))));
    }
    fours[b] = FoldTo4<int32_t>(largest, max);
  }
  const V4I bits = FoldFour(d4i, fours, max);
  const V4F magnitude = hn::BitCast(d4f, bits);
  const auto usable = hn::And(hn::Lt(bits, hn::Set(d4i, 0x7F800000)),
                              hn::Gt(bits, hn::Set(d4i, 0x0D7FFFFF)));  // the number below 2^-100
  if (!hn::AllTrue(d4i, usable)) return false;
  HWY_ALIGN float inverse[kAtOnce];
  hn::Store(hn::Div(hn::Set(d4f, 127.0f), magnitude), d4f, inverse);

  V4F products[kAtOnce], square_sums[kAtOnce];
  V4I halves[kAtOnce];
  for (int b = 0; b < kAtOnce; ++b) {
    const BlockSums sums = RoundBlock(x + b * kBlock, inverse[b], out[b].q);
    products[b] = sums.products;
    square_sums[b] = sums.squares;
    halves[b] = sums.halves;
  }
  const V4F sum_of_squares = FoldFour(d4f, square_sums, add);  // of small integers: exact
  const V4F largest_step = hn::Div(magnitude, hn::Set(d4f, 127.0f));
  const V4F d = hn::Mul(largest_step, hn::Div(FoldFour(d4f, products, add), sum_of_squares));
  const V4I both = FoldFour(d4i, halves, add);
  const V4I first = hn::ShiftRight<16>(hn::ShiftLeft<16>(both));
  const V4I second = hn::ShiftRight<16>(hn::Sub(both, first));
  HWY_ALIGN float d_of[kAtOnce], d_sum_of[kAtOnce];
  HWY_ALIGN int32_t first_of[kAtOnce], second_of[kAtOnce];
  hn::Store(d, d4f, d_of);
  hn::Store(hn::Mul(d, hn::ConvertTo(d4f, hn::Add(first, second))), d4f, d_sum_of);
  hn::Store(first, d4i, first_of);
  hn::Store(second, d4i, second_of);
  hn::StoreU(hn::NearestInt(sum_of_squares), d4i, squares);
  for (int b = 0; b < kAtOnce; ++b) {
    out[b].d = d_of[b];
    out[b].d_sum = d_sum_of[b];
    out[b].sums[0] = static_cast<int16_t>(first_of[b]);
    out[b].sums[1] = static_cast<int16_t>(second_of[b]);
    out[b].index = 0;
  }
  return true;
}

// Adds what rounding left of an outlier block to the extras.
HWY_NOINLINE void AddExtra(const float* x, const XBlock& block, int index, XBlock* extras, int& n_extras) {
  constexpr float kLargestWithExtra = 0x1p100f;  // far from where d q overflows
  if (!(block.d < kLargestWithExtra)) return;
  HWY_ALIGN float rest[kBlock];
  for (int i = 0; i < kBlock; ++i) rest[i] = x[i] - block.d * static_cast<float>(block.q[i]);
  if (QuantizeBlock(rest, extras + n_extras) != 0) extras[n_extras++].index = index;
}

int QuantizeSegmentTarget(const float* x, int n_blocks, int first_index, XBlock* out, XBlock* extras) {
  int n_extras = 0;
  for (int b = 0; b < n_blocks;) {
    int32_t squares[kAtOnce];
    int n = kAtOnce;
    if (b + kAtOnce > n_blocks || !QuantizeFour(x + b * kBlock, out + b, squares)) {
      n = std::min(kAtOnce, n_blocks - b);
      for (int i = 0; i < n; ++i) squares[i] = QuantizeBlock(x + (b + i) * kBlock, out + b + i);
    }
    for (int i = 0; i < n; ++i, ++b) {
      const bool outlier = squares[i] <= kOutlierSquares && squares[i] != 0 && n_extras < kMaxExtras;
      if (outlier) AddExtra(x + b * kBlock, out[b], first_index + b, extras, n_extras);
    }
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
