// Runs a StepPlan.
//
// Threads: the engine thread. Owns: see the implementation. Logits are valid until the next Run.
// Errors: kInternal when the device fails; the engine ends the step's requests with it.
#pragma once

#include <memory>
#include <span>

#include "base/status.h"
#include "engine/step_plan.h"
#include "model/arch/model.h"
#include "tensor/paged_kv_view.h"
#include "tensor/view.h"

namespace surety::engine {

class StepExecutor {
 public:
  virtual ~StepExecutor() = default;
  virtual Status Run(const StepPlan& plan) = 0;
  // The i-th row of logits that the last plan wanted, in the plan's order, V floats; the caller may change them.
  virtual std::span<float> LogitsOf(int i) = 0;
  // Between steps: all layers' part of these copies, at once.
  virtual void CopyKv(std::span<const KvCopy> copies) = 0;
  // The hidden states that drafters read, a row for each row of the last plan's batch; no columns where none are taken.
  virtual ConstMatrixF taps() const { return {}; }
};

// Runs plans on a model whose memory has been reserved for max_rows. Borrows the model, its operations and the KV
// memory. kResourceExhausted when the logits' memory cannot be had.
Result<std::unique_ptr<StepExecutor>> MakeModelExecutor(model::Model& model, kernels::Ops& ops, const PagedKvView& kv,
                                                        int max_logit_rows, int max_rows);

}  // namespace surety::engine
