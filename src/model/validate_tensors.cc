#include "model/validate_tensors.h"

#include <string>
#include <unordered_set>
#include <vector>

#include "model/formats/text.h"

namespace surety::model {
namespace {

// Tensors that some files carry and no computation here reads.
bool MayBeIgnored(std::string_view name, const ModelConfig& config) {
  if (name.ends_with(".attn_rot_embd.weight") || name.ends_with(".attn_rot_embd")) return true;  // recomputed
  if (config.encoder && name.starts_with("cls")) return true;                                     // classifier heads
  // Layers past the last, which hold a model's own draft (multi-token prediction).
  if (config.architecture != "deepseek2" || !name.starts_with("blk.")) return false;
  name.remove_prefix(4);
  int64_t layer = 0;
  size_t digits = 0;
  for (; digits < name.size() && digits < 9 && name[digits] >= '0' && name[digits] <= '9'; ++digits) {
    layer = layer * 10 + (name[digits] - '0');
  }
  return digits > 0 && layer >= config.n_layers;
}

class Checker {
 public:
  explicit Checker(const ModelSource& source) : source_(source), config_(source.config()) {}

  Status Check() {
    SURETY_RETURN_IF_ERROR(config_.encoder ? CheckEncoder() : CheckDecoder());
    for (const TensorView& tensor : source_.tensors()) {
      if (seen_.contains(&tensor) || MayBeIgnored(tensor.name, config_)) continue;
      return UnimplementedError("'" + source_.path() + "': tensor '" + Printable(tensor.name) + "' " +
                                ShapeText(tensor.shape) + " has no place in architecture '" +
                                Printable(config_.architecture) + "' as the file configures it");
    }
    return OkStatus();
  }

 private:
  using Shape = std::vector<int64_t>;

  Status May(const std::string& name, const Shape& shape) {
    const TensorView* tensor = source_.Find(name);
    if (tensor == nullptr) return OkStatus();
    if (tensor->shape != shape) {
      return InvalidArgumentError("'" + source_.path() + "': tensor '" + name + "' has shape " +
                                  ShapeText(tensor->shape) + ", but " + ShapeText(shape) +
                                  " is expected from the configuration");
    }
    seen_.insert(tensor);
    return OkStatus();
  }
  Status Need(const std::string& name, const Shape& shape) {
    if (source_.Find(name) != nullptr) return May(name, shape);
    return NotFoundError("'" + source_.path() + "': tensor '" + name + "' of shape " + ShapeText(shape) +
                         " is missing");
  }

  Status CheckDecoder() {
    const int64_t d = config_.d_model, v = config_.vocab_size;
    SURETY_RETURN_IF_ERROR(Need("token_embd.weight", {v, d}));
    SURETY_RETURN_IF_ERROR(Need("output_norm.weight", {d}));
    SURETY_RETURN_IF_ERROR(May("output.weight", {v, d}));
    SURETY_RETURN_IF_ERROR(May("rope_freqs.weight", {config_.rope.dim / 2}));
    for (int i = 0; i < config_.n_layers; ++i) {
      const std::string prefix = "blk." + std::to_string(i) + ".";
      SURETY_RETURN_IF_ERROR(Need(prefix + "attn_norm.weight", {d}));
      SURETY_RETURN_IF_ERROR(Need(prefix + "ffn_norm.weight", {d}));
      if (config_.post_norms) {
        SURETY_RETURN_IF_ERROR(Need(prefix + "post_attention_norm.weight", {d}));
        SURETY_RETURN_IF_ERROR(Need(prefix + "post_ffw_norm.weight", {d}));
      }
      SURETY_RETURN_IF_ERROR(config_.IsMla() ? CheckMla(prefix) : CheckAttention(prefix));
      SURETY_RETURN_IF_ERROR(config_.LayerHasExperts(i) ? CheckExperts(prefix) : CheckFfn(prefix));
    }
    return OkStatus();
  }

