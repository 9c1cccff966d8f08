// Code points of UTF-8 text, and the properties of them that Python's string methods ask for. A byte that is no valid
// UTF-8 counts as one character.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace surety::model::chat {

inline constexpr uint32_t kNoCharacter = 0xFFFFFFFF;  // what stands at an invalid byte

struct Character {
  uint32_t code = kNoCharacter;
  size_t size = 1;  // in bytes
};

// Precondition: at < text.size().
Character CharacterAt(std::string_view text, size_t at);
void AppendUtf8(std::string& out, uint32_t code);

bool IsAscii(std::string_view text);
int64_t CharacterCount(std::string_view text);
// Byte offset of each character, and the size as last element.
std::vector<size_t> CharacterOffsets(std::string_view text);

bool IsSpaceCharacter(uint32_t code);
bool IsAlphabetic(uint32_t code);
bool IsDecimalDigit(uint32_t code);
bool IsUpperCase(uint32_t code);
bool IsLowerCase(uint32_t code);
bool IsPrintable(uint32_t code);

// Simple (one to one) case mapping, and "SS" for the sharp s.
enum class Case { kLower, kUpper, kTitle };
void AppendInCase(std::string& out, uint32_t code, Case target);

}  // namespace surety::model::chat
