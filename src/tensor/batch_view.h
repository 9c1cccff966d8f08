// One step's input as flat arrays. A *row* is one token of one sequence; a sequence's rows are consecutive, both in the
// batch and in position. Prefill chunks, decode rows and verification chains all look the same here.
//
// Shapes: T rows, B sequences. Owns: nothing; valid for the step.
// Invariants: (1) sequences are ordered by first_row and cover [0, T) without gaps. (2) positions of sequence s are
// first_position .. first_position + n_rows - 1. (3) its page table covers every position below first_position +
// n_rows. (4) logit_rows ascend.
//
// A draft tree is verified branch by branch: a branch is a sequence of its own that shares whole pages with the one it
// leaves and has pages of its own from there on. Into these the keys and values before its first row are copied, layer
// by layer, once the step's own have been stored (kv_copies): each row then reads all keys at their absolute positions,
// as it would without a tree, so that its bits are the same.
#pragma once

#include <cstdint>
#include <span>

namespace surety {

struct SequenceRows {
  int first_row = 0;
  int n_rows = 0;
  int first_position = 0;               // = tokens already in the KV cache
  std::span<const int32_t> page_table;  // page of positions [i * P, (i + 1) * P)
  int first_visible = 0;                // keys before this position are nobody's; rows are not before it
};

// Keys and values of positions [first_position, first_position + n_tokens), from the pages of one table to those of
// another, byte by byte.
struct KvCopy {
  std::span<const int32_t> from, to;  // page tables
  int first_position = 0;
  int n_tokens = 0;
};

struct BatchView {
  std::span<const int32_t> token_ids;  // T
  std::span<const int32_t> positions;  // T
  std::span<const SequenceRows> sequences;
  std::span<const int32_t> logit_rows;  // rows whose logits are wanted
  std::span<const KvCopy> kv_copies = {};  // in this order: one may read what another wrote

  int n_rows() const { return static_cast<int>(token_ids.size()); }
};

}  // namespace surety
