// Text as the words that a person reads in it, so that a phrase is found however it is typed.
//
// FoldWords: compatibility forms (full width, ligatures, styled letters) become plain, case is folded, accents, invisible
// characters, bytes that are no UTF-8, apostrophes and the marks * ~ ` are dropped; all that is no letter, mark or digit
// then separates words. Digits of every script become 0 to 9. Cyrillic and Greek letters that look Latin become Latin in
// a word that holds Latin letters too. Scripts without spaces (Han, kana, Thai, ...): each character is a word.
// FoldForPattern: compatibility forms, digits, invisible characters and the marks * and ` likewise; runs of white space
// become one space. Case, accents and punctuation stay.
//
// Threads: any. Errors: none; every sequence of bytes has a result, and both functions are idempotent on theirs.
// Source: Unicode NFKC and case folding, by utf8proc.
#pragma once

#include <string>
#include <string_view>
#include <vector>

namespace surety::gateway {

std::vector<std::string> FoldWords(std::string_view text);
std::string FoldForPattern(std::string_view text);
// Code points; a byte that is no UTF-8 counts as one.
int64_t CountCharacters(std::string_view text);

}  // namespace surety::gateway
