// The pieces that the training pass is made of, over an executor: products, norms, rotation, SwiGLU, each with its
// gradient. Work is cut into parts of fixed size, so the bits do not depend on the number of workers.
//
// Threads: one caller. Shapes: row-major matrices without gaps unless a stride is given.
#pragma once

#include <cstdint>
#include <vector>

#include "base/executor.h"
#include "train/math_table.h"

namespace surety::train {

template <typename T>
class ParallelMath {
 public:
  explicit ParallelMath(Executor& executor) : executor_(executor), math_(CurrentMath()) {}

  void Multiply(const Product<T>& product);       // cut into tiles of c
  void MultiplyHere(const Product<T>& product) const;  // on the calling worker
  T Exponentials(T* x, int64_t n, T shift) const;

  // out [rows, out_f] = x [rows, in_f] w^T
  void Linear(const T* x, int64_t rows, int64_t in_f, const T* w, int64_t out_f, T* out);
  // dx [rows, in_f] (+)= dy w, dw += dy^T x; either may be null.
  void LinearGradient(const T* x, const T* dy, int64_t rows, int64_t in_f, const T* w, int64_t out_f, T* dx,
                      bool add_dx, T* dw);

  // y = x * scale * gain with scale = 1 / sqrt(mean(x^2) + eps), which is kept for the gradient. Rows of y are y_stride
  // apart.
  void Norm(const T* x, int64_t rows, int64_t d, const T* gain, double eps, T* scale, T* y, int64_t y_stride);
  // dx += ..., dgain += ...; rows of dy are dy_stride apart; dx may be null.
  void NormGradient(const T* x, const T* scale, const T* gain, const T* dy, int64_t dy_stride, int64_t rows, int64_t d,
                    T* dx, T* dgain);

  // Rotates the pairs (i, i + E/2) of each head by position * base^(-2i/E), backwards with `inverse`. Row r is at
  // positions[r] + offset.
  void Rotate(T* x, int64_t rows, int n_heads, int head_dim, const int32_t* positions, int offset, double base,
              bool inverse);

  // a = silu(gate) * up, and from da the gradients in place of gate and up.
  void SwiGlu(const T* gate, const T* up, int64_t n, T* a);
  void SwiGluGradient(const T* da, int64_t n, T* gate, T* up);

  void Add(const T* x, int64_t n, T* y);  // y += x
  void Gather(const T* x, const int32_t* rows, int64_t n, int64_t d, T* y);      // y[i] = x[rows[i]]
  void ScatterAdd(const T* x, const int32_t* rows, int64_t n, int64_t d, T* y);  // y[rows[i]] += x[i], rows distinct

  Executor& executor() { return executor_; }

 private:
  template <typename Fn>
  void Parts(int64_t n, int64_t part, Fn&& fn) {  // fn(begin, end)
    ParallelFor(executor_, (n + part - 1) / part,
                [&](int64_t i, int) { fn(i * part, std::min(n, (i + 1) * part)); });
  }
  Executor& executor_;
  const MathTable& math_;
};

extern template class ParallelMath<float>;
extern template class ParallelMath<double>;

}  // namespace surety::train
