#include "engine/sequence_draft.h"

#include <algorithm>

#include "base/check.h"

namespace surety::engine {

int SequenceDraft::max_depth() const {
  int deepest = 0;
  for (int n = 1; n < tree.size(); ++n) deepest = std::max(deepest, tree.depth(n));
  return deepest;
}

void SequenceDraft::Clear(int32_t root) {
  tree.Clear(root);
  blind = 0;
  kind = spec::ProposalKind::kOneHot;
  laws.clear();
  branches.clear();
}

void SequenceDraft::Take(const SequenceDraft& from, uint64_t keep, bool by_confidence) {
  std::array<int, spec::DraftTree::kMaxNodes> old;
  spec::ArrangeTree(from.tree, keep, by_confidence, tree, old);
  kind = from.kind;
  blind = 0;
  laws.clear();
  branches.clear();
  for (int n = 0; n < tree.size(); ++n) {
    const auto at = static_cast<size_t>(old[static_cast<size_t>(n)]);
    methods[static_cast<size_t>(n)] = from.methods[at];
    blind |= (from.blind >> at & 1) << n;
    if (kind != spec::ProposalKind::kOneHot) laws.push_back(at < from.laws.size() ? from.laws[at] : Law());
  }
}

void SequenceDraft::Cut(int n_nodes, int depth) {
  SURETY_CHECK(branches.empty());
  uint64_t keep = 1;
  for (int n = 1; n < tree.size() && n <= n_nodes; ++n) {
    if (tree.depth(n) <= depth) keep |= uint64_t{1} << n;
  }
  if (n_nodes >= tree.size() - 1 && depth >= max_depth()) return;
  SequenceDraft cut;
  cut.Take(*this, keep, false);
  *this = std::move(cut);
}

std::span<const int32_t> SequenceDraft::PagesOf(int n, std::span<const int32_t> own) const {
  size_t branch = 0;
  for (int i = 1; i <= n; ++i) branch += tree.BeginsBranch(i) ? 1 : 0;
  return branch == 0 ? own : branches[branch - 1].pages();
}

int SequenceDraft::RankOf(int n) const {
  int rank = 0;
  for (const int child : tree.children(tree.parent(n))) {
    if (child == n) break;
    ++rank;
  }
  return rank;
}

}  // namespace surety::engine
