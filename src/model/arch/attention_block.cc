// Multi-head attention with any grouping of KV heads: MHA, GQA, MQA; optional biases, QK-norm, window, soft cap.
#include <cmath>
#include <string>

#include "model/arch/blocks.h"

namespace surety::model {

kernels::Activation KernelActivation(FfnActivation activation) {
  switch (activation) {
    case FfnActivation::kSilu: return kernels::Activation::kSilu;
    case FfnActivation::kGeluTanh: return kernels::Activation::kGeluTanh;
    case FfnActivation::kGeluErf: return kernels::Activation::kGeluErf;
  }
  return kernels::Activation::kSilu;
}

void RopeState::Init(const RopeConfig& config) {
  inv_freq = config.InverseFrequencies();
  spec.n_freqs = static_cast<int>(inv_freq.size());
  spec.interleaved = config.interleaved;
  spec.inv_freq = inv_freq.data();
  spec.magnitude = config.Magnitude();
}

void BlockSlots::Declare(const ModelConfig& c, int64_t max_rows, Workspace& workspace) {
  if (c.IsMla()) {
    const int64_t q_dim = int64_t{c.n_heads} * (c.mla.nope_dim + c.mla.rope_dim);
    q_latent = workspace.Declare(max_rows, std::max(1, c.mla.q_rank));
    q = workspace.Declare(max_rows, q_dim);
    latent = workspace.Declare(max_rows, c.mla.kv_rank + c.mla.rope_dim);
    q_absorbed = workspace.Declare(max_rows, int64_t{c.n_heads} * (c.mla.kv_rank + c.mla.rope_dim));
    heads_latent = workspace.Declare(max_rows, int64_t{c.n_heads} * c.mla.kv_rank);
    heads = workspace.Declare(max_rows, int64_t{c.n_heads} * c.mla.v_dim);
  } else {
    qkv = workspace.Declare(max_rows, int64_t{c.n_heads + 2 * c.n_kv_heads} * c.head_dim);
    heads = workspace.Declare(max_rows, int64_t{c.n_heads} * c.head_dim);
  }
  gate_up = workspace.Declare(max_rows, 2 * int64_t{c.d_ff});
  act = workspace.Declare(max_rows, c.d_ff);
  if (c.moe.n_experts > 0) {
    const int64_t expert_ff = c.moe.d_ff_expert;
    router = workspace.Declare(max_rows, c.moe.n_experts);
    expert_in = workspace.Declare(max_rows, c.d_model);
    expert_gate_up = workspace.Declare(max_rows, 2 * expert_ff * std::max(1, c.moe.n_shared));
    expert_act = workspace.Declare(max_rows, expert_ff * std::max(1, c.moe.n_shared));
    expert_out = workspace.Declare(max_rows, c.d_model);
  }
}

namespace {

class MultiHeadBlock final : public AttentionBlock {
 public:
  MultiHeadBlock(const ModelConfig& config, int layer, const BlockSlots& slots) : config_(config), slots_(slots) {
    params_.n_heads = config.n_heads;
    params_.n_kv_heads = config.n_kv_heads;
    params_.k_dim = config.head_dim;
    params_.v_dim = config.head_dim;
    params_.scale = config.attention_scale > 0
                        ? config.attention_scale
                        : static_cast<float>(1.0 / std::sqrt(static_cast<double>(config.head_dim)));
    params_.soft_cap = config.attention_soft_cap;
    params_.window = config.WindowOf(layer);
    params_.causal = !config.encoder;
  }

