// A loaded model: packed weights and the computation of one step.
//
// Threads: one caller at a time. Owns: the packed weights; borrows the ModelSource (embedding rows are read from its
// map) and the Ops, which must outlive it.
// Errors: Load returns kNotFound or kInvalidArgument with the tensor's name, kResourceExhausted when memory does not
// suffice (checked before loading), kCancelled when `progress` says stop.
// Invariants: (1) Forward allocates nothing. (2) A row's logits do not depend on the other rows of the batch.
#pragma once

#include <memory>
#include <span>

#include "base/function_ref.h"
#include "base/status.h"
#include "kernels/ops.h"
#include "model/model_source.h"

namespace surety::model {

struct LoadProgress {
  int64_t done_bytes = 0;
  int64_t total_bytes = 0;
};
// Return false to stop loading.
using LoadProgressFn = FunctionRef<bool(const LoadProgress&)>;

// A place in the decoder whose hidden state can be kept: the residual stream as it enters a layer, before that layer's
// norm, or what the output matrix reads.
struct HiddenTap {
  static constexpr int kFinal = -1;
  int layer = kFinal;  // 0 to L - 1: entering it; kFinal: after the output norm
  friend bool operator==(const HiddenTap&, const HiddenTap&) = default;
};

class Model {
 public:
  virtual ~Model() = default;
  static Result<std::unique_ptr<Model>> Load(const ModelSource& source, kernels::Ops& ops, LoadProgressFn progress);

  virtual const ModelConfig& config() const = 0;
  virtual int64_t weight_bytes() const = 0;      // packed
  virtual int64_t workspace_bytes() const = 0;   // after Reserve
  // Bytes of packed weights that one decoded token reads, the output matrix included (experts: those used).
  virtual int64_t bytes_per_decoded_token() const = 0;
  // Multiply-adds of the weight matrices for one row, without and with the output matrix.
  virtual int64_t macs_per_row() const = 0;
  virtual int64_t macs_per_logit_row() const = 0;

  // Decoders: which hidden states Forward keeps of every row, for those who draft from them. Before Reserve, which has
  // their memory; none: nothing is kept and nothing costs more. The logits' bits are the same with and without.
  // kInvalidArgument: a layer that is not there. kUnimplemented: an encoder.
  virtual Status SetTaps(std::span<const HiddenTap> taps);
  // Decoders: logits [N, V] of hidden states [N, D] after the output norm, own or somebody's guess. After Reserve.
  virtual void Logits(ConstMatrixF hidden, MatrixF logits);
  // Of the last Forward: [T, taps * D], row by row as in its batch, tap by tap as in SetTaps. Valid until the next one.
  virtual ConstMatrixF taps() const { return {}; }

  // Makes the memory for steps of up to max_rows rows, and page tables of up to max_context positions.
  virtual Status Reserve(int max_rows, int max_context) = 0;

  // Latent attention: compute keys and values from the latents tile by tile (true) or take the query through W_UK
  // (false, the default). Both are exact; they round differently, so a KV cache should be read in one form only.
  // False if the model has no latent attention.
  virtual bool SetMaterialisedMla(bool /*on*/) { return false; }

  // Decoders: logits [logit_rows, V] of the chosen rows. Encoders: the final hidden state [T, D] of all rows.
  virtual void Forward(const BatchView& batch, const PagedKvView& kv, MatrixF out) = 0;
};

}  // namespace surety::model
