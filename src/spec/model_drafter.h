// The steps of a model that drafts: rows of several sequences and of several branches of their trees, one step at a
// time, on pages that the caller lends. Those of the target have room for the draft's keys and values behind the
// target's own (KvLayout::companion_bytes); a draft of another vocabulary has pages of its own.
//
// Threads: the engine thread. Owns: batch arrays and logits. Borrows: the model, the KV memory.
// Errors: Make: kResourceExhausted (logits, workspace).
#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <vector>

#include "base/aligned_buffer.h"
#include "base/status.h"
#include "model/arch/model.h"
#include "tensor/batch_view.h"
#include "tensor/paged_kv_view.h"

namespace surety::spec {

class ModelDrafter {
 public:
  // `max_rows` and `max_logit_rows`: of a step.
  static Result<std::unique_ptr<ModelDrafter>> Make(model::Model& model, const PagedKvView& kv, int max_logit_rows,
                                                    int max_rows, int max_context);

  // A step is put together from Clear on. Tokens from `first_position`, whose pages cover them and hold the keys and
  // values before them; the logits of the last one if `wants_logits`. Page tables are borrowed until Run is over.
  void Clear();
  void AddRows(std::span<const int32_t> tokens, int first_position, std::span<const int32_t> pages, bool wants_logits);
  void AddCopy(const KvCopy& copy) { copies_.push_back(copy); }
  int n_rows() const { return static_cast<int>(ids_.size()); }
  int n_logit_rows() const { return static_cast<int>(logit_rows_.size()); }
  // Returns the time it took.
  int64_t Run();
  // Of the i-th rows whose logits were wanted (V, may be changed), until the next Run.
  std::span<float> LogitsOf(int i);

  int max_rows() const { return max_rows_; }
  int max_logit_rows() const { return max_logit_rows_; }
  int64_t logits_bytes() const { return static_cast<int64_t>(logits_.size_bytes()); }

 private:
  ModelDrafter(model::Model& model, const PagedKvView& kv, int max_logit_rows, int max_rows, AlignedBuffer logits)
      : model_(model), kv_(kv), max_logit_rows_(max_logit_rows), max_rows_(max_rows), logits_(std::move(logits)) {}

  model::Model& model_;
  PagedKvView kv_;
  int max_logit_rows_, max_rows_;
  AlignedBuffer logits_;
  std::vector<int32_t> ids_, positions_, logit_rows_;
  std::vector<SequenceRows> rows_;
  std::vector<KvCopy> copies_;
};

}  // namespace surety::spec
