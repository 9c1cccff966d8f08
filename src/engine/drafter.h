// Whoever proposes tokens stands behind this: texts looked up, what a grammar forces, a second model, heads on the
// target's hidden states. The speculator (speculator.h) asks, chooses what a step verifies, and books what came of it.
//
// A proposal is a tree below the last committed token. A node's confidence is the estimated probability that it is
// accepted where its parent is; the drafter keeps it honest by scoring its proposals against the tokens that come
// (Observe), verified or not. Under the coupled rule a good child is one that wins the race of (seed, position) under
// the drafter's own law (spec::RaceLeaders); nothing that is proposed can change a text.
//
// Keys and values of a drafter with the target's tokens lie in the target's pages, as their companion
// (KvLayout::companion_bytes). They must be a function of the tokens up to their own position alone, since pages are
// shared, cached and copied by their tokens: a head whose state at position i also reads token i + 1 stores it in slot
// i + 1. What lies beyond a sequence's own tokens may be overwritten at any time, and nobody copies it for a drafter:
// the branches of a tree that the target verifies have pages of their own, which are gone after the step.
//
// Threads: the engine thread. Owns: what a drafter keeps for a sequence lies in Sequence::drafters, by its method.
#pragma once

#include <cstdint>
#include <span>
#include <utility>
#include <vector>

#include "engine/draft_method.h"
#include "engine/sequence.h"
#include "spec/draft_tree.h"
#include "spec/rejection.h"
#include "spec/verify_cost.h"
#include "tensor/view.h"

namespace surety::engine {

// What is wanted for one sequence.
struct DraftWish {
  Sequence* sequence = nullptr;
  int max_nodes = 0;     // below the root
  int max_depth = 0;     // the sequence's pages have room for it
  int max_branches = 1;  // leaves; 1: a chain is wanted
  int max_pages = 0;     // that the drafter may take from the target's pool for its branches, until it returns
  // A node that is reached with less than this probability (the product of confidences) is not worth a row of the
  // drafter's own, to go on from it. As a leaf it may still be worth one of the target's: the policy sees to that.
  double floor = 0;
  // The request is verified by rejection: either all nodes are chosen without looking at this sequence's random
  // numbers (kOneHot), or they are drawn and the laws are told. Then the shape of the tree and its confidences must not
  // depend on any token that is drawn, since the policy goes by them: where a law has fewer tokens than the shape has
  // places, or a node is not gone on from, the places are filled behind the drawn ones with tokens to which the law
  // gives nothing; they are no trials. `floor` is 0.
  bool by_rejection = false;
};

// The answer for one sequence. It keeps its memory from step to step.
struct DraftProposal {
  spec::DraftTree tree;  // the root alone: nothing is proposed. Children of drawn nodes in the order drawn.
  // With anything but kOneHot, laws[n] is the law that the children of node n were drawn from: entries above 0, their
  // sum 1, in the target's tokens, after all transforms of the request.
  spec::ProposalKind kind = spec::ProposalKind::kOneHot;
  std::vector<std::vector<std::pair<int32_t, double>>> laws;
  // No node's choice looked at the random numbers of its position, nor at an answer that may have had the same ones.
  bool is_blind = false;

  bool empty() const { return tree.size() == 1; }
  void Clear(int32_t root) {
    tree.Clear(root);
    kind = spec::ProposalKind::kOneHot;
    laws.clear();
    is_blind = false;
  }
};

// Rows of the last step that have become a part of a sequence: a piece of its prompt, the row of its last token, those
// of drafts that held. Rows of drafts that did not hold are nobody's. Positions are consecutive, from first_position.
struct CommittedRows {
  Sequence* sequence = nullptr;
  int first_position = 0;
  std::vector<int32_t> rows;  // in the step's batch, and so in its taps
};

class Drafter {
 public:
  virtual ~Drafter() = default;
  virtual DraftMethod method() const = 0;
  // Asking costs no step of a model: it is asked always, and first. Such drafters never look at a sequence's random
  // numbers; others may, but under rejection.
  virtual bool is_free() const = 0;

  // proposals[i] answers wishes[i]; all are cleared, their roots set. Sequences decode, one wish each.
  virtual void Draft(std::span<const DraftWish> wishes, std::span<DraftProposal* const> proposals) = 0;
  // A token of the answer was committed: scores the last proposal, if it still runs along the text.
  virtual void Observe(Sequence& sequence, int32_t token) = 0;
  // The sequence's scope was forgotten: its proposals go, and what was kept of its text to draft from.
  virtual void Drop(Sequence& /*sequence*/) {}

  // --- drafters that are a model or a part of one; the defaults suit others ------------------------------------------
  // Of its children of this rank (0: the first) below a node of this depth (0: the root), the share that holds where
  // the node does: for planning, before anything is drafted.
  virtual double MeanAcceptance(const Sequence& /*sequence*/, int /*depth*/, int /*rank*/) const { return 0; }
  // Measured time of one of its own steps with this many rows; 0: not known yet.
  virtual double StepNanos(int /*n_rows*/) const { return 0; }
  // Leading tokens of the sequence whose keys and values it has; what is missing it reads when it is asked.
  virtual int CoveredTokens(const Sequence& sequence) const { return sequence.n_tokens(); }

  // It reads the target's hidden states: StepExecutor::taps() is filled, and AfterStep called after each step.
  virtual bool wants_taps() const { return false; }
  // After a step's tokens were committed, before the next step is planned. `taps`: a row for each row of the step's
  // batch, valid during the call. Choices that have just ended are left out; choices that have just forked from another
  // one get its last row.
  virtual void AfterStep(std::span<const CommittedRows> /*steps*/, ConstMatrixF /*taps*/) {}
};

}  // namespace surety::engine
