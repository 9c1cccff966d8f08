// Writes a step's keys and values into their pages.
//
// Shapes: k [T, K * E], v [T, K * Ev]; a latent cache takes k [T, latent + rope] and an empty v.
// Threads: one caller; workers share the rows (a group of 16 tokens has one writer). Errors: none; CHECKs shapes.
// Invariants: (1) f16 and bf16 round to nearest even, as tensor/half.h does. (2) Q8_0: for each token and 32 elements
// the scale is the largest magnitude / 127, rounded to half; q = round(x / that half), ties to even, within +-127. A
// block that is not finite gets the scale NaN. (3) Only the batch's own tokens are written.
#pragma once

#include "base/executor.h"
#include "tensor/batch_view.h"
#include "tensor/paged_kv_view.h"
#include "tensor/view.h"

namespace surety::kernels::cpu {

void KvStore(Executor& executor, int layer, ConstMatrixF k, ConstMatrixF v, const BatchView& batch,
             const PagedKvView& kv);

}  // namespace surety::kernels::cpu
