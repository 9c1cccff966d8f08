// A small paged KV cache and its sequences for tests and benchmarks: contents depend on (sequence, position, column)
// only, pages lie in shuffled order, and all memory starts as NaN (every byte 0xFF).
#pragma once

#include <algorithm>
#include <cstdint>
#include <cstring>
#include <numeric>
#include <utility>
#include <vector>

#include "base/aligned_buffer.h"
#include "base/executor.h"
#include "kernels/cpu/attention.h"
#include "kernels/cpu/kv_store.h"
#include "kernels/ops.h"

namespace surety::kernels::cpu::testing {

// In [-1, 1), from a hash of the arguments.
inline float NumberAt(uint64_t kind, uint64_t sequence, uint64_t position, uint64_t column) {
  uint64_t h = kind * 0x9E3779B97F4A7C15u + sequence * 0xC2B2AE3D27D4EB4Fu + position * 0x165667B19E3779F9u +
               column * 0x27D4EB2F165667C5u;
  h ^= h >> 31;
  h *= 0xBF58476D1CE4E5B9u;
  h ^= h >> 27;
  h *= 0x94D049BB133111EBu;
  h ^= h >> 31;
  return static_cast<float>(static_cast<int64_t>(h >> 40) - (int64_t{1} << 23)) * 0x1p-23f;
}

inline uint64_t Next(uint64_t& state) {
  state = state * 6364136223846793005u + 1442695040888963407u;
  return state >> 33;
}

// Rows of one sequence in a step: [first, first + n) of sequence `id`.
struct Chunk {
  int id;
  int first;
  int n;
  int first_visible = 0;
};

class Rig {
 public:
  Rig(const KvLayout& layout, int n_sequences, int max_tokens, uint64_t shuffle)
      : layout_(layout), pages_a_sequence_((max_tokens + layout.page_tokens - 1) / layout.page_tokens) {
    const int n_pages = n_sequences * pages_a_sequence_ + 1;
    std::vector<int32_t> order(static_cast<size_t>(n_pages));
    std::iota(order.begin(), order.end(), 0);
    if (shuffle != 0) {
      for (size_t i = order.size() - 1; i > 0; --i) std::swap(order[i], order[Next(shuffle) % (i + 1)]);
    }
    tables_.assign(order.begin(), order.end() - 1);
    const int64_t stride = layout.PageStrideBytes();
    memory_ = AlignedBuffer(static_cast<size_t>(stride * n_pages));
    std::memset(memory_.data(), 0xFF, memory_.size_bytes());
    kv_ = {layout, memory_.data(), stride, n_pages};
  }

  const PagedKvView& kv() const { return kv_; }

  // A batch of the chunks; the view lives until the next call.
  const BatchView& Batch(const std::vector<Chunk>& chunks) {
    sequences_.clear();
    positions_.clear();
    for (const Chunk& c : chunks) {
      sequences_.push_back({static_cast<int>(positions_.size()), c.n, c.first,
                            {tables_.data() + c.id * pages_a_sequence_, static_cast<size_t>(pages_a_sequence_)},
                            c.first_visible});
      for (int i = 0; i < c.n; ++i) positions_.push_back(c.first + i);
    }
    tokens_.assign(positions_.size(), 0);
    batch_ = {tokens_, positions_, sequences_, {}};
    return batch_;
  }

  // Rows of `kind` for the chunks, `cols` numbers each.
  static std::vector<float> Rows(const std::vector<Chunk>& chunks, uint64_t kind, int64_t cols) {
    std::vector<float> rows;
    for (const Chunk& c : chunks) {
      for (int i = 0; i < c.n; ++i) {
        for (int64_t col = 0; col < cols; ++col) {
          rows.push_back(NumberAt(kind, static_cast<uint64_t>(c.id), static_cast<uint64_t>(c.first + i),
                                  static_cast<uint64_t>(col)));
        }
      }
    }
    return rows;
  }

  // Stores the chunks' keys and values in `layer`.
  void Store(Executor& executor, int layer, const std::vector<Chunk>& chunks) {
    const BatchView& batch = Batch(chunks);
    const int64_t rows = batch.n_rows();
    const int64_t k_cols = int64_t{layout_.n_kv_heads} * layout_.k_dim;
    const int64_t v_cols = int64_t{layout_.n_kv_heads} * layout_.v_dim;
    std::vector<float> k = Rows(chunks, 1, k_cols);
    std::vector<float> v = layout_.latent ? std::vector<float>() : Rows(chunks, 2, v_cols);
    const ConstMatrixF values = layout_.latent ? ConstMatrixF() : ConstMatrixF(v.data(), rows, v_cols);
    KvStore(executor, layer, ConstMatrixF(k.data(), rows, k_cols), values, batch, kv_);
  }

 private:
  KvLayout layout_;
  int pages_a_sequence_;
  std::vector<int32_t> tables_, tokens_, positions_;
  std::vector<SequenceRows> sequences_;
  AlignedBuffer memory_;
  PagedKvView kv_;
  BatchView batch_;
};

}  // namespace surety::kernels::cpu::testing
