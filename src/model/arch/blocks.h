// The parts of a decoder layer: attention (multi-head in all its forms, and latent), feed-forward, mixture of experts.
// A block owns its weights and declares its working memory; the decoder runs the blocks layer by layer, so blocks of
// different layers share the same workspace slots.
//
// Shapes: T rows, D model, H heads, K KV heads, E head size, F FFN, R latent rank.
// Threads: one. Invariants: Run methods allocate nothing.
#pragma once

#include <memory>
#include <vector>

#include "kernels/ops.h"
#include "model/arch/tensor_loader.h"
#include "model/arch/workspace.h"
#include "model/config.h"

namespace surety::model {

kernels::Activation KernelActivation(FfnActivation activation);

// What the layers of one step have in common.
struct StepContext {
  kernels::Ops& ops;
  Workspace& workspace;
  const BatchView& batch;
  const PagedKvView& kv;
};

// One rotary table for a step and the frequencies behind it.
struct RopeState {
  kernels::RopeSpec spec;
  std::vector<double> inv_freq;
  WorkspaceSlot table;

  void Init(const RopeConfig& config);
};

class AttentionBlock {
 public:
  virtual ~AttentionBlock() = default;
  // Keys and values of h [T, D] go to the cache; returns the heads' outputs [T, H * Ev], or nothing if store_only.
  virtual MatrixF Attend(const StepContext& step, int layer, const RopeState& rope, ConstMatrixF h,
                         bool store_only) = 0;
  // out [N, D] = heads' outputs [N, H * Ev] through the output matrix.
  virtual void Project(const StepContext& step, ConstMatrixF heads, MatrixF out) = 0;
  virtual int64_t macs_per_row() const = 0;
  virtual int64_t weight_bytes() const = 0;
};

class FfnBlock {
 public:
  virtual ~FfnBlock() = default;
  virtual void Reserve(int64_t /*max_rows*/) {}  // memory that is not in the shared workspace
  virtual void Run(const StepContext& step, ConstMatrixF h, MatrixF out) = 0;
  virtual int64_t macs_per_row() const = 0;
  virtual int64_t bytes_per_row() const = 0;  // packed weights read for one row
};

// Working memory that the blocks of all layers share. Declared once for the largest step.
struct BlockSlots {
  WorkspaceSlot qkv, heads;                            // multi-head
  WorkspaceSlot q_latent, q, latent, q_absorbed, heads_latent;  // MLA
  WorkspaceSlot gate_up, act;                          // FFN
  WorkspaceSlot router, expert_in, expert_gate_up, expert_act, expert_out;  // experts

  void Declare(const ModelConfig& config, int64_t max_rows, Workspace& workspace);
};

Result<std::unique_ptr<AttentionBlock>> LoadAttentionBlock(TensorLoader& loader, const ModelConfig& config, int layer,
                                                           const BlockSlots& slots);
Result<std::unique_ptr<AttentionBlock>> LoadMlaBlock(TensorLoader& loader, const ModelConfig& config, int layer,
                                                     const BlockSlots& slots, const bool* materialised);
Result<std::unique_ptr<FfnBlock>> LoadFfnBlock(TensorLoader& loader, const ModelConfig& config, int layer,
                                               const BlockSlots& slots);
Result<std::unique_ptr<FfnBlock>> LoadMoeBlock(TensorLoader& loader, const ModelConfig& config, int layer,
                                               const BlockSlots& slots);

}  // namespace surety::model
