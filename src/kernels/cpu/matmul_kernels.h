// The inner loops of the matrix product, as tables of functions for the instruction set in use.
//
// All work on one group of 16 outputs and add to acc, [rows][16] floats. An output's sum runs over its inputs in one
// fixed order of fused multiply-adds whatever function does it:
//   quantised: for each block of 32 in turn, acc = fma(float(dot), w_scale * x.d, acc), then with minima
//              acc = fma(w_min, x.d_sum, acc)  (Q2_K: acc = fma(float(sum of m * x.sums), -dmin * x.d, acc)),
//              dot being exact in 32-bit integers with the type's offset taken out; after all blocks, the row's extra
//              blocks (quantized_x.h) in ascending order in the same way;
//   float:     for each chunk of 256 inputs, sum = fma(x, w, sum) from zero in order, then acc = acc + sum.
// Threads: any. Errors: none. Invariants: acc is the only memory written besides the stated scratch.
#pragma once

#include <cstddef>
#include <cstdint>

#include "kernels/cpu/packed_matrix.h"
#include "kernels/cpu/quantized_x.h"
#include "tensor/dtype.h"

namespace surety::kernels::cpu {

inline constexpr int kFewRows = 4;       // of float types: up to so many rows straight from the packed form
inline constexpr int kMostFewRows = 8;   // of quantised types: what one pass over the packed form serves at most
inline constexpr int kPanelBlocks = 8;   // blocks of 32 inputs that are unpacked at a time, or a multiple: whole supers
inline constexpr int kChunk = 256;       // inputs in a chunk of the float sum
inline constexpr int kFloatGroups = 4;   // groups that FloatKernel::few takes at a time

// One block of a group, unpacked: what the loop over many rows reads. Fields that a type does not need are not written.
struct alignas(64) PanelBlock {
  uint8_t codes[kQuads][4 * kGroup];  // [quad][output][4 inputs]
  float scale[kGroup];
  float min[kGroup];          // added times x.d_sum; Q2_K: -dmin
  int32_t sub[2][kGroup];     // scale of each half, twice in 16 bits (for tiles: a float)
  int32_t extra[kGroup];      // two 16-bit factors of x.sums: the offset taken out, or Q2_K's minima
};

// Packed bytes that are wanted next: a share of them is asked for with each block of a panel, so that memory answers
// while the processor multiplies.
struct Ahead {
  const std::byte* from = nullptr;
  int64_t bytes_per_block = 0;  // 0: nothing is
};

struct QuantKernel {
  int direct_rows;  // up to so many rows, calls of `few` in turn are faster than `unpack` and `many`
  int few_rows;     // what a call of `few` takes at most; later ones are null
  // rows = index + 1, the group's packed bytes, x rows `stride` blocks apart.
  void (*few[kMostFewRows])(const std::byte* group, int64_t n_blocks, const XBlock* x, int64_t stride, float* acc);
  // Blocks [first, first + n) of the group; first is a multiple of kPanelBlocks.
  void (*unpack)(const std::byte* group, int64_t first, int64_t n, PanelBlock* panel);
  void (*many)(const PanelBlock* panel, int64_t n, const XBlock* x, int64_t stride, int64_t rows, Ahead ahead,
               float* acc);
  // One block of the group for one row.
  void (*one)(const std::byte* group, int64_t block, const XBlock* x, float* acc);
  // Before the first and after the last `many` of a thread, all for so many rows; null: nothing to do.
  void (*begin)(int64_t rows);
  void (*end)();
};

struct FloatKernel {
  // rows = index + 1, up to kFloatGroups groups that stand group_bytes apart; writes acc [n_groups][rows][16].
  void (*few[kFewRows])(const std::byte* groups, int64_t group_bytes, int n_groups, int64_t n_inputs, const float* x,
                        int64_t stride, float* acc);
  // n <= kChunk inputs of a group as floats [n][16], in scratch or in place.
  const float* (*unpack)(const std::byte* inputs, int64_t n, float* scratch);
  // One chunk: n <= kChunk inputs, x rows `stride` floats apart.
  void (*many)(const float* panel, int64_t n, const float* x, int64_t stride, int64_t rows, float* acc);
};

// For the instruction set in use now. dtype is quantised, or a float type.
const QuantKernel& QuantKernelOf(DType dtype);
const FloatKernel& FloatKernelOf(DType dtype);

// Parts of QuantKernelOf, by file; null for types that are elsewhere.
const QuantKernel* SimpleQuantKernelOf(DType dtype);
const QuantKernel* SuperQuantKernelOf(DType dtype);

}  // namespace surety::kernels::cpu
