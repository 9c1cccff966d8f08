#include <vector>

#include "base/aligned_buffer.h"
#include "base/check.h"
#include "engine/executor.h"

namespace surety::engine {
namespace {

class ModelExecutor final : public StepExecutor {
 public:
  ModelExecutor(model::Model& model, kernels::Ops& ops, const PagedKvView& kv, AlignedBuffer logits,
                int max_logit_rows, int max_rows)
      : model_(model), ops_(ops), kv_(kv), logits_(std::move(logits)) {
    positions_.reserve(static_cast<size_t>(max_rows));
    sequences_.reserve(static_cast<size_t>(max_logit_rows));
    logit_rows_.reserve(static_cast<size_t>(max_logit_rows));
  }

  Status Run(const StepPlan& plan) override {
    positions_.clear();
    sequences_.clear();
    logit_rows_.clear();
    for (const SequenceStep& step : plan.sequences) {
      AddRows(step.n_rows - step.n_branch_rows, step.first_position, step.page_table);
      for (int i = step.first_branch; i < step.first_branch + step.n_branches; ++i) {
        const BranchStep& branch = plan.branches[static_cast<size_t>(i)];
        AddRows(branch.n_rows, branch.first_position, branch.page_table);
      }
      const int end = step.first_row + step.n_rows;
      for (int row = end - step.n_logits; row < end; ++row) logit_rows_.push_back(row);
    }
    const BatchView batch = {plan.token_ids, positions_, sequences_, logit_rows_, plan.kv_copies};
    const int64_t vocab = model_.config().vocab_size;
    model_.Forward(batch, kv_, MatrixF(logits_.as<float>(), static_cast<int64_t>(logit_rows_.size()), vocab));
    return OkStatus();
  }

  std::span<float> LogitsOf(int i) override {
    SURETY_CHECK(static_cast<size_t>(i) < logit_rows_.size());
    const auto vocab = static_cast<size_t>(model_.config().vocab_size);
    return {logits_.as<float>() + static_cast<size_t>(i) * vocab, vocab};
  }

  ConstMatrixF taps() const override { return model_.taps(); }

  void CopyKv(std::span<const KvCopy> copies) override {
    for (int layer = 0; layer < kv_.layout.n_layers; ++layer) ops_.CopyKv(layer, copies, kv_);
  }

 private:
  void AddRows(int n_rows, int first_position, std::span<const int32_t> pages) {
    sequences_.push_back({static_cast<int>(positions_.size()), n_rows, first_position, pages});
    for (int i = 0; i < n_rows; ++i) positions_.push_back(first_position + i);
  }

  model::Model& model_;
  kernels::Ops& ops_;
  PagedKvView kv_;
  AlignedBuffer logits_;
  std::vector<int32_t> positions_, logit_rows_;
  std::vector<SequenceRows> sequences_;
};

}  // namespace

Result<std::unique_ptr<StepExecutor>> MakeModelExecutor(model::Model& model, kernels::Ops& ops, const PagedKvView& kv,
                                                        int max_logit_rows, int max_rows) {
  const size_t bytes = static_cast<size_t>(max_logit_rows) * static_cast<size_t>(model.config().vocab_size) * 4;
  auto logits = AlignedBuffer::TryAllocate(bytes);
  if (!logits) return Error(logits.error().WithContext("logits of " + std::to_string(max_logit_rows) + " rows"));
  return std::make_unique<ModelExecutor>(model, ops, kv, *std::move(logits), max_logit_rows, max_rows);
}

}  // namespace surety::engine
