// Drafts of a smaller model: it goes on with the text, one token after the other, for all sequences of a step at once.
//
// A request lends the pages of its text: those of the target, whose pages have room for the draft's keys and values
// behind the target's own (KvLayout::companion_bytes), or pages of a pool of the draft's.
//
// Threads: the engine thread. Owns: batch arrays and logits. Borrows: the model, the KV memory.
// Errors: Make: kResourceExhausted (logits, workspace).
#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <vector>

#include "base/aligned_buffer.h"
#include "base/function_ref.h"
#include "base/status.h"
#include "model/arch/model.h"
#include "tensor/batch_view.h"
#include "tensor/paged_kv_view.h"

namespace surety::spec {

struct ModelDraftRequest {
  std::span<const int32_t> tokens;      // the whole text, in the draft's vocabulary
  int n_computed = 0;                   // of it, whose keys and values are in the pages; all but the last at most
  std::span<const int32_t> page_table;  // covers tokens.size() + n_most - 1 positions
  int n_most = 0;                       // tokens wanted
  std::vector<int32_t> draft = {};      // the answer, in the draft's vocabulary
};

class ModelDrafter {
 public:
  // `max_rows`: of a step, with what requests have to catch up on.
  static Result<std::unique_ptr<ModelDrafter>> Make(model::Model& model, const PagedKvView& kv, int max_sequences,
                                                    int max_rows, int max_context);

  // The next token of request i behind `depth` drafted ones, from the draft's logits (V, may be changed); -1: no more.
  using PickFn = FunctionRef<int32_t(size_t i, int depth, std::span<float> logits)>;
  // A step of the draft had this many rows and took, with what was picked of it, this long.
  using StepFn = FunctionRef<void(int n_rows, int64_t nanos)>;
  // Drafts for all requests; in sum they catch up on at most max_rows rows. Afterwards keys and values of all tokens,
  // and of all drafted ones but the last, are in the pages.
  void Draft(std::span<ModelDraftRequest> requests, PickFn pick, StepFn took);
  // Computes tokens [n_computed, n_computed + n_rows) of one request and nothing else; moves n_computed.
  void CatchUp(ModelDraftRequest& request, int n_rows);

  int max_rows() const { return max_rows_; }
  int64_t logits_bytes() const { return static_cast<int64_t>(logits_.size_bytes()); }

 private:
  ModelDrafter(model::Model& model, const PagedKvView& kv, int max_rows, AlignedBuffer logits)
      : model_(model), kv_(kv), max_rows_(max_rows), logits_(std::move(logits)) {}
  void AddRows(std::span<const int32_t> tokens, int first_position, std::span<const int32_t> pages, bool wants_logits);
  void Run();
  void Clear();

  model::Model& model_;
  PagedKvView kv_;
  int max_rows_;
  AlignedBuffer logits_;
  std::vector<int32_t> ids_, positions_, logit_rows_;
  std::vector<SequenceRows> rows_;
  std::vector<size_t> active_;
};

}  // namespace surety::spec