  Status CheckAttention(const std::string& prefix) {
    const int64_t d = config_.d_model;
    const int64_t q = int64_t{config_.n_heads} * config_.head_dim;
    const int64_t kv = int64_t{config_.n_kv_heads} * config_.head_dim;
    SURETY_RETURN_IF_ERROR(Need(prefix + "attn_q.weight", {q, d}));
    SURETY_RETURN_IF_ERROR(Need(prefix + "attn_k.weight", {kv, d}));
    SURETY_RETURN_IF_ERROR(Need(prefix + "attn_v.weight", {kv, d}));
    SURETY_RETURN_IF_ERROR(Need(prefix + "attn_output.weight", {d, q}));
    const bool biases = config_.architecture == "qwen2";
    SURETY_RETURN_IF_ERROR(biases ? Need(prefix + "attn_q.bias", {q}) : May(prefix + "attn_q.bias", {q}));
    SURETY_RETURN_IF_ERROR(biases ? Need(prefix + "attn_k.bias", {kv}) : May(prefix + "attn_k.bias", {kv}));
    SURETY_RETURN_IF_ERROR(biases ? Need(prefix + "attn_v.bias", {kv}) : May(prefix + "attn_v.bias", {kv}));
    SURETY_RETURN_IF_ERROR(May(prefix + "attn_output.bias", {d}));
    if (!config_.qk_norm) return OkStatus();
    SURETY_RETURN_IF_ERROR(Need(prefix + "attn_q_norm.weight", {config_.head_dim}));
    return Need(prefix + "attn_k_norm.weight", {config_.head_dim});
  }

  Status CheckMla(const std::string& prefix) {
    const MlaConfig& mla = config_.mla;
    const int64_t d = config_.d_model, heads = config_.n_heads;
    const int64_t q = heads * (mla.nope_dim + mla.rope_dim);
    if (mla.q_rank > 0) {
      SURETY_RETURN_IF_ERROR(Need(prefix + "attn_q_a.weight", {mla.q_rank, d}));
      SURETY_RETURN_IF_ERROR(Need(prefix + "attn_q_a_norm.weight", {mla.q_rank}));
      SURETY_RETURN_IF_ERROR(Need(prefix + "attn_q_b.weight", {q, mla.q_rank}));
    } else {
      SURETY_RETURN_IF_ERROR(Need(prefix + "attn_q.weight", {q, d}));
    }
    SURETY_RETURN_IF_ERROR(Need(prefix + "attn_kv_a_mqa.weight", {mla.kv_rank + mla.rope_dim, d}));
    SURETY_RETURN_IF_ERROR(Need(prefix + "attn_kv_a_norm.weight", {mla.kv_rank}));
    SURETY_RETURN_IF_ERROR(Need(prefix + "attn_output.weight", {d, heads * mla.v_dim}));
    const bool split = source_.Find(prefix + "attn_k_b.weight") != nullptr;
    if (!split) {
      return Need(prefix + "attn_kv_b.weight", {heads * (mla.nope_dim + mla.v_dim), mla.kv_rank});
    }
    SURETY_RETURN_IF_ERROR(May(prefix + "attn_kv_b.weight", {heads * (mla.nope_dim + mla.v_dim), mla.kv_rank}));
    SURETY_RETURN_IF_ERROR(Need(prefix + "attn_k_b.weight", {heads, mla.kv_rank, mla.nope_dim}));
    return Need(prefix + "attn_v_b.weight", {heads, mla.v_dim, mla.kv_rank});
  }

  Status CheckFfn(const std::string& prefix) {
    const int64_t d = config_.d_model, f = config_.d_ff;
    SURETY_RETURN_IF_ERROR(Need(prefix + "ffn_gate.weight", {f, d}));
    SURETY_RETURN_IF_ERROR(Need(prefix + "ffn_up.weight", {f, d}));
    return Need(prefix + "ffn_down.weight", {d, f});
  }

