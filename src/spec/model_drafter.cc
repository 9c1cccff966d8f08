#include "spec/model_drafter.h"

#include <utility>

#include "base/check.h"
#include "base/clock.h"

namespace surety::spec {

Result<std::unique_ptr<ModelDrafter>> ModelDrafter::Make(model::Model& model, const PagedKvView& kv,
                                                         int max_logit_rows, int max_rows, int max_context) {
  SURETY_RETURN_IF_ERROR(model.Reserve(max_rows, max_context));
  auto logits = AlignedBuffer::TryAllocate(static_cast<size_t>(max_logit_rows) *
                                           static_cast<size_t>(model.config().vocab_size) * sizeof(float));
  if (!logits) return Error(logits.error().WithContext("the draft model's logits"));
  return std::unique_ptr<ModelDrafter>(new ModelDrafter(model, kv, max_logit_rows, max_rows, *std::move(logits)));
}

void ModelDrafter::Clear() {
  ids_.clear();
  positions_.clear();
  logit_rows_.clear();
  rows_.clear();
  copies_.clear();
}

void ModelDrafter::AddRows(std::span<const int32_t> tokens, int first_position, std::span<const int32_t> pages,
                           bool wants_logits) {
  const int n = static_cast<int>(tokens.size());
  rows_.push_back({static_cast<int>(ids_.size()), n, first_position, pages});
  ids_.insert(ids_.end(), tokens.begin(), tokens.end());
  for (int i = 0; i < n; ++i) positions_.push_back(first_position + i);
  if (wants_logits) logit_rows_.push_back(static_cast<int32_t>(ids_.size()) - 1);
}

int64_t ModelDrafter::Run() {
  SURETY_CHECK(n_rows() <= max_rows_ && n_logit_rows() <= max_logit_rows_);
  const int64_t start = Clock::Real().NowNanos();
  model_.Forward({ids_, positions_, rows_, logit_rows_, copies_}, kv_,
                 MatrixF(logits_.as<float>(), static_cast<int64_t>(logit_rows_.size()), model_.config().vocab_size));
  return Clock::Real().NowNanos() - start;
}

std::span<float> ModelDrafter::LogitsOf(int i) {
  SURETY_CHECK(i >= 0 && i < n_logit_rows());
  const auto vocab = static_cast<size_t>(model_.config().vocab_size);
  return {logits_.as<float>() + static_cast<size_t>(i) * vocab, vocab};
}

}  // namespace surety::spec
