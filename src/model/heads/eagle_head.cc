// EAGLE heads: fc joins what is read to the layer's width, one decoder layer, an output matrix.
//   EAGLE-1: g = fc([embedding; state]) (+ bias); the layer has no norm in front of attention; no norm behind it.
//   EAGLE-3: g = fc(states), or the head's own state; attention reads [norm(embedding); norm(g)]; norm, output matrix.
#include <cmath>
#include <string>

#include "base/check.h"
#include "model/arch/blocks.h"
#include "model/heads/draft_head.h"

namespace surety::model {
namespace {

class EagleHeadImpl final : public EagleHead {
 public:
  EagleHeadImpl(std::unique_ptr<HeadWeights> weights, HeadRecipe recipe, const HeadTarget& target, kernels::Ops& ops)
      : weights_(std::move(weights)), target_(target.model), ops_(ops) {
    recipe_ = std::move(recipe);
    third_ = recipe_.method == HeadMethod::kEagle3;
  }

  Status Load(const HeadTarget& target, bool as_q8);
  int64_t workspace_bytes() const override { return workspace_.size_bytes(); }
  Status Reserve(int max_rows, int max_context) override;
  void Forward(const BatchView& batch, ConstMatrixF states, bool own, const PagedKvView& kv, MatrixF logits) override;
  ConstMatrixF hidden() const override { return hidden_; }

 private:
  Status LoadLayer(bool as_q8);
  Status LoadNorms();
  void JoinFirst(ConstMatrixF embedding, ConstMatrixF states, MatrixF g);
  void JoinThird(ConstMatrixF states, bool own, MatrixF g);
  void Attend(const BatchView& batch, const PagedKvView& kv, ConstMatrixF input, MatrixF out);
  void FeedForward(ConstMatrixF input, MatrixF out);
  static const float* Data(const std::vector<float>& v) { return v.empty() ? nullptr : v.data(); }
  int64_t layer_inputs() const { return third_ ? 2 * int64_t{recipe_.d_model} : recipe_.d_model; }

