// Activations rounded to 8 bits in blocks of 32.
//
// A block: d = largest magnitude / 127; q[i] = x[i] * (127 / largest magnitude), rounded to the nearest integer, ties
// to even. A block whose largest magnitude is under 2^-100 counts as zeros. A block with an infinity or NaN has d = NaN
// and q = 0, so whatever it meets becomes NaN. The same bits on every instruction set.
#pragma once

#include <cstdint>

#include "kernels/cpu/packed_matrix.h"

namespace surety::kernels::cpu {

struct XBlock {
  int8_t q[kBlock];
  float d;
  float d_sum;      // d * (sum of q)
  int16_t sums[2];  // of q[0..15] and q[16..31]
  int32_t unused;
};
static_assert(sizeof(XBlock) == 48);

// n is a multiple of 32.
void QuantizeRow(const float* x, int64_t n, XBlock* out);

}  // namespace surety::kernels::cpu
