// Draft heads: small networks that read a target's hidden states and say what its next tokens may be.
//
// EAGLE (one autoregressive layer). A row pairs the token of its position with the hidden state of the position before
// it, and says what follows the token. Its keys and values lie in the slot of its own position, so that a slot is a
// function of the tokens up to it; no row stands at position 0, and rows see positions from
// SequenceRows::first_visible >= 1 on. It turns as the position before, as the public files count. States are the
// target's taps, or what the head itself gave for the position before (hidden()), with which drafting goes on.
// Medusa (no keys, no order): head i of a hidden state says which token follows i + 2 places behind it.
//
// Shapes: T rows, H the head's width, F feature_dim of the recipe, Vd draft_vocab_size.
// Threads: one caller at a time, the target's. Owns: its weights; borrows the target, its source and the Ops, which
// must outlive it.
// Errors: LoadDraftHead: as head_weights.h and head_recipe.h state them. Reserve: kResourceExhausted.
// Invariants: (1) Forward allocates nothing. (2) A row's numbers do not depend on the other rows of the batch.
#pragma once

#include <memory>
#include <span>
#include <vector>

#include "kernels/ops.h"
#include "model/arch/model.h"
#include "model/arch/workspace.h"
#include "model/heads/head_recipe.h"
#include "model/model_source.h"

namespace surety::model {

class DraftHead {
 public:
  virtual ~DraftHead() = default;
  const HeadRecipe& recipe() const { return recipe_; }
  // The target's token of each of the head's; empty: they are the same.
  std::span<const int32_t> target_ids() const { return target_ids_; }
  int64_t weight_bytes() const { return weight_bytes_; }
  virtual int64_t workspace_bytes() const = 0;
  // Makes the memory for steps of up to max_rows rows.
  virtual Status Reserve(int max_rows, int max_context) = 0;

 protected:
  HeadRecipe recipe_;
  std::vector<int32_t> target_ids_;
  int64_t weight_bytes_ = 0;
};

class EagleHead : public DraftHead {
 public:
  // `states`: [T, F], the target's, or with `own` [T, H], as hidden() gave them. `logits`: [logit_rows, Vd].
  virtual void Forward(const BatchView& batch, ConstMatrixF states, bool own, const PagedKvView& kv,
                       MatrixF logits) = 0;
  // Of the last Forward: [T, H], the states that go on behind each row.
  virtual ConstMatrixF hidden() const = 0;
  int state_dim(bool own) const { return own ? recipe_.d_model : recipe_.feature_dim(); }
};

class MedusaHead : public DraftHead {
 public:
  int n_heads() const { return recipe_.n_medusa_heads; }
  // `states`: [T, Ht], the target's final ones. `logits`: [T, Vd], of the token head + 2 places behind each.
  virtual void Forward(int head, ConstMatrixF states, MatrixF logits) = 0;
};

// What a head is joined to.
struct HeadTarget {
  const ModelSource& source;
  Model& model;
};

// An EagleHead or a MedusaHead, as recipe().method says.
Result<std::unique_ptr<DraftHead>> LoadDraftHead(FileSystem& files, const HeadOptions& options,
                                                 const HeadTarget& target, kernels::Ops& ops);

// The parts of LoadDraftHead. The weights stay with the head.
Result<std::unique_ptr<DraftHead>> LoadEagleHead(std::unique_ptr<HeadWeights> weights, HeadRecipe recipe,
                                                 const HeadOptions& options, const HeadTarget& target,
                                                 kernels::Ops& ops);
Result<std::unique_ptr<DraftHead>> LoadMedusaHead(std::unique_ptr<HeadWeights> weights, HeadRecipe recipe,
                                                  const HeadOptions& options, const HeadTarget& target,
                                                  kernels::Ops& ops);
// Of d2t (offsets: token i of the head is token i + d2t[i] of the target), of t2d where that is missing, or of
// Medusa's token_map (absolute); empty where both vocabularies are one.
Result<std::vector<int32_t>> ReadTargetIds(HeadWeights& weights, const HeadRecipe& recipe);

}  // namespace surety::model
