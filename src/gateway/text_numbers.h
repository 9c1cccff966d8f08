// Numbers, amounts, percentages, dates, times and codes that a text states, in one form each, and whether others bear
// them out.
//
// Read as one: 1,000.00, 1 000, 1'000, 1.000,00 and 1000; 5 %, 5 percent and 500 basis points; $35, USD 35 and
// 35 dollars; 5k, 5 thousand; "thirty", "two hundred and five"; 2026-11-30, 30 November 2026, Nov. 30th, 2026,
// 30.11.2026 and 11/30/2026 (03/04/2026 is either of two days); 3:30 pm and 15:30; digits of all scripts; 5k, 5 grand,
// 5 lakh, $5 m.
// A minus counts: a value below zero is borne out by "-5", "minus 5", or by 5 beside a word such as overdrawn or owe.
// Not numbers: ordinals (first, 2nd), the labels of a numbered list (1., 2., ... in their order at the begin of lines),
// "one" but before a unit of time or money. A word that holds digits (R05, 4.2.1) is a code, compared as it stands.
// English words only.
//
// Threads: pure functions; a NumberSet may be read by many. Errors: none, every text has its numbers.
#pragma once

#include <cstddef>
#include <string>
#include <string_view>
#include <unordered_set>
#include <vector>

#include <boost/json/value.hpp>

#include "gateway/evidence.h"

namespace surety::gateway {

struct NumberMention {
  enum class Kind : uint8_t { kPlain, kMoney, kPercent, kDate, kTime, kCode };
  Kind kind = Kind::kPlain;
  std::vector<std::string> values;  // more than one: it can be read in several ways
  std::string currency;             // kMoney: "USD"
  bool two_decimals = false;        // written as amounts are
  bool negative = false;            // a minus stands before it, or the word
  bool owed = false;                // "overdrawn by", "you owe", ... stands near it: it may be a negative value
  size_t offset = 0, length = 0;    // bytes of the text as it was given
};

// In order of offset; they do not overlap.
// `html`: as they are read where HTML is rendered.
std::vector<NumberMention> FindNumbers(std::string_view text, bool html = false);

// 0012.50 -> 12.5
std::string CanonicalDecimal(std::string_view digits_with_point);

class NumberSet {
 public:
  void Add(const NumberMention& mention);
  void AddText(std::string_view text);
  // A value that is one number bears out an amount of any currency and a percentage (5, or 0.05, for 5 %).
  void AddValue(std::string_view text);
  // Every number and text in it. Numbers of an object that names a currency ("currency": "EUR") are of that one.
  void AddJson(const boost::json::value& value, std::string_view currency = {});
  void AddToolsAndFacts(const Evidence& evidence);  // and the day of as_of

  // One of its readings is here, in the same unit; a plain number is also borne out by an amount.
  bool Supports(const NumberMention& mention) const;

 private:
  bool SupportsAs(const NumberMention& mention, bool negative) const;
  bool Has(std::string_view space, const std::string& value) const;
  void Put(std::string_view space, const std::string& value);
  std::unordered_set<std::string> keys_;
};

}  // namespace surety::gateway
