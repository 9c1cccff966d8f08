#include "train/head_shape.h"

#include <fmt/format.h>

namespace surety::train {

Status HeadShape::Validate() const {
  const struct {
    const char* name;
    int value;
  } sizes[] = {{"d_model", d_model},   {"n_taps", n_taps},     {"n_heads", n_heads}, {"n_kv_heads", n_kv_heads},
               {"head_dim", head_dim}, {"d_ff", d_ff}, {"draft_vocab", draft_vocab}};
  for (const auto& [name, value] : sizes) {
    if (value <= 0) return InvalidArgumentError(fmt::format("{} of the head is {}; it must be above 0", name, value));
  }
  if (n_heads % n_kv_heads != 0) {
    return InvalidArgumentError(fmt::format("{} heads do not share {} key heads evenly", n_heads, n_kv_heads));
  }
  if (head_dim % 2 != 0) return InvalidArgumentError(fmt::format("head_dim {} is odd; rotation needs pairs", head_dim));
  return OkStatus();
}

Result<std::vector<int>> DefaultTapLayers(int n_layers) {
  if (n_layers >= 8) return std::vector<int>{2, n_layers / 2, n_layers - 3};
  if (n_layers >= 3) return std::vector<int>{0, n_layers / 2, n_layers - 1};
  return Error(FailedPreconditionError(fmt::format("the model has {} layers, too few for a head that reads three; name "
                                                   "those to read with --tap-layers", n_layers)));
}

HeadLayout::HeadLayout(const HeadShape& s) {
  const int64_t d = s.d_model, both = 2 * d;
  tensors[kFc] = {"fc.weight", d, s.tap_width()};
  tensors[kQuery] = {"midlayer.self_attn.q_proj.weight", s.q_width(), both};
  tensors[kKey] = {"midlayer.self_attn.k_proj.weight", s.kv_width(), both};
  tensors[kValue] = {"midlayer.self_attn.v_proj.weight", s.kv_width(), both};
  tensors[kOutput] = {"midlayer.self_attn.o_proj.weight", d, s.q_width()};
  tensors[kGate] = {"midlayer.mlp.gate_proj.weight", s.d_ff, d};
  tensors[kUp] = {"midlayer.mlp.up_proj.weight", s.d_ff, d};
  tensors[kDown] = {"midlayer.mlp.down_proj.weight", d, s.d_ff};
  tensors[kInputNorm] = {"midlayer.input_layernorm.weight", d};
  tensors[kHiddenNorm] = {"midlayer.hidden_norm.weight", d};
  tensors[kPostNorm] = {"midlayer.post_attention_layernorm.weight", d};
  tensors[kFinalNorm] = {"norm.weight", d};
  tensors[kLmHead] = {"lm_head.weight", s.draft_vocab, d};
  for (HeadTensorPlace& place : tensors) {
    place.offset = size;
    size += (place.size() + 15) / 16 * 16;
  }
}

}  // namespace surety::train
