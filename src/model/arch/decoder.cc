#include "model/arch/decoder.h"

#include <algorithm>
#include <string>

#include "base/check.h"

namespace surety::model {

Result<std::unique_ptr<Model>> Decoder::Load(const ModelSource& source, kernels::Ops& ops, LoadProgressFn progress) {
  auto decoder = std::unique_ptr<Decoder>(new Decoder(source, ops));
  TensorLoader loader(source, ops, progress);
  SURETY_RETURN_IF_ERROR(decoder->LoadWeights(loader));
  decoder->weight_bytes_ = loader.packed_bytes();
  return decoder;
}

Status Decoder::LoadWeights(TensorLoader& loader) {
  const int64_t v = config_.vocab_size, d = config_.d_model;
  SURETY_ASSIGN_OR_RETURN(embedding_, loader.Table("token_embd.weight", v, d));
  if (loader.Has("rope_freqs.weight")) {
    SURETY_ASSIGN_OR_RETURN(config_.rope.freq_factors, loader.Floats("rope_freqs.weight", config_.rope.dim / 2));
  }
  rope_.Init(config_.rope);
  has_local_rope_ = config_.rope_local.dim > 0;
  if (has_local_rope_) rope_local_.Init(config_.rope_local);

  layers_.resize(static_cast<size_t>(config_.n_layers));
  for (int i = 0; i < config_.n_layers; ++i) SURETY_RETURN_IF_ERROR(LoadLayer(loader, i));
  SURETY_ASSIGN_OR_RETURN(output_norm_, loader.Floats("output_norm.weight", d, config_.norm_weight_offset));
  const char* output = loader.Has("output.weight") ? "output.weight" : "token_embd.weight";
  SURETY_ASSIGN_OR_RETURN(output_, loader.Pack(output, v, d));
  return OkStatus();
}

Status Decoder::LoadLayer(TensorLoader& loader, int index) {
  Layer& layer = layers_[static_cast<size_t>(index)];
  const std::string prefix = "blk." + std::to_string(index) + ".";
  const int64_t d = config_.d_model;
  const float offset = config_.norm_weight_offset;
  SURETY_ASSIGN_OR_RETURN(layer.attention_norm, loader.Floats(prefix + "attn_norm.weight", d, offset));
  SURETY_ASSIGN_OR_RETURN(layer.ffn_norm, loader.Floats(prefix + "ffn_norm.weight", d, offset));
  if (config_.post_norms) {
    SURETY_ASSIGN_OR_RETURN(layer.post_attention_norm,
                            loader.Floats(prefix + "post_attention_norm.weight", d, offset));
    SURETY_ASSIGN_OR_RETURN(layer.post_ffn_norm, loader.Floats(prefix + "post_ffw_norm.weight", d, offset));
  }
  if (config_.IsMla()) {
    SURETY_ASSIGN_OR_RETURN(layer.attention, LoadMlaBlock(loader, config_, index, slots_, &materialised_mla_));
  } else {
    SURETY_ASSIGN_OR_RETURN(layer.attention, LoadAttentionBlock(loader, config_, index, slots_));
  }
  if (config_.LayerHasExperts(index)) {
    SURETY_ASSIGN_OR_RETURN(layer.ffn, LoadMoeBlock(loader, config_, index, slots_));
  } else {
    SURETY_ASSIGN_OR_RETURN(layer.ffn, LoadFfnBlock(loader, config_, index, slots_));
  }
  return OkStatus();
}

Status Decoder::SetTaps(std::span<const HiddenTap> taps) {
  for (const HiddenTap& tap : taps) {
    if (tap.layer == HiddenTap::kFinal || (tap.layer >= 0 && tap.layer < config_.n_layers)) continue;
    return InvalidArgumentError("the hidden state entering layer " + std::to_string(tap.layer) +
                                " cannot be kept: the model has layers 0 to " + std::to_string(config_.n_layers - 1));
  }
  taps_.assign(taps.begin(), taps.end());
  return OkStatus();
}

bool Decoder::KeepsFinal() const {
  return std::any_of(taps_.begin(), taps_.end(), [](const HiddenTap& tap) { return tap.layer == HiddenTap::kFinal; });
}

// The state x goes to all taps of this place.
void Decoder::Keep(int layer, ConstMatrixF x) {
  for (size_t i = 0; i < taps_.size(); ++i) {
    if (taps_[i].layer != layer) continue;
    ops_.CopyHeads(x, 1, 0, config_.d_model, tapped_, static_cast<int>(i) * config_.d_model);
  }
}

Status Decoder::Reserve(int max_rows, int max_context) {
  workspace_.Clear();
  max_rows_ = max_rows;
  const int64_t d = config_.d_model;
  x_ = workspace_.Declare(max_rows, d);
  h_ = workspace_.Declare(max_rows, d);
  delta_ = workspace_.Declare(max_rows, d);
  x_last_ = workspace_.Declare(max_rows, d);
  h_last_ = workspace_.Declare(max_rows, d);
  heads_last_ = workspace_.Declare(
      max_rows, int64_t{config_.n_heads} * (config_.IsMla() ? config_.mla.v_dim : config_.head_dim));
  rope_.table = workspace_.Declare(max_rows, 2 * rope_.spec.n_freqs);
  if (has_local_rope_) rope_local_.table = workspace_.Declare(max_rows, 2 * rope_local_.spec.n_freqs);
  slots_.Declare(config_, max_rows, workspace_);
  tapped_ = {};
  if (!taps_.empty()) tapped_slot_ = workspace_.Declare(max_rows, static_cast<int64_t>(taps_.size()) * d);
  SURETY_RETURN_IF_ERROR(workspace_.Allocate());
  for (Layer& layer : layers_) layer.ffn->Reserve(max_rows);
  int64_t max_inputs = std::max({d, int64_t{config_.d_ff}, int64_t{config_.n_heads} * config_.head_dim,
                                 int64_t{config_.mla.q_rank}, int64_t{config_.n_heads} * config_.mla.v_dim,
                                 int64_t{config_.moe.d_ff_expert} * std::max(1, config_.moe.n_shared)});
  return ops_.Reserve(max_rows, max_inputs, max_context);
}

// One layer without its attention norm, which the caller has applied: h is the normed input. On return x holds the
// residual with the attention output added and `delta` the FFN's output, not yet added. With heads_out the layer stops
// after attention and gives the heads' outputs instead.
void Decoder::RunLayer(const StepContext& step, int index, MatrixF x, MatrixF h, MatrixF delta,
                       ConstMatrixF* heads_out, bool store_only) {
  Layer& layer = layers_[static_cast<size_t>(index)];
  ConstMatrixF heads;
  if (heads_out == nullptr || heads_out->data == nullptr) {
    heads = layer.attention->Attend(step, index, RopeOf(index), h, store_only);
    if (heads_out != nullptr) {
      *heads_out = heads;
      return;
    }
  } else {
    heads = *heads_out;
  }
  layer.attention->Project(step, heads, delta);
  if (config_.post_norms) {
    ops_.RmsNorm(delta, layer.post_attention_norm.data(), config_.d_model, config_.norm_eps, delta);
  }
  ops_.AddRmsNorm(x, delta, layer.ffn_norm.data(), config_.norm_eps, h);
  layer.ffn->Run(step, h, delta);
  if (config_.post_norms) {
    ops_.RmsNorm(delta, layer.post_ffn_norm.data(), config_.d_model, config_.norm_eps, delta);
  }
}

void Decoder::Forward(const BatchView& batch, const PagedKvView& kv, MatrixF logits) {
  const int rows = batch.n_rows();
  const auto n_out = static_cast<int64_t>(batch.logit_rows.size());
  SURETY_CHECK(rows > 0 && logits.rows == n_out);
  const StepContext step = {ops_, workspace_, batch, kv};
  MatrixF x = workspace_.Get(x_, rows);
  MatrixF h = workspace_.Get(h_, rows);
  MatrixF delta = workspace_.Get(delta_, rows);
  if (rope_.spec.n_freqs > 0) ops_.RopeTable(rope_.spec, batch.positions, workspace_.Get(rope_.table, rows));
  if (has_local_rope_) {
    ops_.RopeTable(rope_local_.spec, batch.positions, workspace_.Get(rope_local_.table, rows));
  }
  ops_.Embed(embedding_, batch.token_ids, config_.embedding_scale, x);
  if (!taps_.empty()) tapped_ = workspace_.Get(tapped_slot_, rows);
  Keep(0, x);

  const int last = config_.n_layers - 1;
  ops_.RmsNorm(x, layers_[0].attention_norm.data(), config_.d_model, config_.norm_eps, h);
  for (int i = 0; i < last; ++i) {
    RunLayer(step, i, x, h, delta, nullptr, false);
    ops_.AddRmsNorm(x, delta, layers_[static_cast<size_t>(i) + 1].attention_norm.data(), config_.norm_eps, h);
    Keep(i + 1, x);
  }

  // In the last layer only the rows whose logits are wanted go on beyond attention, unless its result is kept of all.
  const bool keeps_final = KeepsFinal();
  ConstMatrixF heads;
  RunLayer(step, last, x, h, delta, &heads, n_out == 0 && !keeps_final);
  if (n_out == 0 && !keeps_final) return;
  if (n_out < rows && !keeps_final) {
    MatrixF x_few = workspace_.Get(x_last_, n_out);
    MatrixF heads_few = workspace_.Get(heads_last_, n_out);
    ops_.GatherRows(x, batch.logit_rows, x_few);
    ops_.GatherRows(heads, batch.logit_rows, heads_few);
    x = x_few;
    heads = heads_few;
    h = workspace_.Get(h_last_, n_out);
    delta = workspace_.Get(delta_, n_out);
  }
  RunLayer(step, last, x, h, delta, &heads, false);
  ops_.AddRmsNorm(x, delta, output_norm_.data(), config_.norm_eps, h);
  if (keeps_final) {
    Keep(HiddenTap::kFinal, h);
    if (n_out == 0) return;
    if (n_out < rows) {
      MatrixF h_few = workspace_.Get(h_last_, n_out);
      ops_.GatherRows(h, batch.logit_rows, h_few);
      h = h_few;
    }
  }
  Logits(h, logits);
}

void Decoder::Logits(ConstMatrixF hidden, MatrixF logits) {
  for (int64_t first = 0; first < hidden.rows; first += max_rows_) {
    const int64_t n = std::min(max_rows_, hidden.rows - first);
    const kernels::MatMulTask task = {OutputMatrix(), logits.Rows(first, n)};
    ops_.MatMul(hidden.Rows(first, n), {&task, 1});
  }
  if (config_.logit_scale != 1.0f) ops_.Scale(logits, config_.logit_scale);
  if (config_.logit_soft_cap > 0) ops_.SoftCap(logits, config_.logit_soft_cap);
}

int64_t Decoder::bytes_per_decoded_token() const {
  int64_t bytes = output_->size_bytes();
  for (const Layer& layer : layers_) bytes += layer.attention->weight_bytes() + layer.ffn->bytes_per_row();
  return bytes;
}

int64_t Decoder::macs_per_row() const {
  int64_t macs = 0;
  for (const Layer& layer : layers_) macs += layer.attention->macs_per_row() + layer.ffn->macs_per_row();
  return macs;
}

int64_t Decoder::macs_per_logit_row() const { return int64_t{config_.vocab_size} * config_.d_model; }

}  // namespace surety::model
