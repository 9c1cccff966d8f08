// Weight matrices in the processor's own layout, and products with them: out[t][n] = sum_k x[t][k] w[n][k].
//
// Quantised weights meet activations that are rounded to 8 bits in blocks of 32 (quantized_x.h); float weights meet the
// activations as they are.
// Shapes: x [T, K]; each task's out [T, N]. Rows of x are `stride` apart and need no alignment.
// Threads: one caller at a time per MatMul object; Run uses the executor's workers. A PackedMatrix is immutable.
// Errors: PackMatrix: kInvalidArgument for parts that do not fit together or a K that is no multiple of the type's
// block, kResourceExhausted for memory. Run CHECKs its shapes.
// Invariants: (1) The bits of an output row depend on that row of x and on the weights only: not on the number of rows,
// of workers or of tasks, and not on the instruction set (SSE4, which lacks fused multiply-add, excepted).
// (2) No allocation in Run. (3) A row of x with an infinity or NaN gives NaN in every output that meets it.
#pragma once

#include <cstdint>
#include <memory>
#include <span>

#include "base/aligned_buffer.h"
#include "base/executor.h"
#include "base/status.h"
#include "kernels/ops.h"
#include "tensor/view.h"

namespace surety::kernels::cpu {

// Stacks the parts' rows ({outputs, inputs} each, same dtype and inputs). The parts' bytes may be unaligned and are not
// used after the call. Rows are padded to a multiple of 16. The matrix lies in `arena` where there is one.
Result<std::unique_ptr<PackedMatrix>> PackMatrix(
    std::span<const TensorView> parts, Executor& executor,
    FunctionRef<void(const TensorView&)> packed = [](const TensorView&) {}, BufferArena* arena = nullptr);

class MatMul {
 public:
  // Makes the working memory for up to max_rows rows of up to max_inputs columns. May be called again to grow.
  Status Reserve(int64_t max_rows, int64_t max_inputs, int n_workers);
  int64_t reserved_bytes() const;

  // All tasks share x. The outputs must not overlap x or each other. At most the reserved rows, inputs and workers.
  void Run(Executor& executor, ConstMatrixF x, std::span<const MatMulTask> tasks);

 private:
  int64_t max_rows_ = 0;
  int64_t max_inputs_ = 0;
  int n_workers_ = 0;
  AlignedBuffer quantized_x_, extras_;
  AlignedBuffer extra_counts_;  // a byte a segment of each row
  AlignedBuffer scratch_;  // one piece a worker
  AlignedBuffer waiting_;  // the units of a call that each worker has still to do
};

}  // namespace surety::kernels::cpu
