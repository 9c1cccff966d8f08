// Multi-head latent attention as attention jobs: absorbed, all heads share one latent key; materialised, each head has
// keys and values of its own that the tile code computes from the latents.
// Source: DeepSeek-AI, "DeepSeek-V2", section 2.1.
#include "base/check.h"
#include "kernels/cpu/attention.h"

namespace surety::kernels::cpu {
namespace {

AttentionJob LatentJob(const MlaParams& params, int layer, ConstMatrixF q, const BatchView& batch,
                       const PagedKvView& kv, MatrixF out) {
  SURETY_CHECK(kv.layout.latent && kv.layout.k_dim == params.latent_dim + params.rope_dim);
  SURETY_CHECK(kv.layout.type != KvType::kQ8_0 && kv.layout.k_dim <= kMaxKeyDim);
  AttentionJob job;
  job.n_heads = params.n_heads;
  job.scale = params.scale;
  job.layer = layer;
  job.q = q;
  job.out = out;
  job.batch = &batch;
  job.kv = &kv;
  job.nope_dim = params.nope_dim;
  job.rope_dim = params.rope_dim;
  job.latent_dim = params.latent_dim;
  return job;
}

}  // namespace

void Attention::RunMla(Executor& executor, const MlaParams& params, int layer, ConstMatrixF q, const BatchView& batch,
                       const PagedKvView& kv, MatrixF out) {
  AttentionJob job = LatentJob(params, layer, q, batch, kv, out);
  job.kind = AttentionKind::kLatent;
  job.group = params.n_heads;
  job.k_dim = params.latent_dim + params.rope_dim;
  job.v_dim = params.latent_dim;
  RunJob(executor, job);
}

void Attention::RunMlaMaterialised(Executor& executor, const MlaParams& params, int layer, ConstMatrixF q,
                                   ConstMatrixF kv_b, const BatchView& batch, const PagedKvView& kv, MatrixF out) {
  AttentionJob job = LatentJob(params, layer, q, batch, kv, out);
  job.kind = AttentionKind::kMaterialised;
  job.group = 1;
  job.k_dim = params.nope_dim + params.rope_dim;
  job.v_dim = params.v_dim;
  SURETY_CHECK(job.k_dim <= kMaxMadeDim && job.v_dim <= kMaxMadeDim);
  SURETY_CHECK(kv_b.cols == params.latent_dim && kv_b.stride == kv_b.cols);
  SURETY_CHECK(kv_b.rows == int64_t{params.n_heads} * (params.nope_dim + params.v_dim));
  job.kv_b = kv_b.data;
  RunJob(executor, job);
}

}  // namespace surety::kernels::cpu
