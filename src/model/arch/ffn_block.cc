// Gated feed-forward, and the mixture of experts made of it.
// Source for routing: DeepSeek-V2 (softmax, group-limited top-k) and DeepSeek-V3 (sigmoid, correction bias used only
// for choosing, groups scored by their two best) as transformers implements them.
#include <algorithm>
#include <cmath>
#include <string>

#include "model/arch/blocks.h"

namespace surety::model {
namespace {

// Three matrices: out = down(act(gate h) * up h).
struct GatedFfn {
  std::unique_ptr<kernels::PackedMatrix> gate, up, down;

  void Run(const StepContext& step, kernels::Activation activation, ConstMatrixF h, MatrixF gate_up, MatrixF act,
           MatrixF out) const {
    const int64_t f = gate->n_outputs();
    const kernels::MatMulTask tasks[] = {{gate.get(), gate_up.Cols(0, f)}, {up.get(), gate_up.Cols(f, f)}};
    step.ops.MatMul(h, tasks);
    step.ops.GatedActivation(activation, gate_up, act);
    const kernels::MatMulTask last = {down.get(), out};
    step.ops.MatMul(act, {&last, 1});
  }
  int64_t macs() const { return 3 * gate->n_outputs() * gate->n_inputs(); }
  int64_t bytes() const { return gate->size_bytes() + up->size_bytes() + down->size_bytes(); }
};

class DenseFfn final : public FfnBlock {
 public:
  DenseFfn(const ModelConfig& config, const BlockSlots& slots) : config_(config), slots_(slots) {}

  Status Load(TensorLoader& loader, int layer) {
    const std::string prefix = "blk." + std::to_string(layer) + ".";
    SURETY_ASSIGN_OR_RETURN(ffn_.gate, loader.Pack(prefix + "ffn_gate.weight", config_.d_ff, config_.d_model));
    SURETY_ASSIGN_OR_RETURN(ffn_.up, loader.Pack(prefix + "ffn_up.weight", config_.d_ff, config_.d_model));
    SURETY_ASSIGN_OR_RETURN(ffn_.down, loader.Pack(prefix + "ffn_down.weight", config_.d_model, config_.d_ff));
    return OkStatus();
  }
  void Run(const StepContext& step, ConstMatrixF h, MatrixF out) override {
    ffn_.Run(step, KernelActivation(config_.activation), h, step.workspace.Get(slots_.gate_up, h.rows),
             step.workspace.Get(slots_.act, h.rows), out);
  }
  int64_t macs_per_row() const override { return ffn_.macs(); }
  int64_t bytes_per_row() const override { return ffn_.bytes(); }

 private:
  const ModelConfig& config_;
  const BlockSlots& slots_;
  GatedFfn ffn_;
};

class MoeFfn final : public FfnBlock {
 public:
  MoeFfn(const ModelConfig& config, const BlockSlots& slots) : config_(config), slots_(slots) {
    const auto n = static_cast<size_t>(config.moe.n_experts);
    scores_.resize(n);
    choice_.resize(n);
    groups_.resize(static_cast<size_t>(std::max(1, config.moe.n_groups)));
    order_.resize(n);
  }

  Status Load(TensorLoader& loader, int layer) {
    const std::string prefix = "blk." + std::to_string(layer) + ".";
    const MoeConfig& moe = config_.moe;
    const int64_t d = config_.d_model, f = moe.d_ff_expert;
    SURETY_ASSIGN_OR_RETURN(router_, loader.Pack(prefix + "ffn_gate_inp.weight", moe.n_experts, d));
    SURETY_ASSIGN_OR_RETURN(correction_, loader.OptionalFloats(prefix + "exp_probs_b.bias", moe.n_experts));
    experts_.resize(static_cast<size_t>(moe.n_experts));
    for (int e = 0; e < moe.n_experts; ++e) {
      GatedFfn& expert = experts_[static_cast<size_t>(e)];
      SURETY_ASSIGN_OR_RETURN(expert.gate, loader.PackExpert(prefix + "ffn_gate_exps", e, f, d));
      SURETY_ASSIGN_OR_RETURN(expert.up, loader.PackExpert(prefix + "ffn_up_exps", e, f, d));
      SURETY_ASSIGN_OR_RETURN(expert.down, loader.PackExpert(prefix + "ffn_down_exps", e, d, f));
    }
    if (moe.n_shared > 0) {
      const int64_t shared_f = f * moe.n_shared;
      SURETY_ASSIGN_OR_RETURN(shared_.gate, loader.Pack(prefix + "ffn_gate_shexp.weight", shared_f, d));
      SURETY_ASSIGN_OR_RETURN(shared_.up, loader.Pack(prefix + "ffn_up_shexp.weight", shared_f, d));
      SURETY_ASSIGN_OR_RETURN(shared_.down, loader.Pack(prefix + "ffn_down_shexp.weight", d, shared_f));
    }
    return OkStatus();
  }

