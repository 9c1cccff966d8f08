#include "model/heads/head_recipe.h"

#include <algorithm>

#include "model/formats/hf_config.h"
#include "model/formats/text.h"

namespace surety::model {
namespace {

constexpr size_t kMaxTaps = 16;

Status WrongKey(const JsonFields& fields, const std::string& key, int64_t found, const std::string& needed) {
  return InvalidArgumentError(fields.where() + ": key '" + key + "' is " + std::to_string(found) + ", but " + needed);
}

// Keys of the head's one layer, and how it turns.
Status ReadLayer(const JsonFields& fields, HeadRecipe& r) {
  SURETY_ASSIGN_OR_RETURN(r.d_model, fields.Int("hidden_size"));
  SURETY_ASSIGN_OR_RETURN(r.d_ff, fields.Int("intermediate_size"));
  SURETY_ASSIGN_OR_RETURN(r.n_heads, fields.Int("num_attention_heads"));
  SURETY_ASSIGN_OR_RETURN(r.n_kv_heads, fields.Int("num_key_value_heads", r.n_heads));
  SURETY_ASSIGN_OR_RETURN(const int n_layers, fields.Int("num_hidden_layers", 1));
  if (n_layers != 1) return WrongKey(fields, "num_hidden_layers", n_layers, "a head of 1 layer is what is read");
  if (r.d_model <= 0 || r.d_ff <= 0 || r.d_model > (1 << 20) || r.d_ff > (1 << 22)) {
    return WrongKey(fields, "hidden_size", r.d_model, "it and intermediate_size must be positive and of sane size");
  }
  if (r.n_heads <= 0 || r.n_kv_heads <= 0 || r.n_heads % r.n_kv_heads != 0) {
    return WrongKey(fields, "num_key_value_heads", r.n_kv_heads,
                    "it must divide the " + std::to_string(r.n_heads) + " of num_attention_heads");
  }
  SURETY_ASSIGN_OR_RETURN(r.head_dim, fields.Int("head_dim", r.d_model / r.n_heads));
  if (r.head_dim <= 0 || r.head_dim > kMaxValueDim || r.head_dim % 2 != 0) {
    return WrongKey(fields, "head_dim", r.head_dim, "an even number up to " + std::to_string(kMaxValueDim) +
                                                        " is needed (hidden_size / num_attention_heads by default)");
  }
  SURETY_ASSIGN_OR_RETURN(const double eps, fields.Float("rms_norm_eps", 1e-6));
  r.norm_eps = static_cast<float>(eps);
  if (!(eps >= 1e-30 && eps <= 1)) {
    return InvalidArgumentError(fields.where() + ": key 'rms_norm_eps' is " + std::to_string(eps) +
                                ", but a positive number up to 1 is needed (1e-6 by default)");
  }
  SURETY_ASSIGN_OR_RETURN(const std::string act, fields.String("hidden_act", "silu"));
  if (act != "silu" && act != "swish") {
    return fields.Unimplemented("hidden_act", "'" + Printable(act) + "'; known: silu");
  }
  SURETY_ASSIGN_OR_RETURN(r.max_context, fields.Int("max_position_embeddings", 1 << 20));
  ModelConfig rotation;
  rotation.architecture = "llama";
  rotation.max_context = r.max_context;
  rotation.rope.dim = r.head_dim;
  SURETY_RETURN_IF_ERROR(ReadHfRope(fields, rotation));
  r.rope = rotation.rope;
  return ValidateRope(r.rope, "rope").WithContext(fields.where());
}

Status ReadVocabulary(const HeadWeights& w, const JsonFields& fields, const ModelConfig& target, HeadRecipe& r) {
  r.vocab_size = target.vocab_size;
  r.own_embedding = w.Has("embed_tokens.weight");
  if (!r.own_embedding && r.d_model != target.d_model) {
    return NotFoundError("'" + r.path + "': tensor 'embed_tokens.weight' is missing; the target's has " +
                         std::to_string(target.d_model) + " columns and cannot stand in for one of " +
                         std::to_string(r.d_model));
  }
  if (fields.Has("vocab_size")) {
    SURETY_ASSIGN_OR_RETURN(const int vocab, fields.Int("vocab_size"));
    if (vocab != target.vocab_size) {
      return WrongKey(fields, "vocab_size", vocab, "the target has a vocabulary of " +
                                                       std::to_string(target.vocab_size) + "; a head drafts for the "
                                                       "model that it was trained on");
    }
  }
  return OkStatus();
}

// The layers that the states enter.
Status ReadTaps(const HeadWeights& w, const JsonFields& fields, const ModelConfig& target, const HeadOptions& options,
                HeadRecipe& r) {
  std::vector<int> ids = options.entering_layers;
  const int from_output = ids.empty() && options.layer_ids_are_outputs ? 1 : 0;
  JsonFields eagle = fields;
  if (ids.empty() && fields.Has("eagle_config")) {
    SURETY_ASSIGN_OR_RETURN(eagle, fields.Object("eagle_config"));
  }
  constexpr const char* kKey = "eagle_aux_hidden_state_layer_ids";
  const bool in_eagle = ids.empty() && eagle.Has(kKey);
  if (in_eagle || (ids.empty() && fields.Has(kKey))) {
    SURETY_ASSIGN_OR_RETURN(const boost::json::array* list, (in_eagle ? eagle : fields).Array(kKey));
    for (const boost::json::value& value : *list) {
      if (!value.is_int64()) {
        return InvalidArgumentError(fields.where() + ": key '" + kKey + "' must list numbers of layers");
      }
      ids.push_back(static_cast<int>(std::clamp<int64_t>(value.get_int64(), -1, INT32_MAX - 1)) + from_output);
    }
  }
  if (ids.size() > kMaxTaps) {
    return InvalidArgumentError("'" + r.path + "': " + std::to_string(ids.size()) + " layers are named to take hidden "
                                "states from; at most " + std::to_string(kMaxTaps) + " are read");
  }
  const bool by_default = ids.empty();
  if (by_default) ids = {2, target.n_layers / 2, target.n_layers - 3};
  for (const int id : ids) {
    if (id >= 0 && id < target.n_layers) {
      r.taps.push_back({id});
      continue;
    }
    return InvalidArgumentError("'" + r.path + "': the head reads the hidden state entering layer " +
                                std::to_string(id) + (by_default ? " (by default: 2, L/2 and L-3)" : "") +
                                ", but the target has layers 0 to " + std::to_string(target.n_layers - 1));
  }
  const int64_t columns = w.Cols("fc.weight");
  if (columns > 0 && columns % target.d_model == 0 && columns != r.feature_dim()) {
    return InvalidArgumentError("'" + r.path + "': tensor 'fc.weight' takes " +
                                std::to_string(columns / target.d_model) + " hidden states of " +
                                std::to_string(target.d_model) + ", but " + std::to_string(ids.size()) +
                                " layers are named to take them from");
  }
  return OkStatus();
}

Status ReadEagle3(const HeadWeights& w, const ModelConfig& target, const HeadOptions& options, HeadRecipe& r) {
  JsonFields fields = w.config(), layer = fields;
  if (fields.Has("transformer_layer_config")) {
    SURETY_ASSIGN_OR_RETURN(layer, fields.Object("transformer_layer_config"));
  }
  SURETY_RETURN_IF_ERROR(ReadLayer(layer, r));
  SURETY_RETURN_IF_ERROR(ReadVocabulary(w, layer, target, r));
  SURETY_ASSIGN_OR_RETURN(const int width, fields.Int("target_hidden_size", target.d_model));
  if (width != target.d_model) {
    return WrongKey(fields, "target_hidden_size", width, "the target's is " + std::to_string(target.d_model));
  }
  SURETY_RETURN_IF_ERROR(ReadTaps(w, fields, target, options, r));
  SURETY_ASSIGN_OR_RETURN(r.draft_vocab_size, fields.Int("draft_vocab_size", r.vocab_size));
  if (r.draft_vocab_size <= 0 || r.draft_vocab_size > r.vocab_size) {
    return WrongKey(fields, "draft_vocab_size", r.draft_vocab_size,
                    "it must be from 1 to the target's " + std::to_string(r.vocab_size));
  }
  r.own_output = w.Has("lm_head.weight");
  if (!r.own_output && (r.draft_vocab_size != r.vocab_size || r.d_model != target.d_model)) {
    return NotFoundError("'" + r.path + "': tensor 'lm_head.weight' is missing, and the target's output matrix has "
                         "another shape than [" + std::to_string(r.draft_vocab_size) + ", " +
                         std::to_string(r.d_model) + "]");
  }
  JsonFields eagle = fields;
  if (fields.Has("eagle_config")) {
    SURETY_ASSIGN_OR_RETURN(eagle, fields.Object("eagle_config"));
  }
  SURETY_ASSIGN_OR_RETURN(const bool own_residual, fields.Bool("norm_before_residual", false));
  r.norm_before_residual = options.norm_before_residual.value_or(own_residual);
  SURETY_ASSIGN_OR_RETURN(r.input_norm, fields.Bool("norm_before_fc", false));
  SURETY_ASSIGN_OR_RETURN(r.input_norm, eagle.Bool("norm_before_fc", r.input_norm));
  SURETY_ASSIGN_OR_RETURN(r.fc_norm, fields.Bool("fc_norm", false));
  SURETY_ASSIGN_OR_RETURN(r.norm_output, fields.Bool("norm_output", false));
  return OkStatus();
}

Status ReadEagle1(const HeadWeights& w, const ModelConfig& target, HeadRecipe& r) {
  const JsonFields fields = w.config();
  SURETY_RETURN_IF_ERROR(ReadLayer(fields, r));
  if (r.d_model != target.d_model) {
    return WrongKey(fields, "hidden_size", r.d_model,
                    "the head makes hidden states of the target, which are " + std::to_string(target.d_model) +
                        " wide");
  }
  SURETY_RETURN_IF_ERROR(ReadVocabulary(w, fields, target, r));
  r.draft_vocab_size = r.vocab_size;
  r.taps = {{HiddenTap::kFinal}};
  return OkStatus();
}

Status ReadMedusa(const HeadWeights& w, const ModelConfig& target, HeadRecipe& r) {
  r.d_model = target.d_model;
  r.vocab_size = r.draft_vocab_size = target.vocab_size;
  r.max_context = 1 << 20;
  r.taps = {{HiddenTap::kFinal}};
  r.vllm_names = w.HasPrefix("blocks.0.");
  const auto name_of = [&](int i, int j) {
    const std::string head = std::to_string(i), block = std::to_string(j);
    return r.vllm_names ? "blocks." + head + ".layers." + block + ".weight" : head + "." + block + ".linear.weight";
  };
  while (w.HasPrefix((r.vllm_names ? "blocks." : "") + std::to_string(r.n_medusa_heads) + ".")) {
    int n_layers = 0;
    while (w.Has(name_of(r.n_medusa_heads, n_layers))) ++n_layers;
    r.medusa_layers.push_back(n_layers);
    ++r.n_medusa_heads;
  }
  if (r.n_medusa_heads == 0) {
    return InvalidArgumentError("'" + r.path + "': no Medusa head; the first one's tensors are named 0.0.linear.weight "
                                "and so on, or blocks.0.layers.0.weight");
  }
  if (r.n_medusa_heads > 16) {
    return InvalidArgumentError("'" + r.path + "': " + std::to_string(r.n_medusa_heads) +
                                " Medusa heads; at most 16 are read");
  }
  r.own_output = !r.vllm_names || w.HasPrefix("lm_heads.") || w.Has("lm_head.weight");
  for (int i = 0; i < r.n_medusa_heads; ++i) {
    if (r.own_output || r.medusa_layers[static_cast<size_t>(i)] > 0) continue;
    return NotFoundError("'" + r.path + "': tensor '" + name_of(i, 0) + "' is missing, and without an output matrix "
                         "of its own head " + std::to_string(i) + " would say what the target itself says");
  }
  if (w.has_config()) {
    const JsonFields fields = w.config();
    for (const char* key : {"medusa_num_heads", "num_heads"}) {
      if (!fields.Has(key)) continue;
      SURETY_ASSIGN_OR_RETURN(const int said, fields.Int(key));
      if (said != r.n_medusa_heads) {
        r.note = "config.json says " + std::to_string(said) + " heads, the tensors are of " +
                 std::to_string(r.n_medusa_heads);
      }
      break;
    }
  }
  return OkStatus();
}

}  // namespace

std::string_view NameOf(HeadMethod method) {
  switch (method) {
    case HeadMethod::kMedusa: return "Medusa";
    case HeadMethod::kEagle1: return "EAGLE-1/2";
    case HeadMethod::kEagle3: return "EAGLE-3";
  }
  return "";
}

KvLayout HeadRecipe::KvLayoutFor(KvType type, int page_tokens) const {
  KvLayout layout;
  layout.n_layers = method == HeadMethod::kMedusa ? 0 : 1;
  layout.n_kv_heads = n_kv_heads;
  layout.k_dim = layout.v_dim = head_dim;
  layout.page_tokens = page_tokens;
  layout.type = type == KvType::kQ8_0 && head_dim % 32 != 0 ? KvType::kF16 : type;
  return layout;
}

std::string HeadRecipe::Describe() const {
  std::string text(NameOf(method));
  const auto number = [](int64_t n) { return std::to_string(n); };
  if (method == HeadMethod::kMedusa) {
    text += ": " + number(n_medusa_heads) + " heads on the final hidden state (" + number(d_model) + ")";
  } else if (method == HeadMethod::kEagle1) {
    text += ": final hidden state (" + number(target_dim) + ") and next token";
  } else {
    text += ": hidden states entering layers ";
    for (size_t i = 0; i < taps.size(); ++i) text += (i > 0 ? ", " : "") + number(taps[i].layer);
    text += " (" + number(static_cast<int64_t>(taps.size())) + " x " + number(target_dim) + ")";
  }
  if (method != HeadMethod::kMedusa) {
    text += ", one layer of " + number(d_model) + " with " + number(n_heads) + " heads of " + number(head_dim) + " (" +
            number(n_kv_heads) + " of keys) and FFN " + number(d_ff);
  }
  if (method == HeadMethod::kEagle3) {
    text += norm_before_residual ? ", residual after its norm" : ", residual before its norm";
    if (input_norm) text += ", norm before fc";
    if (fc_norm) text += ", norm of each state before fc";
    if (norm_output) text += ", normed output fed back";
  }
  text += ", vocabulary " + number(draft_vocab_size) + " of " + number(vocab_size);
  text += own_output ? ", own output matrix" : ", the target's output matrix";
  if (!note.empty()) text += " (" + note + ")";
  return text;
}

Result<HeadRecipe> ReadHeadRecipe(const HeadWeights& weights, const ModelConfig& target, const HeadOptions& options) {
  HeadRecipe r;
  r.path = weights.path();
  r.target_dim = target.d_model;
  const bool third = weights.Has("layers.0.hidden_norm.weight"), first = weights.Has("fc.weight");
  if (target.encoder) {
    return Error(InvalidArgumentError("'" + r.path + "': a head drafts text, and the target is an encoder"));
  }
  if (third || first) {
    if (!weights.has_config()) {
      return Error(NotFoundError("'" + r.path + "': an EAGLE head needs its config.json beside the weights"));
    }
    r.method = third ? HeadMethod::kEagle3 : HeadMethod::kEagle1;
    SURETY_RETURN_IF_ERROR(third ? ReadEagle3(weights, target, options, r) : ReadEagle1(weights, target, r));
    return r;
  }
  if (weights.HasPrefix("blocks.0.") || weights.HasPrefix("0.")) {
    r.method = HeadMethod::kMedusa;
    SURETY_RETURN_IF_ERROR(ReadMedusa(weights, target, r));
    return r;
  }
  return Error(InvalidArgumentError(
      "'" + r.path + "' is no draft head that is known: neither EAGLE-3 (fc.weight, midlayer.hidden_norm.weight or "
      "layers.0.hidden_norm.weight) nor EAGLE-1 (fc.weight, layers.0.*) nor Medusa (0.0.linear.weight or "
      "blocks.0.layers.0.weight)"));
}

}  // namespace surety::model
