// BERT-type encoders: learned positions, bidirectional attention, LayerNorm after each block, plain GELU feed-forward.
// Each sequence must be whole in one batch: every row sees all rows of its sequence.
// Source: Devlin et al., "BERT". Threads, Owns, Errors, Invariants: see model.h.
#pragma once

#include <memory>
#include <vector>

#include "model/arch/blocks.h"
#include "model/arch/model.h"
#include "model/arch/workspace.h"

namespace surety::model {

class Encoder final : public Model {
 public:
  static Result<std::unique_ptr<Model>> Load(const ModelSource& source, kernels::Ops& ops, LoadProgressFn progress);

  const ModelConfig& config() const override { return config_; }
  int64_t weight_bytes() const override { return weight_bytes_; }
  int64_t workspace_bytes() const override { return workspace_.size_bytes() + ops_.reserved_bytes(); }
  int64_t bytes_per_decoded_token() const override { return weight_bytes_; }
  int64_t macs_per_row() const override;
  int64_t macs_per_logit_row() const override { return 0; }
  Status Reserve(int max_rows, int max_context) override;
  void Forward(const BatchView& batch, const PagedKvView& kv, MatrixF hidden) override;

 private:
  struct Norm {
    std::vector<float> weight, bias;
  };
  struct Layer {
    std::unique_ptr<AttentionBlock> attention;
    Norm attention_norm, output_norm;
    std::unique_ptr<kernels::PackedMatrix> up, down;
    std::vector<float> up_bias, down_bias;
  };

  Encoder(const ModelSource& source, kernels::Ops& ops) : config_(source.config()), ops_(ops) {}
  Status LoadWeights(TensorLoader& loader);
  Status LoadLayer(TensorLoader& loader, int index);
  static Result<Norm> LoadNorm(TensorLoader& loader, const std::string& name, int64_t d);
  void Normalise(ConstMatrixF x, const Norm& norm, MatrixF out);

  ModelConfig config_;
  kernels::Ops& ops_;
  TensorView tokens_, positions_, types_;
  std::vector<int32_t> zeros_;  // token type of every row
  Norm embedding_norm_;
  std::vector<Layer> layers_;
  RopeState no_rope_;
  int64_t weight_bytes_ = 0;

  Workspace workspace_;
  BlockSlots slots_;
  WorkspaceSlot x_, delta_;
};

}  // namespace surety::model