  Status Load(TensorLoader& loader, int layer) {
    const std::string prefix = "blk." + std::to_string(layer) + ".";
    const int64_t d = config_.d_model;
    const int64_t q_dim = int64_t{config_.n_heads} * config_.head_dim;
    const int64_t kv_dim = int64_t{config_.n_kv_heads} * config_.head_dim;
    SURETY_ASSIGN_OR_RETURN(wq_, loader.Pack(prefix + "attn_q.weight", q_dim, d));
    SURETY_ASSIGN_OR_RETURN(wk_, loader.Pack(prefix + "attn_k.weight", kv_dim, d));
    SURETY_ASSIGN_OR_RETURN(wv_, loader.Pack(prefix + "attn_v.weight", kv_dim, d));
    SURETY_ASSIGN_OR_RETURN(wo_, loader.Pack(prefix + "attn_output.weight", d, q_dim));
    SURETY_ASSIGN_OR_RETURN(q_bias_, loader.OptionalFloats(prefix + "attn_q.bias", q_dim));
    SURETY_ASSIGN_OR_RETURN(k_bias_, loader.OptionalFloats(prefix + "attn_k.bias", kv_dim));
    SURETY_ASSIGN_OR_RETURN(v_bias_, loader.OptionalFloats(prefix + "attn_v.bias", kv_dim));
    SURETY_ASSIGN_OR_RETURN(o_bias_, loader.OptionalFloats(prefix + "attn_output.bias", d));
    if (config_.qk_norm) {
      const float offset = config_.norm_weight_offset;
      SURETY_ASSIGN_OR_RETURN(q_norm_, loader.Floats(prefix + "attn_q_norm.weight", config_.head_dim, offset));
      SURETY_ASSIGN_OR_RETURN(k_norm_, loader.Floats(prefix + "attn_k_norm.weight", config_.head_dim, offset));
    }
    return OkStatus();
  }

  MatrixF Attend(const StepContext& step, int layer, const RopeState& rope, ConstMatrixF h,
                 bool store_only) override {
    const int64_t rows = h.rows;
    const int64_t q_dim = int64_t{config_.n_heads} * config_.head_dim;
    const int64_t kv_dim = int64_t{config_.n_kv_heads} * config_.head_dim;
    MatrixF qkv = step.workspace.Get(slots_.qkv, rows);
    MatrixF q = qkv.Cols(0, q_dim);
    MatrixF k = qkv.Cols(q_dim, kv_dim);
    MatrixF v = qkv.Cols(q_dim + kv_dim, kv_dim);
    const kernels::MatMulTask tasks[] = {{wq_.get(), q, Data(q_bias_), false},
                                         {wk_.get(), k, Data(k_bias_), false},
                                         {wv_.get(), v, Data(v_bias_), false}};
    step.ops.MatMul(h, tasks);
    if (config_.qk_norm) {
      step.ops.RmsNorm(q, q_norm_.data(), config_.head_dim, config_.norm_eps, q);
      step.ops.RmsNorm(k, k_norm_.data(), config_.head_dim, config_.norm_eps, k);
    }
    if (rope.spec.n_freqs > 0) {
      const ConstMatrixF table = step.workspace.Get(rope.table, rows);
      step.ops.Rope(rope.spec, table, config_.n_heads, config_.head_dim, 0, q);
      step.ops.Rope(rope.spec, table, config_.n_kv_heads, config_.head_dim, 0, k);
    }
    step.ops.KvStore(layer, k, v, step.batch, step.kv);
    if (!step.batch.kv_copies.empty()) step.ops.CopyKv(layer, step.batch.kv_copies, step.kv);
    MatrixF heads = step.workspace.Get(slots_.heads, rows);
    if (!store_only) step.ops.Attention(params_, layer, q, step.batch, step.kv, heads);
    return heads;
  }

  void Project(const StepContext& step, ConstMatrixF heads, MatrixF out) override {
    const kernels::MatMulTask task = {wo_.get(), out, Data(o_bias_), false};
    step.ops.MatMul(heads, {&task, 1});
  }

  int64_t macs_per_row() const override {
    return int64_t{config_.d_model} * config_.head_dim * (2 * config_.n_heads + 2 * config_.n_kv_heads);
  }
  int64_t weight_bytes() const override {
    return wq_->size_bytes() + wk_->size_bytes() + wv_->size_bytes() + wo_->size_bytes();
  }

 private:
  static const float* Data(const std::vector<float>& v) { return v.empty() ? nullptr : v.data(); }

  const ModelConfig& config_;
  const BlockSlots& slots_;
  kernels::AttentionParams params_;
  std::unique_ptr<kernels::PackedMatrix> wq_, wk_, wv_, wo_;
  std::vector<float> q_bias_, k_bias_, v_bias_, o_bias_, q_norm_, k_norm_;
};

}  // namespace

Result<std::unique_ptr<AttentionBlock>> LoadAttentionBlock(TensorLoader& loader, const ModelConfig& config, int layer,
                                                           const BlockSlots& slots) {
  auto block = std::make_unique<MultiHeadBlock>(config, layer, slots);
  SURETY_RETURN_IF_ERROR(block->Load(loader, layer));
  return block;
}

}  // namespace surety::model
