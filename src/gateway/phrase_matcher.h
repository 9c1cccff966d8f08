// Finds forbidden phrases in folded text (text_folding.h, kPhrase), also where they are disguised.
//
// A phrase is its words in order. Between two words may stand up to four characters that are neither letters, digits
// nor ends of a sentence, or nothing. A word may be hyphenated anywhere ("guar- antee") or have one sign or space
// between all its letters ("g u a r a n t e e", "g.u.a.r..."). Digits and signs may stand for letters: 0 o, 1 i and l,
// 3 e, 4 a, 5 s, 7 t, $ s, @ a, ! i, | i and l; one real letter must be left in each word. Phrases match whole words
// alone: "guarantee" does not match "guarantees" or "guarantor"; one or two digits at a word (a footnote's) do not hide
// it.
// Not seen: other spellings, synonyms, letters turned or left out, texts in pictures.
//
// Threads: immutable once made. Errors: Make: kInvalidArgument for a phrase without letters and digits.
#pragma once

#include <bitset>
#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <unordered_map>
#include <vector>

#include "base/status.h"
#include "gateway/text_folding.h"

namespace surety::gateway {

struct PhraseMatch {
  size_t phrase = 0;          // its index
  size_t begin = 0, end = 0;  // bytes of the folded text
};

// A folded text as matchers read it, made once for all of them.
class PhraseText {
 public:
  struct Symbol {
    char32_t c = 0;
    size_t at = 0;          // byte in the folded text
    bool letter = false, word = false, gap_before = false;
  };
  explicit PhraseText(const FoldedText& folded);
  const std::vector<Symbol>& symbols() const { return symbols_; }
  size_t size_bytes() const { return size_bytes_; }

 private:
  std::vector<Symbol> symbols_;
  size_t size_bytes_;
};

class PhraseMatcher {
 public:
  static Result<PhraseMatcher> Make(std::span<const std::string> phrases);
  // In order of `begin`; one at most for each phrase and place.
  std::vector<PhraseMatch> Find(const FoldedText& text) const { return Find(PhraseText(text)); }
  std::vector<PhraseMatch> Find(const PhraseText& text) const;

 private:
  struct Phrase {
    std::vector<std::u32string> words;
  };
  std::vector<Phrase> phrases_;
  std::unordered_map<char32_t, std::vector<size_t>> by_first_;  // first character -> phrases
  std::bitset<128> ascii_first_;                                // those of by_first_
};

}  // namespace surety::gateway
