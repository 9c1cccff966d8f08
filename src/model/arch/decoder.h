// The decoder-only transformer: embedding, layers of attention and feed-forward with pre-norms (and post-norms where
// the model has them), final norm, output matrix. What varies between architectures is read from ModelConfig. Threads,
// Owns, Errors, Invariants: see model.h.
#pragma once

#include <memory>
#include <vector>

#include "model/arch/blocks.h"
#include "model/arch/model.h"
#include "model/arch/workspace.h"

namespace surety::model {

class Decoder final : public Model {
 public:
  static Result<std::unique_ptr<Model>> Load(const ModelSource& source, kernels::Ops& ops, LoadProgressFn progress);

  const ModelConfig& config() const override { return config_; }
  int64_t weight_bytes() const override { return weight_bytes_; }
  int64_t workspace_bytes() const override { return workspace_.size_bytes() + ops_.reserved_bytes(); }
  int64_t bytes_per_decoded_token() const override;
  int64_t macs_per_row() const override;
  int64_t macs_per_logit_row() const override;
  Status SetTaps(std::span<const HiddenTap> taps) override;
  void Logits(ConstMatrixF hidden, MatrixF logits) override;
  ConstMatrixF taps() const override { return tapped_; }
  Status Reserve(int max_rows, int max_context) override;
  void Forward(const BatchView& batch, const PagedKvView& kv, MatrixF logits) override;
  bool SetMaterialisedMla(bool on) override {
    materialised_mla_ = on;
    return config_.IsMla();
  }

 private:
  struct Layer {
    std::unique_ptr<AttentionBlock> attention;
    std::unique_ptr<FfnBlock> ffn;
    std::vector<float> attention_norm, ffn_norm, post_attention_norm, post_ffn_norm;
  };

  Decoder(const ModelSource& source, kernels::Ops& ops) : config_(source.config()), ops_(ops) {}
  Status LoadWeights(TensorLoader& loader);
  Status LoadLayer(TensorLoader& loader, int index);
  void RunLayer(const StepContext& step, int index, MatrixF x, MatrixF h, MatrixF delta, ConstMatrixF* heads_out,
                bool store_only);
  void Keep(int layer, ConstMatrixF x);
  bool KeepsFinal() const;
  const RopeState& RopeOf(int layer) const {
    return has_local_rope_ && config_.WindowOf(layer) > 0 ? rope_local_ : rope_;
  }
  kernels::PackedMatrix* OutputMatrix() const { return output_.get(); }

  ModelConfig config_;
  kernels::Ops& ops_;
  TensorView embedding_;
  std::vector<Layer> layers_;
  std::vector<float> output_norm_;
  std::unique_ptr<kernels::PackedMatrix> output_;
  RopeState rope_, rope_local_;
  bool has_local_rope_ = false;
  bool materialised_mla_ = false;
  int64_t weight_bytes_ = 0, max_rows_ = 1;

  Workspace workspace_;
  BlockSlots slots_;
  WorkspaceSlot x_, h_, delta_, x_last_, heads_last_, h_last_, tapped_slot_;
  std::vector<HiddenTap> taps_;
  MatrixF tapped_;  // of the last step
};

}  // namespace surety::model
