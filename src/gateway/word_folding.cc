#include "gateway/word_folding.h"

#include <algorithm>
#include <array>
#include <cstdint>
#include <utility>

#include <utf8proc.h>

#include "base/check.h"

namespace surety::gateway {
namespace {

constexpr bool WordsInRange(int32_t c, int32_t first, int32_t last) { return first <= c && c <= last; }

// Accents and the like. Marks of other scripts are vowels as often as not and stay.
bool IsDiacritic(int32_t c) {
  return WordsInRange(c, 0x300, 0x36F) || WordsInRange(c, 0x1AB0, 0x1AFF) || WordsInRange(c, 0x1DC0, 0x1DFF) ||
         WordsInRange(c, 0x20D0, 0x20FF) || WordsInRange(c, 0xFE20, 0xFE2F);
}

bool IsApostrophe(int32_t c) {
  static constexpr std::array<int32_t, 9> kApostrophes = {'\'', 0xB4, 0x2B9, 0x2BB, 0x2BC, 0x2018, 0x2019, 0x201B,
                                                           0x2032};
  return std::ranges::find(kApostrophes, c) != kApostrophes.end();
}

// Scripts that write words without spaces between them.
bool IsUnspaced(int32_t c) {
  return WordsInRange(c, 0x0E00, 0x0EFF) || WordsInRange(c, 0x1000, 0x109F) || WordsInRange(c, 0x1780, 0x17FF) ||
         WordsInRange(c, 0x3040, 0x30FF) || WordsInRange(c, 0x3400, 0x9FFF) || WordsInRange(c, 0xF900, 0xFAFF) ||
         WordsInRange(c, 0x20000, 0x3FFFF);
}

bool IsWhite(int32_t c) {
  if (WordsInRange(c, 9, 13) || c == 0x85) return true;
  const auto category = utf8proc_category(c);
  return category == UTF8PROC_CATEGORY_ZS || category == UTF8PROC_CATEGORY_ZL || category == UTF8PROC_CATEGORY_ZP;
}

bool IsWordPart(int32_t c) {
  switch (utf8proc_category(c)) {
    case UTF8PROC_CATEGORY_LU: case UTF8PROC_CATEGORY_LL: case UTF8PROC_CATEGORY_LT: case UTF8PROC_CATEGORY_LM:
    case UTF8PROC_CATEGORY_LO: case UTF8PROC_CATEGORY_MN: case UTF8PROC_CATEGORY_MC: case UTF8PROC_CATEGORY_ME:
    case UTF8PROC_CATEGORY_ND: case UTF8PROC_CATEGORY_NL: case UTF8PROC_CATEGORY_NO:
      return true;
    default:
      return false;
  }
}

// A decimal digit of any script as ASCII; other characters as they are. Digits of a script stand in a row, ten each.
int32_t PlainDigit(int32_t c) {
  if (c < 0x80 || utf8proc_category(c) != UTF8PROC_CATEGORY_ND) return c;
  int32_t first = c;
  while (utf8proc_category(first - 1) == UTF8PROC_CATEGORY_ND) --first;
  return '0' + (c - first) % 10;
}

// Small letters that look like Latin ones.
int32_t LatinLookAlike(int32_t c) {
  static constexpr std::array<std::pair<int32_t, char>, 26> kLookAlikes = {{
      {0x430, 'a'}, {0x432, 'b'}, {0x435, 'e'}, {0x43A, 'k'}, {0x43C, 'm'}, {0x43D, 'h'}, {0x43E, 'o'}, {0x440, 'p'},
      {0x441, 'c'}, {0x442, 't'}, {0x443, 'y'}, {0x445, 'x'}, {0x455, 's'}, {0x456, 'i'}, {0x458, 'j'}, {0x501, 'd'},
      {0x51B, 'q'}, {0x51D, 'w'}, {0x3B1, 'a'}, {0x3B9, 'i'}, {0x3BA, 'k'}, {0x3BD, 'v'}, {0x3BF, 'o'}, {0x3C1, 'p'},
      {0x3C4, 't'}, {0x3C5, 'u'}}};
  const auto* found = std::ranges::find(kLookAlikes, c, &std::pair<int32_t, char>::first);
  return found == kLookAlikes.end() ? c : found->second;
}

void AppendUtf8(int32_t c, std::string& out) {
  std::array<utf8proc_uint8_t, 4> bytes;
  const auto n = utf8proc_encode_char(c, bytes.data());
  out.append(reinterpret_cast<const char*>(bytes.data()), static_cast<size_t>(n));
}

// Calls fn(code point, or -1 for a byte that is none) in order.
template <typename Fn>
void ForEachCodePoint(std::string_view text, Fn&& fn) {
  const auto* bytes = reinterpret_cast<const utf8proc_uint8_t*>(text.data());
  for (size_t at = 0; at < text.size();) {
    utf8proc_int32_t c = -1;
    const auto n = utf8proc_iterate(bytes + at, static_cast<utf8proc_ssize_t>(text.size() - at), &c);
    fn(n > 0 ? c : -1);
    at += n > 0 ? static_cast<size_t>(n) : 1;
  }
}

// What is not written: what is left of a broken byte, and control characters that are no white space.
bool IsNothing(int32_t c) {
  return c < 0 || c == 0xFFFD || (utf8proc_category(c) == UTF8PROC_CATEGORY_CC && !IsWhite(c));
}

std::vector<int32_t> Decompose(std::string_view text, int options) {
  std::string clean;
  clean.reserve(text.size());
  ForEachCodePoint(text, [&](int32_t c) {
    if (!IsNothing(c)) AppendUtf8(c == 0xB4 ? '\'' : c, clean);   // its compatibility form would begin with a space
  });
  std::vector<int32_t> out(clean.size() + 16);
  const auto chosen = static_cast<utf8proc_option_t>(options);
  for (;;) {
    const auto n = utf8proc_decompose(reinterpret_cast<const utf8proc_uint8_t*>(clean.data()),
                                      static_cast<utf8proc_ssize_t>(clean.size()), out.data(),
                                      static_cast<utf8proc_ssize_t>(out.size()), chosen);
    SURETY_CHECK_MSG(n >= 0, "valid UTF-8 decomposes");
    const bool fits = static_cast<size_t>(n) <= out.size();
    out.resize(static_cast<size_t>(n));
    if (fits) return out;
  }
}

std::string WordOf(std::vector<int32_t>& letters) {
  const bool latin = std::ranges::any_of(letters, [](int32_t c) { return 'a' <= c && c <= 'z'; });
  std::string word;
  for (const int32_t c : letters) AppendUtf8(latin ? LatinLookAlike(c) : c, word);
  letters.clear();
  return word;
}

}  // namespace

std::vector<std::string> FoldWords(std::string_view text) {
  std::vector<std::string> words;
  std::vector<int32_t> letters;
  const auto end_word = [&] {
    if (!letters.empty()) words.push_back(WordOf(letters));
  };
  for (int32_t c : Decompose(text, UTF8PROC_COMPAT | UTF8PROC_DECOMPOSE | UTF8PROC_CASEFOLD | UTF8PROC_IGNORE)) {
    if (IsDiacritic(c) || IsApostrophe(c) || c == '*' || c == '~' || c == '`') continue;
    if (!IsWordPart(c)) {
      end_word();
      continue;
    }
    c = PlainDigit(c);
    const bool alone = IsUnspaced(c);
    if (alone) end_word();
    letters.push_back(c);
    if (alone) end_word();
  }
  end_word();
  return words;
}

std::string FoldForPattern(std::string_view text) {
  std::vector<int32_t> points = Decompose(text, UTF8PROC_COMPAT | UTF8PROC_DECOMPOSE | UTF8PROC_IGNORE);
  const auto n = utf8proc_normalize_utf32(points.data(), static_cast<utf8proc_ssize_t>(points.size()),
                                          static_cast<utf8proc_option_t>(UTF8PROC_COMPOSE | UTF8PROC_STABLE));
  SURETY_CHECK_MSG(n >= 0, "decomposed text composes");
  points.resize(static_cast<size_t>(n));
  std::string out;
  bool space = false;
  for (const int32_t c : points) {
    if (c == '*' || c == '`') continue;
    if (IsWhite(c)) {
      space = true;
      continue;
    }
    if (space && !out.empty()) out += ' ';
    space = false;
    AppendUtf8(PlainDigit(c), out);
  }
  return out;
}

int64_t CountCharacters(std::string_view text) {
  int64_t n = 0;
  ForEachCodePoint(text, [&](int32_t) { ++n; });
  return n;
}

}  // namespace surety::gateway
