#include "model/formats/gguf_config.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <string>

#include "model/formats/common_config.h"
#include "model/formats/text.h"

namespace surety::model {
namespace {

constexpr std::string_view kKnown[] = {"bert", "deepseek2", "gemma2", "gemma3", "llama", "qwen2", "qwen3"};

// Keys under the architecture's prefix, as the config's types.
class Fields {
 public:
  Fields(const GgufFile& file, std::string arch) : file_(file), arch_(std::move(arch)) {}

  bool Has(std::string_view key) const { return file_.Find(Full(key)) != nullptr; }

  Result<int> Int(std::string_view key) const {
    const std::string full = Full(key);
    const GgufValue* value = file_.Find(full);
    if (value != nullptr && std::holds_alternative<GgufArray>(*value)) return SameInAllLayers(full);
    SURETY_ASSIGN_OR_RETURN(const int64_t number, file_.Int(full));
    return Narrow(full, number);
  }
  Result<int> Int(std::string_view key, int fallback) const { return Has(key) ? Int(key) : Result<int>(fallback); }
  Result<double> Float(std::string_view key, double fallback) const {
    return Has(key) ? file_.Float(Full(key)) : Result<double>(fallback);
  }
  Result<bool> Bool(std::string_view key, bool fallback) const {
    return Has(key) ? file_.Bool(Full(key)) : Result<bool>(fallback);
  }
  Result<std::string> String(std::string_view key, std::string fallback) const {
    if (!Has(key)) return fallback;
    SURETY_ASSIGN_OR_RETURN(const std::string_view text, file_.String(Full(key)));
    return std::string(text);
  }
  Status Unimplemented(std::string_view key, const std::string& what) const {
    return UnimplementedError("'" + file_.path() + "': key '" + Full(key) + "': " + what);
  }
  const GgufFile& file() const { return file_; }
  std::string Full(std::string_view key) const { return arch_ + "." + std::string(key); }

 private:
  Result<int> Narrow(const std::string& full, int64_t number) const {
    if (number < 0 || number > std::numeric_limits<int32_t>::max()) {
      return Error(InvalidArgumentError("'" + file_.path() + "': key '" + full + "' is " + std::to_string(number) +
                                        ", but must be from 0 to 2^31 - 1"));
    }
    return static_cast<int>(number);
  }

  // Some writers give one number for each layer.
  Result<int> SameInAllLayers(const std::string& full) const {
    SURETY_ASSIGN_OR_RETURN(const GgufArray* array, file_.Array(full));
    const std::vector<GgufScalar> values = array->Values();
    if (values.empty()) {
      return Error(InvalidArgumentError("'" + file_.path() + "': key '" + full + "' is an empty array"));
    }
    for (const GgufScalar& value : values) {
      if (value != values.front()) {
        return Error(UnimplementedError("'" + file_.path() + "': key '" + full + "' differs between layers"));
      }
    }
    const GgufScalar& first = values.front();
    if (const auto* u = std::get_if<uint64_t>(&first)) {
      return Narrow(full, static_cast<int64_t>(std::min<uint64_t>(*u, INT64_MAX)));
    }
    if (const auto* i = std::get_if<int64_t>(&first)) return Narrow(full, *i);
    return Error(InvalidArgumentError("'" + file_.path() + "': key '" + full + "' is no array of integers"));
  }

