#include "gateway/amount_reader.h"

#include <algorithm>
#include <array>
#include <cctype>
#include <charconv>
#include <cmath>
#include <string>
#include <utility>

namespace surety::gateway {
namespace {

bool AmountDigit(char c) { return '0' <= c && c <= '9'; }

// The separator at `at` (one byte, or a typographic apostrophe) as one character; 0: none.
std::pair<char, size_t> AmountSeparator(std::string_view text, size_t at) {
  const char c = text[at];
  if (c == ',' || c == '.' || c == ' ' || c == '\'' || c == '_') return {c, 1};
  if (text.substr(at).starts_with("\xE2\x80\x99")) return {'\'', 3};
  return {0, 0};
}

std::optional<double> AmountFactor(std::string_view word) {
  static constexpr std::array<std::pair<std::string_view, double>, 15> kFactors = {{
      {"hundred", 1e2}, {"grand", 1e3}, {"lakh", 1e5}, {"crore", 1e7}, {"k", 1e3}, {"thousand", 1e3}, {"m", 1e6},
      {"mn", 1e6}, {"mm", 1e6}, {"mio", 1e6}, {"million", 1e6}, {"millions", 1e6}, {"bn", 1e9}, {"b", 1e9},
      {"billion", 1e9}}};
  const auto is_capital = [](char c) { return 'A' <= c && c <= 'Z'; };
  if (word.size() > 3 && std::ranges::all_of(word.substr(word.size() - 3), is_capital)) word.remove_suffix(3);  // kUSD
  std::string low;
  for (const char c : word) low += static_cast<char>(std::tolower(static_cast<unsigned char>(c)));
  const auto* found = std::ranges::find(kFactors, low, &std::pair<std::string_view, double>::first);
  if (found == kFactors.end()) return std::nullopt;
  return found->second;
}

// Groups of digits and the separators between them.
struct AmountDigits {
  std::string groups[64];
  std::string separators;
  size_t end = 0;
};

std::optional<AmountDigits> SplitAmount(std::string_view text, size_t at) {
  AmountDigits out;
  for (;;) {
    if (out.separators.size() + 1 >= std::size(out.groups)) return std::nullopt;
    std::string& group = out.groups[out.separators.size()];
    while (at < text.size() && AmountDigit(text[at])) group += text[at++];
    if (at >= text.size()) break;
    const auto [separator, length] = AmountSeparator(text, at);
    if (separator == 0 || at + length >= text.size() || !AmountDigit(text[at + length])) break;
    out.separators += separator;
    at += length;
  }
  out.end = at;
  return out;
}

// The value of the digits; nullopt where the groups make no number.
std::optional<double> AmountValue(const AmountDigits& digits) {
  const size_t n = digits.separators.size();
  const char last = n > 0 ? digits.separators.back() : 0;
  // The last separator begins a fraction if it is a point or comma that stands once, unless it reads as thousands.
  bool fraction = (last == '.' || last == ',') && std::ranges::count(digits.separators, last) == 1;
  if (fraction && n == 1 && digits.groups[1].size() == 3) fraction = false;
  const size_t whole = n + 1 - (fraction ? 1 : 0);
  std::string number;
  for (size_t i = 0; i < whole; ++i) {
    const bool spaced = i > 0 && digits.separators[i - 1] == ' ';
    if (spaced && digits.groups[i].size() != 3) return std::nullopt;   // "12 34" are two numbers
    number += digits.groups[i];
  }
  if (fraction) number += "." + digits.groups[n];
  double value = 0;
  const auto [end, error] = std::from_chars(number.data(), number.data() + number.size(), value);
  if (error != std::errc() || end != number.data() + number.size() || !std::isfinite(value)) return std::nullopt;
  return value;
}

}  // namespace

std::optional<double> ReadAmount(std::string_view text) {
  size_t at = 0;
  while (at < text.size() && !AmountDigit(text[at])) ++at;
  if (at == text.size()) return std::nullopt;
  const bool fraction_only = at > 0 && (text[at - 1] == '.' || text[at - 1] == ',');   // ".5"
  const std::optional<AmountDigits> digits = SplitAmount(text, at);
  if (!digits) return std::nullopt;
  std::optional<double> value = AmountValue(*digits);
  if (!value) return std::nullopt;
  if (fraction_only && digits->separators.empty()) *value /= std::pow(10.0, static_cast<double>(digits->end - at));
  std::string_view rest = text.substr(digits->end);
  while (!rest.empty() && rest.front() == ' ') rest.remove_prefix(1);
  if (std::ranges::any_of(rest, AmountDigit)) return std::nullopt;   // a second number, or a form not known here
  const auto is_letter = [](char c) { return std::isalpha(static_cast<unsigned char>(c)) != 0; };
  const std::string_view word = rest.substr(0, static_cast<size_t>(std::ranges::find_if_not(rest, is_letter) -
                                                                   rest.begin()));
  const double result = *value * AmountFactor(word).value_or(1.0);
  return std::isfinite(result) ? std::optional(result) : std::nullopt;
}

}  // namespace surety::gateway
