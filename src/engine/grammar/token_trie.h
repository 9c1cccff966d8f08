// All tokens of a vocabulary as a tree over their bytes, in preorder, so that a walk reads memory forwards and a
// refused branch is one jump. Made once a tokenizer.
//
// Threads: immutable; any. Invariants: (1) control tokens are in the tree only where their text was named as a marker.
// (2) tokens without bytes, and those longer than kMaxTokenBytes, are not in the tree: a constraint never allows them.
#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "model/tokenizer/tokenizer.h"

namespace surety::engine {

class TokenTrie {
 public:
  static constexpr int kMaxTokenBytes = 1024;
  static constexpr int kMaxPlainChars = 32;
  struct Node {
    uint32_t byte : 8;
    uint32_t depth : 23;      // 1: the first byte of a token
    uint32_t plain_only : 1;  // all tokens from here on are plain
    int32_t subtree_end;      // the first node behind all that continue this one
    int32_t token;            // -1: no token ends here
  };

  // `markers`: texts of control tokens that stand for themselves in an answer (tool-call markers).
  static std::shared_ptr<const TokenTrie> Make(const model::Tokenizer& tokenizer,
                                               std::span<const std::string> markers = {});
  // From bytes by id; empty: not in the tree. end_ids end an answer.
  TokenTrie(std::vector<std::string> token_bytes, std::vector<int32_t> end_ids, bool strips_leading_space = false);

  std::span<const Node> nodes() const { return nodes_; }
  int32_t next_same(int32_t token) const { return next_same_[static_cast<size_t>(token)]; }  // -1: none
  // What a token adds to the text; empty for those not in the tree.
  std::string_view bytes(int32_t token) const { return token_bytes_[static_cast<size_t>(token)]; }
  bool ends_text(int32_t token) const;
  std::span<const int32_t> end_ids() const { return end_ids_; }
  bool strips_leading_space() const { return strips_leading_space_; }
  int vocab_size() const { return static_cast<int>(token_bytes_.size()); }
  // A plain token holds whole characters that a JSON string may hold as they are, at most kMaxPlainChars. Those of at
  // most n characters, as a mask; n from 1 on.
  std::span<const uint64_t> plain_up_to(int n) const;
  size_t mask_words() const { return (token_bytes_.size() + 63) / 64; }

 private:
  std::vector<std::string> token_bytes_;
  std::vector<int32_t> end_ids_;
  std::vector<Node> nodes_;
  std::vector<int32_t> next_same_;
  std::vector<std::vector<uint64_t>> plain_;  // by number of characters, from 1 on
  bool strips_leading_space_;
};

}  // namespace surety::engine
