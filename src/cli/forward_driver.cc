#include "cli/forward_driver.h"

#include "base/check.h"

namespace surety::cli {

Result<std::unique_ptr<ForwardDriver>> ForwardDriver::Make(model::Model& model, const DriverShape& shape) {
  auto driver = std::unique_ptr<ForwardDriver>(new ForwardDriver(model));
  driver->shape_ = shape;
  const model::ModelConfig& config = model.config();
  const int pages_each = (shape.context + shape.page_tokens - 1) / shape.page_tokens;
  SURETY_ASSIGN_OR_RETURN(driver->pool_, kv::PagePool::Make(config.KvLayoutFor(shape.kv_type, shape.page_tokens),
                                                            pages_each * shape.sequences));
  driver->tables_.reserve(static_cast<size_t>(shape.sequences));
  for (int s = 0; s < shape.sequences; ++s) {
    driver->tables_.emplace_back(*driver->pool_);
    SURETY_CHECK(driver->tables_.back().Extend(shape.context));
  }
  SURETY_RETURN_IF_ERROR(model.Reserve(shape.max_rows, shape.context));
  const int width = config.encoder ? config.d_model : config.vocab_size;
  SURETY_ASSIGN_OR_RETURN(driver->out_, AlignedBuffer::TryAllocate(static_cast<size_t>(shape.max_outputs) *
                                                                   static_cast<size_t>(width) * sizeof(float)));
  return driver;
}

MatrixF ForwardDriver::Forward(std::span<const int32_t> tokens, int position, Logits logits) {
  const auto n_rows = static_cast<int>(tokens.size());
  const int each = n_rows / shape_.sequences;
  SURETY_CHECK(n_rows > 0 && n_rows <= shape_.max_rows && each * shape_.sequences == n_rows);
  SURETY_CHECK(position + each <= shape_.context);
  positions_.clear();
  sequences_.clear();
  logit_rows_.clear();
  for (int s = 0; s < shape_.sequences; ++s) {
    sequences_.push_back({s * each, each, position, tables_[static_cast<size_t>(s)].pages()});
    for (int i = 0; i < each; ++i) {
      positions_.push_back(position + i);
      if (logits == Logits::kAll || (logits == Logits::kLast && i == each - 1)) logit_rows_.push_back(s * each + i);
    }
  }
  const bool encoder = model_.config().encoder;
  const int n_outputs = encoder ? n_rows : static_cast<int>(logit_rows_.size());
  SURETY_CHECK(n_outputs <= shape_.max_outputs);
  const MatrixF out(out_.as<float>(), n_outputs, encoder ? model_.config().d_model : model_.config().vocab_size);
  model_.Forward({tokens, positions_, sequences_, logit_rows_}, pool_->view(), out);
  return out;
}

void ForwardDriver::TouchCache() {
  for (const kv::PageTable& table : tables_) {
    for (const int32_t page : table.pages()) pool_->ZeroPage(page);
  }
}

}  // namespace surety::cli
