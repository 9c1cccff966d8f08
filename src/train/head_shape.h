// The sizes of an EAGLE-3 head and the place of each of its tensors in one flat array, so that optimiser, clipping and
// checkpoints see only that array.
//
// Shapes: H d_model (the target's width), taps hidden states of it for each position, E head_dim, F d_ff, Vd
// draft_vocab. Threads: values. Errors: Validate: kInvalidArgument naming the field.
// Source: Li et al., "EAGLE-3", 2025, and the tensor names of its published heads.
#pragma once

#include <array>
#include <cstdint>
#include <string_view>
#include <vector>

#include "base/status.h"

namespace surety::train {

struct HeadShape {
  int d_model = 0;
  int n_taps = 3;
  int n_heads = 0, n_kv_heads = 0, head_dim = 0;
  int d_ff = 0;
  int draft_vocab = 0;
  double norm_eps = 1e-5;
  double rope_base = 10000;

  int64_t tap_width() const { return int64_t{n_taps} * d_model; }
  int64_t q_width() const { return int64_t{n_heads} * head_dim; }
  int64_t kv_width() const { return int64_t{n_kv_heads} * head_dim; }
  Status Validate() const;
  friend bool operator==(const HeadShape&, const HeadShape&) = default;
};

// Which of the target's hidden states a head reads, by the layer that they enter, where nobody says: 2, L/2, L-3; below
// 8 layers, where those do not rise, the first, the middle and the last. kFailedPrecondition below 3.
Result<std::vector<int>> DefaultTapLayers(int n_layers);

enum HeadTensor {
  kFc, kQuery, kKey, kValue, kOutput, kGate, kUp, kDown, kInputNorm, kHiddenNorm, kPostNorm, kFinalNorm, kLmHead,
  kHeadTensors,
};

struct HeadTensorPlace {
  std::string_view name;   // in the file
  int64_t rows = 0, cols = 0;  // cols 0: a vector of `rows`
  int64_t offset = 0;      // in elements
  bool matrix() const { return cols > 0; }
  int64_t size() const { return matrix() ? rows * cols : rows; }
};

struct HeadLayout {
  explicit HeadLayout(const HeadShape& shape);
  std::array<HeadTensorPlace, kHeadTensors> tensors;
  int64_t size = 0;  // elements of the whole array; what lies between tensors is zero
};

}  // namespace surety::train
