// Activations rounded to 8 bits in blocks of 32.
//
// A block: s[i] = x[i] * (127 / largest magnitude); q[i] = s[i] rounded to the nearest integer, ties to even;
// d = largest magnitude / 127 * sum(s q) / sum(q^2): the step of least squared error for these q, 3 % less than with
// d = largest magnitude / 127. At worst (31 of the |q| at 22.8, all rounded by half a step the same way) the largest x
// moves by 1.4 steps; on real activations by hundredths of one. A block whose largest magnitude is under 2^-100 counts
// as zeros. A block with an infinity or NaN has d = NaN and q = 0, so whatever it meets becomes NaN.
// An outlier block, one whose largest magnitude is over 5.4 times the root of its mean square (at most 5.66 is
// possible), would leave 31 of its numbers with a bit or two. What its rounding left, x - d q, is rounded in the same
// way to an *extra* block, and the product adds both. A few in a hundred blocks of language models (docs/adr/0004);
// with extras the divergence that rounding causes halves (docs/performance.md).
// The same bits on every instruction set.
#pragma once

#include <cstdint>

#include "kernels/cpu/packed_matrix.h"

namespace surety::kernels::cpu {

struct XBlock {
  int8_t q[kBlock];
  float d;
  float d_sum;      // d * (sum of q)
  int16_t sums[2];  // of q[0..15] and q[16..31]
  int32_t index;    // of an extra block: which block of its row it adds to
};
static_assert(sizeof(XBlock) == 48);

inline constexpr int kSegment = 32;        // blocks of a row that share room for extras
inline constexpr int kMaxExtras = 8;       // of a segment; further outlier blocks go without
// A block is an outlier if sum(q^2) is at most this: 127^2 * 32 / 5.4^2.
inline constexpr int kOutlierSquares = 17699;

// Rounds n_blocks <= kSegment blocks, the first of which is block first_index of its row. Answers how many extras there
// are, in ascending order of index.
int QuantizeSegment(const float* x, int n_blocks, int first_index, XBlock* out, XBlock* extras);

}  // namespace surety::kernels::cpu