  void Reserve(int64_t max_rows) override {
    const auto n = static_cast<size_t>(max_rows * config_.moe.n_used);
    chosen_.resize(n);
    weights_.resize(n);
    expert_rows_.resize(static_cast<size_t>(max_rows));
    expert_weights_.resize(static_cast<size_t>(max_rows));
  }

  void Run(const StepContext& step, ConstMatrixF h, MatrixF out) override {
    const MoeConfig& moe = config_.moe;
    MatrixF router = step.workspace.Get(slots_.router, h.rows);
    const kernels::MatMulTask task = {router_.get(), router};
    step.ops.MatMul(h, {&task, 1});
    for (int64_t row = 0; row < h.rows; ++row) Route(router.Row(row), row);

    // Shared experts first, then the routed ones by ascending number: one order for every row, whatever the batch.
    if (moe.n_shared > 0) {
      shared_.Run(step, KernelActivation(config_.activation), h,
                  Narrow(step, slots_.expert_gate_up, h.rows, 2 * SharedF()),
                  Narrow(step, slots_.expert_act, h.rows, SharedF()), out);
    } else {
      for (int64_t row = 0; row < out.rows; ++row) std::fill_n(out.Row(row), out.cols, 0.0f);
    }
    for (int e = 0; e < moe.n_experts; ++e) RunExpert(step, e, h, out);
  }

  int64_t macs_per_row() const override {
    return router_->n_outputs() * router_->n_inputs() + config_.moe.n_used * experts_[0].macs() +
           (config_.moe.n_shared > 0 ? shared_.macs() : 0);
  }
  int64_t bytes_per_row() const override {
    return router_->size_bytes() + config_.moe.n_used * experts_[0].bytes() +
           (config_.moe.n_shared > 0 ? shared_.bytes() : 0);
  }

 private:
  int64_t SharedF() const { return int64_t{config_.moe.d_ff_expert} * config_.moe.n_shared; }
  // The slot's memory as a matrix of fewer columns.
  static MatrixF Narrow(const StepContext& step, WorkspaceSlot slot, int64_t rows, int64_t cols) {
    return {step.workspace.Get(slot, rows).data, rows, cols};
  }

  void RunExpert(const StepContext& step, int e, ConstMatrixF h, MatrixF out) {
    const int n_used = config_.moe.n_used;
    int64_t n = 0;
    for (int64_t row = 0; row < h.rows; ++row) {
      for (int i = 0; i < n_used; ++i) {
        if (chosen_[static_cast<size_t>(row * n_used + i)] != e) continue;
        expert_rows_[static_cast<size_t>(n)] = static_cast<int32_t>(row);
        expert_weights_[static_cast<size_t>(n++)] = weights_[static_cast<size_t>(row * n_used + i)];
      }
    }
    if (n == 0) return;
    const std::span<const int32_t> rows(expert_rows_.data(), static_cast<size_t>(n));
    const int64_t f = config_.moe.d_ff_expert;
    MatrixF in = step.workspace.Get(slots_.expert_in, n);
    MatrixF expert_out = step.workspace.Get(slots_.expert_out, n);
    step.ops.GatherRows(h, rows, in);
    experts_[static_cast<size_t>(e)].Run(step, KernelActivation(config_.activation), in,
                                         Narrow(step, slots_.expert_gate_up, n, 2 * f),
                                         Narrow(step, slots_.expert_act, n, f), expert_out);
    step.ops.ScatterAddRows(expert_out, rows, {expert_weights_.data(), static_cast<size_t>(n)}, out);
  }

