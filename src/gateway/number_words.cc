#include "gateway/number_words.h"

#include <algorithm>
#include <array>
#include <charconv>
#include <cmath>
#include <cstdint>
#include <utility>

#include "gateway/text_numbers.h"

namespace surety::gateway {
namespace {

using NamedNumber = std::pair<std::string_view, int64_t>;

constexpr std::array<NamedNumber, 32> kNamedNumbers = {{
    {"zero", 0}, {"one", 1}, {"two", 2}, {"three", 3}, {"four", 4}, {"five", 5}, {"six", 6}, {"seven", 7},
    {"eight", 8}, {"nine", 9}, {"ten", 10}, {"eleven", 11}, {"twelve", 12}, {"thirteen", 13}, {"fourteen", 14},
    {"fifteen", 15}, {"sixteen", 16}, {"seventeen", 17}, {"eighteen", 18}, {"nineteen", 19}, {"twenty", 20},
    {"thirty", 30}, {"forty", 40}, {"fifty", 50}, {"sixty", 60}, {"seventy", 70}, {"eighty", 80}, {"ninety", 90},
    {"hundred", 100}, {"thousand", 1'000}, {"million", 1'000'000}, {"billion", 1'000'000'000},
}};
// The first letters of their names.
constexpr std::array<bool, 256> kNumberInitials = [] {
  std::array<bool, 256> initials = {};
  for (const auto& [name, value] : kNamedNumbers) initials[static_cast<unsigned char>(name[0])] = true;
  return initials;
}();
constexpr int64_t kMostNamed = 1'000'000'000'000'000;

size_t WordLength(std::string_view text) {
  return static_cast<size_t>(std::ranges::find_if_not(text, [](char c) { return c >= 'a' && c <= 'z'; }) -
                             text.begin());
}

bool SpellsOn(std::string_view text, size_t at) {  // the word goes on with a digit or a letter beyond ASCII
  return at < text.size() && ((text[at] >= '0' && text[at] <= '9') || static_cast<unsigned char>(text[at]) >= 0x80);
}

std::optional<int64_t> NamedNumberAt(std::string_view text, size_t length) {
  if (SpellsOn(text, length)) return std::nullopt;
  const auto found = std::ranges::find(kNamedNumbers, text.substr(0, length), &NamedNumber::first);
  if (found == kNamedNumbers.end()) return std::nullopt;
  return found->second;
}

}  // namespace

std::optional<NumberWords> ReadNumberWords(std::string_view text) {
  if (text.empty() || !kNumberInitials[static_cast<unsigned char>(text[0])]) return std::nullopt;
  int64_t total = 0, part = 0, last = -1;
  size_t end = 0;
  for (size_t at = 0; at < text.size();) {
    size_t length = WordLength(text.substr(at));
    if (end > 0 && last >= 100 && text.substr(at, length) == "and" && at + 4 < text.size()) {
      at += 4;
      length = WordLength(text.substr(at));
    }
    const auto value = NamedNumberAt(text.substr(at), length);
    if (!value) break;
    if (*value >= 100) {
      if (total + part > kMostNamed / *value) break;
      const int64_t scaled = std::max<int64_t>(part, end == 0 ? 1 : part) * *value;
      if (*value == 100) {
        part = scaled;
      } else {
        total += scaled;
        part = 0;
      }
    } else {
      const bool goes_on = last < 0 || last >= 100 || (last >= 20 && *value > 0 && *value < 10);
      if (!goes_on) break;  // "five six": two numbers
      part += *value;
    }
    last = *value;
    end = at + length;
    if (end >= text.size() || (text[end] != ' ' && text[end] != '-' && text[end] != '\n')) break;
    at = end + 1;
  }
  if (end == 0) return std::nullopt;
  return NumberWords{std::to_string(total + part), end};
}

std::string JsonNumberText(const boost::json::value& number) {
  std::array<char, 400> buffer;
  char* end = buffer.data();
  if (number.is_double()) {
    end = std::to_chars(buffer.data(), buffer.data() + buffer.size(), std::fabs(number.get_double()),
                        std::chars_format::fixed).ptr;
  } else if (number.is_int64()) {
    const int64_t value = number.get_int64();
    const uint64_t magnitude = value < 0 ? uint64_t{0} - static_cast<uint64_t>(value) : static_cast<uint64_t>(value);
    end = std::to_chars(buffer.data(), buffer.data() + buffer.size(), magnitude).ptr;
  } else {
    end = std::to_chars(buffer.data(), buffer.data() + buffer.size(), number.get_uint64()).ptr;
  }
  const bool negative = number.is_double() ? number.get_double() < 0 : number.is_int64() && number.get_int64() < 0;
  const std::string text = CanonicalDecimal(std::string_view(buffer.data(), static_cast<size_t>(end - buffer.data())));
  return negative && text != "0" ? "-" + text : text;
}

}  // namespace surety::gateway
