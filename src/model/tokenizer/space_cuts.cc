#include "model/tokenizer/space_cuts.h"

#include <algorithm>

#include "model/tokenizer/unicode.h"

namespace surety::model {
namespace {

constexpr char32_t kNoChar = 0x110000;

// The character that ends right before `at`.
char32_t CharBefore(std::string_view text, size_t at) {
  size_t start = at - 1;
  while (start > 0 && at - start < 4 && (static_cast<uint8_t>(text[start]) & 0xC0) == 0x80) --start;
  char32_t c = 0;
  return DecodeUtf8(text, start, c) == static_cast<int>(at - start) ? c : kNoChar;
}

}  // namespace

SpaceCuts::SpaceCuts(const TokenizerSpec& spec) {
  // Where U+2581 is itself unknown, it may share one unknown token with its neighbours: then nothing is cut.
  if (std::find(spec.tokens.begin(), spec.tokens.end(), kMetaspaceText) == spec.tokens.end()) return;
  joined_.assign(kNoChar + 1, false);
  joined_[0x2581] = true;  // a run of spaces stays together
  joined_[kNoChar] = true;
  for (const std::string& token : spec.tokens) {
    for (size_t at = 1; (at = token.find(kMetaspaceText, at)) != std::string::npos; ++at) {
      joined_[CharBefore(token, at)] = true;
    }
  }
}

void SpaceCuts::ForEachPart(std::string_view text, FunctionRef<void(std::string_view)> fn) const {
  size_t start = 0;
  if (!joined_.empty()) {
    for (size_t at = 1; (at = text.find(kMetaspaceText, at)) != std::string_view::npos; at += kMetaspaceText.size()) {
      if (joined_[CharBefore(text, at)]) continue;
      fn(text.substr(start, at - start));
      start = at;
    }
  }
  if (start < text.size()) fn(text.substr(start));
}

}  // namespace surety::model
