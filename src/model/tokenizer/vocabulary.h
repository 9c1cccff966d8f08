// Strings to ids, with the ids of byte tokens and the unknown token's treatment that several models share.
#pragma once

#include <array>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

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
  TokenId Find(std::string_view text) const {
    const auto it = ids_.find(text);
    return it == ids_.end() ? -1 : it->second;
  }
  // Byte tokens where all of them exist and byte fallback is on, else the unknown token (once for a run of unknown
  // characters if fuse_unknown), else nothing.
  void AppendUnknown(std::string_view character, bool follows_unknown, std::vector<TokenId>& ids) const;
  bool has_bytes() const { return has_bytes_; }
  TokenId unk() const { return unk_; }

 private:
  StringToId ids_;
  std::array<TokenId, 256> bytes_;
  bool has_bytes_ = false;
  bool fuse_unknown_ = false;
  TokenId unk_ = -1;
};

}  // namespace surety::model
