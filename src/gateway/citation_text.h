// An answer as sentences with their citations.
//
// The written form of a citation, both with the exact words of the source:
//   The fee is $35. [fees:3@2026-01 "The overdraft fee is $35 per item"]
//   "The overdraft fee is $35 per item" [fees:3@2026-01]
// In the first form \" and \\ stand for the marks themselves; in the second the words stand between quotation marks
// directly before the citation (" ", “ ”, « »). [document:chunk@version] names a passage of the evidence; none of the
// three holds white space, brackets or quotation marks. A citation belongs to the sentence in which it stands, or that
// ended before it.
//
// A sentence ends with . ! ? (not after an abbreviation or within a quotation that is cited), at an empty line, and
// before a list item, heading or table row.
//
// Threads: pure functions. Units: offsets are bytes of the text as it was given.
#pragma once

#include <cstddef>
#include <string>
#include <string_view>
#include <vector>

namespace surety::gateway {

struct Citation {
  std::string key;                     // document:chunk@version
  std::string quote;                   // empty: none was given
  size_t offset = 0, length = 0;       // of [...]
  size_t quoted_from = 0;              // second form: of the opening mark; else `offset`
  bool malformed = false;              // begins as a citation, and does not end as one
};
std::vector<Citation> FindCitations(std::string_view text);

struct Sentence {
  size_t begin = 0, end = 0;
  std::vector<size_t> citations;       // indices of FindCitations' result
};
std::vector<Sentence> SplitSentences(std::string_view text, const std::vector<Citation>& citations);

// The text with spaces in place of [...]; quotations of the second form stay.
std::string WithoutCitations(std::string_view text, const std::vector<Citation>& citations);

// What in this sentence needs a source, beside numbers: "fee", "right", "obligation"; empty: nothing. English words.
std::string ClaimIn(std::string_view sentence);

}  // namespace surety::gateway
