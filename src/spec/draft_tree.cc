#include "spec/draft_tree.h"

#include <algorithm>

#include "base/check.h"

namespace surety::spec {

void DraftTree::Clear(int32_t root_token) {
  nodes_[0] = Node{};
  nodes_[0].token = root_token;
  size_ = 1;
  is_chain_ = true;
}

int DraftTree::FindChild(int parent, int32_t token) const {
  for (const int child : children(parent)) {
    if (at(child).token == token) return child;
  }
  return -1;
}

int DraftTree::Add(int parent, int32_t token, double confidence) {
  SURETY_CHECK(parent >= 0 && parent < size_);
  if (const int known = FindChild(parent, token); known >= 0) {
    Node& node = nodes_[static_cast<size_t>(known)];
    node.confidence = std::max(node.confidence, confidence);
    return known;
  }
  if (size_ == kMaxNodes) return kFull;
  const int n = size_++;
  Node& above = nodes_[static_cast<size_t>(parent)];
  nodes_[static_cast<size_t>(n)] = {.token = token, .parent = parent, .depth = above.depth + 1,
                                    .confidence = confidence, .ancestors = above.ancestors | uint64_t{1} << n};
  if (above.first_child < 0) {
    above.first_child = n;
  } else {
    nodes_[static_cast<size_t>(above.last_child)].next_sibling = n;
    is_chain_ = false;
  }
  above.last_child = n;
  return n;
}

void ArrangeTree(const DraftTree& tree, uint64_t keep, bool by_confidence, DraftTree& out, std::span<int> from) {
  SURETY_CHECK((keep & 1) != 0 && from.size() >= DraftTree::kMaxNodes);
  struct Waiting {
    int node, new_parent;
  };
  std::array<Waiting, DraftTree::kMaxNodes> stack;
  size_t depth = 0;
  std::array<int, DraftTree::kMaxNodes> children;
  const auto push_children = [&](int node, int new_node) {
    size_t n = 0;
    for (const int child : tree.children(node)) {
      if ((keep >> child & 1) != 0) children[n++] = child;
    }
    const auto end = children.begin() + static_cast<std::ptrdiff_t>(n);
    if (by_confidence) {
      std::stable_sort(children.begin(), end, [&](int a, int b) { return tree.confidence(a) > tree.confidence(b); });
    }
    while (n > 0) stack[depth++] = {children[--n], new_node};
  };
  out.Clear(tree.token(0));
  from[0] = 0;
  push_children(0, 0);
  while (depth > 0) {
    const Waiting next = stack[--depth];
    const int n = out.Add(next.new_parent, tree.token(next.node), tree.confidence(next.node));
    from[static_cast<size_t>(n)] = next.node;
    push_children(next.node, n);
  }
}

}  // namespace surety::spec
