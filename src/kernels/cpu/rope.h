// Rotary position embedding: the table of a step's rows, and the rotation.
// Shapes, pairings: see RopeSpec in ops.h. Threads: one caller; workers share the rows. Errors: none; CHECKs shapes.
// Invariants: table entries are sin and cos in double (sincos.h), times the magnitude, rounded once to float.
// Source: Su et al., "RoFormer".
#pragma once

#include <cstdint>
#include <span>

#include "base/executor.h"
#include "kernels/ops.h"

namespace surety::kernels::cpu {

void RopeTable(Executor& executor, const RopeSpec& spec, std::span<const int32_t> positions, MatrixF table);
void Rope(Executor& executor, const RopeSpec& spec, ConstMatrixF table, int n_heads, int head_dim, int offset,
          MatrixF x);

}  // namespace surety::kernels::cpu
