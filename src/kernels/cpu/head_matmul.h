// Per-head products with float matrices, for MLA's absorption.
// Shapes: see HeadMatMul in ops.h. Threads: one caller; workers share heads and rows. Errors: none; CHECKs shapes.
// Invariants: an output sums over the inputs in a fixed order: ascending if `transposed`, else over 16 virtual lanes.
#pragma once

#include <cstdint>

#include "base/executor.h"
#include "tensor/view.h"

namespace surety::kernels::cpu {

// out[t][h][o] = sum_i w_h[o][i] x[t][h][i] with w_h = w + h * head_stride, [out_dim][in_dim]; transposed: w_h is
// [in_dim][out_dim].
void HeadMatMul(Executor& executor, const float* w, int64_t head_stride, int n_heads, int in_dim, int out_dim,
                bool transposed, ConstMatrixF x, MatrixF out);

}  // namespace surety::kernels::cpu
