#include "http/base64url.h"

namespace surety::http {
namespace {

constexpr std::string_view kAlphabet = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_";

int ValueOf(char c) {
  if (c >= 'A' && c <= 'Z') return c - 'A';
  if (c >= 'a' && c <= 'z') return c - 'a' + 26;
  if (c >= '0' && c <= '9') return c - '0' + 52;
  return c == '-' ? 62 : c == '_' ? 63 : -1;
}

}  // namespace

std::string Base64UrlEncode(std::span<const uint8_t> bytes) {
  std::string out;
  uint32_t bits = 0;
  int n_bits = 0;
  for (const uint8_t byte : bytes) {
    bits = (bits << 8) | byte;
    n_bits += 8;
    while (n_bits >= 6) {
      n_bits -= 6;
      out += kAlphabet[(bits >> n_bits) & 63];
    }
  }
  if (n_bits > 0) out += kAlphabet[(bits << (6 - n_bits)) & 63];
  return out;
}

std::optional<std::string> Base64UrlDecode(std::string_view text) {
  if (text.size() % 4 == 1) return std::nullopt;
  std::string out;
  out.reserve(text.size() * 3 / 4);
  uint32_t bits = 0;
  int n_bits = 0;
  for (const char c : text) {
    const int value = ValueOf(c);
    if (value < 0) return std::nullopt;
    bits = ((bits << 6) | static_cast<uint32_t>(value)) & 0xffff;
    n_bits += 6;
    if (n_bits >= 8) {
      n_bits -= 8;
      out += static_cast<char>((bits >> n_bits) & 0xff);
    }
  }
  if ((bits & ((1U << n_bits) - 1)) != 0) return std::nullopt;
  return out;
}

}  // namespace surety::http
