// What a model is, as data: one description that every architecture fills from its file's metadata. The decoder reads
// only this, so a new architecture is a new mapping unless its computation really differs.
//
// Shapes: L layers, D d_model, H n_heads, K n_kv_heads, E head_dim, F d_ff, V vocab_size.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "base/status.h"
#include "tensor/kv_layout.h"

namespace surety::model {

enum class FfnActivation : uint8_t { kSilu, kGeluTanh, kGeluErf };
enum class RopeScaling : uint8_t { kNone, kLinear, kLlama3, kYarn };
enum class ExpertScoring : uint8_t { kSoftmax, kSigmoid };
enum class Pooling : uint8_t { kNone, kMean, kCls, kLast };

struct RopeConfig {
  int dim = 0;               // rotated elements of a head
  double base = 10000.0;     // theta
  bool interleaved = false;  // pairs (2i, 2i+1) rather than (i, i + dim/2)
  RopeScaling scaling = RopeScaling::kNone;
  double factor = 1.0;
  int original_context = 0;        // llama3, yarn
  double low_freq_factor = 1.0;    // llama3
  double high_freq_factor = 4.0;   // llama3
  double beta_fast = 32.0;         // yarn
  double beta_slow = 1.0;          // yarn
  double attention_factor = 0.0;   // yarn: multiplies cos and sin; 0 = derive from factor, mscale and mscale_all_dim
  double mscale = 0.0;             // yarn as DeepSeek uses it
  double mscale_all_dim = 0.0;
  std::vector<float> freq_factors;  // GGUF's rope_freqs tensor, dim/2 divisors of the frequencies; empty if none

  // Inverse frequencies (dim/2) after scaling, in double, and the factor on cos and sin.
  // Source: transformers' modeling_rope_utils for linear, llama3 and yarn (Peng et al., "YaRN", for the last).
  std::vector<double> InverseFrequencies() const;
  double Magnitude() const;
};

// kInvalidArgument, naming the field behind `name`.
Status ValidateRope(const RopeConfig& rope, std::string_view name);

struct MoeConfig {
  int n_experts = 0;  // 0: no mixture
  int n_used = 0;     // experts a token uses
  int n_shared = 0;   // always-on experts, stored as one FFN of n_shared * d_ff_expert
  int d_ff_expert = 0;
  int n_dense_layers = 0;  // leading layers with a plain FFN
  ExpertScoring scoring = ExpertScoring::kSoftmax;
  bool normalise_weights = false;  // chosen weights sum to one
  double routed_scale = 1.0;
  int n_groups = 1;       // group-limited routing
  int n_groups_used = 1;
  bool group_by_top2 = false;  // a group's score is the sum of its two best (V3) rather than its best (V2)
};

struct MlaConfig {
  int kv_rank = 0;  // 0: no MLA
  int q_rank = 0;   // 0: plain q projection
  int nope_dim = 0;
  int rope_dim = 0;
  int v_dim = 0;
};

struct ModelConfig {
  std::string architecture;  // as the file names it: "llama", "qwen2", "gemma3", "deepseek2", "bert", ...
  std::string name;
  bool encoder = false;  // BERT type: bidirectional, learned positions, LayerNorm after each block

  int n_layers = 0;
  int d_model = 0;
  int n_heads = 0;
  int n_kv_heads = 0;
  int head_dim = 0;
  int d_ff = 0;
  int vocab_size = 0;
  int max_context = 0;

  float norm_eps = 1e-5f;
  float norm_weight_offset = 0.0f;  // 1 where the file stores w - 1 (Gemma in safetensors form)
  FfnActivation activation = FfnActivation::kSilu;
  float embedding_scale = 1.0f;
  float attention_scale = 0.0f;  // 0: 1/sqrt(head_dim) (or the MLA rule)
  float attention_soft_cap = 0.0f;
  float logit_soft_cap = 0.0f;
  float logit_scale = 1.0f;
  bool qk_norm = false;
  bool post_norms = false;  // a second norm after attention and FFN, before the residual (Gemma)
  RopeConfig rope;
  RopeConfig rope_local;     // for layers with a window, where it differs (Gemma 3); dim 0: same as rope
  std::vector<int> windows;  // for each layer, 0 = full attention; empty = all full
  MoeConfig moe;
  MlaConfig mla;

  // Encoders.
  int n_token_types = 0;
  Pooling pooling = Pooling::kNone;
  bool normalise_embedding = false;

  int WindowOf(int layer) const { return windows.empty() ? 0 : windows[static_cast<size_t>(layer)]; }
  bool IsMla() const { return mla.kv_rank > 0; }
  bool LayerHasExperts(int layer) const { return moe.n_experts > 0 && layer >= moe.n_dense_layers; }

  // KV cache of this model: one latent head for MLA.
  KvLayout KvLayoutFor(KvType type, int page_tokens) const;

  // kInvalidArgument, naming the field and its value: absent or non-positive sizes, heads that do not divide, a group
  // or rank that does not fit, sizes past what 31-bit row indices can address.
  Status Validate() const;
};

}  // namespace surety::model
