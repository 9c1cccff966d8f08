// Source: RFC 8785 (JSON Canonicalization Scheme). Its one departure: whole numbers from 2^53 to 2^64 are written with
// all their digits, because they are kept exactly here and must not become equal to their neighbours.
#include <algorithm>
#include <array>
#include <charconv>
#include <cmath>
#include <string>
#include <vector>

#include <boost/json.hpp>

#include "gateway/tools.h"

namespace surety::gateway {
namespace {

namespace json = boost::json;

bool StandsForItself(char c) { return static_cast<unsigned char>(c) >= ' ' && c != '"' && c != '\\'; }

void AppendCanonicalString(std::string& out, std::string_view text) {
  static constexpr std::string_view kHex = "0123456789abcdef";
  out += '"';
  for (size_t at = 0; at < text.size(); ++at) {
    const char c = text[at];
    switch (c) {
      case '"': out += "\\\""; break;
      case '\\': out += "\\\\"; break;
      case '\b': out += "\\b"; break;
      case '\f': out += "\\f"; break;
      case '\n': out += "\\n"; break;
      case '\r': out += "\\r"; break;
      case '\t': out += "\\t"; break;
      default:
        if (c >= 0 && c < ' ') {
          out += "\\u00";
          out += kHex[static_cast<size_t>(c) >> 4];
          out += kHex[static_cast<size_t>(c) & 15];
        } else {
          size_t end = at + 1;
          while (end < text.size() && StandsForItself(text[end])) ++end;
          out.append(text, at, end - at);
          at = end - 1;
        }
    }
  }
  out += '"';
}

// As ECMAScript writes a number: the shortest digits that read back as it.
void AppendCanonicalDouble(std::string& out, double value) {
  if (value == 0) {
    out += '0';
    return;
  }
  const double magnitude = std::abs(value);
  if (magnitude < 18446744073709551616.0 && magnitude == std::floor(magnitude)) {
    if (value < 0) out += '-';
    out += std::to_string(static_cast<uint64_t>(magnitude));
    return;
  }
  std::array<char, 64> buffer;
  const auto written = std::to_chars(buffer.data(), buffer.data() + buffer.size(), magnitude,
                                     std::chars_format::scientific);
  const std::string_view text(buffer.data(), static_cast<size_t>(written.ptr - buffer.data()));
  const size_t e = text.find('e');
  std::string digits(text.substr(0, e));
  std::erase(digits, '.');
  int exponent = 0;
  const size_t sign = text[e + 1] == '+' ? e + 2 : e + 1;
  std::from_chars(text.data() + sign, text.data() + text.size(), exponent);
  const int n_digits = static_cast<int>(digits.size()), point = exponent + 1;  // digits before the point
  if (value < 0) out += '-';
  if (point >= n_digits && point <= 21) {
    out += digits + std::string(static_cast<size_t>(point - n_digits), '0');
  } else if (point > 0 && point <= 21) {
    out += digits.substr(0, static_cast<size_t>(point)) + '.' + digits.substr(static_cast<size_t>(point));
  } else if (point > -6 && point <= 0) {
    out += "0." + std::string(static_cast<size_t>(-point), '0') + digits;
  } else {
    out += digits[0];
    if (n_digits > 1) out += '.' + digits.substr(1);
    out += exponent < 0 ? "e-" : "e+";
    out += std::to_string(std::abs(exponent));
  }
}

// The order of UTF-16 code units, which is that of bytes but for characters beyond U+FFFF: those come before U+E000.
bool CanonicalLess(std::string_view a, std::string_view b) {
  const auto [x, y] = std::ranges::mismatch(a, b);
  if (x == a.end() || y == b.end()) return y != b.end();
  const auto p = static_cast<unsigned char>(*x), q = static_cast<unsigned char>(*y);
  const bool p_pair = p >= 0xF0, q_pair = q >= 0xF0;
  if (p_pair != q_pair && p >= 0xEE && q >= 0xEE) return p_pair;
  return p < q;
}

void AppendCanonical(std::string& out, const json::value& value) {
  switch (value.kind()) {
    case json::kind::null: out += "null"; break;
    case json::kind::bool_: out += value.get_bool() ? "true" : "false"; break;
    case json::kind::int64: out += std::to_string(value.get_int64()); break;
    case json::kind::uint64: out += std::to_string(value.get_uint64()); break;
    case json::kind::double_: AppendCanonicalDouble(out, value.get_double()); break;
    case json::kind::string: AppendCanonicalString(out, std::string_view(value.get_string())); break;
    case json::kind::array: {
      out += '[';
      bool first = true;
      for (const json::value& entry : value.get_array()) {
        if (!std::exchange(first, false)) out += ',';
        AppendCanonical(out, entry);
      }
      out += ']';
      break;
    }
    case json::kind::object: {
      std::vector<const json::key_value_pair*> members;
      members.reserve(value.get_object().size());
      for (const json::key_value_pair& member : value.get_object()) members.push_back(&member);
      std::ranges::sort(members, [](const auto* a, const auto* b) {
        return CanonicalLess(std::string_view(a->key()), std::string_view(b->key()));
      });
      out += '{';
      for (const json::key_value_pair* member : members) {
        if (member != members.front()) out += ',';
        AppendCanonicalString(out, std::string_view(member->key()));
        out += ':';
        AppendCanonical(out, member->value());
      }
      out += '}';
      break;
    }
  }
}

}  // namespace

std::string CanonicalJson(const json::value& value) {
  std::string out;
  AppendCanonical(out, value);
  return out;
}

}  // namespace surety::gateway
