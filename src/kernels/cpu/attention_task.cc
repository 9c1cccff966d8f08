// The SIMD part of attention: one task, tile by tile. See attention_job.h for the terms and the invariants.
#include "kernels/cpu/attention_job.h"

#include <limits>

#include "base/check.h"
#include "kernels/cpu/simd_targets.h"
#include "kernels/ops.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "kernels/cpu/attention_task.cc"
#include "hwy/foreach_target.h"  // IWYU pragma: keep
#include "hwy/highway.h"
#include "kernels/cpu/attention_kernels-inl.h"
#include "kernels/cpu/attention_tiles-inl.h"

HWY_BEFORE_NAMESPACE();
namespace surety::kernels::cpu::HWY_NAMESPACE {

constexpr float kMinusInf = -std::numeric_limits<float>::infinity();

// The worker's memory, named for one task.
struct TaskState {
  const AttentionJob& job;
  const AttentionTask& task;
  const AttentionScratch& scratch;
  const SequenceRows& sequence;
  int n_lines;
  float *max, *sum, *tile_max, *tile_sum, *a, *b;
  int32_t *lo, *hi;            // visible positions of each line
  int32_t *tile_lo, *tile_hi;  // within the tile at hand

  TaskState(const AttentionJob& j, const AttentionTask& t, const AttentionScratch& s)
      : job(j), task(t), scratch(s), sequence(j.batch->sequences[static_cast<size_t>(t.item->sequence)]),
        n_lines(t.n_lines()) {
    float** stats[kAttentionStats] = {&max, &sum, &tile_max, &tile_sum, &a, &b};
    for (int i = 0; i < kAttentionStats; ++i) *stats[i] = scratch.stats + i * kMaxTaskLines;
    int32_t** ranges[4] = {&lo, &hi, &tile_lo, &tile_hi};
    for (int i = 0; i < 4; ++i) *ranges[i] = scratch.ranges + i * kMaxTaskLines;
    for (int line = 0; line < static_cast<int>(PadTo16(n_lines)); ++line) {
      max[line] = kMinusInf;
      sum[line] = 0.0f;
      tile_max[line] = kMinusInf;
      tile_sum[line] = 0.0f;
    }
    for (int line = 0; line < n_lines; ++line) {
      const int row = t.item->row + line / t.n_heads;
      const VisibleRange visible =
          VisibleOf(j, sequence, sequence.first_position + row - sequence.first_row);
      lo[line] = visible.lo;
      hi[line] = visible.hi;
    }
  }

  int Head(int line) const { return task.kv_head * job.group + task.head_offset + line % task.n_heads; }
  int Row(int line) const { return task.item->row + line / task.n_heads; }

