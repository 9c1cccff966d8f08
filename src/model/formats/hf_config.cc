#include "model/formats/hf_config.h"

#include <algorithm>
#include <cmath>

#include "model/formats/common_config.h"
#include "model/formats/text.h"

namespace surety::model {
namespace {

struct ModelType {
  std::string_view hf;
  std::string_view architecture;
};
constexpr ModelType kTypes[] = {{"bert", "bert"},           {"deepseek_v2", "deepseek2"}, {"deepseek_v3", "deepseek2"},
                                {"gemma2", "gemma2"},       {"gemma3_text", "gemma3"},    {"llama", "llama"},
                                {"mistral", "mistral"},     {"qwen2", "qwen2"},           {"qwen3", "qwen3"}};

Result<FfnActivation> Activation(const JsonFields& fields, bool gemma) {
  const char* key = gemma && fields.Has("hidden_activation") ? "hidden_activation" : "hidden_act";
  SURETY_ASSIGN_OR_RETURN(const std::string name, fields.String(key, gemma ? "gelu_pytorch_tanh" : ""));
  if (name.empty()) return Error(NotFoundError(fields.where() + ": key '" + key + "' is missing"));
  if (name == "silu" || name == "swish") return FfnActivation::kSilu;
  // Gemma's first configurations said "gelu" and meant the approximation by tanh.
  if (name == "gelu_pytorch_tanh" || name == "gelu_new" || (gemma && name == "gelu")) return FfnActivation::kGeluTanh;
  if (name == "gelu") return FfnActivation::kGeluErf;
  return Error(fields.Unimplemented(key, "unknown activation '" + Printable(name) +
                                             "'; known: silu, gelu, gelu_pytorch_tanh"));
}

Status ReadCommon(const JsonFields& fields, const std::string& path, ModelConfig& c) {
  SURETY_ASSIGN_OR_RETURN(c.n_layers, fields.Int("num_hidden_layers"));
  SURETY_RETURN_IF_ERROR(CheckLayerCount(c.n_layers, path, "num_hidden_layers"));
  SURETY_ASSIGN_OR_RETURN(c.d_model, fields.Int("hidden_size"));
  SURETY_ASSIGN_OR_RETURN(c.n_heads, fields.Int("num_attention_heads"));
  SURETY_ASSIGN_OR_RETURN(c.n_kv_heads, fields.Int("num_key_value_heads", c.n_heads));
  SURETY_ASSIGN_OR_RETURN(c.d_ff, fields.Int("intermediate_size"));
  SURETY_ASSIGN_OR_RETURN(c.vocab_size, fields.Int("vocab_size"));
  SURETY_ASSIGN_OR_RETURN(c.max_context, fields.Int("max_position_embeddings"));
  SURETY_ASSIGN_OR_RETURN(const double eps, fields.Float(c.encoder ? "layer_norm_eps" : "rms_norm_eps"));
  c.norm_eps = static_cast<float>(eps);
  const bool gemma = c.architecture.starts_with("gemma");
  SURETY_ASSIGN_OR_RETURN(c.activation, Activation(fields, gemma));
  SURETY_ASSIGN_OR_RETURN(c.name, fields.String("_name_or_path", ""));
  if (c.architecture == "deepseek2") return OkStatus();  // head sizes have keys of their own
  if (fields.Has("head_dim")) {
    SURETY_ASSIGN_OR_RETURN(c.head_dim, fields.Int("head_dim"));
  } else if (gemma || c.architecture == "qwen3") {
    return NotFoundError(fields.where() + ": key 'head_dim' is missing");  // never D / H in published models
  } else {
    SURETY_ASSIGN_OR_RETURN(c.head_dim, HeadDimOf(c.d_model, c.n_heads, path));
  }
  return OkStatus();
}

// Windows from layer_types, or for the layers for which `slides`.
template <typename Slides>
Status ReadWindows(const JsonFields& fields, Slides slides, ModelConfig& c) {
  SURETY_ASSIGN_OR_RETURN(const int window, fields.Int("sliding_window", 0));
  c.windows.clear();
  if (!fields.Has("layer_types")) {
    if (!fields.Mentions("sliding_window")) {  // its default differs between versions of the reference
      return NotFoundError(fields.where() + ": key 'sliding_window' is missing (null says that there is none)");
    }
    if (window == 0) return OkStatus();
    for (int i = 0; i < c.n_layers; ++i) c.windows.push_back(slides(i) ? window : 0);
    return OkStatus();
  }
  SURETY_ASSIGN_OR_RETURN(const boost::json::array* types, fields.Array("layer_types"));
  if (types->size() != static_cast<size_t>(c.n_layers)) {
    return InvalidArgumentError(fields.where() + ": key 'layer_types' has " + std::to_string(types->size()) +
                                " elements for " + std::to_string(c.n_layers) + " layers");
  }
  bool any = false;
  for (const boost::json::value& value : *types) {
    const std::string_view type = value.is_string() ? std::string_view(value.get_string()) : "";
    const bool has_window = type == "sliding_attention";
    if (!has_window && type != "full_attention") {
      return fields.Unimplemented("layer_types", "unknown kind '" + Printable(type) +
                                                     "'; known: full_attention, sliding_attention");
    }
    if (has_window && window == 0) {
      return NotFoundError(fields.where() + ": key 'sliding_window' is missing, but layer_types has windows");
    }
    any = any || has_window;
    c.windows.push_back(has_window ? window : 0);
  }
  if (!any) c.windows.clear();
  return OkStatus();
}

Status ReadQwenWindows(const JsonFields& fields, ModelConfig& c) {
  SURETY_ASSIGN_OR_RETURN(const bool on, fields.Bool("use_sliding_window", false));
  SURETY_ASSIGN_OR_RETURN(const int first, fields.Int("max_window_layers", 28));
  if (!on) return OkStatus();
  return ReadWindows(fields, [first](int i) { return i >= first; }, c);
}

Status ReadGemma(const JsonFields& fields, bool third, ModelConfig& c) {
  c.norm_weight_offset = 1.0f;
  c.post_norms = true;
  c.qk_norm = third;
  c.embedding_scale = static_cast<float>(std::sqrt(static_cast<double>(c.d_model)));
  SURETY_ASSIGN_OR_RETURN(const double scalar, fields.Float("query_pre_attn_scalar"));
  c.attention_scale = static_cast<float>(1.0 / std::sqrt(scalar));
  SURETY_ASSIGN_OR_RETURN(const double attention_cap, fields.Float("attn_logit_softcapping", 0.0));
  SURETY_ASSIGN_OR_RETURN(const double logit_cap, fields.Float("final_logit_softcapping", 0.0));
  c.attention_soft_cap = static_cast<float>(attention_cap);
  c.logit_soft_cap = static_cast<float>(logit_cap);
  SURETY_ASSIGN_OR_RETURN(const bool bidirectional, fields.Bool("use_bidirectional_attention", false));
  if (bidirectional) return fields.Unimplemented("use_bidirectional_attention", "bidirectional attention in a decoder");
  int period = third ? 6 : 2;
  if (third) {
    SURETY_ASSIGN_OR_RETURN(period, fields.Int("_sliding_window_pattern", period));
    SURETY_ASSIGN_OR_RETURN(period, fields.Int("sliding_window_pattern", period));
  }
  if (period == 0) return fields.Unimplemented("sliding_window_pattern", "a period of 0");
  return ReadWindows(fields, [period](int i) { return (i + 1) % period != 0; }, c);
}

Status ReadRouting(const JsonFields& fields, bool v3, MoeConfig& moe) {
  SURETY_ASSIGN_OR_RETURN(const std::string scoring, fields.String("scoring_func", v3 ? "sigmoid" : "softmax"));
  if (scoring != "sigmoid" && scoring != "softmax") {
    return fields.Unimplemented("scoring_func", "unknown function '" + Printable(scoring) +
                                                    "'; known: softmax, sigmoid");
  }
  moe.scoring = scoring == "sigmoid" ? ExpertScoring::kSigmoid : ExpertScoring::kSoftmax;
  SURETY_ASSIGN_OR_RETURN(const std::string method, fields.String("topk_method", v3 ? "noaux_tc" : "greedy"));
  if (method == "greedy") return OkStatus();
  if (method != "group_limited_greedy" && method != "noaux_tc") {
    return fields.Unimplemented("topk_method", "unknown method '" + Printable(method) +
                                                   "'; known: greedy, group_limited_greedy, noaux_tc");
  }
  SURETY_ASSIGN_OR_RETURN(moe.n_groups, fields.Int("n_group", v3 ? 8 : 1));
  SURETY_ASSIGN_OR_RETURN(moe.n_groups_used, fields.Int("topk_group", v3 ? 4 : 1));
  moe.group_by_top2 = method == "noaux_tc";
  return OkStatus();
}

Status ReadMoe(const JsonFields& fields, bool v3, ModelConfig& c) {
  MoeConfig& moe = c.moe;
  SURETY_ASSIGN_OR_RETURN(moe.n_experts, fields.Int("n_routed_experts", 0));
  if (moe.n_experts == 0) return OkStatus();
  SURETY_ASSIGN_OR_RETURN(moe.n_used, fields.Int("num_experts_per_tok"));
  SURETY_ASSIGN_OR_RETURN(moe.n_shared, fields.Int("n_shared_experts", 0));
  SURETY_ASSIGN_OR_RETURN(moe.d_ff_expert, fields.Int("moe_intermediate_size"));
  SURETY_ASSIGN_OR_RETURN(moe.n_dense_layers, fields.Int("first_k_dense_replace", 0));
  moe.n_dense_layers = std::min(moe.n_dense_layers, c.n_layers);
  SURETY_ASSIGN_OR_RETURN(moe.normalise_weights, fields.Bool("norm_topk_prob", v3));
  SURETY_ASSIGN_OR_RETURN(moe.routed_scale, fields.Float("routed_scaling_factor", v3 ? 2.5 : 1.0));
  SURETY_ASSIGN_OR_RETURN(const int frequency, fields.Int("moe_layer_freq", 1));
  if (frequency != 1) return fields.Unimplemented("moe_layer_freq", "experts in some of the later layers only");
  return ReadRouting(fields, v3, moe);
}

Status ReadDeepSeek(const JsonFields& fields, bool v3, ModelConfig& c) {
  MlaConfig& mla = c.mla;
  SURETY_ASSIGN_OR_RETURN(mla.kv_rank, fields.Int("kv_lora_rank"));
  SURETY_ASSIGN_OR_RETURN(mla.q_rank, fields.Int("q_lora_rank", 0));
  SURETY_ASSIGN_OR_RETURN(mla.nope_dim, fields.Int("qk_nope_head_dim"));
  SURETY_ASSIGN_OR_RETURN(mla.rope_dim, fields.Int("qk_rope_head_dim"));
  SURETY_ASSIGN_OR_RETURN(mla.v_dim, fields.Int("v_head_dim"));
  if (mla.kv_rank == 0) return InvalidArgumentError(fields.where() + ": key 'kv_lora_rank' is 0");
  const int64_t head_dim = int64_t{mla.nope_dim} + mla.rope_dim;
  c.head_dim = static_cast<int>(std::min<int64_t>(head_dim, INT32_MAX));
  c.n_kv_heads = c.n_heads;
  c.rope.dim = mla.rope_dim;
  SURETY_ASSIGN_OR_RETURN(c.rope.interleaved, fields.Bool("rope_interleave", true));
  SURETY_ASSIGN_OR_RETURN(const bool biases, fields.Bool("attention_bias", false));
  if (biases) return fields.Unimplemented("attention_bias", "biases in latent attention");
  SURETY_RETURN_IF_ERROR(ReadHfRope(fields, c));
  return ReadMoe(fields, v3, c);
}

Status ReadVariation(const JsonFields& fields, const std::string& type, ModelConfig& c) {
  if (c.encoder) {
    SURETY_ASSIGN_OR_RETURN(c.n_token_types, fields.Int("type_vocab_size", 2));
    SURETY_ASSIGN_OR_RETURN(const std::string positions, fields.String("position_embedding_type", "absolute"));
    if (positions != "absolute") {
      return fields.Unimplemented("position_embedding_type", Quoted(Printable(positions)) + "; known: absolute");
    }
    SURETY_ASSIGN_OR_RETURN(const bool decoder, fields.Bool("is_decoder", false));
    if (decoder) return fields.Unimplemented("is_decoder", "BERT as a decoder");
    return OkStatus();
  }
  SURETY_ASSIGN_OR_RETURN(const bool ffn_biases, fields.Bool("mlp_bias", false));
  if (ffn_biases) return fields.Unimplemented("mlp_bias", "biases in the feed-forward layers");
  if (fields.Has("quantization_config")) {
    return fields.Unimplemented("quantization_config", "quantised safetensors (GGUF files may be quantised)");
  }
  if (c.architecture == "deepseek2") return ReadDeepSeek(fields, type == "deepseek_v3", c);
  SURETY_ASSIGN_OR_RETURN(const double rotated, fields.Float("partial_rotary_factor", 1.0));
  if (!(rotated > 0 && rotated <= 1)) {
    return InvalidArgumentError(fields.where() + ": key 'partial_rotary_factor' must be above 0 and at most 1");
  }
  c.rope.dim = static_cast<int>(c.head_dim * rotated);
  if (c.architecture == "mistral") SURETY_RETURN_IF_ERROR(ReadWindows(fields, [](int) { return true; }, c));
  if (c.architecture == "qwen2" || c.architecture == "qwen3") SURETY_RETURN_IF_ERROR(ReadQwenWindows(fields, c));
  c.qk_norm = c.architecture == "qwen3";
  if (c.architecture.starts_with("gemma")) {
    SURETY_RETURN_IF_ERROR(ReadGemma(fields, c.architecture == "gemma3", c));
  }
  return ReadHfRope(fields, c);
}

}  // namespace

Result<HfConfig> ConfigFromHf(const boost::json::object& json, const std::string& path) {
  const JsonFields fields(json, "'" + path + "'");
  SURETY_ASSIGN_OR_RETURN(const std::string type, fields.String("model_type"));
  HfConfig out;
  for (const ModelType& known : kTypes) {
    if (known.hf == type) out.config.architecture = std::string(known.architecture);
  }
  if (out.config.architecture.empty()) {
    std::vector<std::string_view> names;
    for (const ModelType& known : kTypes) names.push_back(known.hf);
    return Error(UnknownArchitecture(path, "model_type", type, names));
  }
  ModelConfig& c = out.config;
  c.encoder = c.architecture == "bert";
  SURETY_RETURN_IF_ERROR(ReadCommon(fields, path, c));
  SURETY_RETURN_IF_ERROR(ReadVariation(fields, type, c));
  SURETY_ASSIGN_OR_RETURN(out.tied, fields.Bool("tie_word_embeddings", c.architecture.starts_with("gemma")));
  SURETY_ASSIGN_OR_RETURN(out.eos_token_ids, EosTokenIds(fields));
  SURETY_RETURN_IF_ERROR(c.Validate().WithContext("'" + path + "'"));
  return out;
}

Result<std::vector<int32_t>> EosTokenIds(const JsonFields& fields) {
  std::vector<int32_t> ids;
  const boost::json::value* value = fields.Get("eos_token_id");
  if (value == nullptr) return ids;
  if (!value->is_array()) {
    SURETY_ASSIGN_OR_RETURN(const int id, fields.Int("eos_token_id"));
    ids.push_back(id);
    return ids;
  }
  for (const boost::json::value& element : value->get_array()) {
    if (!element.is_int64() || element.get_int64() < 0 || element.get_int64() > INT32_MAX) {
      return Error(InvalidArgumentError(fields.where() + ": key 'eos_token_id' has an element that is no token id"));
    }
    ids.push_back(static_cast<int32_t>(element.get_int64()));
  }
  return ids;
}

Result<GenerationDefaults> GenerationDefaultsFromHf(const boost::json::object& json, const std::string& path) {
  const JsonFields fields(json, "'" + path + "'");
  GenerationDefaults defaults;
  const std::pair<const char*, std::optional<double>*> floats[] = {
      {"temperature", &defaults.temperature},
      {"top_p", &defaults.top_p},
      {"min_p", &defaults.min_p},
      {"repetition_penalty", &defaults.repetition_penalty}};
  for (const auto& [key, value] : floats) {
    if (!fields.Has(key)) continue;
    SURETY_ASSIGN_OR_RETURN(*value, fields.Float(key));
  }
  if (fields.Has("top_k")) {
    SURETY_ASSIGN_OR_RETURN(defaults.top_k, fields.Int("top_k"));
  }
  SURETY_ASSIGN_OR_RETURN(defaults.eos_token_ids, EosTokenIds(fields));
  return defaults;
}

Result<Pooling> PoolingFromHf(const boost::json::object& json, const std::string& path) {
  const JsonFields fields(json, "'" + path + "'");
  struct Mode {
    const char* key;
    std::string_view name;  // in the newer form, one string
    std::optional<Pooling> pooling;
  };
  constexpr Mode kModes[] = {{"pooling_mode_cls_token", "cls", Pooling::kCls},
                             {"pooling_mode_mean_tokens", "mean", Pooling::kMean},
                             {"pooling_mode_lasttoken", "lasttoken", Pooling::kLast},
                             {"pooling_mode_max_tokens", "max", std::nullopt},
                             {"pooling_mode_mean_sqrt_len_tokens", "mean_sqrt_len_tokens", std::nullopt},
                             {"pooling_mode_weightedmean_tokens", "weightedmean", std::nullopt}};
  SURETY_ASSIGN_OR_RETURN(const std::string name, fields.String("pooling_mode", ""));
  std::optional<Pooling> found;
  for (const Mode& mode : kModes) {
    SURETY_ASSIGN_OR_RETURN(const bool on, fields.Bool(mode.key, false));
    if (!on && mode.name != name) continue;
    if (!mode.pooling || (found && *found != *mode.pooling)) {
      return Error(fields.Unimplemented(mode.key, "this pooling, or more than one; known: cls, mean, lasttoken"));
    }
    found = mode.pooling;
  }
  if (!found) return Error(NotFoundError(fields.where() + ": no pooling mode is set"));
  return *found;
}

}  // namespace surety::model
