// Multi-head latent attention (DeepSeek-V2, V3): the cache holds one latent and one rotated key part a token, shared by
// all heads. Absorbed form: the query is taken through W_UK, so that attention runs on latents, and W_UV comes after.
// Materialised form: keys and values are made from the latents tile by tile.
// Source: DeepSeek-AI, "DeepSeek-V2", section 2.1.
#include <cmath>
#include <string>

#include "model/arch/blocks.h"

namespace surety::model {
namespace {

class MlaBlock final : public AttentionBlock {
 public:
  MlaBlock(const ModelConfig& config, const BlockSlots& slots, const bool* materialised)
      : config_(config), slots_(slots), materialised_(materialised) {
    const MlaConfig& mla = config.mla;
    params_ = {config.n_heads, mla.nope_dim, mla.rope_dim, mla.kv_rank, mla.v_dim, config.attention_scale};
    if (config.attention_scale <= 0) {
      double scale = 1.0 / std::sqrt(static_cast<double>(mla.nope_dim + mla.rope_dim));
      const RopeConfig& rope = config.rope;
      if (rope.scaling == RopeScaling::kYarn && rope.mscale_all_dim > 0 && rope.factor > 1) {
        const double m = 0.1 * rope.mscale_all_dim * std::log(rope.factor) + 1.0;
        scale *= m * m;
      }
      params_.scale = static_cast<float>(scale);
    }
  }

  Status Load(TensorLoader& loader, int layer) {
    const std::string prefix = "blk." + std::to_string(layer) + ".";
    const MlaConfig& mla = config_.mla;
    const int64_t d = config_.d_model;
    const int64_t heads = config_.n_heads;
    const int64_t q_dim = heads * (mla.nope_dim + mla.rope_dim);
    const float offset = config_.norm_weight_offset;
    if (mla.q_rank > 0) {
      SURETY_ASSIGN_OR_RETURN(wq_a_, loader.Pack(prefix + "attn_q_a.weight", mla.q_rank, d));
      SURETY_ASSIGN_OR_RETURN(q_a_norm_, loader.Floats(prefix + "attn_q_a_norm.weight", mla.q_rank, offset));
      SURETY_ASSIGN_OR_RETURN(wq_, loader.Pack(prefix + "attn_q_b.weight", q_dim, mla.q_rank));
    } else {
      SURETY_ASSIGN_OR_RETURN(wq_, loader.Pack(prefix + "attn_q.weight", q_dim, d));
    }
    SURETY_ASSIGN_OR_RETURN(wkv_a_, loader.Pack(prefix + "attn_kv_a_mqa.weight", mla.kv_rank + mla.rope_dim, d));
    SURETY_ASSIGN_OR_RETURN(kv_a_norm_, loader.Floats(prefix + "attn_kv_a_norm.weight", mla.kv_rank, offset));
    SURETY_RETURN_IF_ERROR(LoadKvB(loader, prefix));
    SURETY_ASSIGN_OR_RETURN(wo_, loader.Pack(prefix + "attn_output.weight", d, heads * mla.v_dim));
    return OkStatus();
  }

  MatrixF Attend(const StepContext& step, int layer, const RopeState& rope, ConstMatrixF h,
                 bool store_only) override {
    const MlaConfig& mla = config_.mla;
    const int64_t rows = h.rows;
    const ConstMatrixF table = step.workspace.Get(rope.table, rows);
    MatrixF q = step.workspace.Get(slots_.q, rows);
    MatrixF latent = step.workspace.Get(slots_.latent, rows);
    if (mla.q_rank > 0) {
      MatrixF q_latent = step.workspace.Get(slots_.q_latent, rows);
      const kernels::MatMulTask tasks[] = {{wq_a_.get(), q_latent}, {wkv_a_.get(), latent}};
      step.ops.MatMul(h, tasks);
      step.ops.RmsNorm(q_latent, q_a_norm_.data(), mla.q_rank, config_.norm_eps, q_latent);
      const kernels::MatMulTask up = {wq_.get(), q};
      step.ops.MatMul(q_latent, {&up, 1});
    } else {
      const kernels::MatMulTask tasks[] = {{wq_.get(), q}, {wkv_a_.get(), latent}};
      step.ops.MatMul(h, tasks);
    }
    MatrixF c = latent.Cols(0, mla.kv_rank);
    step.ops.RmsNorm(c, kv_a_norm_.data(), mla.kv_rank, config_.norm_eps, c);
    step.ops.Rope(rope.spec, table, 1, mla.kv_rank + mla.rope_dim, mla.kv_rank, latent);
    step.ops.Rope(rope.spec, table, config_.n_heads, mla.nope_dim + mla.rope_dim, mla.nope_dim, q);
    step.ops.KvStore(layer, latent, {}, step.batch, step.kv);
    if (!step.batch.kv_copies.empty()) step.ops.CopyKv(layer, step.batch.kv_copies, step.kv);
    MatrixF heads = step.workspace.Get(slots_.heads, rows);
    if (store_only) return heads;
    if (*materialised_) {
      const ConstMatrixF kv_b(kv_b_.data(), int64_t{config_.n_heads} * (mla.nope_dim + mla.v_dim), mla.kv_rank);
      step.ops.MlaAttentionMaterialised(params_, layer, q, kv_b, step.batch, step.kv, heads);
    } else {
      AttendAbsorbed(step, layer, q, heads);
    }
    return heads;
  }

