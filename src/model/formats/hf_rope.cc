// The rotation's keys of config.json, in both spellings.
#include <string>

#include "model/formats/hf_config.h"
#include "model/formats/text.h"

namespace surety::model {
namespace {

Status ReadYarn(const JsonFields& scaling, int max_context, int top_level_original, RopeConfig& rope) {
  rope.scaling = RopeScaling::kYarn;
  const int default_original = top_level_original > 0 ? top_level_original : max_context;
  SURETY_ASSIGN_OR_RETURN(rope.original_context, scaling.Int("original_max_position_embeddings", default_original));
  if (rope.original_context == 0) {
    return InvalidArgumentError(scaling.where() + ": key 'original_max_position_embeddings' is 0");
  }
  SURETY_ASSIGN_OR_RETURN(rope.factor,
                          scaling.Float("factor", static_cast<double>(max_context) / rope.original_context));
  SURETY_ASSIGN_OR_RETURN(rope.beta_fast, scaling.Float("beta_fast", 32.0));
  SURETY_ASSIGN_OR_RETURN(rope.beta_slow, scaling.Float("beta_slow", 1.0));
  SURETY_ASSIGN_OR_RETURN(rope.attention_factor, scaling.Float("attention_factor", 0.0));
  SURETY_ASSIGN_OR_RETURN(rope.mscale, scaling.Float("mscale", 0.0));
  SURETY_ASSIGN_OR_RETURN(rope.mscale_all_dim, scaling.Float("mscale_all_dim", 0.0));
  SURETY_ASSIGN_OR_RETURN(const bool truncate, scaling.Bool("truncate", true));
  if (!truncate) return scaling.Unimplemented("truncate", "YaRN without whole-numbered limits");
  return OkStatus();
}

// `scaling` is rope_scaling or an object of rope_parameters.
Status ReadScaling(const JsonFields& scaling, int max_context, int top_level_original, RopeConfig& rope) {
  SURETY_ASSIGN_OR_RETURN(const std::string old_type, scaling.String("type", "default"));
  SURETY_ASSIGN_OR_RETURN(const std::string type, scaling.String("rope_type", old_type));
  if (type == "default" || type == "none") return OkStatus();
  if (type == "linear") {
    rope.scaling = RopeScaling::kLinear;
    SURETY_ASSIGN_OR_RETURN(rope.factor, scaling.Float("factor"));
    return OkStatus();
  }
  if (type == "llama3") {
    rope.scaling = RopeScaling::kLlama3;
    SURETY_ASSIGN_OR_RETURN(rope.factor, scaling.Float("factor"));
    SURETY_ASSIGN_OR_RETURN(rope.low_freq_factor, scaling.Float("low_freq_factor"));
    SURETY_ASSIGN_OR_RETURN(rope.high_freq_factor, scaling.Float("high_freq_factor"));
    SURETY_ASSIGN_OR_RETURN(rope.original_context, scaling.Int("original_max_position_embeddings"));
    return OkStatus();
  }
  if (type == "yarn") return ReadYarn(scaling, max_context, top_level_original, rope);
  return scaling.Unimplemented("rope_type", "unknown scaling '" + Printable(type) +
                                                "'; known: default, linear, llama3, yarn");
}

// rope_parameters of transformers 5: base and scaling in one object.
Status ReadParameters(const JsonFields& parameters, int max_context, int top_level_original, RopeConfig& rope) {
  SURETY_ASSIGN_OR_RETURN(rope.base, parameters.Float("rope_theta", rope.base));
  if (parameters.Has("partial_rotary_factor")) {
    SURETY_ASSIGN_OR_RETURN(const double rotated, parameters.Float("partial_rotary_factor"));
    if (rotated != 1.0) return parameters.Unimplemented("partial_rotary_factor", "a partly rotated head");
  }
  return ReadScaling(parameters, max_context, top_level_original, rope);
}

bool SameRotation(const RopeConfig& a, const RopeConfig& b) {
  return a.base == b.base && a.InverseFrequencies() == b.InverseFrequencies() && a.Magnitude() == b.Magnitude();
}

}  // namespace

Status ReadHfRope(const JsonFields& fields, ModelConfig& c) {
  const bool gemma3 = c.architecture == "gemma3";
  RopeConfig local = c.rope;  // dim and interleaved
  c.rope.base = gemma3 ? 1e6 : 10000.0;
  local.base = 10000.0;
  SURETY_ASSIGN_OR_RETURN(c.rope.base, fields.Float("rope_theta", c.rope.base));
  SURETY_ASSIGN_OR_RETURN(local.base, fields.Float("rope_local_base_freq", gemma3 ? local.base : c.rope.base));
  SURETY_ASSIGN_OR_RETURN(const int original, fields.Int("original_max_position_embeddings", 0));
  bool has_local = gemma3;
  if (fields.Has("rope_parameters")) {
    SURETY_ASSIGN_OR_RETURN(const JsonFields parameters, fields.Object("rope_parameters"));
    if (parameters.Has("full_attention") || parameters.Has("sliding_attention")) {
      if (parameters.Has("full_attention")) {
        SURETY_ASSIGN_OR_RETURN(const JsonFields full, parameters.Object("full_attention"));
        SURETY_RETURN_IF_ERROR(ReadParameters(full, c.max_context, original, c.rope));
      }
      if (parameters.Has("sliding_attention")) {
        SURETY_ASSIGN_OR_RETURN(const JsonFields sliding, parameters.Object("sliding_attention"));
        SURETY_RETURN_IF_ERROR(ReadParameters(sliding, c.max_context, original, local));
        has_local = true;
      }
    } else {
      SURETY_RETURN_IF_ERROR(ReadParameters(parameters, c.max_context, original, c.rope));
    }
  } else if (fields.Has("rope_scaling")) {
    SURETY_ASSIGN_OR_RETURN(const JsonFields scaling, fields.Object("rope_scaling"));
    SURETY_RETURN_IF_ERROR(ReadScaling(scaling, c.max_context, original, c.rope));
  }
  const bool sane = c.rope.dim > 0 && c.rope.dim <= (1 << 20) && local.base > 1 && c.rope.base > 1;
  if (has_local && !c.windows.empty() && sane && !SameRotation(local, c.rope)) c.rope_local = local;
  return OkStatus();
}

}  // namespace surety::model
