// The head's attention while it is unrolled, and its gradient: the query of a root at depth k sees the keys of depth 0
// up to the root itself and the root's own keys of depths 1 to k (head_pass.h).
//
// Shapes: q, heads [A, n_heads * E]; keys and values of depth 0 [N, n_kv_heads * E], of others [A, n_kv_heads * E].
// Threads: one caller. Invariants: results do not depend on the number of workers.
#pragma once

#include <span>
#include <vector>

#include "train/head_batch.h"
#include "train/head_shape.h"
#include "train/parallel_math.h"

namespace surety::train {

template <typename T>
class Attention {
 public:
  Attention(const HeadShape& shape, Executor& executor) : shape_(shape), math_(executor) {}

  // Of one depth: text by text, head by head, [active, roots + depth].
  int64_t ProbabilityCount(const HeadBatch<T>& batch, int depth) const;

  // `keys` and `values`: one a depth from 0 to `depth`. Writes the probabilities and the heads' outputs.
  void Forward(const HeadBatch<T>& batch, int depth, const T* q, std::span<const T* const> keys,
               std::span<const T* const> values, T* probabilities, T* heads);
  // Writes d_q, adds to d_keys and d_values.
  void Backward(const HeadBatch<T>& batch, int depth, const T* q, std::span<const T* const> keys,
                std::span<const T* const> values, const T* probabilities, const T* d_heads, T* d_q,
                std::span<T* const> d_keys, std::span<T* const> d_values);

 private:
  struct Part;
  const HeadShape shape_;
  ParallelMath<T> math_;
  std::vector<std::vector<T>> scratch_;  // by worker
};

extern template class Attention<float>;
extern template class Attention<double>;

}  // namespace surety::train
