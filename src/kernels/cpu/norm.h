// Normalisation of rows. Sums are formed in double over 16 virtual lanes (lanes-inl.h), so their error is far below a
// float's and their bits are the same on every machine.
//
// Threads: one caller; the executor's workers share the rows. Errors: none; CHECKs shapes.
#pragma once

#include "base/executor.h"
#include "tensor/view.h"

namespace surety::kernels::cpu {

// out = x / sqrt(mean(x^2) + eps) * weight for each group of weight_size columns. x and out may be the same.
void RmsNorm(Executor& executor, ConstMatrixF x, const float* weight, int64_t weight_size, float eps, MatrixF out);
// residual += delta, then out = RmsNorm(residual) over whole rows. out aliases neither.
void AddRmsNorm(Executor& executor, MatrixF residual, ConstMatrixF delta, const float* weight, float eps, MatrixF out);
// out = (x - mean) / sqrt(variance + eps) * weight + bias. x and out may be the same; bias may be null.
void LayerNorm(Executor& executor, ConstMatrixF x, const float* weight, const float* bias, float eps, MatrixF out);

}  // namespace surety::kernels::cpu