  // Sets the lines' ranges within a tile; gives the groups that some line sees, [first, end).
  void SetTile(int tile, int* first, int* end) {
    const int begin = tile * kTileTokens;
    int low = kTileTokens, high = 0;
    for (int line = 0; line < n_lines; ++line) {
      int l = HWY_MAX(lo[line] - begin, 0);
      int h = HWY_MIN(hi[line] - begin, kTileTokens);
      if (l >= h) {
        l = kTileTokens;
        h = 0;
      }
      tile_lo[line] = l;
      tile_hi[line] = h;
      low = HWY_MIN(low, l);
      high = HWY_MAX(high, h);
    }
    *first = low / kKvLaneTokens;
    *end = HWY_MAX(*first, (high + kKvLaneTokens - 1) / kKvLaneTokens);
  }
};

// Queries times the scale, [k_dim][lines of a share] for each share of each block.
void PackQueries(const TaskState& state) {
  const AttentionJob& job = state.job;
  for (int block = 0; block < state.n_lines; block += kMaxBlockLines) {
    const int n = HWY_MIN(kMaxBlockLines, state.n_lines - block);
    const LineShares shares(n);
    int line = block;
    for (int share = 0; share < shares.n_shares; ++share) {
      const int size = shares.Size(share);
      float* packed = state.scratch.queries + int64_t{line} * job.k_dim;
      for (int m = 0; m < size; ++m) {
        const float* q = job.q.Row(state.Row(line + m)) + int64_t{state.Head(line + m)} * job.k_dim;
        for (int e = 0; e < job.k_dim; ++e) packed[e * size + m] = q[e] * job.scale;
      }
      line += size;
    }
  }
}

// Scores, softmax and weighted values of lines [block, block + n) on one tile. With `merge`, the running statistics and
// the lines' outputs take the tile in; else the tile's own numbers are left in tile_max, tile_sum and the lines.
template <KvType kType>
HWY_NOINLINE void AttendBlock(const TaskState& state, const TileView& tile, int block, int n, int first, int end,
                              float* const* lines, bool merge) {
  const AttentionJob& job = state.job;
  const LineShares shares(n);
  float* scores = state.scratch.scores;
  const int group_step = shares.n_shares == 1 ? kTileGroups : 2;  // keys stay in the first cache for all shares
  for (int g = first; g < end; g += group_step) {
    int line = 0;
    for (int share = 0; share < shares.n_shares; line += shares.Size(share), ++share) {
      ScoreShare<kType>(shares.Size(share), state.scratch.queries + int64_t{block + line} * job.k_dim, job.k_dim, tile,
                        g, HWY_MIN(end, g + group_step), scores + line * kTileTokens, kTileTokens, kKvLaneTokens);
    }
  }
  for (int line = 0; line < n; ++line) {
    const int i = block + line;
    if (state.tile_hi[i] == 0) {
      state.tile_max[i] = kMinusInf;
      state.tile_sum[i] = 0.0f;
    } else {
      SoftmaxLine(scores + line * kTileTokens, state.tile_lo[i], state.tile_hi[i], job.soft_cap, &state.tile_max[i],
                  &state.tile_sum[i]);
    }
  }
  if (merge) {
    MergeStats(n, state.tile_max + block, state.tile_sum + block, state.max + block, state.sum + block,
               state.a + block, state.b + block);
  }
  const int n_strips = (job.v_dim + 15) / 16;
  const int strip_step = shares.n_shares == 1 ? n_strips : 2;
  for (int s = 0; s < n_strips; s += strip_step) {
    int line = 0;
    for (int share = 0; share < shares.n_shares; line += shares.Size(share), ++share) {
      const int i = block + line;
      const LineRanges ranges = {state.tile_lo + i, state.tile_hi + i};
      const ValueSink sink = {lines + i, merge ? state.a + i : nullptr, state.b + i};
      ValueShare<kType>(shares.Size(share), scores + line * kTileTokens, tile, ranges, job.v_dim, s,
                        HWY_MIN(n_strips, s + strip_step), sink);
    }
  }
}

template <KvType kType>
void AttendTile(const TaskState& state, const TileView& tile, int first, int end, float* const* lines, bool merge) {
  for (int block = 0; block < state.n_lines; block += kMaxBlockLines) {
    AttendBlock<kType>(state, tile, block, HWY_MIN(kMaxBlockLines, state.n_lines - block), first, end, lines, merge);
  }
}

// Few lines read the pages as they are; for more, conversion to floats pays.
bool ReadsPages(const TaskState& state) {
  return state.job.kind == AttentionKind::kHeads && state.n_lines <= 2 * kMaxLines && state.job.v_dim % 16 == 0;
}

template <KvType kType>
void AttendStored(const TaskState& state, const StoredGroup* groups, int first, int end, float* const* lines,
                  bool merge) {
  const AttentionJob& job = state.job;
  if (ReadsPages(state)) {
    const TileView tile = StoredTile(groups, first, end, kType, job.v_dim, state.scratch);
    AttendTile<kType>(state, tile, first, end, lines, merge);
    return;
  }
  TileView tile;
  if (job.kind == AttentionKind::kHeads) {
    tile = ConvertTile<kType>(groups, first, end, job.k_dim, job.v_dim, state.scratch);
  } else if constexpr (kType != KvType::kQ8_0) {
    if (job.kind == AttentionKind::kLatent) {
      tile = LatentTile<kType>(groups, first, end, job.k_dim, job.v_dim, state.scratch);
    } else {
      tile = MadeTile<kType>(job, state.task.kv_head, groups, first, end, state.scratch);
    }
  }
  AttendTile<KvType::kF32>(state, tile, first, end, lines, merge);
}

void AttendOneTile(TaskState& state, int tile, float* const* lines, bool merge) {
  int first, end;
  state.SetTile(tile, &first, &end);
  if (first >= end) {
    for (int i = 0; i < state.n_lines; ++i) {
      state.tile_max[i] = kMinusInf;
      state.tile_sum[i] = 0.0f;
    }
    return;
  }
  const AttentionJob& job = state.job;
  const int kv_head = job.kind == AttentionKind::kHeads ? state.task.kv_head : 0;
  // Of the groups after those, the next tile's are looked up too, so that they can be prefetched.
  StoredGroup groups[kTileGroups + 4];
  for (int g = first; g < end + 4; ++g) {
    const int position = tile * kTileTokens + g * kKvLaneTokens;
    const bool exists = position < state.sequence.first_position + state.sequence.n_rows;
    groups[g] = exists ? FindGroup(*job.kv, job.layer, state.sequence, kv_head, position) : groups[g - 1];
  }
  switch (job.kv->layout.type) {
    case KvType::kF32: return AttendStored<KvType::kF32>(state, groups, first, end, lines, merge);
    case KvType::kF16: return AttendStored<KvType::kF16>(state, groups, first, end, lines, merge);
    case KvType::kBF16: return AttendStored<KvType::kBF16>(state, groups, first, end, lines, merge);
    case KvType::kQ8_0: return AttendStored<KvType::kQ8_0>(state, groups, first, end, lines, merge);
  }
}

// Points the scratch's lines at the output and clears it.
void StartOutput(const TaskState& state) {
  for (int i = 0; i < state.n_lines; ++i) {
    float* out = state.job.out.Row(state.Row(i)) + int64_t{state.Head(i)} * state.job.v_dim;
    state.scratch.lines[i] = out;
    for (int c = 0; c < state.job.v_dim; ++c) out[c] = 0.0f;
  }
}

void FinishOutput(const TaskState& state) {
  const float* sinks = nullptr;
  if (state.job.sinks != nullptr) {
    for (int i = 0; i < state.n_lines; ++i) state.tile_max[i] = state.job.sinks[state.Head(i)];
    sinks = state.tile_max;
  }
  FinishStats(state.n_lines, state.max, state.sum, sinks, state.a);
  for (int i = 0; i < state.n_lines; ++i) {
    float* out = state.scratch.lines[i];
    const float factor = state.a[i];
    for (int c = 0; c < state.job.v_dim; ++c) out[c] *= factor;
  }
}

void RunTask(const AttentionJob& job, const AttentionTask& task, const AttentionScratch& scratch) {
  TaskState state(job, task, scratch);
  PackQueries(state);
  StartOutput(state);
  for (int tile = task.item->first_tile; tile < task.item->end_tile; ++tile) {
    AttendOneTile(state, tile, scratch.lines, true);
  }
  FinishOutput(state);
}

void RunTiles(const AttentionJob& job, const AttentionTask& task, int first, int end, float* partials,
              const AttentionScratch& scratch) {
  TaskState state(job, task, scratch);
  PackQueries(state);
  const int64_t padded = PadTo16(state.n_lines);
  const int64_t v_step = PadTo16(job.v_dim);
  for (int tile = first; tile < end; ++tile) {
    float* partial = partials + (tile - task.item->first_tile) * PartialFloats(job, state.n_lines);
    for (int i = 0; i < state.n_lines; ++i) scratch.lines[i] = partial + 2 * padded + i * v_step;
    AttendOneTile(state, tile, scratch.lines, false);
    for (int64_t i = 0; i < padded; ++i) {
      partial[i] = i < state.n_lines ? state.tile_max[i] : kMinusInf;
      partial[padded + i] = i < state.n_lines ? state.tile_sum[i] : 0.0f;
    }
  }
}

void MergeTiles(const AttentionJob& job, const AttentionTask& task, const float* partials,
                const AttentionScratch& scratch) {
  TaskState state(job, task, scratch);
  StartOutput(state);
  const int64_t padded = PadTo16(state.n_lines);
  const int64_t v_step = PadTo16(job.v_dim);
  for (int tile = task.item->first_tile; tile < task.item->end_tile; ++tile) {
    const float* partial = partials + (tile - task.item->first_tile) * PartialFloats(job, state.n_lines);
    int first, end;
    state.SetTile(tile, &first, &end);
    MergeStats(state.n_lines, partial, partial + padded, state.max, state.sum, state.a, state.b);
    for (int i = 0; i < state.n_lines; ++i) {
      if (state.tile_hi[i] == 0) continue;
      float* HWY_RESTRICT out = scratch.lines[i];
      const float* HWY_RESTRICT from = partial + 2 * padded + i * v_step;
      const float a = state.a[i];
      const float b = state.b[i];
      ForVectors(job.v_dim, [&](auto d, int64_t c) HWY_ATTR {
        hn::StoreU(hn::MulAdd(hn::Set(d, a), hn::LoadU(d, out + c), hn::Mul(hn::Set(d, b), hn::LoadU(d, from + c))), d,
                   out + c);
      });
    }
  }
  FinishOutput(state);
}

}  // namespace surety::kernels::cpu::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace surety::kernels::cpu {