  const GgufFile& file_;
  std::string arch_;
};

Result<int> VocabSize(const Fields& fields) {
  // The token list decides, as it does in llama.cpp; a file without tokenizer names its size by a key.
  if (fields.file().Find("tokenizer.ggml.tokens") != nullptr) {
    SURETY_ASSIGN_OR_RETURN(const GgufArray* tokens, fields.file().Array("tokenizer.ggml.tokens"));
    return static_cast<int>(std::min<size_t>(tokens->size, INT32_MAX));
  }
  return fields.Int("vocab_size");
}

Status ReadCommon(const Fields& fields, ModelConfig& c) {
  SURETY_ASSIGN_OR_RETURN(c.n_layers, fields.Int("block_count"));
  SURETY_RETURN_IF_ERROR(CheckLayerCount(c.n_layers, fields.file().path(), fields.Full("block_count")));
  SURETY_ASSIGN_OR_RETURN(c.d_model, fields.Int("embedding_length"));
  SURETY_ASSIGN_OR_RETURN(c.d_ff, fields.Int("feed_forward_length"));
  SURETY_ASSIGN_OR_RETURN(c.n_heads, fields.Int("attention.head_count"));
  SURETY_ASSIGN_OR_RETURN(c.n_kv_heads, fields.Int("attention.head_count_kv", c.n_heads));
  SURETY_ASSIGN_OR_RETURN(c.max_context, fields.Int("context_length"));
  SURETY_ASSIGN_OR_RETURN(c.vocab_size, VocabSize(fields));
  if (fields.Has("attention.key_length")) {
    SURETY_ASSIGN_OR_RETURN(c.head_dim, fields.Int("attention.key_length"));
  } else {
    SURETY_ASSIGN_OR_RETURN(c.head_dim, HeadDimOf(c.d_model, c.n_heads, fields.file().path()));
  }
  const char* eps = c.encoder ? "attention.layer_norm_epsilon" : "attention.layer_norm_rms_epsilon";
  if (!fields.Has(eps)) {
    return NotFoundError("'" + fields.file().path() + "': key '" + fields.Full(eps) + "' is missing");
  }
  SURETY_ASSIGN_OR_RETURN(const double norm_eps, fields.Float(eps, 0));
  c.norm_eps = static_cast<float>(norm_eps);
  return OkStatus();
}

Status ReadRope(const Fields& fields, int default_dim, ModelConfig& c) {
  RopeConfig& rope = c.rope;
  SURETY_ASSIGN_OR_RETURN(rope.dim, fields.Int("rope.dimension_count", default_dim));
  SURETY_ASSIGN_OR_RETURN(rope.base, fields.Float("rope.freq_base", 10000.0));
  SURETY_ASSIGN_OR_RETURN(const double old_linear, fields.Float("rope.scale_linear", 1.0));
  SURETY_ASSIGN_OR_RETURN(rope.factor, fields.Float("rope.scaling.factor", old_linear));
  SURETY_ASSIGN_OR_RETURN(const std::string type,
                          fields.String("rope.scaling.type", rope.factor != 1.0 ? "linear" : "none"));
  if (type == "none" || type.empty()) {
    rope.factor = 1.0;
  } else if (type == "linear") {
    rope.scaling = RopeScaling::kLinear;
  } else if (type == "yarn") {
    rope.scaling = RopeScaling::kYarn;
    SURETY_ASSIGN_OR_RETURN(rope.original_context, fields.Int("rope.scaling.original_context_length", c.max_context));
    SURETY_ASSIGN_OR_RETURN(rope.beta_fast, fields.Float("rope.scaling.yarn_beta_fast", 32.0));
    SURETY_ASSIGN_OR_RETURN(rope.beta_slow, fields.Float("rope.scaling.yarn_beta_slow", 1.0));
    SURETY_ASSIGN_OR_RETURN(double attention, fields.Float("rope.scaling.attn_factor", 1.0));
    SURETY_ASSIGN_OR_RETURN(attention, fields.Float("rope.scaling.yarn_attn_factor", attention));
    // GGUF's factor multiplies the one that follows from the stretch.
    if (attention != 1.0) rope.attention_factor = attention * (0.1 * std::log(std::max(rope.factor, 1.0)) + 1.0);
  } else {
    return fields.Unimplemented("rope.scaling.type", "unknown scaling '" + Printable(type) +
                                                         "'; known: none, linear, yarn");
  }
  return OkStatus();
}

// Windows of the layers for which `slides`, or as the file's own pattern says.
template <typename Slides>
Status ReadWindows(const Fields& fields, Slides slides, ModelConfig& c) {
  SURETY_ASSIGN_OR_RETURN(const int window, fields.Int("attention.sliding_window", 0));
  if (window == 0) return OkStatus();
  c.windows.resize(static_cast<size_t>(c.n_layers));
  const std::string pattern_key = fields.Full("attention.sliding_window_pattern");
  const GgufValue* pattern = fields.file().Find(pattern_key);
  const GgufArray* array = pattern == nullptr ? nullptr : std::get_if<GgufArray>(pattern);
  int period = 0;
  if (array != nullptr) {
    const bool fits = array->element_type == GgufType::kBool && array->size == c.windows.size();
    if (!fits) {
      return InvalidArgumentError("'" + fields.file().path() + "': key '" + pattern_key +
                                  "' must be an array of one boolean for each of the " + std::to_string(c.n_layers) +
                                  " layers");
    }
  } else if (pattern != nullptr) {
    SURETY_ASSIGN_OR_RETURN(period, fields.Int("attention.sliding_window_pattern"));
  }
  const std::vector<GgufScalar> flags = array == nullptr ? std::vector<GgufScalar>() : array->Values();
  for (int i = 0; i < c.n_layers; ++i) {
    bool has_window = slides(i);
    if (array != nullptr) has_window = std::get<bool>(flags[static_cast<size_t>(i)]);
    if (period > 0) has_window = i % period < period - 1;
    c.windows[static_cast<size_t>(i)] = has_window ? window : 0;
  }
  return OkStatus();
}

Status ReadGemma(const Fields& fields, bool third, ModelConfig& c) {
  c.activation = FfnActivation::kGeluTanh;
  c.post_norms = true;
  c.qk_norm = third;
  c.embedding_scale = static_cast<float>(std::sqrt(static_cast<double>(c.d_model)));
  SURETY_ASSIGN_OR_RETURN(const double attention_cap, fields.Float("attn_logit_softcapping", third ? 0.0 : 50.0));
  SURETY_ASSIGN_OR_RETURN(const double logit_cap, fields.Float("final_logit_softcapping", third ? 0.0 : 30.0));
  c.attention_soft_cap = static_cast<float>(attention_cap);
  c.logit_soft_cap = static_cast<float>(logit_cap);
  // GGUF has no key for query_pre_attn_scalar: it is the head size except in the 27B models, known by their depth.
  const bool is_27b = c.n_layers == (third ? 62 : 46);
  const double scalar = is_27b ? static_cast<double>(c.d_model) / c.n_heads : c.head_dim;
  c.attention_scale = static_cast<float>(1.0 / std::sqrt(scalar));
  const int period = third ? 6 : 2;
  SURETY_RETURN_IF_ERROR(ReadWindows(fields, [period](int i) { return i % period < period - 1; }, c));
  if (third && !c.windows.empty()) {
    c.rope_local.dim = c.rope.dim;
    SURETY_ASSIGN_OR_RETURN(c.rope_local.base, fields.Float("rope.freq_base_swa", 10000.0));
  }
  return OkStatus();
}

Status ReadMoe(const Fields& fields, MoeConfig& moe) {
  SURETY_ASSIGN_OR_RETURN(moe.n_experts, fields.Int("expert_count", 0));
  if (moe.n_experts == 0) return OkStatus();
  SURETY_ASSIGN_OR_RETURN(moe.n_used, fields.Int("expert_used_count"));
  SURETY_ASSIGN_OR_RETURN(moe.n_shared, fields.Int("expert_shared_count", 0));
  SURETY_ASSIGN_OR_RETURN(moe.d_ff_expert, fields.Int("expert_feed_forward_length"));
  SURETY_ASSIGN_OR_RETURN(moe.n_dense_layers, fields.Int("leading_dense_block_count", 0));
  SURETY_ASSIGN_OR_RETURN(moe.normalise_weights, fields.Bool("expert_weights_norm", false));
  SURETY_ASSIGN_OR_RETURN(moe.routed_scale, fields.Float("expert_weights_scale", 1.0));
  SURETY_ASSIGN_OR_RETURN(const int gating, fields.Int("expert_gating_func", 1));
  if (gating != 1 && gating != 2) {
    return fields.Unimplemented("expert_gating_func", "unknown function " + std::to_string(gating) +
                                                          "; known: 1 (softmax), 2 (sigmoid)");
  }
  moe.scoring = gating == 2 ? ExpertScoring::kSigmoid : ExpertScoring::kSoftmax;
  SURETY_ASSIGN_OR_RETURN(moe.n_groups, fields.Int("expert_group_count", 1));
  SURETY_ASSIGN_OR_RETURN(moe.n_groups_used, fields.Int("expert_group_used_count", moe.n_groups));
  moe.group_by_top2 = moe.scoring == ExpertScoring::kSigmoid;
  return OkStatus();
}

Status ReadDeepSeek(const Fields& fields, ModelConfig& c) {
  MlaConfig& mla = c.mla;
  SURETY_ASSIGN_OR_RETURN(mla.kv_rank, fields.Int("attention.kv_lora_rank"));
  SURETY_ASSIGN_OR_RETURN(mla.q_rank, fields.Int("attention.q_lora_rank", 0));
  mla.rope_dim = c.rope.dim;
  // Newer files describe the latent cache by key_length and value_length, and the heads by the *_mla keys.
  SURETY_ASSIGN_OR_RETURN(c.head_dim, fields.Int("attention.key_length_mla", c.head_dim));
  SURETY_ASSIGN_OR_RETURN(const int v_dim, fields.Int("attention.value_length", c.head_dim));
  SURETY_ASSIGN_OR_RETURN(mla.v_dim, fields.Int("attention.value_length_mla", v_dim));
  mla.nope_dim = c.head_dim - mla.rope_dim;
  c.n_kv_heads = c.n_heads;
  c.rope.interleaved = true;
  if (c.rope.scaling == RopeScaling::kYarn) {
    // The stored multiplier is 0.1 * mscale_all_dim; published models have mscale equal to it.
    SURETY_ASSIGN_OR_RETURN(const double log_multiplier, fields.Float("rope.scaling.yarn_log_multiplier", 0.0));
    c.rope.mscale = c.rope.mscale_all_dim = 10.0 * log_multiplier;
  }
  return ReadMoe(fields, c.moe);
}

Status ReadBert(const Fields& fields, ModelConfig& c) {
  c.activation = FfnActivation::kGeluErf;
  SURETY_ASSIGN_OR_RETURN(const bool causal, fields.Bool("attention.causal", false));
  if (causal) return fields.Unimplemented("attention.causal", "a causal encoder");
  const TensorView* types = fields.file().FindTensor("token_types.weight");
  c.n_token_types = types == nullptr ? 0 : static_cast<int>(std::min<int64_t>(types->rows(), INT32_MAX));
  SURETY_ASSIGN_OR_RETURN(const int pooling, fields.Int("pooling_type", 0));
  switch (pooling) {
    case 0: c.pooling = Pooling::kNone; break;
    case 1: c.pooling = Pooling::kMean; break;
    case 2: c.pooling = Pooling::kCls; break;
    case 3: c.pooling = Pooling::kLast; break;
    default:
      return fields.Unimplemented("pooling_type", "unknown pooling " + std::to_string(pooling) +
                                                      "; known: 0 none, 1 mean, 2 cls, 3 last");
  }
  // GGUF does not say; embedding models are published with normalised vectors.
  c.normalise_embedding = c.pooling != Pooling::kNone;
  return OkStatus();
}

Status ReadVariation(const Fields& fields, ModelConfig& c) {
  const std::string& arch = c.architecture;
  if (arch == "bert") return ReadBert(fields, c);
  SURETY_RETURN_IF_ERROR(ReadRope(fields, c.head_dim, c));
  if (arch == "deepseek2") return ReadDeepSeek(fields, c);
  SURETY_ASSIGN_OR_RETURN(const int v_dim, fields.Int("attention.value_length", c.head_dim));
  if (v_dim != c.head_dim) {
    return fields.Unimplemented("attention.value_length", "values of another size than keys (" +
                                                              std::to_string(c.head_dim) + ")");
  }
  SURETY_ASSIGN_OR_RETURN(const int n_experts, fields.Int("expert_count", 0));
  if (n_experts > 0) return fields.Unimplemented("expert_count", "experts in architecture '" + arch + "'");
  if (arch == "gemma2" || arch == "gemma3") return ReadGemma(fields, arch == "gemma3", c);
  c.rope.interleaved = arch == "llama";
  c.qk_norm = arch == "qwen3";
  return ReadWindows(fields, [](int) { return true; }, c);
}

}  // namespace

Result<ModelConfig> ConfigFromGguf(const GgufFile& file) {
  SURETY_ASSIGN_OR_RETURN(const std::string_view arch, file.String("general.architecture"));
  if (std::find(std::begin(kKnown), std::end(kKnown), arch) == std::end(kKnown)) {
    return Error(UnknownArchitecture(file.path(), "general.architecture", arch, kKnown));
  }
  if (file.Find("split.count") != nullptr) {
    SURETY_ASSIGN_OR_RETURN(const int64_t n_files, file.Int("split.count"));
    if (n_files > 1) {
      return Error(UnimplementedError("'" + file.path() + "': key 'split.count': a model split into " +
                                      std::to_string(n_files) + " files; join them into one first"));
    }
  }
  ModelConfig config;
  config.architecture = std::string(arch);
  config.encoder = arch == "bert";
  if (file.Find("general.name") != nullptr) {
    SURETY_ASSIGN_OR_RETURN(const std::string_view name, file.String("general.name"));
    config.name = std::string(name);
  }
  const Fields fields(file, config.architecture);
  SURETY_RETURN_IF_ERROR(ReadCommon(fields, config));
  SURETY_RETURN_IF_ERROR(ReadVariation(fields, config));
  SURETY_RETURN_IF_ERROR(config.Validate().WithContext("'" + file.path() + "'"));
  return config;
}

Result<GenerationDefaults> GenerationDefaultsFromGguf(const GgufFile& file) {
  GenerationDefaults defaults;
  const std::pair<const char*, std::optional<double>*> floats[] = {
      {"general.sampling.temp", &defaults.temperature},
      {"general.sampling.top_p", &defaults.top_p},
      {"general.sampling.min_p", &defaults.min_p},
      {"general.sampling.penalty_repeat", &defaults.repetition_penalty}};
  for (const auto& [key, value] : floats) {
    if (file.Find(key) == nullptr) continue;
    SURETY_ASSIGN_OR_RETURN(*value, file.Float(key));
  }
  if (file.Find("general.sampling.top_k") != nullptr) {
    SURETY_ASSIGN_OR_RETURN(const int64_t top_k, file.Int("general.sampling.top_k"));
    defaults.top_k = static_cast<int>(std::clamp<int64_t>(top_k, 0, INT32_MAX));
  }
  constexpr const char* kEndKeys[] = {"tokenizer.ggml.eos_token_id", "tokenizer.ggml.eot_token_id",
                                      "tokenizer.ggml.eom_token_id"};
  for (const char* key : kEndKeys) {
    if (file.Find(key) == nullptr) continue;
    SURETY_ASSIGN_OR_RETURN(const int64_t id, file.Int(key));
    if (id < 0 || id > INT32_MAX) continue;  // writers put -1 (or its unsigned form) where a model has no such token
    auto& ids = defaults.eos_token_ids;
    if (std::find(ids.begin(), ids.end(), static_cast<int32_t>(id)) == ids.end()) {
      ids.push_back(static_cast<int32_t>(id));
    }
  }
  return defaults;
}

}  // namespace surety::model
