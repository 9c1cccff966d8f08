#include <algorithm>
#include <array>
#include <utility>

#include "gateway/personal_data.h"

namespace surety::gateway {
namespace {

struct CardRange {
  std::string_view brand, from, to;   // first digits, of equal length
  size_t min_length, max_length;
};

constexpr CardRange kCardRanges[] = {
    {"visa", "4", "4", 13, 13}, {"visa", "4", "4", 16, 16}, {"visa", "4", "4", 18, 19},
    {"mastercard", "51", "55", 16, 16}, {"mastercard", "2221", "2720", 16, 16},
    {"amex", "34", "34", 15, 15}, {"amex", "37", "37", 15, 15},
    {"discover", "6011", "6011", 16, 19}, {"discover", "644", "649", 16, 19}, {"discover", "65", "65", 16, 19},
    {"diners", "300", "305", 14, 19}, {"diners", "3095", "3095", 14, 19}, {"diners", "36", "36", 14, 19},
    {"diners", "38", "39", 14, 19},
    {"jcb", "3528", "3589", 16, 19},
    {"unionpay", "62", "62", 16, 19}, {"unionpay", "81", "81", 16, 19},
    {"mir", "2200", "2204", 16, 19},
    {"rupay", "60", "60", 16, 16}, {"rupay", "82", "82", 16, 16}, {"rupay", "508", "508", 16, 16},
    {"maestro", "50", "50", 13, 19}, {"maestro", "56", "58", 13, 19}, {"maestro", "63", "63", 13, 19},
    {"maestro", "67", "67", 13, 19},
    {"troy", "9792", "9792", 16, 16},
};

// Lengths of IBANs by country.
constexpr std::pair<std::string_view, size_t> kIbanLengths[] = {
    {"ad", 24}, {"ae", 23}, {"al", 28}, {"at", 20}, {"az", 28}, {"ba", 20}, {"be", 16}, {"bg", 22}, {"bh", 22},
    {"bi", 27}, {"br", 29}, {"by", 28}, {"ch", 21}, {"cr", 22}, {"cy", 28}, {"cz", 24}, {"de", 22}, {"dj", 27},
    {"dk", 18}, {"do", 28}, {"ee", 20}, {"eg", 29}, {"es", 24}, {"fi", 18}, {"fk", 18}, {"fo", 18}, {"fr", 27},
    {"gb", 22}, {"ge", 22}, {"gi", 23}, {"gl", 18}, {"gr", 27}, {"gt", 28}, {"hn", 28}, {"hr", 21}, {"hu", 28},
    {"ie", 22}, {"il", 23}, {"iq", 23}, {"is", 26}, {"it", 27}, {"jo", 30}, {"kw", 30}, {"kz", 20}, {"lb", 28},
    {"lc", 32}, {"li", 21}, {"lt", 20}, {"lu", 20}, {"lv", 21}, {"ly", 25}, {"mc", 27}, {"md", 24}, {"me", 22},
    {"mk", 19}, {"mn", 20}, {"mr", 27}, {"mt", 31}, {"mu", 30}, {"ni", 28}, {"nl", 18}, {"no", 15}, {"om", 23},
    {"pk", 24}, {"pl", 28}, {"ps", 29}, {"pt", 25}, {"qa", 29}, {"ro", 24}, {"rs", 22}, {"ru", 33}, {"sa", 24},
    {"sc", 31}, {"sd", 18}, {"se", 24}, {"si", 19}, {"sk", 24}, {"sm", 27}, {"so", 23}, {"st", 25}, {"sv", 28},
    {"tl", 23}, {"tn", 24}, {"tr", 26}, {"ua", 29}, {"va", 22}, {"vg", 24}, {"xk", 20}, {"ye", 30},
};

int DigitsValue(std::string_view digits) {
  int value = 0;
  for (const char c : digits) value = value * 10 + (c - '0');
  return value;
}

bool AllDigits(std::string_view text) {
  return std::ranges::all_of(text, [](char c) { return c >= '0' && c <= '9'; });
}

constexpr std::array<std::string_view, kPersonalKindCount> kPersonalNames = {"card", "ssn", "itin", "iban",
                                                                             "email", "phone", "routing"};

}  // namespace

std::string_view NameOf(PersonalKind kind) { return kPersonalNames[static_cast<size_t>(kind)]; }

std::optional<PersonalKind> PersonalKindOf(std::string_view name) {
  const auto found = std::ranges::find(kPersonalNames, name);
  if (found == kPersonalNames.end()) return std::nullopt;
  return static_cast<PersonalKind>(found - kPersonalNames.begin());
}

bool PassesLuhn(std::string_view digits) {
  int sum = 0;
  bool twice = false;
  for (size_t i = digits.size(); i-- > 0; twice = !twice) {
    const int digit = digits[i] - '0';
    sum += twice ? (digit < 5 ? 2 * digit : 2 * digit - 9) : digit;
  }
  return !digits.empty() && sum % 10 == 0;
}

std::string_view CardBrand(std::string_view digits) {
  for (const CardRange& range : kCardRanges) {
    if (digits.size() < range.min_length || digits.size() > range.max_length) continue;
    const std::string_view first = digits.substr(0, range.from.size());
    if (first >= range.from && first <= range.to) return range.brand;
  }
  return {};
}

bool IsSocialSecurityNumber(std::string_view digits) {
  if (digits.size() != 9 || !AllDigits(digits)) return false;
  const int area = DigitsValue(digits.substr(0, 3));
  return area != 0 && area != 666 && area < 900 && DigitsValue(digits.substr(3, 2)) != 0 &&
         DigitsValue(digits.substr(5)) != 0;
}

bool IsItin(std::string_view digits) {
  if (digits.size() != 9 || !AllDigits(digits) || digits[0] != '9') return false;
  const int group = DigitsValue(digits.substr(3, 2));
  return (group >= 50 && group <= 65) || (group >= 70 && group <= 88) || (group >= 90 && group <= 92) || group >= 94;
}

bool IsRoutingNumber(std::string_view digits) {
  if (digits.size() != 9 || !AllDigits(digits)) return false;
  const int region = DigitsValue(digits.substr(0, 2));
  const bool known = region <= 12 || (region >= 21 && region <= 32) || (region >= 61 && region <= 72) || region == 80;
  int sum = 0;
  for (size_t i = 0; i < 9; ++i) sum += (digits[i] - '0') * (i % 3 == 0 ? 3 : i % 3 == 1 ? 7 : 1);
  return known && sum > 0 && sum % 10 == 0;
}

bool IsIban(std::string_view iban) {
  if (iban.size() < 15 || !AllDigits(iban.substr(2, 2))) return false;
  const auto country = std::ranges::find(kIbanLengths, iban.substr(0, 2),
                                         &std::pair<std::string_view, size_t>::first);
  if (country == std::end(kIbanLengths) || country->second != iban.size()) return false;
  int rest = 0;
  for (size_t i = 0; i < iban.size(); ++i) {
    const char c = iban[(i + 4) % iban.size()];
    if (c >= '0' && c <= '9') {
      rest = (rest * 10 + (c - '0')) % 97;
    } else if (c >= 'a' && c <= 'z') {
      rest = (rest * 100 + (c - 'a' + 10)) % 97;
    } else {
      return false;
    }
  }
  return rest == 1;
}

}  // namespace surety::gateway
