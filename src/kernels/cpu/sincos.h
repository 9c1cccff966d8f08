// Sine and cosine in double from basic operations only, so that rotary tables have the same bits on every machine
// whatever its C library.
//
// Errors: none; |x| up to 1e9 keeps the absolute error under 1e-15, larger arguments lose accuracy.
// Source: argument reduction after Cody and Waite with pi / 2 in four parts; Chebyshev fits for |r| <= pi / 4.
#pragma once

namespace surety::kernels::cpu {

struct SinCos {
  double sin, cos;
};

SinCos SinCosOf(double x);

}  // namespace surety::kernels::cpu
