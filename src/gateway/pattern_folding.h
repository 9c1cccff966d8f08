// Text as a policy's patterns see it: text_folding.h's kQuote, with digits of every script as 0 to 9, without the marks
// * and ` of Markdown and without bytes that are no UTF-8. Case, accents and punctuation stay; no white space at the
// ends.
//
// Threads: any. Errors: none; every sequence of bytes has a result. Invariants: folding the folded changes nothing.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

namespace surety::gateway {

std::string FoldForPattern(std::string_view text);
// Code points; a byte that is no UTF-8 counts as one.
int64_t CountCharacters(std::string_view text);

}  // namespace surety::gateway
