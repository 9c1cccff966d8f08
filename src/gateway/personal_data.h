// Personal data that has a form: found by its rules, in folded text, whatever script or invisible characters it is
// written with.
//
// Kinds: card (13 to 19 digits in a brand's range: with a valid Luhn sum, and without one as a shape); ssn (US social
// security number: area not 000, 666 or 900-999, group not 00, serial not 0000; without separators only near a word
// that says so); itin (US taxpayer number: area 900-999, its groups); iban (length of its country, check digits);
// email; phone (+ and 8 to 15 digits; North American numbers, but not toll-free ones); routing (US bank routing number:
// range, check digit, near a word that says so).
// No list of known false numbers is left out: what has the form of a number is one.
//
// Threads: pure functions. Source: ISO/IEC 7812 (Luhn), ISO 13616 (IBAN; lengths as in its registry), the Social
// Security Administration's rules since 2011, E.164, the North American Numbering Plan, ABA routing numbers.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "gateway/text_folding.h"

namespace surety::gateway {

enum class PersonalKind : uint8_t { kCard, kSsn, kItin, kIban, kEmail, kPhone, kRouting };
inline constexpr int kPersonalKindCount = 7;
std::string_view NameOf(PersonalKind kind);  // "card", ...
std::optional<PersonalKind> PersonalKindOf(std::string_view name);

struct PersonalItem {
  PersonalKind kind;
  bool shape = false;          // looks like one, and its check sum is wrong
  std::string detail;          // brand or country; never the value
  size_t offset = 0, length = 0;  // bytes of the text as it was given
};

// In order of kind, then offset. `kinds` empty: all.
std::vector<PersonalItem> FindPersonalData(std::string_view text, const std::vector<PersonalKind>& kinds = {});

// Parts of the rules, over digits alone.
bool PassesLuhn(std::string_view digits);
std::string_view CardBrand(std::string_view digits);  // empty: no brand issues such numbers
bool IsSocialSecurityNumber(std::string_view nine_digits);
bool IsItin(std::string_view nine_digits);
bool IsRoutingNumber(std::string_view nine_digits);
bool IsIban(std::string_view lower_case_without_spaces);

}  // namespace surety::gateway
