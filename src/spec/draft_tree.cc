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

}  // namespace surety::spec
