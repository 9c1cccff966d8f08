#include "kernels/cpu/attention.h"

#include <algorithm>
#include <atomic>

#include "base/check.h"

namespace surety::kernels::cpu {
namespace {

constexpr size_t kPartialBytes = size_t{8} << 20;
constexpr int64_t kMaxPartialFloats = static_cast<int64_t>(kPartialBytes / sizeof(float));
constexpr int kWantedLines = 60;    // of a task in prefill: a tile's conversion to floats is shared by so many
constexpr int kFewestLines = 12;    // below this, cutting rows further loses more than it spreads
constexpr int64_t kSerialMacs = 40'000;  // work that costs less than waking the workers

int64_t CeilDiv(int64_t a, int64_t b) { return (a + b - 1) / b; }

AttentionItem ItemOf(const AttentionJob& job, int sequence_index, int row, int n_rows) {
  const SequenceRows& sequence = job.batch->sequences[static_cast<size_t>(sequence_index)];
  const int position = sequence.first_position + row - sequence.first_row;
  const int lo = VisibleOf(job, sequence, position).lo;
  const int hi = VisibleOf(job, sequence, position + n_rows - 1).hi;
  AttentionItem item;
  item.sequence = sequence_index;
  item.row = row;
  item.n_rows = n_rows;
  item.first_tile = lo / kTileTokens;
  item.end_tile = static_cast<int>(CeilDiv(hi, kTileTokens));
  item.cost = item.end_tile - item.first_tile;
  return item;
}

}  // namespace

Status Attention::Reserve(int64_t max_rows, int n_workers) {
  if (max_rows <= max_rows_ && n_workers <= n_workers_) return OkStatus();
  max_rows_ = std::max(max_rows, max_rows_);
  n_workers_ = std::max(n_workers, n_workers_);
  const size_t scratch_bytes = AttentionScratchBytes() * static_cast<size_t>(n_workers_);
  auto scratch = AlignedBuffer::TryAllocate(scratch_bytes);
  if (!scratch) return scratch.error().WithContext("attention scratch");
  scratch_memory_ = *std::move(scratch);
  auto partials = AlignedBuffer::TryAllocate(kPartialBytes);
  if (!partials) return partials.error().WithContext("attention partial results");
  partials_ = *std::move(partials);
  scratch_.clear();
  for (int worker = 0; worker < n_workers_; ++worker) {
    scratch_.push_back(CarveScratch(scratch_memory_.data() + static_cast<size_t>(worker) * AttentionScratchBytes()));
  }
  items_.resize(static_cast<size_t>(max_rows_));
  wave_.resize(kMaxWaveTasks);
  return OkStatus();
}

int64_t Attention::reserved_bytes() const {
  return static_cast<int64_t>(scratch_memory_.size_bytes() + partials_.size_bytes());
}

void Attention::Run(Executor& executor, const AttentionParams& params, int layer, ConstMatrixF q,
                    const BatchView& batch, const PagedKvView& kv, MatrixF out) {
  SURETY_CHECK(params.n_kv_heads > 0 && params.n_heads % params.n_kv_heads == 0);
  SURETY_CHECK(!kv.layout.latent && kv.layout.n_kv_heads == params.n_kv_heads);
  SURETY_CHECK(kv.layout.k_dim == params.k_dim && kv.layout.v_dim == params.v_dim);
  AttentionJob job;
  job.n_heads = params.n_heads;
  job.group = params.n_heads / params.n_kv_heads;
  job.k_dim = params.k_dim;
  job.v_dim = params.v_dim;
  job.scale = params.scale;
  job.soft_cap = params.soft_cap;
  job.window = params.window;
  job.causal = params.causal;
  job.sinks = params.sinks;
  job.layer = layer;
  job.q = q;
  job.out = out;
  job.batch = &batch;
  job.kv = &kv;
  RunJob(executor, job);
}

void Attention::RunJob(Executor& executor, const AttentionJob& job) {
  SURETY_CHECK(job.k_dim > 0 && job.k_dim <= kMaxKeyDim && job.v_dim > 0 && job.v_dim <= kMaxValueDim);
  SURETY_CHECK(job.q.rows == job.out.rows && job.q.rows <= max_rows_ && executor.n_workers() <= n_workers_);
  SURETY_CHECK(job.q.cols == int64_t{job.n_heads} * job.k_dim && job.out.cols == int64_t{job.n_heads} * job.v_dim);
  PlanItems(job, executor.n_workers());
  if (n_items_ == 0) return;
  int64_t total = 0, largest = 0;
  for (int i = 0; i < n_items_; ++i) {
    const AttentionItem& item = items_[static_cast<size_t>(i)];
    total += item.cost * item.n_rows;
    largest = std::max(largest, item.cost * item.n_rows);
  }
  const int64_t macs = total * kTileTokens * job.n_heads * (job.k_dim + job.v_dim);
  SerialExecutor serial;
  Executor& used = macs < kSerialMacs ? static_cast<Executor&>(serial) : executor;
  const int64_t heads = n_tasks(job) / n_items_;
  // Whole tasks are cheaper, but the longest of them must not keep the other workers waiting.
  if (used.n_workers() > 1 && 4 * largest * used.n_workers() > total * heads) {
    int64_t tiles = 0;
    for (int i = 0; i < n_items_; ++i) tiles += items_[static_cast<size_t>(i)].cost * heads;
    RunSplit(used, job, tiles);
  } else {
    RunWhole(used, job);
  }
}

int Attention::HeadBlock(const AttentionJob& job) const {
  const int64_t blocks = CeilDiv(job.group, kMaxBlockLines);
  return static_cast<int>(CeilDiv(job.group, blocks));
}

int64_t Attention::n_tasks(const AttentionJob& job) const {
  return int64_t{n_items_} * job.n_kv_heads() * CeilDiv(job.group, heads_a_task_);
}

AttentionTask Attention::TaskAt(const AttentionJob& job, int64_t index) const {
  const int64_t blocks = CeilDiv(job.group, heads_a_task_);
  const int64_t heads = job.n_kv_heads() * blocks;
  AttentionTask task;
  task.item = &items_[static_cast<size_t>(index / heads)];
  task.kv_head = static_cast<int>(index % heads / blocks);
  task.head_offset = static_cast<int>(index % blocks) * heads_a_task_;
  task.n_heads = std::min(heads_a_task_, job.group - task.head_offset);
  return task;
}

// Cuts the batch into items of as many rows as give a tile's conversion enough lines, fewer when workers would go idle;
// longest items first.
void Attention::PlanItems(const AttentionJob& job, int n_workers) {
  heads_a_task_ = HeadBlock(job);
  const bool made = job.kind == AttentionKind::kMaterialised;
  int rows = made ? std::min(kMaxTaskLines, kMaxPackedQueries / job.k_dim)
                  : std::max(1, kWantedLines / heads_a_task_);
  const int fewest = made ? kMaxBlockLines : kFewestLines;
  const int64_t wanted_tasks = n_workers == 1 ? 1 : (made ? 1 : 3) * n_workers;
  const int64_t heads = job.n_kv_heads() * CeilDiv(job.group, heads_a_task_);
  for (;; rows = (rows + 1) / 2) {
    int64_t n_items = 0;
    for (const SequenceRows& sequence : job.batch->sequences) n_items += CeilDiv(sequence.n_rows, rows);
    if (n_items * heads >= wanted_tasks || rows == 1 || (rows + 1) / 2 * heads_a_task_ < fewest) break;
  }
  n_items_ = 0;
  for (size_t s = 0; s < job.batch->sequences.size(); ++s) {
    const SequenceRows& sequence = job.batch->sequences[s];
    for (int row = 0; row < sequence.n_rows; row += rows) {
      items_[static_cast<size_t>(n_items_++)] =
          ItemOf(job, static_cast<int>(s), sequence.first_row + row, std::min(rows, sequence.n_rows - row));
    }
  }
  std::sort(items_.begin(), items_.begin() + n_items_, [](const AttentionItem& a, const AttentionItem& b) {
    const int64_t cost_a = a.cost * a.n_rows, cost_b = b.cost * b.n_rows;
    return cost_a != cost_b ? cost_a > cost_b : a.row < b.row;
  });
}

void Attention::RunWhole(Executor& executor, const AttentionJob& job) {
  ParallelFor(executor, n_tasks(job), [&](int64_t index, int worker) {
    RunAttentionTask(job, TaskAt(job, index), scratch_[static_cast<size_t>(worker)]);
  });
}

void Attention::RunSplit(Executor& executor, const AttentionJob& job, int64_t total_tiles) {
  const int tiles_a_piece = static_cast<int>(std::clamp<int64_t>(total_tiles / (8 * executor.n_workers()), 1, 32));
  auto partial_floats = [&](const AttentionTask& task) {
    return PartialFloats(job, task.n_lines()) * (task.item->end_tile - task.item->first_tile);
  };
  while (heads_a_task_ > 8 && partial_floats(TaskAt(job, 0)) > kMaxPartialFloats) {
    heads_a_task_ = (heads_a_task_ + 1) / 2;
  }
  bool all_fit = true;
  int64_t used = 0;
  int n_pieces = 0;
  n_wave_ = 0;
  const int64_t n = n_tasks(job);
  for (int64_t index = 0; index < n; ++index) {
    const AttentionTask task = TaskAt(job, index);
    const int64_t floats = partial_floats(task);
    if (floats > kMaxPartialFloats) {
      all_fit = false;
      continue;
    }
    if (used + floats > kMaxPartialFloats || n_wave_ == kMaxWaveTasks) {
      RunWave(executor, job, n_pieces, tiles_a_piece);
      used = 0;
      n_pieces = 0;
      n_wave_ = 0;
    }
    wave_[static_cast<size_t>(n_wave_++)] = {task, partials_.as<float>() + used, n_pieces};
    used += floats;
    n_pieces += static_cast<int>(CeilDiv(task.item->end_tile - task.item->first_tile, tiles_a_piece));
  }
  RunWave(executor, job, n_pieces, tiles_a_piece);
  if (all_fit) return;
  ParallelFor(executor, n, [&](int64_t index, int worker) {
    const AttentionTask task = TaskAt(job, index);
    if (partial_floats(task) > kMaxPartialFloats) {
      RunAttentionTask(job, task, scratch_[static_cast<size_t>(worker)]);
    }
  });
}

void Attention::RunWave(Executor& executor, const AttentionJob& job, int n_pieces, int tiles_a_piece) {
  if (n_wave_ == 0) return;
  std::atomic<int> next_piece{0};
  std::atomic<int> next_merge{0};
  executor.Run([&](int worker) {
    const AttentionScratch& scratch = scratch_[static_cast<size_t>(worker)];
    const auto begin = wave_.begin();
    for (int piece; (piece = next_piece.fetch_add(1, std::memory_order_relaxed)) < n_pieces;) {
      const auto split = std::upper_bound(begin, begin + n_wave_, piece,
                                          [](int p, const SplitTask& t) { return p < t.first_piece; }) - 1;
      const AttentionItem& item = *split->task.item;
      const int first = item.first_tile + (piece - split->first_piece) * tiles_a_piece;
      RunAttentionTiles(job, split->task, first, std::min(first + tiles_a_piece, item.end_tile), split->partials,
                        scratch);
    }
    executor.Barrier(worker);
    for (int i; (i = next_merge.fetch_add(1, std::memory_order_relaxed)) < n_wave_;) {
      const SplitTask& split = wave_[static_cast<size_t>(i)];
      MergeAttentionTiles(job, split.task, split.partials, scratch);
    }
  });
}

}  // namespace surety::kernels::cpu
