// Strings to ids, with the ids of byte tokens and the unknown token's treatment that several models share.
#pragma once

#include <array>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

#include "model/tokenizer/text_table.h"
#include "model/tokenizer/tokenizer_spec.h"

namespace surety::model {

struct StringHash {
  using is_transparent = void;
  size_t operator()(std::string_view s) const { return std::hash<std::string_view>()(s); }
};
using StringToId = std::unordered_map<std::string, TokenId, StringHash, std::equal_to<>>;

// Usable tokens of a specification, and what stands for text that has none.
class Vocabulary {
 public:
  explicit Vocabulary(const TokenizerSpec& spec);
  TokenId Find(std::string_view text) const { return slots_[Place(text)]; }  // -1 if absent
  // Byte tokens where all of them exist and byte fallback is on, else the unknown token (once for a run of unknown
  // characters if fuse_unknown), else nothing.
  void AppendUnknown(std::string_view character, bool follows_unknown, std::vector<TokenId>& ids) const;
  bool has_bytes() const { return has_bytes_; }
  TokenId unk() const { return unk_; }

 private:
  // Where the text's id is or would go: open addressing.
  size_t Place(std::string_view text) const {
    const size_t mask = slots_.size() - 1;
    size_t at = StringHash()(text) & mask;
    while (slots_[at] >= 0 && texts_[static_cast<size_t>(slots_[at])] != text) at = (at + 1) & mask;
    return at;
  }

  TextTable texts_;             // by id; empty where the token is no text
  std::vector<TokenId> slots_;  // a power of two, at most half of them taken
  std::array<TokenId, 256> bytes_;
  bool has_bytes_ = false;
  bool fuse_unknown_ = false;
  TokenId unk_ = -1;
};

}  // namespace surety::model
