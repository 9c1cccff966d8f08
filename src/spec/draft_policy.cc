#include "spec/draft_policy.h"

#include <algorithm>
#include <queue>

namespace surety::spec {
namespace {

struct NextDraft {
  double worth;        // probability that the node and all above it are accepted, less for one that begins a branch
  double probability;
  size_t offer;
  int node;
  bool begins_branch;
  bool operator<(const NextDraft& other) const {
    if (worth != other.worth) return worth < other.worth;
    return offer != other.offer ? offer > other.offer : node > other.node;
  }
};

struct Choice {
  double rate = 0, expected = 0;
  std::vector<uint64_t> chosen;
};

int NextSibling(const DraftTree& tree, int node) {
  bool is_next = false;
  for (const int child : tree.children(tree.parent(node))) {
    if (is_next) return child;
    is_next = child == node;
  }
  return -1;
}

class Chooser {
 public:
  Chooser(std::span<const DraftOffer> offers, int n_rows, int n_yields, int most, FunctionRef<double(int rows)> cost)
      : offers_(offers), n_rows_(n_rows), n_yields_(n_yields), most_(most), cost_(cost) {
    const double alone = cost(n_rows);
    none_.rate = alone > 0 ? n_yields / alone : 0;
    none_.chosen.assign(offers.size(), 1);
    // What a row costs about, against which branches are weighed.
    row_time_ = std::max((cost(n_rows + 8) - alone) / 8, 1e-3 * alone);
  }
  const Choice& none() const { return none_; }
  bool has_branches() const {
    return std::any_of(offers_.begin(), offers_.end(),
                       [](const DraftOffer& o) { return o.max_branches > 1 && !o.tree->IsChain(); });
  }
  Choice Best(bool with_branches) const;

 private:
  NextDraft Next(size_t offer, int node, double probability, bool begins_branch) const {
    probability *= offers_[offer].tree->confidence(node);
    const double discount = begins_branch ? row_time_ / (row_time_ + offers_[offer].branch_time) : 1;
    return {probability * discount, probability, offer, node, begins_branch};
  }

  std::span<const DraftOffer> offers_;
  int n_rows_, n_yields_, most_;
  FunctionRef<double(int rows)> cost_;
  Choice none_;
  double row_time_ = 0;
};

Choice Chooser::Best(bool with_branches) const {
  Choice best = none_;
  std::priority_queue<NextDraft> next;
  std::vector<int> n_branches(offers_.size(), 1);
  for (size_t i = 0; i < offers_.size(); ++i) {
    if (const auto children = offers_[i].tree->children(0); !children.empty()) {
      next.push(Next(i, *children.begin(), 1, false));
    }
  }
  std::vector<uint64_t> chosen(offers_.size(), 1);
  double expected = 0, branches = 0;
  for (int n = 1; !next.empty() && n <= most_;) {
    const NextDraft draft = next.top();
    next.pop();
    const DraftOffer& offer = offers_[draft.offer];
    if (draft.begins_branch) {
      if (n_branches[draft.offer] >= offer.max_branches) continue;
      ++n_branches[draft.offer];
      branches += offer.branch_time;
    }
    chosen[draft.offer] |= uint64_t{1} << draft.node;
    expected += draft.probability;
    if (const auto children = offer.tree->children(draft.node); !children.empty()) {
      next.push(Next(draft.offer, *children.begin(), draft.probability, false));
    }
    if (const int sibling = with_branches ? NextSibling(*offer.tree, draft.node) : -1; sibling >= 0) {
      next.push(Next(draft.offer, sibling, draft.probability / offer.tree->confidence(draft.node), true));
    }
    const double time = cost_(n_rows_ + n) + branches;
    if (time > 0 && (n_yields_ + expected) / time > best.rate) {
      best.rate = (n_yields_ + expected) / time;
      best.chosen = chosen;
      best.expected = expected;
    }
    ++n;
  }
  return best;
}

}  // namespace

double ChooseDrafts(std::span<DraftOffer> offers, int n_rows, int n_yields, int most,
                    FunctionRef<double(int rows)> cost) {
  const Chooser chooser(offers, n_rows, n_yields, most, cost);
  Choice best = chooser.Best(false);
  if (chooser.has_branches()) {
    if (Choice tree = chooser.Best(true); tree.rate > best.rate) best = std::move(tree);
  }
  for (size_t i = 0; i < offers.size(); ++i) offers[i].chosen = best.chosen[i];
  return best.expected;
}

void ShapeTree(int max_nodes, int max_depth, int max_branches, double floor,
               FunctionRef<double(int depth, int rank)> of, DraftTree& tree) {
  struct NextNode {
    double joint;
    int parent, rank;
    double above;  // the parent's joint
    bool operator<(const NextNode& other) const {
      return joint != other.joint ? joint < other.joint : parent > other.parent;
    }
  };
  tree.Clear();
  std::priority_queue<NextNode> next;
  const auto push = [&](int parent, int rank, double above) {
    if (tree.depth(parent) >= max_depth) return;
    const double joint = above * of(tree.depth(parent), rank);
    if (joint > 0 && joint >= floor) next.push({joint, parent, rank, above});
  };
  push(0, 0, 1);
  int n_branches = 0;
  while (!next.empty() && tree.size() <= max_nodes && tree.size() < DraftTree::kMaxNodes) {
    const NextNode node = next.top();
    next.pop();
    const bool begins_branch = node.rank > 0 || node.parent == 0;
    if (begins_branch && n_branches >= max_branches) continue;
    n_branches += begins_branch ? 1 : 0;
    const int n = tree.Add(node.parent, node.rank, of(tree.depth(node.parent), node.rank));
    push(n, 0, node.joint);
    push(node.parent, node.rank + 1, node.above);
  }
}

}  // namespace surety::spec
