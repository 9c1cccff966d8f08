#include "spec/model_drafter.h"

#include <string>
#include <utility>

#include "base/check.h"
#include "base/clock.h"

namespace surety::spec {

Result<std::unique_ptr<ModelDrafter>> ModelDrafter::Make(model::Model& model, const PagedKvView& kv, int max_sequences,
                                                         int max_rows, int max_context) {
  SURETY_RETURN_IF_ERROR(model.Reserve(max_rows, max_context));
  auto logits = AlignedBuffer::TryAllocate(static_cast<size_t>(max_sequences) *
                                           static_cast<size_t>(model.config().vocab_size) * sizeof(float));
  if (!logits) return Error(logits.error().WithContext("the draft model's logits"));
  return std::unique_ptr<ModelDrafter>(new ModelDrafter(model, kv, max_rows, *std::move(logits)));
}

void ModelDrafter::Clear() {
  ids_.clear();
  positions_.clear();
  logit_rows_.clear();
  rows_.clear();
}

void ModelDrafter::AddRows(std::span<const int32_t> tokens, int first_position, std::span<const int32_t> pages,
                           bool wants_logits) {
  const int n = static_cast<int>(tokens.size());
  rows_.push_back({static_cast<int>(ids_.size()), n, first_position, pages});
  ids_.insert(ids_.end(), tokens.begin(), tokens.end());
  for (int i = 0; i < n; ++i) positions_.push_back(first_position + i);
  if (wants_logits) logit_rows_.push_back(static_cast<int32_t>(ids_.size()) - 1);
}

void ModelDrafter::Run() {
  SURETY_CHECK(static_cast<int>(ids_.size()) <= max_rows_);
  model_.Forward({ids_, positions_, rows_, logit_rows_}, kv_,
                 MatrixF(logits_.as<float>(), static_cast<int64_t>(logit_rows_.size()), model_.config().vocab_size));
}

void ModelDrafter::CatchUp(ModelDraftRequest& request, int n_rows) {
  Clear();
  AddRows(request.tokens.subspan(static_cast<size_t>(request.n_computed), static_cast<size_t>(n_rows)),
          request.n_computed, request.page_table, false);
  Run();
  request.n_computed += n_rows;
}

void ModelDrafter::Draft(std::span<ModelDraftRequest> requests, PickFn pick, StepFn took) {
  active_.clear();
  Clear();
  for (size_t i = 0; i < requests.size(); ++i) {
    ModelDraftRequest& request = requests[i];
    request.draft.clear();
    if (request.n_most < 1) continue;
    AddRows(request.tokens.subspan(static_cast<size_t>(request.n_computed)), request.n_computed, request.page_table,
            true);
    request.n_computed = static_cast<int>(request.tokens.size());
    active_.push_back(i);
  }
  const auto vocab = static_cast<size_t>(model_.config().vocab_size);
  for (int depth = 0; !active_.empty(); ++depth) {
    const int64_t start = Clock::Real().NowNanos();
    const int n_rows = static_cast<int>(ids_.size());
    Run();
    Clear();
    size_t n_left = 0;
    for (size_t row = 0; row < active_.size(); ++row) {
      const size_t i = active_[row];
      ModelDraftRequest& request = requests[i];
      const int32_t token = pick(i, depth, {logits_.as<float>() + row * vocab, vocab});
      if (token < 0) continue;
      request.draft.push_back(token);
      if (static_cast<int>(request.draft.size()) >= request.n_most) continue;
      active_[n_left++] = i;
    }
    active_.resize(n_left);
    took(n_rows, Clock::Real().NowNanos() - start);
    for (const size_t i : active_) {
      const ModelDraftRequest& request = requests[i];
      AddRows(std::span(request.draft).last(1), static_cast<int>(request.tokens.size()) + depth, request.page_table,
              true);
    }
  }
}

}  // namespace surety::spec
