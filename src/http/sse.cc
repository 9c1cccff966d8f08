#include "http/sse.h"

#include <charconv>
#include <cmath>

namespace surety::http {
namespace {

constexpr char kHex[] = "0123456789abcdef";

void AppendEscape(std::string& out, unsigned code) {
  out += "\\u";
  for (int shift = 12; shift >= 0; shift -= 4) out += kHex[(code >> shift) & 15];
}

// Bytes of the character that begins at text[at]: positive if it is whole and well formed, else minus the length of the
// maximal prefix of some character (at least 1). Source: Unicode 15, table 3-7 and section 3.9.
int CharacterLength(std::string_view text, size_t at) {
  const auto byte = [&](size_t i) { return at + i < text.size() ? static_cast<unsigned char>(text[at + i]) : 0u; };
  const unsigned first = byte(0);
  if (first < 0x80) return 1;
  if (first < 0xC2 || first > 0xF4) return -1;
  const int length = first < 0xE0 ? 2 : first < 0xF0 ? 3 : 4;
  const unsigned low = first == 0xE0 ? 0xA0 : first == 0xF0 ? 0x90 : 0x80;
  const unsigned high = first == 0xED ? 0x9F : first == 0xF4 ? 0x8F : 0xBF;
  if (byte(1) < low || byte(1) > high) return -1;
  for (int i = 2; i < length; ++i) {
    if ((byte(static_cast<size_t>(i)) & 0xC0) != 0x80) return -i;
  }
  return length;
}

}  // namespace

void AppendJsonString(std::string& out, std::string_view text) {
  out += '"';
  size_t plain = 0;  // where the stretch that needs no escape began
  const auto flush = [&](size_t until, size_t next) {
    out.append(text.substr(plain, until - plain));
    plain = next;
  };
  for (size_t i = 0; i < text.size(); ++i) {
    const auto c = static_cast<unsigned char>(text[i]);
    if (c >= 0x20 && c != '"' && c != '\\' && c != 0x7F && c != 0xC2 && c != 0xE2) continue;
    if (c == 0xC2) {
      if (i + 1 >= text.size() || static_cast<unsigned char>(text[i + 1]) != 0x85) continue;
      flush(i, i + 2);
      AppendEscape(out, 0x85);
    } else if (c == 0xE2) {
      if (i + 2 >= text.size() || text[i + 1] != '\x80' || (text[i + 2] != '\xA8' && text[i + 2] != '\xA9')) continue;
      flush(i, i + 3);
      AppendEscape(out, text[i + 2] == '\xA8' ? 0x2028 : 0x2029);
    } else {
      flush(i, i + 1);
      switch (c) {
        case '"': out += "\\\""; break;
        case '\\': out += "\\\\"; break;
        case '\n': out += "\\n"; break;
        case '\r': out += "\\r"; break;
        case '\t': out += "\\t"; break;
        default: AppendEscape(out, c);
      }
    }
  }
  out.append(text.substr(plain < text.size() ? plain : text.size()));
  out += '"';
}

std::string JsonString(std::string_view text) {
  std::string out;
  AppendJsonString(out, text);
  return out;
}

void AppendJsonNumber(std::string& out, float value) {
  if (std::isnan(value)) {
    out += "null";
    return;
  }
  if (std::isinf(value)) value = value < 0 ? -9999.0f : 9999.0f;
  char digits[32];
  const auto end = std::to_chars(digits, digits + sizeof digits, value);
  out.append(digits, end.ptr);
}

void AppendSseEvent(std::string& out, std::string_view json, std::string_view name) {
  if (!name.empty()) out.append("event: ").append(name).append("\n");
  out.append("data: ").append(json).append("\n\n");
}

void AppendSseComment(std::string& out, std::string_view text) { out.append(": ").append(text).append("\n\n"); }

size_t FirstInvalidUtf8(std::string_view text) {
  for (size_t at = 0; at < text.size();) {
    const int length = CharacterLength(text, at);
    if (length < 0) return at;
    at += static_cast<size_t>(length);
  }
  return text.size();
}

std::string LossyUtf8(std::string_view bytes) {
  std::string text;
  for (size_t at = 0; at < bytes.size();) {
    const int length = CharacterLength(bytes, at);
    if (length > 0) {
      text.append(bytes.substr(at, static_cast<size_t>(length)));
    } else {
      text += "\xEF\xBF\xBD";
    }
    at += static_cast<size_t>(std::abs(length));
  }
  return text;
}

}  // namespace surety::http
