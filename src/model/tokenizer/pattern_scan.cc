#include "model/tokenizer/pattern_scan.h"

#include <algorithm>
#include <array>
#include <cstdint>

#include "model/tokenizer/unicode.h"

namespace surety::model {
namespace {

enum class Class : uint8_t { kLetter, kNumber, kSpace, kOther };

constexpr std::array<Class, 128> kAsciiClasses = [] {
  std::array<Class, 128> classes{};
  for (size_t c = 0; c < 128; ++c) {
    const bool letter = (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z');
    const bool space = c == ' ' || (c >= '\t' && c <= '\r');
    classes[c] = letter                 ? Class::kLetter
                 : c >= '0' && c <= '9' ? Class::kNumber
                 : space                ? Class::kSpace
                                        : Class::kOther;
  }
  return classes;
}();

// The class and the length of the character at `at`; kSpace and 0 at the end.
struct Char {
  Class cls;
  size_t size;
};

Char At(std::string_view text, size_t at) {
  if (at >= text.size()) return {Class::kSpace, 0};
  const auto byte = static_cast<uint8_t>(text[at]);
  if (byte < 0x80) return {kAsciiClasses[byte], 1};
  char32_t c = 0;
  const auto size = static_cast<size_t>(std::max(1, DecodeUtf8(text, at, c)));
  const Class cls = IsLetter(c)       ? Class::kLetter
                    : IsNumber(c)     ? Class::kNumber
                    : IsWhitespace(c) ? Class::kSpace
                                      : Class::kOther;
  return {cls, size};
}

size_t RunEnd(std::string_view text, size_t at, Class cls, size_t limit = SIZE_MAX) {
  for (Char c = At(text, at); c.size > 0 && c.cls == cls && limit > 0; c = At(text, at), --limit) at += c.size;
  return at;
}

bool IsLineEnd(char c) { return c == '\r' || c == '\n'; }

// 's 't 're 've 'm 'll 'd at an apostrophe; the end, or `at` if none is there.
size_t Contraction(std::string_view text, size_t at, bool any_case) {
  if (at + 1 >= text.size()) return at;
  const auto letter = [&](size_t i) {
    if (i >= text.size()) return '\0';
    const char c = text[i];
    return any_case && c >= 'A' && c <= 'Z' ? static_cast<char>(c - 'A' + 'a') : c;
  };
  const char first = letter(at + 1), second = letter(at + 2);
  if (first == 's' || first == 't' || first == 'm' || first == 'd') return at + 2;
  if ((first == 'r' && second == 'e') || (first == 'v' && second == 'e') || (first == 'l' && second == 'l')) {
    return at + 3;
  }
  // The long s (U+017F) is an s without regard to case.
  if (any_case && text.substr(at + 1).starts_with("\xC5\xBF")) return at + 3;
  return at;
}

// \s+(?!\S)|\s+ : white space but its last character, which belongs to the word that follows, unless it is alone.
size_t SpaceRun(std::string_view text, size_t at) {
  const size_t end = RunEnd(text, at, Class::kSpace);
  if (end == text.size()) return end;
  size_t last = end - 1;
  while (last > at && (static_cast<uint8_t>(text[last]) & 0xC0) == 0x80) --last;
  return last > at ? last : end;
}

size_t ScanGpt2(std::string_view text, size_t at) {
  if (text[at] == '\'') {
    if (const size_t end = Contraction(text, at, false); end > at) return end;
  }
  const size_t start = text[at] == ' ' ? at + 1 : at;
  const Char c = At(text, start);
  if (c.size > 0 && c.cls != Class::kSpace) return RunEnd(text, start + c.size, c.cls);
  return SpaceRun(text, at);
}

template <size_t kMaxDigits>
size_t ScanLlama3(std::string_view text, size_t at) {
  if (text[at] == '\'') {
    if (const size_t end = Contraction(text, at, true); end > at) return end;
  }
  const Char c = At(text, at);
  if (c.cls == Class::kLetter) return RunEnd(text, at + c.size, Class::kLetter);
  if (c.cls == Class::kNumber) return RunEnd(text, at, Class::kNumber, kMaxDigits);
  if (!IsLineEnd(text[at]) && At(text, at + c.size).cls == Class::kLetter) {
    return RunEnd(text, at + c.size, Class::kLetter);
  }
  const size_t start = text[at] == ' ' ? at + 1 : at;
  if (At(text, start).cls == Class::kOther) {
    size_t end = RunEnd(text, start, Class::kOther);
    while (end < text.size() && IsLineEnd(text[end])) ++end;
    return end;
  }
  size_t end = RunEnd(text, at, Class::kSpace);
  while (end > at && !IsLineEnd(text[end - 1])) --end;
  return end > at ? end : SpaceRun(text, at);
}

}  // namespace

ScanFunction FindScanner(std::string_view pattern) {
  if (pattern == kGpt2Pattern) return ScanGpt2;
  if (pattern == kLlama3Pattern) return ScanLlama3<3>;
  if (pattern == kQwen2Pattern) return ScanLlama3<1>;
  return nullptr;
}

}  // namespace surety::model
