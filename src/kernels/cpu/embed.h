// Rows of a stored table as floats. Shapes: see ops.h. Threads: one caller; workers share the rows.
// Errors: none; CHECKs shapes and that ids are in range.
#pragma once

#include <cstdint>
#include <span>

#include "base/executor.h"
#include "tensor/view.h"

namespace surety::kernels::cpu {

// out[t] = scale * table[ids[t]]
void Embed(Executor& executor, const TensorView& table, std::span<const int32_t> ids, float scale, MatrixF out);

}  // namespace surety::kernels::cpu
