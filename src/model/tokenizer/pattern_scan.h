// Hand-written matchers for the pre-tokenizer patterns that most models use, many times faster than a regular
// expression. Threads: any (no state).
#pragma once

#include <cstddef>
#include <string_view>

namespace surety::model {

// GPT-2's pattern, and that of Llama 3 (up to three digits a word) and Qwen 2 (one digit a word).
inline constexpr const char* kGpt2Pattern =
    "'s|'t|'re|'ve|'m|'ll|'d| ?\\p{L}+| ?\\p{N}+| ?[^\\s\\p{L}\\p{N}]+|\\s+(?!\\S)|\\s+";
inline constexpr const char* kLlama3Pattern =
    "(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\\r\\n\\p{L}\\p{N}]?\\p{L}+|\\p{N}{1,3}| ?[^\\s\\p{L}\\p{N}]+[\\r\\n]*|"
    "\\s*[\\r\\n]+|\\s+(?!\\S)|\\s+";
inline constexpr const char* kQwen2Pattern =
    "(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\\r\\n\\p{L}\\p{N}]?\\p{L}+|\\p{N}| ?[^\\s\\p{L}\\p{N}]+[\\r\\n]*|"
    "\\s*[\\r\\n]+|\\s+(?!\\S)|\\s+";

// The end of the match that starts at `at` (valid UTF-8, at < text.size()). The patterns served match at every
// character.
using ScanFunction = size_t (*)(std::string_view text, size_t at);

// The matcher of a pattern; null if there is none.
ScanFunction FindScanner(std::string_view pattern);

}  // namespace surety::model
