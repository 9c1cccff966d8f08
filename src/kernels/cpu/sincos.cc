#include "kernels/cpu/sincos.h"

#include <cmath>
#include <cstdint>

namespace surety::kernels::cpu {
namespace {

// pi / 2 in parts of 33 bits: a part times an integer of up to 20 bits is exact. Larger integers round in the second
// and third part only at 2^-53 of those.
constexpr double kPart1 = 0x1.921fb54400000p+0;
constexpr double kPart2 = 0x1.0b4611a600000p-34;
constexpr double kPart3 = 0x1.3198a2e000000p-69;
constexpr double kPart4 = 0x1.b839a252049c1p-104;
constexpr double kTwoOverPi = 0x1.45f306dc9c883p-1;

// sin(r + t) and cos(r + t) for |r| <= pi / 4 and tiny t.
double SinPolynomial(double r, double t) {
  const double u = r * r;
  double q = -7.586576588171073e-13;
  q = q * u + 1.6058529572267877e-10;
  q = q * u + -2.5052106219521895e-08;
  q = q * u + 2.755731921930192e-06;
  q = q * u + -0.00019841269841265017;
  q = q * u + 0.008333333333333331;
  q = q * u + -0.16666666666666666;
  return r + (q * u * r + t * (1.0 - 0.5 * u));
}

double CosPolynomial(double r, double t) {
  const double u = r * r;
  double q = 4.745804889760674e-14;
  q = q * u + -1.1470459749675607e-11;
  q = q * u + 2.087675578389404e-09;
  q = q * u + -2.7557319221382114e-07;
  q = q * u + 2.4801587301584618e-05;
  q = q * u + -0.0013888888888888887;
  q = q * u + 0.041666666666666664;
  const double half = 0.5 * u;
  const double head = 1.0 - half;
  return head + (((1.0 - head) - half) + (q * u * u - r * t));
}

}  // namespace

SinCos SinCosOf(double x) {
  const double shifted = x * kTwoOverPi;
  const double n = std::floor(shifted + 0.5);
  // x - n pi / 2 as r + t.
  const double a = x - n * kPart1;
  const double b = n * kPart2;
  const double r1 = a - b;
  const double rest = ((a - r1) - b) - n * kPart3;
  const double r = r1 + rest;
  const double t = ((r1 - r) + rest) - n * kPart4;
  const double s = SinPolynomial(r, t);
  const double c = CosPolynomial(r, t);
  switch (static_cast<int64_t>(n) & 3) {
    case 0: return {s, c};
    case 1: return {c, -s};
    case 2: return {-s, -c};
    default: return {-c, s};
  }
}

}  // namespace surety::kernels::cpu
