#include "kernels/cpu/logits_scan.h"

#include <algorithm>
#include <bit>
#include <limits>

#include "kernels/cpu/simd_targets.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "kernels/cpu/logits_scan.cc"
#include "hwy/foreach_target.h"  // IWYU pragma: keep
#include "hwy/highway.h"
#include "hwy/contrib/math/math-inl.h"
#include "kernels/cpu/lanes-inl.h"
#include "kernels/cpu/math-inl.h"

HWY_BEFORE_NAMESPACE();
namespace surety::kernels::cpu::HWY_NAMESPACE {

bool AllFiniteScan(const float* x, int64_t n) {
  const Tag d;
  const hn::RebindToUnsigned<Tag> du;
  constexpr uint32_t kExponent = 0x7F800000;  // all of an infinity's or NaN's are ones
  auto most = hn::Zero(du);
  int64_t i = 0;
  for (; i + kLanes <= n; i += kLanes) {
    most = hn::Max(most, hn::And(hn::BitCast(du, hn::LoadU(d, x + i)), hn::Set(du, kExponent)));
  }
  bool finite = hn::AllTrue(du, hn::Lt(most, hn::Set(du, kExponent)));
  for (; i < n; ++i) finite &= (std::bit_cast<uint32_t>(x[i]) & kExponent) != kExponent;
  return finite;
}

// Looks for the value first: an index in every lane would cost more than finding it again.
int64_t ArgMaxScan(const float* x, int64_t n) {
  const Tag d;
  int64_t i = 0;
  float largest = x[0];
  if (n >= kLanes) {
    V most = hn::LoadU(d, x), other = most;
    for (i = kLanes; i + 2 * kLanes <= n; i += 2 * kLanes) {
      most = hn::Max(most, hn::LoadU(d, x + i));
      other = hn::Max(other, hn::LoadU(d, x + i + kLanes));
    }
    largest = hn::GetLane(hn::MaxOfLanes(d, hn::Max(most, other)));
  }
  for (; i < n; ++i) largest = std::max(largest, x[i]);
  const V wanted = hn::Set(d, largest);
  for (i = 0; i + kLanes <= n; i += kLanes) {
    const intptr_t at = hn::FindFirstTrue(d, hn::Eq(hn::LoadU(d, x + i), wanted));
    if (at >= 0) return i + at;
  }
  while (i + 1 < n && x[i] != largest) ++i;
  return i < n ? i : 0;  // not found: something is no number, and any place will do
}

void ColumnMaximaScan(const float* x, int64_t n, float* out, int64_t n_columns) {
  for (int64_t begin = 0; begin < n; begin += n_columns) {
    const float* row = x + begin;
    ForVectors(std::min(n_columns, n - begin), [&](auto d, int64_t i) HWY_ATTR {
      hn::StoreU(hn::Max(hn::LoadU(d, out + i), hn::LoadU(d, row + i)), d, out + i);
    });
  }
}

int64_t IndicesFromScan(const float* x, int64_t n, float threshold, int32_t* out, int64_t n_out) {
  int64_t found = 0;
  ForVectors(n, [&](auto d, int64_t i) HWY_ATTR {
    if (hn::AllFalse(d, hn::Ge(hn::LoadU(d, x + i), hn::Set(d, threshold)))) return;
    for (size_t lane = 0; lane < hn::MaxLanes(d); ++lane) {
      if (!(x[i + static_cast<int64_t>(lane)] >= threshold)) continue;
      if (found < n_out) out[found] = static_cast<int32_t>(i + static_cast<int64_t>(lane));
      ++found;
    }
  });
  return found;
}

using DoubleTag = hn::CappedTag<double, 8>;
inline constexpr int64_t kDoubles = static_cast<int64_t>(hn::MaxLanes(DoubleTag()));

template <class D>
HWY_INLINE void ExpWeight(D d, const float* x, float top, double scale, double* out) {
  const hn::Rebind<float, D> df;
  const auto exponent = hn::Mul(hn::Sub(hn::PromoteTo(d, hn::LoadU(df, x)), hn::Set(d, top)), hn::Set(d, scale));
  const auto least = hn::Set(d, kLeastExponent);
  const auto weight = hn::Exp(d, hn::Max(exponent, least));
  hn::StoreU(hn::IfThenElseZero(hn::Gt(exponent, least), weight), d, out);
}

void ExpWeightsScan(const float* x, int64_t n, float top, double scale, double* out) {
  int64_t i = 0;
  for (; i + kDoubles <= n; i += kDoubles) ExpWeight(DoubleTag(), x + i, top, scale, out + i);
  for (; i < n; ++i) ExpWeight(hn::FixedTag<double, 1>(), x + i, top, scale, out + i);
}

// The low halves of 64-bit products.
template <class D, class U = hn::Vec<D>>
HWY_INLINE U MulLow([[maybe_unused]] D d, U a, U b) {
#if HWY_TARGET == HWY_AVX3
  return U{_mm512_mullo_epi64(a.raw, b.raw)};
#else
  const hn::Repartition<uint32_t, D> d32;
  const auto low = [&](U v) HWY_ATTR { return hn::BitCast(d32, v); };
  const auto high = [&](U v) HWY_ATTR { return hn::BitCast(d32, hn::ShiftRight<32>(v)); };
  const U cross = hn::Add(hn::MulEven(high(a), low(b)), hn::MulEven(low(a), high(b)));
  return hn::Add(hn::MulEven(low(a), low(b)), hn::ShiftLeft<32>(cross));
#endif
}

int64_t NextInRaceScan(const float* x, int64_t from, int64_t n, float top, float scale, double limit,
                       const RaceWords& words) {
  const DoubleTag d;
  const hn::RebindToUnsigned<DoubleTag> du;
  const hn::Rebind<float, DoubleTag> df;
  constexpr uint64_t kStep = 0x9E3779B97F4A7C15;
  HWY_ALIGN uint64_t lanes[8];
  const auto first_of = [&](int64_t at) HWY_ATTR {
    for (int64_t i = 0; i < kDoubles; ++i) lanes[i] = words.first + static_cast<uint64_t>(at + i) * kStep;
    return hn::Load(du, lanes);
  };
  const auto second = hn::Set(du, words.second), all_steps = hn::Set(du, kDoubles * kStep);
  const auto one = hn::Set(d, 1.0), vlimit = hn::Set(d, limit);
  // Which of the tokens from `at` on may be below the limit; `u`: their first words.
  const auto below = [&](int64_t at, auto u) HWY_ATTR {
    u = MulLow(du, hn::Xor(u, hn::ShiftRight<30>(u)), hn::Set(du, 0xBF58476D1CE4E5B9));
    u = hn::Xor(u, second);
    u = MulLow(du, hn::Xor(u, hn::ShiftRight<27>(u)), hn::Set(du, 0x94D049BB133111EB));
    u = hn::Xor(u, hn::ShiftRight<31>(u));
    // The upper 52 bits behind a one: never more than the gap.
    const auto gap = hn::Sub(hn::BitCast(d, hn::Or(hn::ShiftRight<12>(u), hn::BitCast(du, one))), one);
    const auto exponent = hn::Mul(hn::Sub(hn::LoadU(df, x + at), hn::Set(df, top)), hn::Set(df, scale));
    return hn::Lt(gap, hn::Mul(vlimit, hn::PromoteTo(d, ExpNonPositive(df, exponent))));
  };
  int64_t i = from;
  auto u = first_of(i);
  for (; i + kDoubles <= n; i += kDoubles, u = hn::Add(u, all_steps)) {
    const intptr_t lane = hn::FindFirstTrue(d, below(i, u));
    if (lane >= 0) [[unlikely]] return i + lane;
  }
  if (i >= n) return n;
  // The last ones with some before them, which have been looked at.
  const int64_t at = n - kDoubles;
  uint8_t bits[8] = {};
  hn::StoreMaskBits(d, below(at, first_of(at)), bits);
  for (; i < n; ++i) {
    if ((bits[0] >> (i - at) & 1) != 0) return i;
  }
  return n;
}

}  // namespace surety::kernels::cpu::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace surety::kernels::cpu {

