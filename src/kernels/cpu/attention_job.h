// One attention call as plain data, and the pieces it is cut into. Shared by the planner and by the SIMD code.
//
// Terms: an *item* is a run of consecutive rows of one sequence; a *head block* is some or all of the query heads that
// read the same keys; a *task* is an item times a head block. A task's *lines* are its (row, head) pairs, row by row:
// line = row * n_heads + head. A *tile* is kTileTokens keys, aligned to absolute position 0.
// Invariants: (1) A line's result is the merge, in ascending order, of one partial (max, sum, values) a tile, each
// computed from zero; the tiles that take part depend on the line's absolute position only. (2) A partial's bits depend
// on the line's query and its visible keys and values only. So neither the cut into tasks nor the workers matter.
// Source: tiles and merging after Dao, "FlashAttention-2", with a fixed tile order instead of a running maximum.
#pragma once

#include <cstddef>
#include <cstdint>

#include "tensor/batch_view.h"
#include "tensor/paged_kv_view.h"
#include "tensor/view.h"

namespace surety::kernels::cpu {

inline constexpr int kTileTokens = 128;
inline constexpr int kTileGroups = kTileTokens / kKvLaneTokens;
inline constexpr int kMaxBlockLines = 64;  // lines that are scored together
inline constexpr int kMaxTaskLines = 512;  // lines of a task (materialised MLA; others: kMaxBlockLines)
inline constexpr int kMaxPackedQueries = 131072;  // floats: lines * k_dim of a task

enum class AttentionKind : uint8_t { kHeads, kLatent, kMaterialised };

struct AttentionJob {
  AttentionKind kind = AttentionKind::kHeads;
  int n_heads = 0;
  int group = 0;  // query heads that share keys: H / K; all heads of a latent cache; 1 if materialised
  int k_dim = 0;  // of the scores: columns of a head in q
  int v_dim = 0;  // columns of a head in out
  float scale = 1.0f;
  float soft_cap = 0.0f;
  int window = 0;
  bool causal = true;
  const float* sinks = nullptr;
  int layer = 0;
  ConstMatrixF q;
  MatrixF out;
  const BatchView* batch = nullptr;
  const PagedKvView* kv = nullptr;
  // Materialised only.
  const float* kv_b = nullptr;
  int nope_dim = 0, rope_dim = 0, latent_dim = 0;

  int n_kv_heads() const { return n_heads / group; }
};

struct AttentionItem {
  int sequence = 0;
  int row = 0;  // in the batch
  int n_rows = 0;
  int first_tile = 0, end_tile = 0;
  int64_t cost = 0;
};

struct AttentionTask {
  const AttentionItem* item = nullptr;
  int kv_head = 0;  // the heads are kv_head * group + head_offset ...
  int head_offset = 0;
  int n_heads = 0;
  int n_lines() const { return item->n_rows * n_heads; }
};

// Positions that the row at `position` of a sequence sees: [lo, hi).
struct VisibleRange {
  int lo, hi;
};
inline VisibleRange VisibleOf(const AttentionJob& job, const SequenceRows& sequence, int position) {
  const int lo = job.window > 0 && position + 1 > job.window ? position + 1 - job.window : 0;
  return {lo > sequence.first_visible ? lo : sequence.first_visible,
          job.causal ? position + 1 : sequence.first_position + sequence.n_rows};
}

// A worker's memory, cut from one buffer by CarveScratch.
struct AttentionScratch {
  float* keys;      // [tile group][k_dim][16]
  float* values;    // [v_dim / 16][128][16]
  float* v_scales;  // [v_dim / 32][128]
  float* made_keys;    // as keys, materialised MLA
  float* made_values;  // as values
  float* scores;    // [kMaxBlockLines][128]
  float* queries;   // packed and scaled
  float* stats;     // kStats arrays of kMaxTaskLines
  int32_t* ranges;  // 4 arrays of kMaxTaskLines
  float** lines;    // kMaxTaskLines
};
inline constexpr int kAttentionStats = 6;
size_t AttentionScratchBytes();
AttentionScratch CarveScratch(std::byte* memory);

// Floats of one task's partial for one tile: max [L], sum [L], values [L][v_dim padded to 16], L lines padded to 16.
inline int64_t PadTo16(int64_t n) { return (n + 15) / 16 * 16; }
inline int64_t PartialFloats(const AttentionJob& job, int n_lines) {
  return 2 * PadTo16(n_lines) + n_lines * PadTo16(job.v_dim);
}

// Runs all of a task's tiles one after another and writes `out`.
void RunAttentionTask(const AttentionJob& job, const AttentionTask& task, const AttentionScratch& scratch);
// Computes the partials of tiles [first, end), tile t at partials + (t - item.first_tile) * PartialFloats().
void RunAttentionTiles(const AttentionJob& job, const AttentionTask& task, int first, int end, float* partials,
                       const AttentionScratch& scratch);
// Merges all of a task's partials and writes `out`.
void MergeAttentionTiles(const AttentionJob& job, const AttentionTask& task, const float* partials,
                         const AttentionScratch& scratch);

}  // namespace surety::kernels::cpu
