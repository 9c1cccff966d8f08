// One pass of a batch through the head, unrolled as it drafts (EAGLE-3's training-time test), and its gradient.
//
// At depth 0 the state of root t is fc(hidden states of t); at depth k it is what the layer gave for that root at depth
// k - 1. The layer: a = [input_layernorm(embedding); hidden_norm(state)], attention over a, state += o_proj(heads),
// state += mlp(post_attention_layernorm(state)); logits = lm_head(norm(state)). A root's query at depth k stands at
// position t + k and sees keys of depth 0 up to t, made of the target's states, and its own of depths 1 to k: the
// context that it has when it drafts.
//
// The loss is the mean cross-entropy to the target's distribution at each depth, weighted by depth.
//
// Threads: one caller; the executor's workers inside. Owns: the activations of a batch, kept for the next one.
// Invariants: (1) results do not depend on the number of workers. (2) gradients are added to `gradient`.
#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <vector>

#include "base/executor.h"
#include "train/head_batch.h"
#include "train/head_shape.h"

namespace surety::train {

struct DepthResult {
  int64_t n_learned = 0;
  double loss = 0;         // mean over n_learned; in nats
  int64_t n_tried = 0;     // roots whose drafts held at all depths before
  int64_t n_held = 0;      // of them: the likeliest draft is the target's likeliest token
};

template <typename T>
class HeadPass {
 public:
  HeadPass(const HeadShape& shape, Executor& executor);
  ~HeadPass();

  // `weights` as HeadLayout places them. `depth_weights`: one a depth. With `gradient` (of the same layout) the
  // weighted loss's gradient is added to it.
  std::vector<DepthResult> Run(const T* weights, const HeadBatch<T>& batch, std::span<const double> depth_weights,
                               T* gradient);

  // For tests: called with the logits [rows, Vd] of each depth's rows, piece by piece; null: not.
  using LogitsFn = void (*)(void* context, int depth, int64_t first_row, int64_t n_rows, const T* logits);
  void WatchLogits(LogitsFn fn, void* context);

 private:
  struct Impl;
  std::unique_ptr<Impl> impl_;
};

// Bytes of activations for a batch of these sizes, about.
int64_t PassBytes(const HeadShape& shape, int64_t roots, int64_t longest_text, int unroll);

extern template class HeadPass<float>;
extern template class HeadPass<double>;

}  // namespace surety::train
