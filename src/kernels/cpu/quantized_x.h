// Activations rounded to 8 bits in blocks of 32.
//
// A block: s[i] = x[i] * (127 / largest magnitude); q[i] = s[i] rounded to the nearest integer, ties to even;
// d = largest magnitude / 127 * sum(s q) / sum(q^2): the step of least squared error for these q, 3 % less than with
// d = largest magnitude / 127. At worst (31 of the |q| at 22.8, all rounded by half a step the same way) the largest x
// moves by 1.4 steps; on real activations by hundredths of one. A block whose largest magnitude is under 2^-100 counts
// as zeros. A block with an infinity or NaN has d = NaN and q = 0, so whatever it meets becomes NaN. The same bits on
// every instruction set.
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