HWY_EXPORT(AllFiniteScan);
HWY_EXPORT(ArgMaxScan);
HWY_EXPORT(ColumnMaximaScan);
HWY_EXPORT(IndicesFromScan);
HWY_EXPORT(ExpWeightsScan);
HWY_EXPORT(NextInRaceScan);

bool AllFinite(std::span<const float> logits) {
  return HWY_DYNAMIC_DISPATCH(AllFiniteScan)(logits.data(), std::ssize(logits));
}

int32_t ArgMax(std::span<const float> logits) {
  return static_cast<int32_t>(HWY_DYNAMIC_DISPATCH(ArgMaxScan)(logits.data(), std::ssize(logits)));
}

void ColumnMaxima(std::span<const float> logits, std::span<float> out) {
  std::fill(out.begin(), out.end(), -std::numeric_limits<float>::infinity());
  HWY_DYNAMIC_DISPATCH(ColumnMaximaScan)(logits.data(), std::ssize(logits), out.data(), std::ssize(out));
}

int64_t IndicesFrom(std::span<const float> logits, float threshold, std::span<int32_t> out) {
  return HWY_DYNAMIC_DISPATCH(IndicesFromScan)(logits.data(), std::ssize(logits), threshold, out.data(),
                                               std::ssize(out));
}

void ExpWeights(std::span<const float> logits, float top, double scale, double* out) {
  HWY_DYNAMIC_DISPATCH(ExpWeightsScan)(logits.data(), std::ssize(logits), top, scale, out);
}

int64_t NextInRace(std::span<const float> logits, int64_t from, float top, double scale, double limit,
                   const RaceWords& words) {
  constexpr int64_t kVector = 8;
  const int64_t n = std::ssize(logits);
  // Above -60 an exponent in float is off by 60 * 3 * 2^-24 at most; the exponential itself by 2^-23.
  constexpr double kSlack = 1 + 0x1.0p-15;
  if (n < kVector) return std::min(from, n);  // what cannot fill a vector is all looked at
  const auto scale_f = static_cast<float>(std::min<double>(scale, std::numeric_limits<float>::max()));
  return HWY_DYNAMIC_DISPATCH(NextInRaceScan)(logits.data(), from, n, top, scale_f, limit * kSlack, words);
}

}  // namespace surety::kernels::cpu
#endif  // HWY_ONCE
