// Character classes as the reference tokenizers have them. Their libraries froze different versions of Unicode:
// patterns follow 16, the Digits step 17, BERT's steps 8. Models were trained on what those tables say, so ids must
// follow them, not the newest standard. Found by asking tokenizers 0.23.3 about every code point.
#pragma once

namespace surety::model {

bool IsLetter(char32_t c);          // \p{L} of patterns
bool IsNumber(char32_t c);          // \p{N} of patterns
bool IsDigit(char32_t c);           // what the Digits step sets apart
bool IsWhitespace(char32_t c);      // Unicode White_Space
bool IsPunctuation(char32_t c);     // what BERT and the Punctuation step set apart, besides ASCII symbols
bool IsControl(char32_t c);         // what BERT's cleaning drops (U+0000 and U+FFFD included)
bool IsNonspacingMark(char32_t c);  // what stripping accents drops
bool IsWordChar(char32_t c);        // letters, marks, numbers, connector punctuation
bool KeepsItsForm(char32_t c);      // has a compatibility decomposition that the reference does not apply
char32_t LowercaseOf(char32_t c);   // simple, one to one

}  // namespace surety::model
