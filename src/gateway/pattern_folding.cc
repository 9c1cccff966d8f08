#include "gateway/pattern_folding.h"

#include <utf8proc.h>

#include "gateway/text_folding.h"

namespace surety::gateway {
namespace {

constexpr char32_t kUnreadable = 0xFFFD;

bool IsPatternDigit(char32_t c) {
  return utf8proc_category(static_cast<utf8proc_int32_t>(c)) == UTF8PROC_CATEGORY_ND;
}

}  // namespace

std::string FoldForPattern(std::string_view text) {
  const std::string quote = FoldText(text, Folding::kQuote).text;
  std::string out;
  bool space = false;
  for (size_t at = 0; at < quote.size();) {
    const auto [c, length] = CharacterAt(quote, at);
    const std::string_view character = std::string_view(quote).substr(at, length);
    at += length;
    if (c == U'*' || c == U'`' || c == kUnreadable) continue;
    if (c == U' ') {
      space = true;
      continue;
    }
    if (space && !out.empty()) out += ' ';
    space = false;
    if (c < 0x80 || !IsPatternDigit(c)) {
      out += character;
      continue;
    }
    char32_t zero = c;   // digits of a script stand in a row, ten each
    while (IsPatternDigit(zero - 1)) --zero;
    out += static_cast<char>('0' + (c - zero) % 10);
  }
  return out;
}

int64_t CountCharacters(std::string_view text) {
  int64_t n = 0;
  for (size_t at = 0; at < text.size(); ++n) at += CharacterAt(text, at).second;
  return n;
}

}  // namespace surety::gateway
