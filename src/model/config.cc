#include "model/config.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <numbers>

#include "kernels/ops.h"

namespace surety::model {
namespace {

Status Wrong(std::string_view field, const std::string& value, std::string_view rule) {
  return InvalidArgumentError("model configuration: " + std::string(field) + " is " + value + ", but must be " +
                              std::string(rule));
}
Status Wrong(std::string_view field, int64_t value, std::string_view rule) {
  return Wrong(field, std::to_string(value), rule);
}
Status Wrong(std::string_view field, double value, std::string_view rule) {
  return Wrong(field, std::to_string(value), rule);
}

Status Positive(std::string_view field, int value) {
  return value > 0 ? OkStatus() : Wrong(field, int64_t{value}, "positive");
}
Status NotNegative(std::string_view field, double value) {
  return std::isfinite(value) && value >= 0 ? OkStatus() : Wrong(field, value, "finite and not negative");
}

// a * b fits the 31 bits of a row or column index.
Status Fits(std::string_view field, int64_t a, int64_t b) {
  if (a * b <= std::numeric_limits<int32_t>::max()) return OkStatus();
  return Wrong(field, a * b, "below 2^31");
}

// 0.1 m ln(s) + 1, YaRN's factor on attention for a context stretched by s.
double YarnScale(double stretch, double m) { return stretch <= 1 ? 1.0 : 0.1 * m * std::log(stretch) + 1.0; }

// The (fractional) index of the frequency that turns `rotations` times in the original context.
double YarnDimOf(double rotations, const RopeConfig& rope) {
  return rope.dim * std::log(rope.original_context / (rotations * 2 * std::numbers::pi)) / (2 * std::log(rope.base));
}

void ScaleYarn(const RopeConfig& rope, std::vector<double>& inv_freq) {
  const double low = std::max(std::floor(YarnDimOf(rope.beta_fast, rope)), 0.0);
  double high = std::min(std::ceil(YarnDimOf(rope.beta_slow, rope)), static_cast<double>(rope.dim) - 1);
  if (low == high) high += 0.001;
  for (size_t i = 0; i < inv_freq.size(); ++i) {
    const double ramp = std::clamp((static_cast<double>(i) - low) / (high - low), 0.0, 1.0);
    inv_freq[i] = inv_freq[i] / rope.factor * ramp + inv_freq[i] * (1 - ramp);
  }
}

void ScaleLlama3(const RopeConfig& rope, std::vector<double>& inv_freq) {
  const double context = rope.original_context;
  for (double& f : inv_freq) {
    const double turns = context * f / (2 * std::numbers::pi);  // in the original context
    if (turns < rope.low_freq_factor) {
      f /= rope.factor;
    } else if (turns <= rope.high_freq_factor) {
      const double smooth = (turns - rope.low_freq_factor) / (rope.high_freq_factor - rope.low_freq_factor);
      f = (1 - smooth) * f / rope.factor + smooth * f;
    }
  }
}

Status ValidateHeads(const ModelConfig& c) {
  if (c.n_heads % c.n_kv_heads != 0) {
    return Wrong("n_heads", int64_t{c.n_heads}, "a multiple of n_kv_heads, " + std::to_string(c.n_kv_heads));
  }
  SURETY_RETURN_IF_ERROR(Fits("n_heads * head_dim", c.n_heads, c.head_dim));
  if (!c.IsMla() && c.head_dim > kMaxValueDim) {
    return Wrong("head_dim", int64_t{c.head_dim}, "at most " + std::to_string(kMaxValueDim));
  }
  SURETY_RETURN_IF_ERROR(NotNegative("attention_scale", c.attention_scale));
  SURETY_RETURN_IF_ERROR(NotNegative("attention_soft_cap", c.attention_soft_cap));
  SURETY_RETURN_IF_ERROR(NotNegative("logit_soft_cap", c.logit_soft_cap));
  if (c.encoder) return c.rope.dim == 0 ? OkStatus() : Wrong("rope.dim", int64_t{c.rope.dim}, "0 in an encoder");

  const int rope_max = c.IsMla() ? c.mla.rope_dim : c.head_dim;
  if (c.rope.dim <= 0 || c.rope.dim > rope_max) {
    return Wrong("rope.dim", int64_t{c.rope.dim}, "positive and at most " + std::to_string(rope_max));
  }
  SURETY_RETURN_IF_ERROR(ValidateRope(c.rope, "rope"));
  if (c.rope_local.dim == 0) return OkStatus();
  if (c.rope_local.dim < 0 || c.rope_local.dim > rope_max) {
    return Wrong("rope_local.dim", int64_t{c.rope_local.dim}, "at most " + std::to_string(rope_max));
  }
  return ValidateRope(c.rope_local, "rope_local");
}

Status ValidateMla(const ModelConfig& c) {
  SURETY_RETURN_IF_ERROR(Positive("mla.kv_rank", c.mla.kv_rank));
  SURETY_RETURN_IF_ERROR(Positive("mla.nope_dim", c.mla.nope_dim));
  SURETY_RETURN_IF_ERROR(Positive("mla.rope_dim", c.mla.rope_dim));
  SURETY_RETURN_IF_ERROR(Positive("mla.v_dim", c.mla.v_dim));
  if (c.mla.q_rank < 0) return Wrong("mla.q_rank", int64_t{c.mla.q_rank}, "not negative");
  if (int64_t{c.mla.nope_dim} + c.mla.rope_dim != c.head_dim) {
    return Wrong("head_dim", int64_t{c.head_dim}, "mla.nope_dim + mla.rope_dim");
  }
  const auto at_most = [](std::string_view field, int64_t value, int most) {
    return value <= most ? OkStatus() : Wrong(field, value, "at most " + std::to_string(most));
  };
  SURETY_RETURN_IF_ERROR(at_most("mla.kv_rank", c.mla.kv_rank, kMaxValueDim));
  SURETY_RETURN_IF_ERROR(at_most("mla.kv_rank + mla.rope_dim", int64_t{c.mla.kv_rank} + c.mla.rope_dim, kMaxKeyDim));
  SURETY_RETURN_IF_ERROR(at_most("head_dim", c.head_dim, kernels::kMaxMadeDim));
  SURETY_RETURN_IF_ERROR(at_most("mla.v_dim", c.mla.v_dim, kernels::kMaxMadeDim));
  if (c.rope.dim != c.mla.rope_dim) return Wrong("rope.dim", int64_t{c.rope.dim}, "mla.rope_dim");
  SURETY_RETURN_IF_ERROR(Fits("n_heads * (mla.nope_dim + mla.v_dim)", c.n_heads,
                              int64_t{c.mla.nope_dim} + c.mla.v_dim));
  return Fits("n_heads * mla.kv_rank", c.n_heads, c.mla.kv_rank);
}

Status ValidateMoe(const ModelConfig& c) {
  const MoeConfig& moe = c.moe;
  SURETY_RETURN_IF_ERROR(Positive("moe.d_ff_expert", moe.d_ff_expert));
  if (moe.n_dense_layers < 0 || moe.n_dense_layers > c.n_layers) {
    return Wrong("moe.n_dense_layers", int64_t{moe.n_dense_layers}, "0 to n_layers");
  }
  if (moe.n_shared < 0) return Wrong("moe.n_shared", int64_t{moe.n_shared}, "not negative");
  SURETY_RETURN_IF_ERROR(Fits("moe.n_shared * moe.d_ff_expert", moe.n_shared, moe.d_ff_expert));
  if (moe.n_groups <= 0 || moe.n_experts % moe.n_groups != 0) {
    return Wrong("moe.n_groups", int64_t{moe.n_groups}, "a divisor of n_experts, " + std::to_string(moe.n_experts));
  }
  if (moe.n_groups_used <= 0 || moe.n_groups_used > moe.n_groups) {
    return Wrong("moe.n_groups_used", int64_t{moe.n_groups_used}, "1 to n_groups, " + std::to_string(moe.n_groups));
  }
  const int64_t reachable = int64_t{moe.n_experts / moe.n_groups} * moe.n_groups_used;
  if (moe.n_used <= 0 || moe.n_used > reachable) {
    return Wrong("moe.n_used", int64_t{moe.n_used},
                 "1 to the " + std::to_string(reachable) + " experts of the groups used");
  }
  if (moe.group_by_top2 && moe.n_groups > 1 && moe.n_experts / moe.n_groups < 2) {
    return Wrong("moe.n_groups", int64_t{moe.n_groups}, "groups of two experts or more");
  }
  return NotNegative("moe.routed_scale", moe.routed_scale);
}

}  // namespace

Status ValidateRope(const RopeConfig& rope, std::string_view name) {
  const std::string field = std::string(name) + ".";
  if (rope.dim % 2 != 0) return Wrong(field + "dim", int64_t{rope.dim}, "even");
  if (!std::isfinite(rope.base) || rope.base <= 1) return Wrong(field + "base", rope.base, "above 1");
  if (!std::isfinite(rope.factor) || rope.factor <= 0) return Wrong(field + "factor", rope.factor, "positive");
  SURETY_RETURN_IF_ERROR(NotNegative(field + "attention_factor", rope.attention_factor));
  SURETY_RETURN_IF_ERROR(NotNegative(field + "mscale", rope.mscale));
  SURETY_RETURN_IF_ERROR(NotNegative(field + "mscale_all_dim", rope.mscale_all_dim));
  if (rope.scaling == RopeScaling::kLlama3 || rope.scaling == RopeScaling::kYarn) {
    SURETY_RETURN_IF_ERROR(Positive(field + "original_context", rope.original_context));
  }
  if (rope.scaling == RopeScaling::kLlama3) {
    SURETY_RETURN_IF_ERROR(NotNegative(field + "low_freq_factor", rope.low_freq_factor));
    SURETY_RETURN_IF_ERROR(NotNegative(field + "high_freq_factor", rope.high_freq_factor));
    if (rope.high_freq_factor <= rope.low_freq_factor) {
      return Wrong(field + "high_freq_factor", rope.high_freq_factor, "above low_freq_factor");
    }
  }
  if (rope.scaling == RopeScaling::kYarn) {
    if (!std::isfinite(rope.beta_fast) || rope.beta_fast <= 0) {
      return Wrong(field + "beta_fast", rope.beta_fast, "positive");
    }
    if (!std::isfinite(rope.beta_slow) || rope.beta_slow <= 0) {
      return Wrong(field + "beta_slow", rope.beta_slow, "positive");
    }
  }
  if (!rope.freq_factors.empty() && rope.freq_factors.size() != static_cast<size_t>(rope.dim / 2)) {
    return Wrong(field + "freq_factors", static_cast<int64_t>(rope.freq_factors.size()), "dim / 2 numbers");
  }
  for (float f : rope.freq_factors) {
    if (!std::isfinite(f) || f <= 0) return Wrong(field + "freq_factors", double{f}, "positive in every element");
  }
  return OkStatus();
}

std::vector<double> RopeConfig::InverseFrequencies() const {
  std::vector<double> inv_freq(static_cast<size_t>(dim / 2));
  for (size_t i = 0; i < inv_freq.size(); ++i) {
    inv_freq[i] = 1.0 / std::pow(base, 2.0 * static_cast<double>(i) / dim);
  }
  switch (scaling) {
    case RopeScaling::kNone: break;
    case RopeScaling::kLinear:
      for (double& f : inv_freq) f /= factor;
      break;
    case RopeScaling::kLlama3: ScaleLlama3(*this, inv_freq); break;
    case RopeScaling::kYarn: ScaleYarn(*this, inv_freq); break;
  }
  for (size_t i = 0; i < std::min(inv_freq.size(), freq_factors.size()); ++i) {
    inv_freq[i] /= static_cast<double>(freq_factors[i]);
  }
  return inv_freq;
}

double RopeConfig::Magnitude() const {
  if (scaling != RopeScaling::kYarn) return 1.0;
  if (attention_factor > 0) return attention_factor;
  if (mscale > 0 && mscale_all_dim > 0) return YarnScale(factor, mscale) / YarnScale(factor, mscale_all_dim);
  return YarnScale(factor, 1.0);
}

KvLayout ModelConfig::KvLayoutFor(KvType type, int page_tokens) const {
  KvLayout layout;
  layout.n_layers = n_layers;
  layout.page_tokens = page_tokens;
  layout.type = type;
  if (IsMla()) {
    layout.latent = true;
    layout.n_kv_heads = 1;
    layout.k_dim = mla.kv_rank + mla.rope_dim;
    layout.v_dim = mla.kv_rank;
  } else {
    layout.n_kv_heads = n_kv_heads;
    layout.k_dim = head_dim;
    layout.v_dim = head_dim;
  }
  return layout;
}

Status ModelConfig::Validate() const {
  SURETY_RETURN_IF_ERROR(Positive("n_layers", n_layers));
  if (n_layers > kMaxKvLayers) return Wrong("n_layers", int64_t{n_layers}, "at most " + std::to_string(kMaxKvLayers));
  SURETY_RETURN_IF_ERROR(Positive("d_model", d_model));
  SURETY_RETURN_IF_ERROR(Positive("n_heads", n_heads));
  SURETY_RETURN_IF_ERROR(Positive("n_kv_heads", n_kv_heads));
  SURETY_RETURN_IF_ERROR(Positive("head_dim", head_dim));
  SURETY_RETURN_IF_ERROR(Positive("vocab_size", vocab_size));
  SURETY_RETURN_IF_ERROR(Positive("max_context", max_context));
  const bool some_layer_dense = moe.n_experts == 0 || moe.n_dense_layers > 0;
  if (some_layer_dense) SURETY_RETURN_IF_ERROR(Positive("d_ff", d_ff));
  if (!std::isfinite(norm_eps) || norm_eps <= 0) return Wrong("norm_eps", double{norm_eps}, "positive");
  if (!std::isfinite(embedding_scale)) return Wrong("embedding_scale", double{embedding_scale}, "finite");
  if (!std::isfinite(logit_scale)) return Wrong("logit_scale", double{logit_scale}, "finite");
  SURETY_RETURN_IF_ERROR(ValidateHeads(*this));
  if (!windows.empty() && windows.size() != static_cast<size_t>(n_layers)) {
    return Wrong("windows", static_cast<int64_t>(windows.size()), "one number for each of the n_layers");
  }
  for (int window : windows) {
    if (window < 0) return Wrong("windows", int64_t{window}, "not negative");
  }
  if (mla.kv_rank != 0) SURETY_RETURN_IF_ERROR(ValidateMla(*this));
  if (moe.n_experts < 0) return Wrong("moe.n_experts", int64_t{moe.n_experts}, "not negative");
  if (moe.n_experts > 0) SURETY_RETURN_IF_ERROR(ValidateMoe(*this));
  if (n_token_types < 0) return Wrong("n_token_types", int64_t{n_token_types}, "not negative");
  return OkStatus();
}

}  // namespace surety::model
