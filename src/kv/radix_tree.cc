#include "kv/radix_tree.h"

#include <algorithm>
#include <bit>
#include <cstring>
#include <string>
#include <utility>

#include "base/check.h"

namespace surety::kv {

RadixTree::RadixTree(int page_tokens, int expected_nodes, TokenHash hash, uint64_t hash_mask)
    : page_tokens_(page_tokens), hash_(hash), hash_mask_(hash_mask),
      buckets_(std::bit_ceil(static_cast<size_t>(std::max(expected_nodes, 16)))) {}

RadixNode* RadixTree::NewNode() {
  RadixNode* node;
  if (free_.empty()) {
    node = &slab_.emplace_back();
  } else {
    node = free_.back();
    free_.pop_back();
  }
  node->generation = ++last_generation_;
  return node;
}

void RadixTree::Free(RadixNode* node) {
  SURETY_CHECK(node->leaf_slot < 0 && node->deadline_slot < 0 && node->pages.empty() && node->is_leaf());
  *node = RadixNode{};  // gives the vectors' memory back too
  node->generation = ++last_generation_;
  free_.push_back(node);
}

RadixNode* RadixTree::NewRoot(ScopeRecord* scope) {
  RadixNode* root = NewNode();
  root->scope = scope;
  return root;
}

void RadixTree::FreeRoot(RadixNode* root) {
  SURETY_CHECK(root->is_root());
  Free(root);
}

uint64_t RadixTree::HashOf(const RadixNode* parent, const int32_t* page) const {
  const uint64_t tokens = hash_({page, static_cast<size_t>(page_tokens_)});
  // The parent is mixed in by a multiplication: children of different parents with equal pages are common.
  const uint64_t mixed = tokens ^ (static_cast<uint64_t>(reinterpret_cast<uintptr_t>(parent)) * 0x9e3779b97f4a7c15);
  return (mixed ^ (mixed >> 32)) & hash_mask_;
}

void RadixTree::AddToTable(RadixNode* node) {
  node->hash = HashOf(node->parent, node->tokens.data());
  RadixNode*& bucket = buckets_[node->hash & (buckets_.size() - 1)];
  node->next_in_bucket = std::exchange(bucket, node);
}

void RadixTree::RemoveFromTable(RadixNode* node) {
  RadixNode** at = &buckets_[node->hash & (buckets_.size() - 1)];
  while (*at != node) at = &(*at)->next_in_bucket;
  *at = std::exchange(node->next_in_bucket, nullptr);
}

void RadixTree::Link(RadixNode* node, RadixNode* parent) {
  node->parent = parent;
  node->previous_sibling = nullptr;
  node->next_sibling = parent->first_child;
  if (node->next_sibling != nullptr) node->next_sibling->previous_sibling = node;
  parent->first_child = node;
}

void RadixTree::Unchain(RadixNode* node) {
  (node->previous_sibling != nullptr ? node->previous_sibling->next_sibling : node->parent->first_child) =
      node->next_sibling;
  if (node->next_sibling != nullptr) node->next_sibling->previous_sibling = node->previous_sibling;
  node->next_sibling = node->previous_sibling = nullptr;
}

RadixNode* RadixTree::FindChild(const RadixNode* parent, const int32_t* page) const {
  const uint64_t hash = HashOf(parent, page);
  for (RadixNode* node = buckets_[hash & (buckets_.size() - 1)]; node != nullptr; node = node->next_in_bucket) {
    if (node->hash == hash && node->parent == parent &&
        std::equal(page, page + page_tokens_, node->tokens.begin())) {
      return node;
    }
  }
  return nullptr;
}

int RadixTree::CommonPages(const RadixNode* node, int from, const int32_t* tokens, int limit) const {
  const int most = std::min(limit, node->n_pages() - from);
  const int32_t* mine = node->tokens.data() + static_cast<ptrdiff_t>(from) * page_tokens_;
  const size_t page_bytes = static_cast<size_t>(page_tokens_) * sizeof(int32_t);
  int n = 0;
  while (n < most && std::memcmp(mine, tokens, page_bytes) == 0) {
    ++n;
    mine += page_tokens_;
    tokens += page_tokens_;
  }
  return n;
}

std::optional<RadixTree::Position> RadixTree::Resume(RadixNode* node, uint64_t generation, int pages) const {
  if (node == nullptr || node->generation != generation || pages > node->end()) return std::nullopt;
  // Splits put a node's first pages into new parents.
  while (!node->is_root() && pages <= node->depth) node = node->parent;
  return Position{node, pages};
}

bool RadixTree::EndsWith(Position at, std::span<const int32_t> tokens) const {
  const auto last = static_cast<size_t>(at.pages - 1) * static_cast<size_t>(page_tokens_);
  if (tokens.size() < last + static_cast<size_t>(page_tokens_)) return false;
  return CommonPages(at.node, at.pages - 1 - at.node->depth, tokens.data() + last, 1) == 1;
}

RadixNode* RadixTree::Split(RadixNode* node, int n) {
  SURETY_CHECK(n > 0 && n < node->n_pages());
  RadixNode* upper = NewNode();
  RemoveFromTable(node);
  RadixNode* parent = node->parent;
  Unchain(node);
  Link(upper, parent);
  Link(node, upper);
  upper->scope = node->scope;
  upper->depth = node->depth;
  upper->sealed = node->sealed;
  upper->use = node->use;
  const auto move_front = [](auto& from, auto& to, ptrdiff_t count) {
    to.assign(std::make_move_iterator(from.begin()), std::make_move_iterator(from.begin() + count));
    from.erase(from.begin(), from.begin() + count);
  };
  move_front(node->tokens, upper->tokens, static_cast<ptrdiff_t>(n) * page_tokens_);
  move_front(node->pages, upper->pages, n);
  move_front(node->created_ns, upper->created_ns, n);
  if (!node->keys.empty()) move_front(node->keys, upper->keys, n);
  node->depth += n;
  AddToTable(upper);
  AddToTable(node);
  ++n_nodes_;
  return upper;
}

RadixNode* RadixTree::AddChild(RadixNode* parent, RadixPage page) {
  RadixNode* node = NewNode();
  node->scope = parent->scope;
  node->depth = parent->end();
  Link(node, parent);
  Append(node, std::move(page));
  AddToTable(node);
  ++n_nodes_;
  return node;
}

void RadixTree::Append(RadixNode* leaf, RadixPage page) {
  SURETY_CHECK(leaf->is_leaf() && !leaf->is_root() && page.tokens.size() == static_cast<size_t>(page_tokens_));
  leaf->tokens.insert(leaf->tokens.end(), page.tokens.begin(), page.tokens.end());
  leaf->pages.push_back(std::move(page.handle));
  leaf->created_ns.push_back(page.created_ns);
  if (page.key != nullptr) leaf->keys.push_back(*page.key);
}

PageHandle RadixTree::PopTail(RadixNode* leaf) {
  SURETY_CHECK(leaf->is_leaf() && !leaf->is_root() && !leaf->pages.empty());
  PageHandle handle = std::move(leaf->pages.back());
  leaf->pages.pop_back();
  leaf->created_ns.pop_back();
  if (!leaf->keys.empty()) leaf->keys.pop_back();
  // The first page's tokens stay until Unlink: the table is found by them.
  if (!leaf->pages.empty()) leaf->tokens.resize(leaf->tokens.size() - static_cast<size_t>(page_tokens_));
  leaf->generation = ++last_generation_;
  return handle;
}

RadixNode* RadixTree::Unlink(RadixNode* node) {
  SURETY_CHECK(node->pages.empty() && node->is_leaf() && !node->is_root());
  RadixNode* parent = node->parent;
  RemoveFromTable(node);
  Unchain(node);
  node->parent = nullptr;
  Free(node);
  --n_nodes_;
  return parent;
}

int RadixTree::CountTable() const {
  int count = 0;
  for (const RadixNode* node : buckets_) {
    for (; node != nullptr; node = node->next_in_bucket) ++count;
  }
  return count;
}

Status RadixTree::Audit(const RadixNode* root, FunctionRef<Status(const RadixNode&)> visit) const {
  const auto wrong = [](const RadixNode& node, std::string_view what) {
    return InternalError("radix tree: node of pages " + std::to_string(node.depth) + " to " +
                         std::to_string(node.end()) + ": " + std::string(what));
  };
  if (root->n_pages() != 0 || root->depth != 0) return wrong(*root, "a root with pages");
  std::vector<const RadixNode*> stack{root};
  while (!stack.empty()) {
    const RadixNode* node = stack.back();
    stack.pop_back();
    const RadixNode* previous = nullptr;
    for (const RadixNode* child = node->first_child; child != nullptr; child = child->next_sibling) {
      if (child->parent != node || child->previous_sibling != previous) return wrong(*child, "not its parent's child");
      if (child->scope != node->scope) return wrong(*child, "its scope is not its parent's");
      if (child->depth != node->end()) return wrong(*child, "does not follow its parent");
      const size_t n = child->pages.size();
      if (n == 0) return wrong(*child, "no pages");
      if (child->tokens.size() != n * static_cast<size_t>(page_tokens_) || child->created_ns.size() != n ||
          (!child->keys.empty() && child->keys.size() != n)) {
        return wrong(*child, "arrays of different lengths");
      }
      // Also finds two siblings with one first page: only one of them can be found.
      if (FindChild(node, child->tokens.data()) != child) return wrong(*child, "not found by its first page");
      SURETY_RETURN_IF_ERROR(visit(*child));
      previous = child;
      stack.push_back(child);
    }
  }
  return OkStatus();
}

}  // namespace surety::kv
