// Whether the words of a citation stand in the passage that it names.
//
// Threads: a PassageSet is read by one check; ReadingOf: any. Borrows: the evidence, which outlives it.
#pragma once

#include <cstddef>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "gateway/citation_text.h"
#include "gateway/evidence.h"
#include "gateway/text_folding.h"
#include "gateway/text_numbers.h"

namespace surety::gateway {

enum class QuoteVerdict { kFound, kWrongChunk, kStitched, kAbsent };
std::string_view NameOf(QuoteVerdict verdict);  // "found", "wrong-chunk", "stitched", "absent"

struct QuoteFinding {
  QuoteVerdict verdict = QuoteVerdict::kAbsent;
  std::string reason;             // empty if found
  const Passage* passage = nullptr;
  size_t offset = 0, length = 0;  // kFound: bytes of the passage's text
};

// A passage's text as checks read it.
struct PassageReading {
  FoldedText folded;                   // Folding::kQuote
  std::vector<NumberMention> numbers;  // of the text as it stands
};
// A function of the bytes alone. The same passages come again and again, so the last few hundred readings are kept.
std::shared_ptr<const PassageReading> ReadingOf(const std::string& passage_text);

class PassageSet {
 public:
  explicit PassageSet(const Evidence& evidence);

  // Found: the passage is evidence of this request and in force at as_of, and its text holds the whole quote in one
  // piece (Folding::kQuote; a last . , ; : ! or ? of the quote alone may be the writer's own), not cut out of a word or
  // number; at least `min_quote` characters. Wrong chunk: another passage holds it so. Stitched: it is made of two or
  // more pieces, each of two words or more, that passages hold apart.
  QuoteFinding Check(const Citation& citation, int min_quote);
  // Numbers within a found quote.
  void AddNumbers(const QuoteFinding& found, NumberSet& numbers);

 private:
  struct Folded {
    const Passage* passage;
    std::shared_ptr<const PassageReading> reading;
  };
  static bool Holds(const Folded& folded, std::string_view quote, QuoteFinding* found);
  bool IsStitched(std::string_view quote) const;

  const Evidence& evidence_;
  std::vector<Folded> passages_;
};

}  // namespace surety::gateway