  Status CheckExperts(const std::string& prefix) {
    const MoeConfig& moe = config_.moe;
    const int64_t d = config_.d_model, f = moe.d_ff_expert;
    SURETY_RETURN_IF_ERROR(Need(prefix + "ffn_gate_inp.weight", {moe.n_experts, d}));
    SURETY_RETURN_IF_ERROR(May(prefix + "exp_probs_b.bias", {moe.n_experts}));
    SURETY_RETURN_IF_ERROR(NeedExperts(prefix + "ffn_gate_exps", f, d));
    SURETY_RETURN_IF_ERROR(NeedExperts(prefix + "ffn_up_exps", f, d));
    SURETY_RETURN_IF_ERROR(NeedExperts(prefix + "ffn_down_exps", d, f));
    if (moe.n_shared == 0) return OkStatus();
    const int64_t shared = int64_t{moe.n_shared} * f;
    SURETY_RETURN_IF_ERROR(Need(prefix + "ffn_gate_shexp.weight", {shared, d}));
    SURETY_RETURN_IF_ERROR(Need(prefix + "ffn_up_shexp.weight", {shared, d}));
    return Need(prefix + "ffn_down_shexp.weight", {d, shared});
  }

  // The stacked tensor, or one for each expert.
  Status NeedExperts(const std::string& base, int64_t outputs, int64_t inputs) {
    const int n = config_.moe.n_experts;
    if (source_.Find(base + ".weight") != nullptr) return May(base + ".weight", {n, outputs, inputs});
    if (source_.Find(base + ".0.weight") == nullptr) return Need(base + ".weight", {n, outputs, inputs});
    for (int e = 0; e < n; ++e) {
      SURETY_RETURN_IF_ERROR(Need(base + "." + std::to_string(e) + ".weight", {outputs, inputs}));
    }
    return OkStatus();
  }

  Status NeedWithBias(const std::string& base, int64_t outputs, int64_t inputs) {
    SURETY_RETURN_IF_ERROR(Need(base + ".weight", {outputs, inputs}));
    return Need(base + ".bias", {outputs});
  }
  Status NeedNorm(const std::string& base) {
    SURETY_RETURN_IF_ERROR(Need(base + ".weight", {config_.d_model}));
    return Need(base + ".bias", {config_.d_model});
  }

  Status CheckEncoder() {
    const int64_t d = config_.d_model, f = config_.d_ff;
    const int64_t q = int64_t{config_.n_heads} * config_.head_dim;
    const int64_t kv = int64_t{config_.n_kv_heads} * config_.head_dim;
    SURETY_RETURN_IF_ERROR(Need("token_embd.weight", {config_.vocab_size, d}));
    SURETY_RETURN_IF_ERROR(Need("position_embd.weight", {config_.max_context, d}));
    if (config_.n_token_types > 0) SURETY_RETURN_IF_ERROR(Need("token_types.weight", {config_.n_token_types, d}));
    SURETY_RETURN_IF_ERROR(NeedNorm("token_embd_norm"));
    for (int i = 0; i < config_.n_layers; ++i) {
      const std::string prefix = "blk." + std::to_string(i) + ".";
      SURETY_RETURN_IF_ERROR(NeedWithBias(prefix + "attn_q", q, d));
      SURETY_RETURN_IF_ERROR(NeedWithBias(prefix + "attn_k", kv, d));
      SURETY_RETURN_IF_ERROR(NeedWithBias(prefix + "attn_v", kv, d));
      SURETY_RETURN_IF_ERROR(NeedWithBias(prefix + "attn_output", d, q));
      SURETY_RETURN_IF_ERROR(NeedNorm(prefix + "attn_output_norm"));
      SURETY_RETURN_IF_ERROR(NeedWithBias(prefix + "ffn_up", f, d));
      SURETY_RETURN_IF_ERROR(NeedWithBias(prefix + "ffn_down", d, f));
      SURETY_RETURN_IF_ERROR(NeedNorm(prefix + "layer_output_norm"));
    }
    return OkStatus();
  }

  const ModelSource& source_;
  const ModelConfig& config_;
  std::unordered_set<const TensorView*> seen_;
};

}  // namespace

Status ValidateTensors(const ModelSource& source) { return Checker(source).Check(); }

}  // namespace surety::model
