// The tokens that a drafter proposes for one sequence and one step: a tree whose root is the last committed token. A
// chain is a tree in which no node has two children.
//
// Shapes: at most kMaxNodes nodes with the root, so that a node's ancestors fit into one word.
// Threads: one. Owns: its nodes, inside the object: no call allocates.
// Invariants: (1) node 0 is the root; parent(n) < n for all others. (2) children of one node have different tokens.
// (3) children are visited in the order in which they were added.
// Errors: a full tree is no error, Add says so; a parent that does not exist is a bug.
// Source: ancestors as masks, Miao et al. 2024 (SpecInfer).
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <span>

namespace surety::spec {

class DraftTree {
 public:
  static constexpr int kMaxNodes = 64;
  static constexpr int kFull = -1;

  class ChildIterator {
   public:
    ChildIterator(const DraftTree* tree, int node) : tree_(tree), node_(node) {}
    int operator*() const { return node_; }
    ChildIterator& operator++() {
      node_ = tree_->nodes_[static_cast<size_t>(node_)].next_sibling;
      return *this;
    }
    bool operator==(const ChildIterator& other) const { return node_ == other.node_; }

   private:
    const DraftTree* tree_;
    int node_;  // -1: the end
  };

  class ChildRange {
   public:
    ChildRange(const DraftTree* tree, int first) : tree_(tree), first_(first) {}
    ChildIterator begin() const { return {tree_, first_}; }
    ChildIterator end() const { return {tree_, -1}; }
    bool empty() const { return first_ < 0; }

   private:
    const DraftTree* tree_;
    int first_;
  };

  explicit DraftTree(int32_t root_token = -1) { Clear(root_token); }

  // The root alone is left; -1 where its token is not known.
  void Clear(int32_t root_token = -1);
  // The child of `parent` with this token: the existing one (which keeps the larger confidence), a new one, or kFull
  // when there is no place for a new one; then nothing has changed. `confidence`: the drafter's estimate, 0 to 1, of
  // the probability that the node is accepted where its parent is.
  int Add(int parent, int32_t token, double confidence);
  // The child with this token, or -1.
  int FindChild(int parent, int32_t token) const;

  int size() const { return size_; }  // with the root
  int32_t token(int n) const { return at(n).token; }
  int parent(int n) const { return at(n).parent; }  // of the root: -1
  int depth(int n) const { return at(n).depth; }    // of the root: 0
  double confidence(int n) const { return at(n).confidence; }  // of the root: 1
  // Bit m: node m is n itself or above it. These, with the committed context, are the keys that n may look at.
  uint64_t ancestors(int n) const { return at(n).ancestors; }
  ChildRange children(int n) const { return {this, at(n).first_child}; }
  bool IsChain() const { return is_chain_; }
  // Node n, not the root, does not go on behind node n - 1. Where nodes stand in preorder (ArrangeTree) the nodes from
  // such a one to the next are a branch: a path that leaves an earlier branch, or the first one, at parent(n).
  bool BeginsBranch(int n) const { return at(n).parent != n - 1; }

 private:
  struct Node {
    int32_t token = -1;
    int parent = -1;
    int depth = 0;
    int first_child = -1;
    int last_child = -1;
    int next_sibling = -1;
    double confidence = 1;
    uint64_t ancestors = 1;
  };

  const Node& at(int n) const { return nodes_[static_cast<size_t>(n)]; }

  std::array<Node, kMaxNodes> nodes_;
  int size_ = 1;
  bool is_chain_ = true;
};

// The tree of the nodes in `keep` (bit 0 set, no node without its parent), in preorder. from[n] becomes the number in
// `tree` of node n of `out`; it holds kMaxNodes. `by_confidence`: siblings with the most confident first, else in the
// order they have.
void ArrangeTree(const DraftTree& tree, uint64_t keep, bool by_confidence, DraftTree& out, std::span<int> from);

}  // namespace surety::spec
