// Runs a model over token ids for tests: owns the KV memory, the workers and the operations; pages are handed out in a
// shuffled order so that nothing can rely on neighbours.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "base/aligned_buffer.h"
#include "base/executor.h"
#include "kernels/ops.h"
#include "model/arch/model.h"
#include "model/model_source.h"

namespace surety::model {

struct RunnerOptions {
  KvType kv_type = KvType::kF32;
  int page_tokens = 16;
  int n_threads = 1;
  int max_rows = 256;
  int max_context = 512;
  uint64_t shuffle_seed = 1;
  std::vector<HiddenTap> taps = {};
};

class ModelRunner {
 public:
  static Result<std::unique_ptr<ModelRunner>> Open(const std::string& path, const RunnerOptions& options);

  // All logits (or hidden states) of the sequence, row by row, computed in chunks of the given sizes (the last one
  // repeats). Each call uses fresh pages whose memory holds NaN.
  std::vector<float> Run(std::span<const int32_t> ids, const std::vector<int>& chunks);
  // Several sequences in one batch, chunk by chunk; result i belongs to sequence i.
  std::vector<std::vector<float>> RunTogether(const std::vector<std::vector<int32_t>>& sequences, int chunk);

  // Calls of operator new within Forward so far.
  int64_t forward_allocations() const { return forward_allocations_; }

  Model& model() { return *model_; }
  const ModelSource& source() const { return *source_; }
  int out_cols() const;
  // Of the last Run: what the model kept of each row, [T, taps * D].
  const std::vector<float>& tapped() const { return tapped_; }
  // Rows of a chunk whose logits Run wants: all, or the last one alone (the others' stay zero).
  void set_last_logits_only(bool on) { last_logits_only_ = on; }

 private:
  ModelRunner() = default;
  void PoisonAndShuffle();
  void Forward(const BatchView& batch, MatrixF out);

  RunnerOptions options_;
  std::unique_ptr<ModelSource> source_;
  std::unique_ptr<Executor> executor_;
  std::unique_ptr<kernels::Ops> ops_;
  std::unique_ptr<Model> model_;
  AlignedBuffer kv_memory_;
  PagedKvView kv_;
  std::vector<int32_t> page_order_;
  int64_t forward_allocations_ = 0;
  std::vector<float> tapped_;
  bool last_logits_only_ = false;
};

}  // namespace surety::model
