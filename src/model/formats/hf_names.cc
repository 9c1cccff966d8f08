#include "model/formats/hf_names.h"

#include <optional>
#include <span>

namespace surety::model {
namespace {

struct Pair {
  std::string_view hf;
  std::string_view canonical;
};

constexpr Pair kDecoderTop[] = {{"embed_tokens.weight", "token_embd.weight"}, {"norm.weight", "output_norm.weight"}};

constexpr Pair kDecoderLayer[] = {
    {"input_layernorm.weight", "attn_norm.weight"},
    {"pre_feedforward_layernorm.weight", "ffn_norm.weight"},
    {"post_feedforward_layernorm.weight", "post_ffw_norm.weight"},
    {"self_attn.q_proj.weight", "attn_q.weight"},
    {"self_attn.k_proj.weight", "attn_k.weight"},
    {"self_attn.v_proj.weight", "attn_v.weight"},
    {"self_attn.o_proj.weight", "attn_output.weight"},
    {"self_attn.q_proj.bias", "attn_q.bias"},
    {"self_attn.k_proj.bias", "attn_k.bias"},
    {"self_attn.v_proj.bias", "attn_v.bias"},
    {"self_attn.o_proj.bias", "attn_output.bias"},
    {"self_attn.q_norm.weight", "attn_q_norm.weight"},
    {"self_attn.k_norm.weight", "attn_k_norm.weight"},
    {"self_attn.q_a_proj.weight", "attn_q_a.weight"},
    {"self_attn.q_a_layernorm.weight", "attn_q_a_norm.weight"},
    {"self_attn.q_b_proj.weight", "attn_q_b.weight"},
    {"self_attn.kv_a_proj_with_mqa.weight", "attn_kv_a_mqa.weight"},
    {"self_attn.kv_a_layernorm.weight", "attn_kv_a_norm.weight"},
    {"self_attn.kv_b_proj.weight", "attn_kv_b.weight"},
    {"mlp.gate_proj.weight", "ffn_gate.weight"},
    {"mlp.up_proj.weight", "ffn_up.weight"},
    {"mlp.down_proj.weight", "ffn_down.weight"},
    {"mlp.gate.weight", "ffn_gate_inp.weight"},
    {"mlp.gate.e_score_correction_bias", "exp_probs_b.bias"},
    {"mlp.shared_experts.gate_proj.weight", "ffn_gate_shexp.weight"},
    {"mlp.shared_experts.up_proj.weight", "ffn_up_shexp.weight"},
    {"mlp.shared_experts.down_proj.weight", "ffn_down_shexp.weight"}};

constexpr Pair kExpert[] = {{"gate_proj.weight", "ffn_gate_exps."},
                            {"up_proj.weight", "ffn_up_exps."},
                            {"down_proj.weight", "ffn_down_exps."}};

// Without ".weight" or ".bias".
constexpr Pair kEncoderTop[] = {{"embeddings.word_embeddings", "token_embd"},
                                {"embeddings.position_embeddings", "position_embd"},
                                {"embeddings.token_type_embeddings", "token_types"},
                                {"embeddings.LayerNorm", "token_embd_norm"}};
constexpr Pair kEncoderLayer[] = {{"attention.self.query", "attn_q"},
                                  {"attention.self.key", "attn_k"},
                                  {"attention.self.value", "attn_v"},
                                  {"attention.output.dense", "attn_output"},
                                  {"attention.output.LayerNorm", "attn_output_norm"},
                                  {"intermediate.dense", "ffn_up"},
                                  {"output.dense", "ffn_down"},
                                  {"output.LayerNorm", "layer_output_norm"}};

std::string_view Lookup(std::span<const Pair> table, std::string_view name) {
  for (const Pair& pair : table) {
    if (pair.hf == name) return pair.canonical;
  }
  return {};
}

bool TakePrefix(std::string_view& name, std::string_view prefix) {
  if (!name.starts_with(prefix)) return false;
  name.remove_prefix(prefix.size());
  return true;
}

// Takes "123." off the front.
std::optional<int> TakeNumber(std::string_view& name) {
  int value = 0;
  size_t digits = 0;
  for (; digits < name.size() && name[digits] >= '0' && name[digits] <= '9'; ++digits) {
    if (digits == 9) return std::nullopt;
    value = value * 10 + (name[digits] - '0');
  }
  if (digits == 0 || digits == name.size() || name[digits] != '.') return std::nullopt;
  name.remove_prefix(digits + 1);
  return value;
}

HfName Tensor(std::string name) { return {HfName::Kind::kTensor, std::move(name)}; }
HfName Ignored() { return {HfName::Kind::kIgnored, {}}; }

HfName DecoderName(std::string_view name, const ModelConfig& config) {
  if (name == "lm_head.weight") return Tensor("output.weight");
  TakePrefix(name, "model.");
  if (const std::string_view top = Lookup(kDecoderTop, name); !top.empty()) return Tensor(std::string(top));
  if (name.ends_with("rotary_emb.inv_freq")) return Ignored();
  if (!TakePrefix(name, "layers.")) return {};
  const std::optional<int> layer = TakeNumber(name);
  if (!layer) return {};
  if (config.architecture == "deepseek2" && *layer >= config.n_layers) return Ignored();  // multi-token prediction
  const std::string prefix = "blk." + std::to_string(*layer) + ".";
  if (name == "post_attention_layernorm.weight") {
    return Tensor(prefix + (config.post_norms ? "post_attention_norm.weight" : "ffn_norm.weight"));
  }
  if (TakePrefix(name, "mlp.experts.")) {
    const std::optional<int> expert = TakeNumber(name);
    const std::string_view base = Lookup(kExpert, name);
    if (!expert || base.empty()) return {};
    return Tensor(prefix + std::string(base) + std::to_string(*expert) + ".weight");
  }
  const std::string_view rest = Lookup(kDecoderLayer, name);
  return rest.empty() ? HfName() : Tensor(prefix + std::string(rest));
}

HfName EncoderName(std::string_view name) {
  TakePrefix(name, "bert.");
  if (name == "embeddings.position_ids" || name.starts_with("pooler.") || name.starts_with("cls.") ||
      name.starts_with("classifier.")) {
    return Ignored();
  }
  // Checkpoints converted from TensorFlow call a LayerNorm's weight and bias gamma and beta.
  const size_t dot = name.rfind('.');
  if (dot == std::string_view::npos) return {};
  std::string kind(name.substr(dot));
  if (kind == ".gamma") kind = ".weight";
  if (kind == ".beta") kind = ".bias";
  if (kind != ".weight" && kind != ".bias") return {};
  name = name.substr(0, dot);
  if (const std::string_view top = Lookup(kEncoderTop, name); !top.empty()) return Tensor(std::string(top) + kind);
  if (!TakePrefix(name, "encoder.layer.")) return {};
  const std::optional<int> layer = TakeNumber(name);
  const std::string_view rest = Lookup(kEncoderLayer, name);
  if (!layer || rest.empty()) return {};
  return Tensor("blk." + std::to_string(*layer) + "." + std::string(rest) + kind);
}

}  // namespace

HfName CanonicalName(std::string_view hf_name, const ModelConfig& config) {
  return config.encoder ? EncoderName(hf_name) : DecoderName(hf_name, config);
}

}  // namespace surety::model
