// Elementary functions on vectors of float: the same operations in the same order on every target and in every lane.
//
// Largest errors against the exact value, in units of the last place of the result, found by sweeps over all the range
// (math_test.cc): ExpNonPositive and Exp 1.0 (normal results), Tanh 1.2, Erf 1.1, Sigmoid and Silu 2.1. The tests
// allow Tanh and Erf 2, Sigmoid 2.5, Silu 4. GeluTanh: 4 plus the error of its exponent; results below 2^-120 may be
// zero. GeluErf: absolute error 3 units in the last place of |x| (it cancels for x < 0, as its formula does).
// Source: argument reduction after Cody and Waite; the polynomials are Chebyshev fits made for this file.
#if defined(SURETY_KERNELS_CPU_MATH_INL_H_) == defined(HWY_TARGET_TOGGLE)
#ifdef SURETY_KERNELS_CPU_MATH_INL_H_
#undef SURETY_KERNELS_CPU_MATH_INL_H_
#else
#define SURETY_KERNELS_CPU_MATH_INL_H_
#endif

#include "hwy/highway.h"

HWY_BEFORE_NAMESPACE();
namespace surety::kernels::cpu::HWY_NAMESPACE {

namespace hn = hwy::HWY_NAMESPACE;

// exp(x) = poly * 2^n with n = round(x log2 e); n is left in *exponent. |x| < 1e4.
template <class D, class V = hn::Vec<D>>
HWY_INLINE V ExpReduced(D d, V x, V* exponent) {
  const V n = hn::Round(hn::Mul(x, hn::Set(d, 0x1.715476p+0f)));
  V r = hn::NegMulAdd(n, hn::Set(d, 0x1.62e4p-1f), x);  // ln 2 in two parts; n times the first is exact
  r = hn::NegMulAdd(n, hn::Set(d, 0x1.7f7d1cp-20f), r);
  V q = hn::Set(d, 0x1.6d117cp-10f);
  q = hn::MulAdd(q, r, hn::Set(d, 0x1.120be2p-7f));
  q = hn::MulAdd(q, r, hn::Set(d, 0x1.555518p-5f));
  q = hn::MulAdd(q, r, hn::Set(d, 0x1.5554dcp-3f));
  q = hn::MulAdd(q, r, hn::Set(d, 0.5f));
  *exponent = n;
  return hn::Add(hn::MulAdd(q, hn::Mul(r, r), r), hn::Set(d, 1.0f));
}

// 2^n for integral n in [-126, 127].
template <class D, class V = hn::Vec<D>>
HWY_INLINE V PowerOfTwo(D d, V n) {
  const hn::Rebind<int32_t, D> di;
  const auto biased = hn::Add(hn::ConvertTo(di, n), hn::Set(di, 127));
  return hn::BitCast(d, hn::ShiftLeft<23>(biased));
}

// exp(x) for x <= 0, -inf included; results below 2^-125 are zero, and exp(0) is 1. For softmax.
template <class D, class V = hn::Vec<D>>
HWY_INLINE V ExpNonPositive(D d, V x) {
  const V lowest = hn::Set(d, -86.5f);
  V n;
  const V poly = ExpReduced(d, hn::Max(x, lowest), &n);
  return hn::IfThenElseZero(hn::Ge(x, lowest), hn::Mul(poly, PowerOfTwo(d, n)));
}

// exp(x) for every x: subnormal results, zero and infinity included.
template <class D, class V = hn::Vec<D>>
HWY_INLINE V Exp(D d, V x) {
  V n;
  const V poly = ExpReduced(d, hn::Min(hn::Max(x, hn::Set(d, -104.0f)), hn::Set(d, 89.0f)), &n);
  const V half = hn::Floor(hn::Mul(n, hn::Set(d, 0.5f)));  // two factors, since 2^n alone may not be a normal number
  return hn::Mul(hn::Mul(poly, PowerOfTwo(d, half)), PowerOfTwo(d, hn::Sub(n, half)));
}

template <class D, class V = hn::Vec<D>>
HWY_INLINE V Tanh(D d, V x) {
  const V one = hn::Set(d, 1.0f);
  const V a = hn::Min(hn::Abs(x), hn::Set(d, 10.0f));  // tanh(10) rounds to 1
  // Near zero: x + x^3 q(x^2).
  const V u = hn::Mul(a, a);
  V q = hn::Set(d, -0x1.8f8de4p-8f);
  q = hn::MulAdd(q, u, hn::Set(d, 0x1.58048ep-6f));
  q = hn::MulAdd(q, u, hn::Set(d, -0x1.b9258ap-5f));
  q = hn::MulAdd(q, u, hn::Set(d, 0x1.110e1cp-3f));
  q = hn::MulAdd(q, u, hn::Set(d, -0x1.555552p-2f));
  const V near = hn::MulAdd(hn::Mul(q, u), a, a);
  const V e = Exp(d, hn::Add(a, a));
  const V far = hn::Sub(one, hn::Div(hn::Set(d, 2.0f), hn::Add(e, one)));
  return hn::CopySign(hn::IfThenElse(hn::Lt(a, hn::Set(d, 0.625f)), near, far), x);
}

template <class D, class V = hn::Vec<D>>
HWY_INLINE V Erf(D d, V x) {
  const V a = hn::Min(hn::Abs(x), hn::Set(d, 3.95f));  // erf(3.95) rounds to 1
  // Near zero: x + x q(x^2).
  const V u = hn::Mul(a, a);
  V q = hn::Set(d, -0x1.3ac96ap-11f);
  q = hn::MulAdd(q, u, hn::Set(d, 0x1.476b5p-8f));
  q = hn::MulAdd(q, u, hn::Set(d, -0x1.b6944ep-6f));
  q = hn::MulAdd(q, u, hn::Set(d, 0x1.ce1b1cp-4f));
  q = hn::MulAdd(q, u, hn::Set(d, -0x1.8126eap-2f));
  q = hn::MulAdd(q, u, hn::Set(d, 0x1.06eba6p-3f));
  const V near = hn::MulAdd(q, a, a);
  // Else 1 - exp(-g(x)), g = -log(erfc).
  V g = hn::Set(d, -0x1.bdcad4p-20f);
  g = hn::MulAdd(g, a, hn::Set(d, 0x1.86094p-15f));
  g = hn::MulAdd(g, a, hn::Set(d, -0x1.3ab444p-11f));
  g = hn::MulAdd(g, a, hn::Set(d, 0x1.38e71cp-8f));
  g = hn::MulAdd(g, a, hn::Set(d, -0x1.b184c6p-6f));
  g = hn::MulAdd(g, a, hn::Set(d, 0x1.c323bep-4f));
  g = hn::MulAdd(g, a, hn::Set(d, 0x1.437724p-1f));
  g = hn::MulAdd(g, a, hn::Set(d, 0x1.2158e4p+0f));
  g = hn::MulAdd(g, a, hn::Set(d, -0x1.55f766p-12f));
  const V far = hn::Sub(hn::Set(d, 1.0f), Exp(d, hn::Neg(g)));
  return hn::CopySign(hn::IfThenElse(hn::Lt(a, hn::Set(d, 0.921875f)), near, far), x);
}

// 1 / (1 + exp(-x))
template <class D, class V = hn::Vec<D>>
HWY_INLINE V Sigmoid(D d, V x) {
  const V one = hn::Set(d, 1.0f);
  return hn::Div(one, hn::Add(one, Exp(d, hn::Neg(x))));
}

// x sigmoid(x)
template <class D, class V = hn::Vec<D>>
HWY_INLINE V Silu(D d, V x) {
  return hn::Div(x, hn::Add(hn::Set(d, 1.0f), Exp(d, hn::Neg(x))));
}

// x / 2 (1 + tanh(t)) = x sigmoid(2 t), t = sqrt(2 / pi) (x + 0.044715 x^3): this form does not cancel.
template <class D, class V = hn::Vec<D>>
HWY_INLINE V GeluTanh(D d, V x) {
  const V c = hn::Set(d, 1.5957691216057308f);  // 2 sqrt(2 / pi)
  const V x2 = hn::Mul(x, x);
  const V t = hn::Mul(hn::Mul(c, x), hn::MulAdd(x2, hn::Set(d, 0.044715f), hn::Set(d, 1.0f)));
  return hn::Div(x, hn::Add(hn::Set(d, 1.0f), Exp(d, hn::Neg(t))));
}

// x / 2 (1 + erf(x / sqrt 2))
template <class D, class V = hn::Vec<D>>
HWY_INLINE V GeluErf(D d, V x) {
  const V half = hn::Mul(x, hn::Set(d, 0.5f));
  return hn::MulAdd(half, Erf(d, hn::Mul(x, hn::Set(d, 0.70710678118654752f))), half);
}

}  // namespace surety::kernels::cpu::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#endif  // include guard
