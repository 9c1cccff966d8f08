// A draft tree while it grows (draft_model.h).
// Threads: the engine thread. Owns: the branches' pages, until the tree is done.
#pragma once

#include <array>
#include <cstdint>
#include <span>
#include <vector>

#include "engine/draft_model.h"
#include "engine/drafter.h"
#include "kv/branch_table.h"
#include "spec/draft_tree.h"

namespace surety::engine {

struct DraftGrowth {
  static constexpr size_t kNodes = spec::DraftTree::kMaxNodes;
  struct Candidate {
    int parent = 0;
    int32_t token = -1;
    int8_t rank = 0, a_class = 0;
    double confidence = 0, joint = 0;
  };

  DraftWish wish;
  DraftProposal* proposal = nullptr;
  DraftModelState* state = nullptr;
  int n_computed = 0;                  // of the text
  std::array<double, kNodes> joint{};  // by node: how probably it is reached
  std::array<int32_t, kNodes> own{};   // by node: its token in the draft's vocabulary; -1: it has none
  std::array<int8_t, kNodes> ranks{}, classes{};  // by node; class -1: none
  std::array<int8_t, kNodes> table{};  // by node that is gone on from: 0: the sequence's pages, k: branches[k - 1]
  uint64_t continued = 0;              // nodes whose table a child has taken on
  uint64_t in_own_pages = 0;           // nodes whose keys and values are in the sequence's pages
  std::vector<kv::BranchTable> branches;
  int pages_left = 0;
  std::vector<int> frontier;           // nodes that are gone on from next, the likeliest first; then those that are
  int first_logit_row = 0;             // of the frontier's, in the step
  std::vector<Candidate> candidates;   // of the level
  // By rejection: the shape, and of each node of the tree the node of the shape whose place it has.
  spec::DraftTree shape;
  std::array<int, kNodes> shape_of{};

  spec::DraftTree& tree() { return proposal->tree; }
  int n_text() const { return static_cast<int>(state->text.size()); }
  std::span<const int32_t> Pages(int node, std::span<const int32_t> own_pages) const {
    const int8_t branch = table[static_cast<size_t>(node)];
    return branch == 0 ? own_pages : branches[static_cast<size_t>(branch) - 1].pages();
  }
};

}  // namespace surety::engine
