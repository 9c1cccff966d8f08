// Some texts as the training pass reads them.
//
// A *root* is a position t of a text from which drafting can start: its input is the target's hidden states of t and
// the token t + 1. At depth k the head has read the tokens up to t + 1 + k and says what comes at t + 2 + k. Only
// *active* roots, those with something to learn or measure at some depth, go beyond their keys and values.
//
// Shapes: N roots, A active ones, H d_model. Row order: text by text, by position. Threads: values.
#pragma once

#include <cstdint>
#include <vector>

namespace surety::train {

template <typename T>
struct HeadBatch {
  struct Text {
    int64_t first_root = 0, n_roots = 0;
    int64_t first_active = 0, n_active = 0;
  };
  // What is to be said at one depth, for some of the active roots, ascending.
  struct Depth {
    std::vector<int32_t> rows;        // active root
    std::vector<int32_t> most_likely; // the target's most likely token, as draft id; -1: the head does not know it
    std::vector<uint8_t> learn;       // 0: measured alone
    std::vector<uint8_t> goes_on;     // the text goes on with that most likely token
    std::vector<int32_t> ids;         // [rows, n_top] draft ids
    std::vector<float> probabilities; // [rows, n_top]: the target's, of sum 1 where `learn`
  };

  int n_top = 0;
  std::vector<Text> texts;
  std::vector<int32_t> positions;   // N: t
  std::vector<int32_t> active;      // A: root
  std::vector<T> taps;              // [N, taps * H]
  std::vector<T> root_embeddings;   // [N, H], of token t + 1
  std::vector<std::vector<T>> embeddings;  // by depth from 1: [A, H], of token t + 1 + k
  std::vector<Depth> depths;

  int64_t n_roots() const { return static_cast<int64_t>(positions.size()); }
  int64_t n_active() const { return static_cast<int64_t>(active.size()); }
  int unroll() const { return static_cast<int>(depths.size()); }
};

}  // namespace surety::train
