// Decimal numerals within bounds, as an automaton that compares while it reads. Threads: a value.
#pragma once

#include <cstdint>
#include <optional>
#include <string>

#include "engine/grammar/grammar_builder.h"

namespace surety::engine {

// A finite decimal number, exactly: 0.000012 has whole "" and fraction "000012".
struct Decimal {
  bool negative = false;
  std::string whole;     // no leading zeros; empty for 0
  std::string fraction;  // no trailing zeros
  bool zero() const { return whole.empty() && fraction.empty(); }

  static Decimal FromInt(int64_t value);
  static Decimal FromUint(uint64_t value);
  static Decimal FromDouble(double value);  // the shortest decimal that reads as `value`; finite values only
  std::string ToString() const;
};
// Negative, 0, positive.
int Compare(const Decimal& a, const Decimal& b);

struct NumberRange {
  struct Bound {
    Decimal value;
    bool excluded = false;
  };
  std::optional<Bound> low, high;
  bool whole = false;  // integers only

  void AtLeast(Bound bound);  // keeps the stricter one
  void AtMost(Bound bound);
  bool Contains(const Decimal& value) const;
};

// All numerals of the range: an optional sign, no leading zeros, an optional fraction, no exponent, no negative zero.
void AddNumberRange(GrammarBuilder& builder, const NumberRange& range, int32_t from, int32_t to);

}  // namespace surety::engine
