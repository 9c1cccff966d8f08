// What drafters share that are models: how sure a model is of a token, its likeliest tokens, how its proposals fare.
// Threads: the engine thread. Errors: none.
#pragma once

#include <algorithm>
#include <array>
#include <cstdint>
#include <span>
#include <vector>

#include "engine/sampler.h"
#include "engine/sequence.h"
#include "spec/acceptance.h"
#include "spec/draft_tree.h"

namespace surety::engine {

inline int DepthClass(int depth) { return std::min(depth, spec::AcceptanceTable::kClasses - 1); }

// A model's own probabilities, before temperature and cuts. `logits` outlive this, one at least is finite.
class DraftSureness {
 public:
  explicit DraftSureness(std::span<const float> logits);
  double Of(int32_t token) const;
  int8_t ClassOf(int32_t token) const;  // of Of(token): 0 to 7

 private:
  std::span<const float> logits_;
  float top_ = 0;
  double sum_ = 0;
};

// The tokens with the largest logits, the lowest id first among equals; returns how many have one above minus infinity.
int LargestLogits(std::span<const float> logits, std::span<int32_t> out);

// The request's transforms that a draft can have without being verified: penalties, tokens that may not end the answer.
void TransformForDraft(const Sequence& sequence, std::span<const int32_t> end_ids, Sampler& sampler,
                       std::span<float> logits);

// A sequence's last proposal, and how often such ones have held.
struct ModelDrafterState : DrafterState {
  ModelDrafterState(const spec::RankedAcceptance& by_sureness, const spec::RankedAcceptance& by_depth)
      : own(by_sureness), own_by_depth(by_depth) {}

  // A token came: scores the children of the node that the text had come to, and goes on to the one that holds it.
  // Answers that node, or -1.
  int Score(int32_t token, spec::RankedAcceptance& shared, spec::RankedAcceptance& shared_by_depth);

  spec::RankedAcceptance own, own_by_depth;  // by how sure the model is; by depth
  spec::DraftTree tree;
  std::array<int8_t, spec::DraftTree::kMaxNodes> ranks{}, classes{};  // class -1: none
  int at = -1;  // where the text has come to in the tree; -1: off it
};

}  // namespace surety::engine