HWY_EXPORT(RunTask);
HWY_EXPORT(RunTiles);
HWY_EXPORT(MergeTiles);

namespace {

constexpr size_t kPartFloats[] = {
    size_t{kTileTokens} * kMaxKeyDim,   size_t{kTileTokens} * kMaxValueDim, size_t{kTileTokens} * (kMaxValueDim / 32),
    size_t{kTileTokens} * kMaxMadeDim,  size_t{kTileTokens} * kMaxMadeDim,  size_t{kMaxBlockLines} * kTileTokens,
    size_t{kMaxPackedQueries},          size_t{kAttentionStats} * kMaxTaskLines, size_t{4} * kMaxTaskLines,
    size_t{kMaxTaskLines} * sizeof(float*) / sizeof(float)};

}  // namespace

size_t AttentionScratchBytes() {
  size_t floats = 0;
  for (size_t n : kPartFloats) floats += n;
  return floats * sizeof(float);
}

AttentionScratch CarveScratch(std::byte* memory) {
  auto* at = reinterpret_cast<float*>(memory);
  float* parts[std::size(kPartFloats)];
  for (size_t i = 0; i < std::size(kPartFloats); ++i) {
    parts[i] = at;
    at += kPartFloats[i];
  }
  return {parts[0], parts[1], parts[2], parts[3], parts[4], parts[5], parts[6], parts[7],
          reinterpret_cast<int32_t*>(parts[8]), reinterpret_cast<float**>(parts[9])};
}

void RunAttentionTask(const AttentionJob& job, const AttentionTask& task, const AttentionScratch& scratch) {
  HWY_DYNAMIC_DISPATCH(RunTask)(job, task, scratch);
}

void RunAttentionTiles(const AttentionJob& job, const AttentionTask& task, int first, int end, float* partials,
                       const AttentionScratch& scratch) {
  HWY_DYNAMIC_DISPATCH(RunTiles)(job, task, first, end, partials, scratch);
}

void MergeAttentionTiles(const AttentionJob& job, const AttentionTask& task, const float* partials,
                         const AttentionScratch& scratch) {
  HWY_DYNAMIC_DISPATCH(MergeTiles)(job, task, partials, scratch);
}

}  // namespace surety::kernels::cpu
#endif  // HWY_ONCE