  void Project(const StepContext& step, ConstMatrixF heads, MatrixF out) override {
    const kernels::MatMulTask task = {wo_.get(), out};
    step.ops.MatMul(heads, {&task, 1});
  }

  int64_t macs_per_row() const override {
    int64_t macs = wq_->n_outputs() * wq_->n_inputs() + wkv_a_->n_outputs() * wkv_a_->n_inputs() +
                   wo_->n_outputs() * wo_->n_inputs() + static_cast<int64_t>(kv_b_.size());
    if (wq_a_) macs += wq_a_->n_outputs() * wq_a_->n_inputs();
    return macs;
  }
  int64_t weight_bytes() const override {
    return wq_->size_bytes() + wkv_a_->size_bytes() + wo_->size_bytes() + (wq_a_ ? wq_a_->size_bytes() : 0) +
           static_cast<int64_t>(kv_b_.size() * sizeof(float));
  }

 private:
  void AttendAbsorbed(const StepContext& step, int layer, ConstMatrixF q, MatrixF heads) {
    const MlaConfig& mla = config_.mla;
    MatrixF q_absorbed = step.workspace.Get(slots_.q_absorbed, q.rows);
    MatrixF heads_latent = step.workspace.Get(slots_.heads_latent, q.rows);
    const int64_t head_stride = int64_t{mla.nope_dim + mla.v_dim} * mla.kv_rank;
    step.ops.HeadMatMul(kv_b_.data(), head_stride, config_.n_heads, mla.nope_dim, mla.kv_rank, true, q, q_absorbed);
    step.ops.CopyHeads(q, config_.n_heads, mla.nope_dim, mla.rope_dim, q_absorbed, mla.kv_rank);
    step.ops.MlaAttention(params_, layer, q_absorbed, step.batch, step.kv, heads_latent);
    step.ops.HeadMatMul(kv_b_.data() + int64_t{mla.nope_dim} * mla.kv_rank, head_stride, config_.n_heads, mla.kv_rank,
                        mla.v_dim, false, heads_latent, heads);
  }

  // kv_b as floats, per head nope rows of W_UK then v rows of W_UV. Newer GGUF files store the two apart, W_UK
  // transposed: attn_k_b {heads, kv_rank, nope}, attn_v_b {heads, v, kv_rank}.
  Status LoadKvB(TensorLoader& loader, const std::string& prefix) {
    const MlaConfig& mla = config_.mla;
    const int64_t heads = config_.n_heads, nope = mla.nope_dim, v = mla.v_dim, rank = mla.kv_rank;
    if (loader.Has(prefix + "attn_kv_b.weight")) {
      SURETY_ASSIGN_OR_RETURN(kv_b_, loader.Floats(prefix + "attn_kv_b.weight", heads * (nope + v) * rank));
      return OkStatus();
    }
    SURETY_ASSIGN_OR_RETURN(const auto k_b, loader.Floats(prefix + "attn_k_b.weight", heads * nope * rank));
    SURETY_ASSIGN_OR_RETURN(const auto v_b, loader.Floats(prefix + "attn_v_b.weight", heads * v * rank));
    kv_b_.resize(static_cast<size_t>(heads * (nope + v) * rank));
    for (int64_t head = 0; head < heads; ++head) {
      float* out = kv_b_.data() + head * (nope + v) * rank;
      for (int64_t i = 0; i < nope; ++i) {
        for (int64_t r = 0; r < rank; ++r) {
          out[i * rank + r] = k_b[static_cast<size_t>((head * rank + r) * nope + i)];
        }
      }
      for (int64_t i = 0; i < v * rank; ++i) {
        out[nope * rank + i] = v_b[static_cast<size_t>(head * v * rank + i)];
      }
    }
    return OkStatus();
  }

  const ModelConfig& config_;
  const BlockSlots& slots_;
  const bool* materialised_;
  kernels::MlaParams params_;
  std::unique_ptr<kernels::PackedMatrix> wq_a_, wq_, wkv_a_, wo_;
  std::vector<float> q_a_norm_, kv_a_norm_, kv_b_;
};

}  // namespace

Result<std::unique_ptr<AttentionBlock>> LoadMlaBlock(TensorLoader& loader, const ModelConfig& config, int layer,
                                                     const BlockSlots& slots, const bool* materialised) {
  auto block = std::make_unique<MlaBlock>(config, slots, materialised);
  SURETY_RETURN_IF_ERROR(block->Load(loader, layer));
  return block;
}

}  // namespace surety::model
