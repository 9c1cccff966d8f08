#include "model/chat/unicode.h"

#include <algorithm>

#include <utf8proc.h>

namespace surety::model::chat {

Character CharacterAt(std::string_view text, size_t at) {
  const auto first = static_cast<unsigned char>(text[at]);
  if (first < 0x80) return {first, 1};
  utf8proc_int32_t code = -1;
  const auto* bytes = reinterpret_cast<const utf8proc_uint8_t*>(text.data() + at);
  const auto available = static_cast<utf8proc_ssize_t>(std::min<size_t>(4, text.size() - at));
  const auto size = utf8proc_iterate(bytes, available, &code);
  if (size <= 0 || code < 0) return {};
  return {static_cast<uint32_t>(code), static_cast<size_t>(size)};
}

void AppendUtf8(std::string& out, uint32_t code) {
  utf8proc_uint8_t bytes[4];
  const auto size = utf8proc_encode_char(static_cast<utf8proc_int32_t>(code), bytes);
  out.append(reinterpret_cast<const char*>(bytes), static_cast<size_t>(size));
}

bool IsAscii(std::string_view text) {
  return std::all_of(text.begin(), text.end(), [](char c) { return static_cast<unsigned char>(c) < 0x80; });
}

int64_t CharacterCount(std::string_view text) {
  if (IsAscii(text)) return static_cast<int64_t>(text.size());
  int64_t n = 0;
  for (size_t i = 0; i < text.size(); i += CharacterAt(text, i).size) ++n;
  return n;
}

std::vector<size_t> CharacterOffsets(std::string_view text) {
  std::vector<size_t> offsets;
  offsets.reserve(text.size() + 1);
  for (size_t i = 0; i < text.size(); i += CharacterAt(text, i).size) offsets.push_back(i);
  offsets.push_back(text.size());
  return offsets;
}

namespace {
utf8proc_category_t CategoryOf(uint32_t code) {
  return code == kNoCharacter ? UTF8PROC_CATEGORY_CN : utf8proc_category(static_cast<utf8proc_int32_t>(code));
}
}  // namespace

bool IsSpaceCharacter(uint32_t code) {
  if (code < 0x80) return code == ' ' || (code >= 9 && code <= 13) || (code >= 0x1C && code <= 0x1F);
  if (code == 0x85) return true;
  const auto category = CategoryOf(code);
  return category == UTF8PROC_CATEGORY_ZS || category == UTF8PROC_CATEGORY_ZL || category == UTF8PROC_CATEGORY_ZP;
}

bool IsAlphabetic(uint32_t code) {
  const auto category = CategoryOf(code);
  return category >= UTF8PROC_CATEGORY_LU && category <= UTF8PROC_CATEGORY_LO;
}

bool IsDecimalDigit(uint32_t code) { return CategoryOf(code) == UTF8PROC_CATEGORY_ND; }

bool IsUpperCase(uint32_t code) { return CategoryOf(code) == UTF8PROC_CATEGORY_LU; }
bool IsLowerCase(uint32_t code) { return CategoryOf(code) == UTF8PROC_CATEGORY_LL; }

bool IsPrintable(uint32_t code) {
  if (code == ' ') return true;
  switch (CategoryOf(code)) {
    case UTF8PROC_CATEGORY_CC:
    case UTF8PROC_CATEGORY_CF:
    case UTF8PROC_CATEGORY_CS:
    case UTF8PROC_CATEGORY_CO:
    case UTF8PROC_CATEGORY_CN:
    case UTF8PROC_CATEGORY_ZL:
    case UTF8PROC_CATEGORY_ZP:
    case UTF8PROC_CATEGORY_ZS: return false;
    default: return true;
  }
}

void AppendInCase(std::string& out, uint32_t code, Case target) {
  constexpr uint32_t kSharpS = 0xDF;
  if (code == kSharpS && target != Case::kLower) {
    out += target == Case::kUpper ? "SS" : "Ss";
    return;
  }
  const auto in = static_cast<utf8proc_int32_t>(code);
  const auto mapped = target == Case::kLower   ? utf8proc_tolower(in)
                      : target == Case::kUpper ? utf8proc_toupper(in)
                                               : utf8proc_totitle(in);
  AppendUtf8(out, static_cast<uint32_t>(mapped));
}

}  // namespace surety::model::chat
