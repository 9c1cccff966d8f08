// Text as it is compared: what a reader takes for the same is the same, and every byte knows where it came from.
//
// kQuote, for quotations and numbers: NFKC; invisible characters (soft hyphen, zero width, direction, format, control)
// gone; each run of white space one space; typographic quotation marks and apostrophes as ASCII ones; a byte that is no
// UTF-8 is U+FFFD.
// kPhrase, for forbidden phrases and personal data, besides: bytes that are no UTF-8, accents (combining marks of the
// general blocks) and the marks * _ ` ~ of Markdown gone; lower case (full case folding); Cyrillic, Greek, Armenian and
// other letters that look like Latin ones are those; decimal digits of all scripts are 0-9; hyphens and dashes are '-'.
// Digits that stand for letters stay digits: phrase_matcher.h compares those. `html`: character references are decoded,
// tags and comments gone; only one of two views, for where HTML is not rendered a "tag" is read.
//
// Threads: pure. Invariants: (1) text is valid UTF-8, without two spaces in a row. (2) Origins rise, and lie in the
// original. (3) Folding the folded text again changes nothing (without html). (4) kQuote without invisible characters
// and white space is NFKC.
#pragma once

#include <cstddef>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace surety::gateway {

enum class Folding { kQuote, kPhrase };

class FoldedText {
 public:
  std::string text;

  // Bytes [begin, end) of the original that byte `at` of the text was made from. Where several characters became one
  // (a composition), each of its bytes has the range of all of them.
  std::pair<size_t, size_t> Origin(size_t at) const { return OriginIn(*SpanOf(at), at); }
  // Of a piece of the text that is not empty: first byte and length.
  std::pair<size_t, size_t> OriginOf(size_t from, size_t to) const {
    const size_t begin = Origin(from).first;
    return {begin, Origin(to - 1).second - begin};
  }
  // Something of the original was left out between the characters that end and begin at `at`.
  bool GapBefore(size_t at) const;

 private:
  friend class TextFolder;
  // Bytes of the text from `at` to the next span. Most were copied, byte by byte, and then lie in the original one
  // after another from `begin` on (end: 0); else each of them was made from all of [begin, end).
  struct Span {
    size_t at, begin, end;
  };
  const Span* SpanOf(size_t at) const;
  static std::pair<size_t, size_t> OriginIn(const Span& span, size_t at) {
    if (span.end > 0) return {span.begin, span.end};
    return {span.begin + (at - span.at), span.begin + (at - span.at) + 1};
  }
  std::vector<Span> spans_;
};

FoldedText FoldText(std::string_view original, Folding folding, bool html = false);

// A letter or digit of any script.
bool IsWordCharacter(char32_t code_point);
bool IsLetter(char32_t code_point);
// The character that begins at `at` of valid UTF-8, and its length.
std::pair<char32_t, size_t> CharacterAt(std::string_view text, size_t at);
// The one that ends before `at`; 0 where none does.
char32_t CharacterBefore(std::string_view text, size_t at);
size_t CharacterCount(std::string_view valid_utf8);

}  // namespace surety::gateway
