// Elementwise operations. Shapes: see ops.h. Threads: one caller; workers share the elements. Errors: none; CHECKs
// shapes. Accuracy: math-inl.h.
#pragma once

#include <span>

#include "base/executor.h"
#include "kernels/ops.h"

namespace surety::kernels::cpu {

void Add(Executor& executor, MatrixF x, ConstMatrixF delta);
void Scale(Executor& executor, MatrixF x, float factor);
void SoftCap(Executor& executor, MatrixF x, float cap);
void GatedActivation(Executor& executor, Activation act, ConstMatrixF gate_up, MatrixF out);
void Activate(Executor& executor, Activation act, MatrixF x);

// For tests: the elementary functions of math-inl.h on n elements.
enum class MathFunction { kExp, kExpNonPositive, kTanh, kErf, kSigmoid, kSilu, kGeluTanh, kGeluErf };
void ApplyMath(MathFunction function, const float* x, int64_t n, float* out);

}  // namespace surety::kernels::cpu
