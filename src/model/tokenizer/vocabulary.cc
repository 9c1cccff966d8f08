#include "model/tokenizer/vocabulary.h"

#include <bit>
#include <cmath>

#include "model/tokenizer/word_model.h"

namespace surety::model {

int ByteOfToken(std::string_view token) {
  if (token.size() != 6 || !token.starts_with("<0x") || token[5] != '>') return -1;
  int value = 0;
  for (char c : token.substr(3, 2)) {
    const int digit = c >= '0' && c <= '9' ? c - '0' : c >= 'A' && c <= 'F' ? c - 'A' + 10 : -1;
    if (digit < 0) return -1;
    value = value * 16 + digit;
  }
  return value;
}

Status CheckScores(const TokenizerSpec& spec) {
  if (spec.scores.size() != spec.tokens.size()) {
    return InvalidArgumentError("the vocabulary has " + std::to_string(spec.tokens.size()) + " tokens, but " +
                                std::to_string(spec.scores.size()) + " scores");
  }
  for (size_t i = 0; i < spec.scores.size(); ++i) {
    if (!std::isfinite(spec.scores[i])) {
      return InvalidArgumentError("the score of token " + std::to_string(i) + " is not a finite number");
    }
  }
  return OkStatus();
}

Vocabulary::Vocabulary(const TokenizerSpec& spec) : fuse_unknown_(spec.fuse_unknown), unk_(spec.unk) {
  bytes_.fill(-1);
  slots_.assign(std::bit_ceil(2 * spec.tokens.size() + 2), -1);
  for (size_t i = 0; i < spec.tokens.size(); ++i) {
    const auto id = static_cast<TokenId>(i);
    const bool is_byte = !spec.byte_tokens.empty() && spec.byte_tokens[i];
    if (is_byte || spec.byte_fallback) {
      if (const int byte = ByteOfToken(spec.tokens[i]); byte >= 0 && bytes_[static_cast<size_t>(byte)] < 0) {
        bytes_[static_cast<size_t>(byte)] = id;
      }
    }
    const bool usable = !is_byte && (spec.unusable.empty() || !spec.unusable[i]);
    texts_.Add(usable ? std::string_view(spec.tokens[i]) : std::string_view());
    if (!usable) continue;
    if (TokenId& slot = slots_[Place(spec.tokens[i])]; slot < 0) slot = id;  // the first of equal texts
  }
  texts_.Finish();
  has_bytes_ = spec.byte_fallback;
  for (TokenId id : bytes_) has_bytes_ = has_bytes_ && id >= 0;
}

void Vocabulary::AppendUnknown(std::string_view character, bool follows_unknown, std::vector<TokenId>& ids) const {
  if (has_bytes_) {
    for (char c : character) ids.push_back(bytes_[static_cast<uint8_t>(c)]);
  } else if (unk_ >= 0 && !(follows_unknown && fuse_unknown_)) {
    ids.push_back(unk_);
  }
}

}  // namespace surety::model
