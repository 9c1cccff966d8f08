// The arithmetic that training spends its time in, one set of functions for each instruction set: products of row-major
// matrices (Eigen's), exponentials of a row, AdamW's update.
//
// Threads: any; the functions keep no state. Invariants: (1) one instruction set always gives the same bits. (2) what
// is added to `c` does not depend on what lies around the matrices in memory.
#pragma once

#include <cstdint>

// Declared alone: what its header brings must not be compiled once for each instruction set.
namespace surety::kernels::cpu {
enum class Isa : uint8_t;
}

namespace surety::train {

// kNormal: as stored. kTransposed: the matrix is the transpose of what is stored.
enum class Op : uint8_t { kNormal, kTransposed };

// c [m, n] = a [m, k] b [k, n], or c += with `accumulate`. Row-major, rows `*_stride` elements apart; an operand that
// is kTransposed is stored [k, m] or [n, k]. c overlaps neither.
template <typename T>
struct Product {
  int64_t m = 0, n = 0, k = 0;
  const T* a = nullptr;
  int64_t a_stride = 0;
  Op a_op = Op::kNormal;
  const T* b = nullptr;
  int64_t b_stride = 0;
  Op b_op = Op::kNormal;
  T* c = nullptr;
  int64_t c_stride = 0;
  bool accumulate = false;
};

// What AdamW needs to know of one step.
struct AdamStep {
  float learning_rate = 0, beta1 = 0, beta2 = 0, epsilon = 0;
  float correction1 = 1, correction2 = 1;  // 1 - beta^step
  float gradient_scale = 1;                // clipping
};

struct MathTable {
  void (*product_f)(const Product<float>&);
  void (*product_d)(const Product<double>&);
  // x[i] = exp(x[i] - shift); answers the sum.
  float (*exponentials_f)(float* x, int64_t n, float shift);
  double (*exponentials_d)(double* x, int64_t n, double shift);
  void (*adam)(const AdamStep& step, float decay, int64_t n, const float* gradient, float* m, float* v, float* weight);
};

// The widest set that an instruction set runs.
const MathTable& MathFor(kernels::cpu::Isa isa);
// That of the instruction set in force (kernels::cpu::CurrentIsa).
const MathTable& CurrentMath();

}  // namespace surety::train