  std::unique_ptr<HeadWeights> weights_;  // an embedding of its own is read from its map
  Model& target_;
  kernels::Ops& ops_;
  bool third_ = false;
  TensorView embedding_;
  float embedding_scale_ = 1.0f;
  std::unique_ptr<kernels::PackedMatrix> fc_, wq_, wk_, wv_, wo_, gate_, up_, down_, output_;
  std::vector<float> fc_bias_, q_bias_, k_bias_, v_bias_, o_bias_;
  std::vector<float> input_norm_, input_layernorm_, hidden_norm_, ffn_norm_, norm_;
  std::vector<std::vector<float>> state_norms_;
  RopeState rope_;
  std::vector<int32_t> turns_;  // what the rows turn by
  Workspace workspace_;
  WorkspaceSlot states_, joined_, x_, delta_, h_, qkv_, heads_, gate_up_, act_, few_;
  MatrixF hidden_;
};

Status EagleHeadImpl::Load(const HeadTarget& target, bool as_q8) {
  const HeadRecipe& r = recipe_;
  const int64_t d = r.d_model;
  if (r.own_embedding) {
    SURETY_ASSIGN_OR_RETURN(embedding_, weights_->Matrix("embed_tokens.weight", r.vocab_size, d,
                                                         "the target's vocabulary and the head's hidden_size"));
  } else {
    const TensorView* table = target.source.Find("token_embd.weight");
    SURETY_CHECK(table != nullptr);
    embedding_ = *table;
    embedding_scale_ = target.source.config().embedding_scale;
  }
  const int64_t fc_inputs = third_ ? r.feature_dim() : d + r.feature_dim();
  SURETY_ASSIGN_OR_RETURN(fc_, weights_->Pack("fc.weight", d, fc_inputs,
                                              third_ ? std::to_string(r.taps.size()) + " hidden states of " +
                                                           std::to_string(r.target_dim)
                                                     : "an embedding and a hidden state",
                                              ops_, as_q8));
  SURETY_ASSIGN_OR_RETURN(fc_bias_, weights_->OptionalFloats("fc.bias", d, "one for each output of fc"));
  SURETY_RETURN_IF_ERROR(LoadLayer(as_q8));
  SURETY_RETURN_IF_ERROR(LoadNorms());
  if (r.own_output) {
    SURETY_ASSIGN_OR_RETURN(output_, weights_->Pack("lm_head.weight", r.draft_vocab_size, d,
                                                    "draft_vocab_size and hidden_size", ops_, as_q8));
  } else {
    weights_->Ignore("lm_head.weight");  // EAGLE-1 uses the target's, even where a copy lies beside
  }
  if (third_) {
    SURETY_ASSIGN_OR_RETURN(target_ids_, ReadTargetIds(*weights_, r));
  }
  rope_.Init(r.rope);
  SURETY_RETURN_IF_ERROR(weights_->CheckAllUsed(third_ ? "an EAGLE-3 head" : "an EAGLE-1 head", true));
  weight_bytes_ = weights_->packed_bytes();
  weights_->ReleaseAll();
  return OkStatus();
}

Status EagleHeadImpl::LoadLayer(bool as_q8) {
  const HeadRecipe& r = recipe_;
  const int64_t q = int64_t{r.n_heads} * r.head_dim, kv = int64_t{r.n_kv_heads} * r.head_dim, d = r.d_model;
  const std::string attention = "layers.0.self_attn.", ffn = "layers.0.mlp.";
  const std::string heads = "heads and head_dim of config.json, " +
                            std::string(third_ ? "an embedding and a hidden state" : "hidden_size");
  const std::string sizes = "intermediate_size and hidden_size of config.json";
  const auto pack = [&](const std::string& name, int64_t rows, int64_t cols, const std::string& why) {
    return weights_->Pack(name + ".weight", rows, cols, why, ops_, as_q8);
  };
  SURETY_ASSIGN_OR_RETURN(wq_, pack(attention + "q_proj", q, layer_inputs(), heads));
  SURETY_ASSIGN_OR_RETURN(wk_, pack(attention + "k_proj", kv, layer_inputs(), heads));
  SURETY_ASSIGN_OR_RETURN(wv_, pack(attention + "v_proj", kv, layer_inputs(), heads));
  SURETY_ASSIGN_OR_RETURN(wo_, pack(attention + "o_proj", d, q, heads));
  SURETY_ASSIGN_OR_RETURN(gate_, pack(ffn + "gate_proj", r.d_ff, d, sizes));
  SURETY_ASSIGN_OR_RETURN(up_, pack(ffn + "up_proj", r.d_ff, d, sizes));
  SURETY_ASSIGN_OR_RETURN(down_, pack(ffn + "down_proj", d, r.d_ff, sizes));
  SURETY_ASSIGN_OR_RETURN(q_bias_, weights_->OptionalFloats(attention + "q_proj.bias", q, heads));
  SURETY_ASSIGN_OR_RETURN(k_bias_, weights_->OptionalFloats(attention + "k_proj.bias", kv, heads));
  SURETY_ASSIGN_OR_RETURN(v_bias_, weights_->OptionalFloats(attention + "v_proj.bias", kv, heads));
  SURETY_ASSIGN_OR_RETURN(o_bias_, weights_->OptionalFloats(attention + "o_proj.bias", d, heads));
  return OkStatus();
}

Status EagleHeadImpl::LoadNorms() {
  const HeadRecipe& r = recipe_;
  const int64_t d = r.d_model;
  const std::string width = "hidden_size is " + std::to_string(d);
  SURETY_ASSIGN_OR_RETURN(ffn_norm_, weights_->Floats("layers.0.post_attention_layernorm.weight", d, width));
  if (!third_) return OkStatus();
  SURETY_ASSIGN_OR_RETURN(input_layernorm_, weights_->Floats("layers.0.input_layernorm.weight", d, width));
  SURETY_ASSIGN_OR_RETURN(hidden_norm_, weights_->Floats("layers.0.hidden_norm.weight", d, width));
  SURETY_ASSIGN_OR_RETURN(norm_, weights_->Floats("norm.weight", d, width));
  if (r.input_norm) {
    SURETY_ASSIGN_OR_RETURN(input_norm_, weights_->Floats("input_norm.weight", r.feature_dim(),
                                                          "norm_before_fc is a norm of all hidden states together"));
  }
  for (size_t i = 0; r.fc_norm && i < r.taps.size(); ++i) {
    SURETY_ASSIGN_OR_RETURN(auto norm, weights_->Floats("fc_norm." + std::to_string(i) + ".weight", r.target_dim,
                                                        "fc_norm is a norm of each hidden state"));
    state_norms_.push_back(std::move(norm));
  }
  return OkStatus();
}

Status EagleHeadImpl::Reserve(int max_rows, int max_context) {
  const HeadRecipe& r = recipe_;
  const int64_t d = r.d_model;
  workspace_.Clear();
  states_ = workspace_.Declare(max_rows, third_ ? r.feature_dim() : d + r.feature_dim());
  joined_ = workspace_.Declare(max_rows, layer_inputs());
  x_ = workspace_.Declare(max_rows, d);
  delta_ = workspace_.Declare(max_rows, d);
  h_ = workspace_.Declare(max_rows, d);
  few_ = workspace_.Declare(max_rows, d);
  qkv_ = workspace_.Declare(max_rows, int64_t{r.n_heads + 2 * r.n_kv_heads} * r.head_dim);
  heads_ = workspace_.Declare(max_rows, int64_t{r.n_heads} * r.head_dim);
  gate_up_ = workspace_.Declare(max_rows, 2 * int64_t{r.d_ff});
  act_ = workspace_.Declare(max_rows, r.d_ff);
  rope_.table = workspace_.Declare(max_rows, 2 * rope_.spec.n_freqs);
  SURETY_RETURN_IF_ERROR(workspace_.Allocate());
  turns_.reserve(static_cast<size_t>(max_rows));
  const int64_t max_inputs = std::max({int64_t{r.feature_dim()} + d, 2 * d, int64_t{r.d_ff},
                                       int64_t{r.n_heads} * r.head_dim});
  return ops_.Reserve(max_rows, max_inputs, max_context);
}

// [embedding; state] through fc.
void EagleHeadImpl::JoinFirst(ConstMatrixF embedding, ConstMatrixF states, MatrixF g) {
  const int64_t d = recipe_.d_model;
  MatrixF both = workspace_.Get(states_, g.rows);
  ops_.CopyHeads(embedding, 1, 0, static_cast<int>(d), both, 0);
  ops_.CopyHeads(states, 1, 0, static_cast<int>(states.cols), both, static_cast<int>(d));
  const kernels::MatMulTask task = {fc_.get(), g, Data(fc_bias_)};
  ops_.MatMul(both, {&task, 1});
}

// The target's states through fc; the head's own are used as they are.
void EagleHeadImpl::JoinThird(ConstMatrixF states, bool own, MatrixF g) {
  if (own) return ops_.CopyHeads(states, 1, 0, recipe_.d_model, g, 0);
  MatrixF read = workspace_.Get(states_, g.rows);
  if (!input_norm_.empty()) {
    ops_.RmsNorm(states, input_norm_.data(), recipe_.feature_dim(), recipe_.norm_eps, read);
    states = read;
  }
  for (size_t i = 0; i < state_norms_.size(); ++i) {
    const int64_t first = static_cast<int64_t>(i) * recipe_.target_dim;
    ops_.RmsNorm(states.Cols(first, recipe_.target_dim), state_norms_[i].data(), recipe_.target_dim, recipe_.norm_eps,
                 read.Cols(first, recipe_.target_dim));
  }
  if (!state_norms_.empty()) states = read;
  const kernels::MatMulTask task = {fc_.get(), g, Data(fc_bias_)};
  ops_.MatMul(states, {&task, 1});
}

void EagleHeadImpl::Attend(const BatchView& batch, const PagedKvView& kv, ConstMatrixF input, MatrixF out) {
  const HeadRecipe& r = recipe_;
  const int64_t q_dim = int64_t{r.n_heads} * r.head_dim, kv_dim = int64_t{r.n_kv_heads} * r.head_dim;
  MatrixF qkv = workspace_.Get(qkv_, input.rows);
  MatrixF q = qkv.Cols(0, q_dim), k = qkv.Cols(q_dim, kv_dim), v = qkv.Cols(q_dim + kv_dim, kv_dim);
  const kernels::MatMulTask tasks[] = {
      {wq_.get(), q, Data(q_bias_)}, {wk_.get(), k, Data(k_bias_)}, {wv_.get(), v, Data(v_bias_)}};
  ops_.MatMul(input, tasks);
  turns_.clear();
  for (const int32_t position : batch.positions) turns_.push_back(position - 1);
  MatrixF table = workspace_.Get(rope_.table, input.rows);
  ops_.RopeTable(rope_.spec, turns_, table);
  ops_.Rope(rope_.spec, table, r.n_heads, r.head_dim, 0, q);
  ops_.Rope(rope_.spec, table, r.n_kv_heads, r.head_dim, 0, k);
  ops_.KvStore(0, k, v, batch, kv);
  if (!batch.kv_copies.empty()) ops_.CopyKv(0, batch.kv_copies, kv);
  kernels::AttentionParams params;
  params.n_heads = r.n_heads;
  params.n_kv_heads = r.n_kv_heads;
  params.k_dim = params.v_dim = r.head_dim;
  params.scale = static_cast<float>(1.0 / std::sqrt(static_cast<double>(r.head_dim)));
  MatrixF heads = workspace_.Get(heads_, input.rows);
  ops_.Attention(params, 0, q, batch, kv, heads);
  const kernels::MatMulTask last = {wo_.get(), out, Data(o_bias_)};
  ops_.MatMul(heads, {&last, 1});
}

void EagleHeadImpl::FeedForward(ConstMatrixF input, MatrixF out) {
  MatrixF gate_up = workspace_.Get(gate_up_, input.rows), act = workspace_.Get(act_, input.rows);
  const int64_t f = recipe_.d_ff;
  const kernels::MatMulTask tasks[] = {{gate_.get(), gate_up.Cols(0, f)}, {up_.get(), gate_up.Cols(f, f)}};
  ops_.MatMul(input, tasks);
  ops_.GatedActivation(kernels::Activation::kSilu, gate_up, act);
  const kernels::MatMulTask last = {down_.get(), out};
  ops_.MatMul(act, {&last, 1});
}

void EagleHeadImpl::Forward(const BatchView& batch, ConstMatrixF states, bool own, const PagedKvView& kv,
                            MatrixF logits) {
  const int64_t rows = batch.n_rows(), d = recipe_.d_model;
  const auto n_out = static_cast<int64_t>(batch.logit_rows.size());
  SURETY_CHECK(rows > 0 && states.rows == rows && states.cols == state_dim(own) && logits.rows == n_out);
  MatrixF x = workspace_.Get(x_, rows), h = workspace_.Get(h_, rows), delta = workspace_.Get(delta_, rows);
  ops_.Embed(embedding_, batch.token_ids, embedding_scale_, h);
  if (third_) {
    MatrixF joined = workspace_.Get(joined_, rows);
    JoinThird(states, own, x);
    ops_.RmsNorm(h, input_layernorm_.data(), d, recipe_.norm_eps, joined.Cols(0, d));
    ops_.RmsNorm(x, hidden_norm_.data(), d, recipe_.norm_eps, joined.Cols(d, d));
    if (recipe_.norm_before_residual) ops_.CopyHeads(joined.Cols(d, d), 1, 0, static_cast<int>(d), x, 0);
    Attend(batch, kv, joined, delta);
  } else {
    JoinFirst(h, states, x);
    Attend(batch, kv, x, delta);
  }
  ops_.AddRmsNorm(x, delta, ffn_norm_.data(), recipe_.norm_eps, h);
  FeedForward(h, delta);
  if (third_) {
    ops_.AddRmsNorm(x, delta, norm_.data(), recipe_.norm_eps, h);
  } else {
    ops_.Add(x, delta);
    h = x;
  }
  hidden_ = recipe_.norm_output ? h : x;
  if (n_out == 0) return;
  MatrixF few = h;
  if (n_out < rows) {
    few = workspace_.Get(few_, n_out);
    ops_.GatherRows(h, batch.logit_rows, few);
  }
  if (output_ == nullptr) return target_.Logits(few, logits);
  const kernels::MatMulTask task = {output_.get(), logits};
  ops_.MatMul(few, {&task, 1});
}

}  // namespace

Result<std::unique_ptr<DraftHead>> LoadEagleHead(std::unique_ptr<HeadWeights> weights, HeadRecipe recipe,
                                                 const HeadOptions& options, const HeadTarget& target,
                                                 kernels::Ops& ops) {
  auto head = std::make_unique<EagleHeadImpl>(std::move(weights), std::move(recipe), target, ops);
  SURETY_RETURN_IF_ERROR(head->Load(target, options.round_weights));
  return head;
}

}  // namespace surety::model
