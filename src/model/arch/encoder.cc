#include "model/arch/encoder.h"

#include <algorithm>
#include <string>

#include "base/check.h"

namespace surety::model {

Result<std::unique_ptr<Model>> Encoder::Load(const ModelSource& source, kernels::Ops& ops, LoadProgressFn progress) {
  auto encoder = std::unique_ptr<Encoder>(new Encoder(source, ops));
  TensorLoader loader(source, ops, progress);
  SURETY_RETURN_IF_ERROR(encoder->LoadWeights(loader));
  encoder->weight_bytes_ = loader.packed_bytes();
  return encoder;
}

Result<Encoder::Norm> Encoder::LoadNorm(TensorLoader& loader, const std::string& name, int64_t d) {
  Norm norm;
  SURETY_ASSIGN_OR_RETURN(norm.weight, loader.Floats(name + ".weight", d));
  SURETY_ASSIGN_OR_RETURN(norm.bias, loader.Floats(name + ".bias", d));
  return norm;
}

Status Encoder::LoadWeights(TensorLoader& loader) {
  const int64_t d = config_.d_model;
  SURETY_ASSIGN_OR_RETURN(tokens_, loader.Table("token_embd.weight", config_.vocab_size, d));
  SURETY_ASSIGN_OR_RETURN(positions_, loader.Table("position_embd.weight", config_.max_context, d));
  if (config_.n_token_types > 0) {
    SURETY_ASSIGN_OR_RETURN(types_, loader.Table("token_types.weight", config_.n_token_types, d));
  }
  SURETY_ASSIGN_OR_RETURN(embedding_norm_, LoadNorm(loader, "token_embd_norm", d));
  layers_.resize(static_cast<size_t>(config_.n_layers));
  for (int i = 0; i < config_.n_layers; ++i) SURETY_RETURN_IF_ERROR(LoadLayer(loader, i));
  return OkStatus();
}

Status Encoder::LoadLayer(TensorLoader& loader, int index) {
  Layer& layer = layers_[static_cast<size_t>(index)];
  const std::string prefix = "blk." + std::to_string(index) + ".";
  const int64_t d = config_.d_model, f = config_.d_ff;
  SURETY_ASSIGN_OR_RETURN(layer.attention, LoadAttentionBlock(loader, config_, index, slots_));
  SURETY_ASSIGN_OR_RETURN(layer.attention_norm, LoadNorm(loader, prefix + "attn_output_norm", d));
  SURETY_ASSIGN_OR_RETURN(layer.up, loader.Pack(prefix + "ffn_up.weight", f, d));
  SURETY_ASSIGN_OR_RETURN(layer.up_bias, loader.Floats(prefix + "ffn_up.bias", f));
  SURETY_ASSIGN_OR_RETURN(layer.down, loader.Pack(prefix + "ffn_down.weight", d, f));
  SURETY_ASSIGN_OR_RETURN(layer.down_bias, loader.Floats(prefix + "ffn_down.bias", d));
  SURETY_ASSIGN_OR_RETURN(layer.output_norm, LoadNorm(loader, prefix + "layer_output_norm", d));
  return OkStatus();
}

Status Encoder::Reserve(int max_rows, int max_context) {
  workspace_.Clear();
  x_ = workspace_.Declare(max_rows, config_.d_model);
  delta_ = workspace_.Declare(max_rows, config_.d_model);
  slots_.Declare(config_, max_rows, workspace_);
  SURETY_RETURN_IF_ERROR(workspace_.Allocate());
  zeros_.assign(static_cast<size_t>(max_rows), 0);
  return ops_.Reserve(max_rows, std::max(config_.d_model, config_.d_ff), max_context);
}

void Encoder::Normalise(ConstMatrixF x, const Norm& norm, MatrixF out) {
  ops_.LayerNorm(x, norm.weight.data(), norm.bias.data(), config_.norm_eps, out);
}

void Encoder::Forward(const BatchView& batch, const PagedKvView& kv, MatrixF hidden) {
  const int rows = batch.n_rows();
  SURETY_CHECK(rows > 0 && hidden.rows == rows);
  const StepContext step = {ops_, workspace_, batch, kv};
  MatrixF x = workspace_.Get(x_, rows);
  MatrixF delta = workspace_.Get(delta_, rows);
  MatrixF act = workspace_.Get(slots_.act, rows);
  ops_.Embed(tokens_, batch.token_ids, 1.0f, x);
  ops_.Embed(positions_, batch.positions, 1.0f, delta);
  ops_.Add(x, delta);
  if (config_.n_token_types > 0) {
    ops_.Embed(types_, {zeros_.data(), static_cast<size_t>(rows)}, 1.0f, delta);
    ops_.Add(x, delta);
  }
  Normalise(x, embedding_norm_, x);
  for (int i = 0; i < config_.n_layers; ++i) {
    Layer& layer = layers_[static_cast<size_t>(i)];
    const ConstMatrixF heads = layer.attention->Attend(step, i, no_rope_, x, false);
    layer.attention->Project(step, heads, delta);
    ops_.Add(x, delta);
    Normalise(x, layer.attention_norm, x);
    const kernels::MatMulTask up = {layer.up.get(), act, layer.up_bias.data()};
    ops_.MatMul(x, {&up, 1});
    ops_.Activate(KernelActivation(config_.activation), act);
    const kernels::MatMulTask down = {layer.down.get(), delta, layer.down_bias.data()};
    ops_.MatMul(act, {&down, 1});
    ops_.Add(x, delta);
    Normalise(x, layer.output_norm, i + 1 == config_.n_layers ? hidden : x);
  }
}

int64_t Encoder::macs_per_row() const {
  int64_t macs = 0;
  for (const Layer& layer : layers_) {
    macs += layer.attention->macs_per_row() + 2 * int64_t{config_.d_model} * config_.d_ff;
  }
  return macs;
}

}  // namespace surety::model