  // Scores of all experts, then the choice: best groups, best experts in them, lowest number on ties.
  void Route(const float* logits, int64_t row) {
    const MoeConfig& moe = config_.moe;
    const int n = moe.n_experts;
    if (moe.scoring == ExpertScoring::kSoftmax) {
      const float top = *std::max_element(logits, logits + n);
      double sum = 0;
      for (int e = 0; e < n; ++e) {
        sum += scores_[static_cast<size_t>(e)] = std::exp(static_cast<double>(logits[e]) - top);
      }
      for (double& s : scores_) s /= sum;
    } else {
      for (int e = 0; e < n; ++e) {
        scores_[static_cast<size_t>(e)] = 1.0 / (1.0 + std::exp(-static_cast<double>(logits[e])));
      }
    }
    for (int e = 0; e < n; ++e) {
      choice_[static_cast<size_t>(e)] =
          scores_[static_cast<size_t>(e)] + (correction_.empty() ? 0.0 : correction_[static_cast<size_t>(e)]);
    }
    if (moe.n_groups > 1 && moe.n_groups_used < moe.n_groups) MaskGroups();
    for (int e = 0; e < n; ++e) order_[static_cast<size_t>(e)] = e;
    std::partial_sort(order_.begin(), order_.begin() + moe.n_used, order_.end(), [this](int a, int b) {
      const double ca = choice_[static_cast<size_t>(a)], cb = choice_[static_cast<size_t>(b)];
      return ca != cb ? ca > cb : a < b;
    });
    double sum = 0;
    for (int i = 0; i < moe.n_used; ++i) sum += scores_[static_cast<size_t>(order_[static_cast<size_t>(i)])];
    const double scale = moe.routed_scale / (moe.normalise_weights ? sum + 1e-20 : 1.0);
    for (int i = 0; i < moe.n_used; ++i) {
      const auto at = static_cast<size_t>(row * moe.n_used + i);
      chosen_[at] = order_[static_cast<size_t>(i)];
      weights_[at] = static_cast<float>(scores_[static_cast<size_t>(order_[static_cast<size_t>(i)])] * scale);
    }
  }

  // Experts outside the best groups cannot be chosen.
  void MaskGroups() {
    const MoeConfig& moe = config_.moe;
    const int per_group = moe.n_experts / moe.n_groups;
    for (int g = 0; g < moe.n_groups; ++g) {
      double best = -INFINITY, second = -INFINITY;
      for (int i = 0; i < per_group; ++i) {
        const double c = choice_[static_cast<size_t>(g * per_group + i)];
        if (c > best) {
          second = best;
          best = c;
        } else if (c > second) {
          second = c;
        }
      }
      groups_[static_cast<size_t>(g)] = {moe.group_by_top2 ? best + second : best, g};
    }
    std::sort(groups_.begin(), groups_.end(), [](const auto& a, const auto& b) {
      return a.first != b.first ? a.first > b.first : a.second < b.second;
    });
    for (int g = moe.n_groups_used; g < moe.n_groups; ++g) {
      for (int i = 0; i < per_group; ++i) {
        choice_[static_cast<size_t>(groups_[static_cast<size_t>(g)].second * per_group + i)] = -INFINITY;
      }
    }
  }

  const ModelConfig& config_;
  const BlockSlots& slots_;
  std::unique_ptr<kernels::PackedMatrix> router_;
  std::vector<float> correction_;
  std::vector<GatedFfn> experts_;
  GatedFfn shared_;
  // Routing scratch.
  std::vector<double> scores_, choice_;
  std::vector<std::pair<double, int>> groups_;
  std::vector<int> order_, chosen_;
  std::vector<float> weights_, expert_weights_;
  std::vector<int32_t> expert_rows_;
};

}  // namespace

Result<std::unique_ptr<FfnBlock>> LoadFfnBlock(TensorLoader& loader, const ModelConfig& config, int layer,
                                               const BlockSlots& slots) {
  auto block = std::make_unique<DenseFfn>(config, slots);
  SURETY_RETURN_IF_ERROR(block->Load(loader, layer));
  return block;
}

Result<std::unique_ptr<FfnBlock>> LoadMoeBlock(TensorLoader& loader, const ModelConfig& config, int layer,
                                               const BlockSlots& slots) {
  auto block = std::make_unique<MoeFfn>(config, slots);
  SURETY_RETURN_IF_ERROR(block->Load(loader, layer));
  return block;
}

}  // namespace surety::model
