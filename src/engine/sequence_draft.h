// The tokens that a step verifies for one sequence beyond the one it computes anyway, and where their keys and values
// go.
//
// Rows: the sequence's rows of the step are those that it has anyway, the last of which is the root's, then one for
// each node, in preorder: node n's row is n behind the root's. The first branch lies in the sequence's own pages, each
// further one (DraftTree::BeginsBranch) in a table of its own.
// Threads: the engine thread. Owns: the branches' pages, which go back with Clear.
#pragma once

#include <array>
#include <cstdint>
#include <span>
#include <utility>
#include <vector>

#include "engine/draft_method.h"
#include "kv/branch_table.h"
#include "spec/draft_tree.h"
#include "spec/rejection.h"

namespace surety::engine {

struct SequenceDraft {
  using Law = std::vector<std::pair<int32_t, double>>;

  spec::DraftTree tree;  // in preorder
  std::array<DraftMethod, spec::DraftTree::kMaxNodes> methods{};  // by node: who proposed it
  uint64_t blind = 0;    // bit n: node n was chosen, and cannot have known the random numbers of its position
  spec::ProposalKind kind = spec::ProposalKind::kOneHot;
  std::vector<Law> laws;  // by node, of its children; empty for kOneHot
  std::vector<kv::BranchTable> branches;  // after the first, in order

  int n_nodes() const { return tree.size() - 1; }
  bool empty() const { return n_nodes() == 0; }
  int max_depth() const;
  void Clear() { Clear(tree.token(0)); }
  void Clear(int32_t root);
  // The first `n_nodes` nodes are left, of them those that are at most `depth` deep; what goes does not depend on any
  // token. Precondition: no branch has a table.
  void Cut(int n_nodes, int depth);
  // Takes over the nodes in `keep` of a tree, as spec::ArrangeTree does. The arguments are not this draft's own.
  void Take(const SequenceDraft& from, uint64_t keep, bool by_confidence);
  // The pages of the branch that node n lies on; `own`: the sequence's.
  std::span<const int32_t> PagesOf(int n, std::span<const int32_t> own) const;
  // The place of node n among its siblings, from 0.
  int RankOf(int n) const;
};

}  // namespace surety::engine
