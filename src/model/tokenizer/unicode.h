// UTF-8, normal forms and the byte-level alphabet.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

#include "model/tokenizer/unicode_tables.h"

namespace surety::model {

// U+2581, which stands for a space in tokens of SentencePiece.
inline constexpr std::string_view kMetaspaceText = "\xE2\x96\x81";

// Decodes the character at `at`. Returns its length in bytes, or 0 where the bytes are not valid UTF-8 (overlong forms,
// surrogates and values past U+10FFFF included).
int DecodeUtf8(std::string_view text, size_t at, char32_t& c);
void AppendUtf8(char32_t c, std::string& out);
// Bytes of the character that starts at `at`, 1 where the bytes are invalid.
int CharLength(std::string_view text, size_t at);
bool IsValidUtf8(std::string_view text);
// U+FFFD for each fault: a character that breaks off (all of its bytes), or a byte that cannot start one. The practice
// that the Unicode standard recommends, and that Python and Rust follow.
std::string ReplaceInvalidUtf8(std::string_view text);
// Bytes at the end that may be the start of a character whose rest is still to come (0 to 3).
size_t UnfinishedTail(std::string_view text);

// The end of the grapheme cluster (what a reader takes for one character) that starts at `at`, in valid UTF-8.
size_t GraphemeEnd(std::string_view text, size_t at);
// Without white space at the left or right end.
std::string_view StripSpaces(std::string_view text, bool left, bool right);

enum class NormalForm { kNfc, kNfd, kNfkc, kNfkd };
std::string Normalise(std::string_view valid_utf8, NormalForm form);
std::string Lowercase(std::string_view valid_utf8);

// The byte-level alphabet of GPT-2: every byte as a visible character.
char32_t ByteToLetter(uint8_t byte);
// The bytes that a string of that alphabet stands for; false if it has other characters.
bool LettersToBytes(std::string_view letters, std::string& bytes);

}  // namespace surety::model
