// Exact attention over the paged KV cache, and its MLA forms: cuts a call into tasks, spreads them over the workers.
//
// Shapes: see ops.h. Threads: one caller at a time; Run* use the executor's workers.
// Owns: the workers' scratch and the memory for partial results, both made by Reserve.
// Errors: Reserve: kResourceExhausted. The Run functions CHECK shapes (head sizes up to kMaxKeyDim and kMaxValueDim).
// Invariants: those of attention_job.h. (3) No allocation in Run*. (4) Nothing beyond a row's visible tokens takes
// part: unwritten parts of pages may hold anything.
#pragma once

#include <cstdint>
#include <vector>

#include "base/aligned_buffer.h"
#include "base/executor.h"
#include "base/status.h"
#include "kernels/cpu/attention_job.h"
#include "kernels/ops.h"

namespace surety::kernels::cpu {

class Attention {
 public:
  Status Reserve(int64_t max_rows, int n_workers);
  int64_t reserved_bytes() const;

  void Run(Executor& executor, const AttentionParams& params, int layer, ConstMatrixF q, const BatchView& batch,
           const PagedKvView& kv, MatrixF out);
  void RunMla(Executor& executor, const MlaParams& params, int layer, ConstMatrixF q, const BatchView& batch,
              const PagedKvView& kv, MatrixF out);
  void RunMlaMaterialised(Executor& executor, const MlaParams& params, int layer, ConstMatrixF q, ConstMatrixF kv_b,
                          const BatchView& batch, const PagedKvView& kv, MatrixF out);

 private:
  // A task of the wave that is split by tiles.
  struct SplitTask {
    AttentionTask task;
    float* partials;
    int first_piece;  // its pieces are numbered from here
  };
  static constexpr int kMaxWaveTasks = 1024;

  void RunJob(Executor& executor, const AttentionJob& job);
  void RunWhole(Executor& executor, const AttentionJob& job);
  void RunSplit(Executor& executor, const AttentionJob& job, int64_t total_tiles);
  void RunWave(Executor& executor, const AttentionJob& job, int n_pieces, int tiles_a_piece);
  int HeadBlock(const AttentionJob& job) const;
  AttentionTask TaskAt(const AttentionJob& job, int64_t index) const;
  int64_t n_tasks(const AttentionJob& job) const;
  void PlanItems(const AttentionJob& job, int n_workers);

  int64_t max_rows_ = 0;
  int n_workers_ = 0;
  AlignedBuffer scratch_memory_;
  AlignedBuffer partials_;
  std::vector<AttentionScratch> scratch_;
  std::vector<AttentionItem> items_;  // n_items_ in use
  int n_items_ = 0;
  int heads_a_task_ = 1;
  std::vector<SplitTask> wave_;
  int n_wave_ = 0;
};

}  // namespace surety::kernels::cpu
