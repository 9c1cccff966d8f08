// Which drafted tokens of each sequence a step verifies.
//
// A step of R rows takes T(R), a further branch of a tree its own time on top (the context is read once more, pages are
// copied); it yields one token a sequence plus one for each node that is accepted: the product of the confidences along
// its path. Nodes are added one row at a time, always the one that is worth most, while that raises the expected tokens
// per time of the whole step: a draft that would slow the other sequences down by more than it gains is not verified.
// Rows are added in groups where one alone does not pay, since T has steps: the best end over all lengths is taken. The
// same is done with chains alone, and the better of both taken, so that a tree is never a worse choice than a chain.
//
// Threads: one. Errors: none. Under the coupled rule the choice cannot change any text, so it may look at everything.
// Source: the marginal-value rule of section 4.10 of the design; Leviathan, Kalman, Matias 2023 for the expectation;
// Li et al. 2024 (EAGLE-2) for the value of a node of a tree.
#pragma once

#include <bit>
#include <cstdint>
#include <span>
#include <vector>

#include "base/function_ref.h"
#include "spec/draft_tree.h"

namespace surety::spec {

// A sequence's draft as the policy sees it. Of siblings a later one is chosen only after the earlier ones.
struct DraftOffer {
  const DraftTree* tree = nullptr;
  double branch_time = 0;                        // of each leaf beyond the first
  int max_branches = DraftTree::kMaxNodes;       // leaves
  uint64_t chosen = 1;                           // the answer: bit n for each node that is verified, and the root

  int n_chosen() const { return std::popcount(chosen) - 1; }
};

// `n_rows`: rows that the step has anyway; `n_yields`: tokens it yields anyway; `cost(rows)`: the time of a step
// without further branches. Fills `chosen`, in sum at most `most` nodes. Returns the expected number of further tokens.
double ChooseDrafts(std::span<DraftOffer> offers, int n_rows, int n_yields, int most,
                    FunctionRef<double(int rows)> cost);

// A tree whose shape is chosen before any token is: node after node where one is reached most probably, of which
// of(depth, rank) is accepted where its parent is (depth and rank from 0). Tokens are the ranks. Nodes that are reached
// with less than `floor` are left out.
void ShapeTree(int max_nodes, int max_depth, int max_branches, double floor,
               FunctionRef<double(int depth, int rank)> of, DraftTree& tree);

}  // namespace surety::spec
