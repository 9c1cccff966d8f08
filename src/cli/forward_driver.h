// Drives a model directly, without scheduler and sampler: what benchmarks, perplexity and embeddings need.
//
// Shapes: B sequences, T rows of a step, V vocabulary, D model.
// Threads: one. Owns: the page pool, the page tables and the output; outputs are valid until the next Forward.
// Errors: Make: kInvalidArgument, kResourceExhausted as PagePool and Model::Reserve state them.
#pragma once

#include <memory>
#include <span>
#include <vector>

#include "base/aligned_buffer.h"
#include "base/status.h"
#include "kv/page_pool.h"
#include "model/arch/model.h"

namespace surety::cli {

struct DriverShape {
  int sequences = 1;
  int context = 0;       // positions of each sequence
  int max_rows = 0;      // rows of one step, over all sequences
  int max_outputs = 0;   // rows of the output: logit rows (decoder) or all rows (encoder)
  KvType kv_type = KvType::kF16;
  int page_tokens = 16;
};

class ForwardDriver {
 public:
  static Result<std::unique_ptr<ForwardDriver>> Make(model::Model& model, const DriverShape& shape);

  enum class Logits { kNone, kLast, kAll };
  // Each sequence gets the next tokens.size() / B tokens (sequence by sequence in `tokens`), starting at `position`.
  // Answers [logit rows, V], or [T, D] for an encoder.
  MatrixF Forward(std::span<const int32_t> tokens, int position, Logits logits);

  // Writes over all KV memory, so that positions never computed are real memory and hold zeros.
  void TouchCache();

 private:
  explicit ForwardDriver(model::Model& model) : model_(model) {}
  model::Model& model_;
  DriverShape shape_;
  std::unique_ptr<kv::PagePool> pool_;
  std::vector<kv::PageTable> tables_;
  AlignedBuffer out_;
  std::vector<int32_t> positions_, logit_rows_;
  std::vector<SequenceRows> sequences_;
};

}  // namespace surety::cli
