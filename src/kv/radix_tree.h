// A radix tree over whole pages of token ids: a node is a run of pages that were always used together, its children
// begin with different pages. Structure only; who may be evicted, and when, is the prefix cache's.
//
// Threads: one. Owns: the nodes, and through handles a reference to each page in them. A node's address stays good to
// read as long as the tree; its generation says whether it is still the same node.
// Invariants: (1) every node but a root has at least one page. (2) siblings differ in their first page. (3) a node's
// first page comes right after its parent's last: depth = parent's depth + parent's pages. (4) a page is in one node.
// (5) the generation changes whenever pages leave a node, so (node, generation, pages) names a prefix for good; a split
// keeps the lower part's identity and puts a new node above it.
#pragma once

#include <cstdint>
#include <deque>
#include <optional>
#include <span>
#include <vector>

#include "base/function_ref.h"
#include "base/status.h"
#include "kv/page_pool.h"
#include "kv/tier.h"
#include "kv/token_hash.h"

namespace surety::kv {

struct ScopeRecord;

struct RadixNode {
  RadixNode* parent = nullptr;
  RadixNode* first_child = nullptr;
  RadixNode* next_sibling = nullptr;
  RadixNode* previous_sibling = nullptr;
  RadixNode* next_in_bucket = nullptr;
  ScopeRecord* scope = nullptr;
  uint64_t hash = 0;
  uint64_t generation = 0;
  int depth = 0;        // pages above this node
  bool sealed = false;  // was matched: later pages get a node of their own, since their use differs
  std::vector<int32_t> tokens;
  std::vector<PageHandle> pages;
  std::vector<int64_t> created_ns;
  std::vector<TierKey> keys;  // one a page where there are tiers, else empty

  // The prefix cache's: log2 of decayed use, and places in its heaps.
  double use = 0;
  double leaf_key = 0;
  int leaf_slot = -1;
  int64_t oldest_ns = 0;  // of created_ns
  int64_t deadline_ns = 0;
  int deadline_slot = -1;

  int n_pages() const { return static_cast<int>(pages.size()); }
  int end() const { return depth + n_pages(); }
  bool is_root() const { return parent == nullptr; }
  bool is_leaf() const { return first_child == nullptr; }
};

struct RadixPage {
  PageHandle handle;
  std::span<const int32_t> tokens;
  int64_t created_ns = 0;
  const TierKey* key = nullptr;  // may be null
};

class RadixTree {
 public:
  struct Position {
    RadixNode* node = nullptr;
    int pages = 0;  // from the root; node->depth <= pages <= node->end()
  };

  // `hash_mask` makes hashes collide, for tests.
  RadixTree(int page_tokens, int expected_nodes, TokenHash hash, uint64_t hash_mask = ~uint64_t{0});
  RadixTree(const RadixTree&) = delete;
  RadixTree& operator=(const RadixTree&) = delete;

  RadixNode* NewRoot(ScopeRecord* scope);
  void FreeRoot(RadixNode* root);  // has no children

  // The child that begins with this page, or null.
  RadixNode* FindChild(const RadixNode* parent, const int32_t* page) const;
  // How many pages of the node from its page `from` on equal those at `tokens`, at most `limit`.
  int CommonPages(const RadixNode* node, int from, const int32_t* tokens, int limit) const;
  // Where (node, generation, pages) is now, though nodes were split since; nothing if pages of it were removed.
  std::optional<Position> Resume(RadixNode* node, uint64_t generation, int pages) const;

  // Whether the page before the position is the one in `tokens`, which are counted from the root.
  bool EndsWith(Position at, std::span<const int32_t> tokens) const;

  // Cuts after the node's first n pages, 0 < n < n_pages(). Returns the new upper node; `node` keeps the rest.
  RadixNode* Split(RadixNode* node, int n);
  // Precondition: no child begins with this page.
  RadixNode* AddChild(RadixNode* parent, RadixPage page);
  void Append(RadixNode* leaf, RadixPage page);
  // Takes out the last page of a leaf that is no root. A node left without pages must be given to Unlink next.
  PageHandle PopTail(RadixNode* leaf);
  // Takes an empty node out of the tree; returns its parent.
  RadixNode* Unlink(RadixNode* node);

  int page_tokens() const { return page_tokens_; }
  int n_nodes() const { return n_nodes_; }  // without roots
  // Checks the invariants below `root`, and calls visit for each node but the root.
  Status Audit(const RadixNode* root, FunctionRef<Status(const RadixNode&)> visit) const;
  // Number of nodes that the table of children holds.
  int CountTable() const;

 private:
  RadixNode* NewNode();
  void Free(RadixNode* node);
  uint64_t HashOf(const RadixNode* parent, const int32_t* page) const;
  void AddToTable(RadixNode* node);
  void RemoveFromTable(RadixNode* node);
  void Link(RadixNode* node, RadixNode* parent);
  void Unchain(RadixNode* node);  // from its parent's children

  int page_tokens_;
  TokenHash hash_;
  uint64_t hash_mask_;
  std::deque<RadixNode> slab_;
  std::vector<RadixNode*> free_;
  std::vector<RadixNode*> buckets_;  // of all nodes by (parent, first page); a power of two
  int n_nodes_ = 0;
  uint64_t last_generation_ = 0;
};

}  // namespace surety::kv
