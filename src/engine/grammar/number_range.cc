#include "engine/grammar/number_range.h"

#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <tuple>
#include <vector>

namespace surety::engine {
namespace {

int Sign(int x) { return (x > 0) - (x < 0); }

int CompareMagnitude(const Decimal& a, const Decimal& b) {
  if (a.whole.size() != b.whole.size()) return a.whole.size() < b.whole.size() ? -1 : 1;
  if (const int order = a.whole.compare(b.whole); order != 0) return Sign(order);
  return Sign(a.fraction.compare(b.fraction));  // without trailing zeros a prefix is the smaller number
}

// How the digits read so far compare with a bound's. While the whole part is open, `order` compares the digits alone;
// its number decides when the part ends.
struct Progress {
  int n_digits = 0;    // of the whole part, at most one more than the bound has
  int order = 0;       // -1, 0, 1
  int n_fraction = 0;  // digits of the fraction, at most as many as the bound has
  auto operator<=>(const Progress&) const = default;
};

class MagnitudeBound {
 public:
  explicit MagnitudeBound(const Decimal& value) : value_(value) {}

  Progress Digit(Progress p, char digit) const {
    const auto n = static_cast<int>(value_.whole.size());
    if (p.n_digits < n && p.order == 0) p.order = Sign(digit - value_.whole[static_cast<size_t>(p.n_digits)]);
    p.n_digits = std::min(p.n_digits + 1, n + 1);
    return p;
  }
  Progress EndWhole(Progress p) const {
    const auto n = static_cast<int>(value_.whole.size());
    if (p.n_digits != n) p.order = p.n_digits < n ? -1 : 1;
    p.n_digits = 0;
    return p;
  }
  Progress FractionDigit(Progress p, char digit) const {
    const auto n = static_cast<int>(value_.fraction.size());
    if (p.order == 0) {
      p.order = Sign(digit - (p.n_fraction < n ? value_.fraction[static_cast<size_t>(p.n_fraction)] : '0'));
      p.n_fraction = std::min(p.n_fraction + 1, n);
    }
    if (p.order != 0) p.n_fraction = 0;
    return p;
  }
  // The order of the number as it stands, its whole part ended.
  int Order(Progress p) const {
    return p.order != 0 ? p.order : p.n_fraction < static_cast<int>(value_.fraction.size()) ? -1 : 0;
  }

 private:
  const Decimal& value_;
};

// Numerals without sign between two magnitudes.
class MagnitudeAutomaton {
 public:
  MagnitudeAutomaton(GrammarBuilder& builder, const NumberRange::Bound& low,
                     const std::optional<NumberRange::Bound>& high, bool whole, int32_t to)
      : builder_(builder), low_(low), high_(high), whole_(whole), to_(to), low_bound_(low.value) {
    if (high) high_bound_.emplace(high->value);
  }

  void Build(int32_t from) {
    from_ = from;
    Expand({Phase::kStart, {}, {}}, from);
    while (!work_.empty() && builder_.ok()) {
      const auto [key, state] = work_.back();
      work_.pop_back();
      Expand(key, state);
    }
  }

 private:
  enum class Phase : uint8_t { kStart, kZero, kWhole, kPoint, kFraction };
  using Key = std::tuple<Phase, Progress, Progress>;

  int32_t StateOf(const Key& key) {
    const auto [found, is_new] = ids_.try_emplace(key, 0);
    if (is_new) {
      found->second = builder_.NewState();
      work_.emplace_back(key, found->second);
    }
    return found->second;
  }

  bool InRange(const Progress& low, const Progress& high) const {
    const int above = low_bound_.Order(low);
    if (above < 0 || (above == 0 && low_.excluded)) return false;
    if (!high_) return true;
    const int below = high_bound_->Order(high);
    return below < 0 || (below == 0 && !high_->excluded);
  }

  void Expand(const Key& key, int32_t state) {
    const auto& [phase, low, high] = key;
    const bool in_whole = phase == Phase::kZero || phase == Phase::kWhole;
    const Progress low_ended = in_whole ? low_bound_.EndWhole(low) : low;
    const Progress high_ended = in_whole && high_ ? high_bound_->EndWhole(high) : high;
    if ((in_whole || phase == Phase::kFraction) && InRange(low_ended, high_ended)) builder_.Empty(state, to_);
    if (in_whole && !whole_) builder_.Bytes(state, '.', '.', StateOf({Phase::kPoint, low_ended, high_ended}));
    if (phase == Phase::kZero) return;
    for (char digit = '0'; digit <= '9'; ++digit) {
      const auto byte = static_cast<uint8_t>(digit);
      if (phase == Phase::kStart && digit == '0') {
        builder_.Bytes(state, byte, byte, StateOf({Phase::kZero, {}, {}}));
      } else if (phase == Phase::kStart || phase == Phase::kWhole) {
        builder_.Bytes(
            state, byte, byte,
            StateOf({Phase::kWhole, low_bound_.Digit(low, digit), high_ ? high_bound_->Digit(high, digit) : high}));
      } else {
        builder_.Bytes(state, byte, byte,
                       StateOf({Phase::kFraction, low_bound_.FractionDigit(low, digit),
                                high_ ? high_bound_->FractionDigit(high, digit) : high}));
      }
    }
  }

  GrammarBuilder& builder_;
  const NumberRange::Bound& low_;
  const std::optional<NumberRange::Bound>& high_;
  bool whole_;
  int32_t from_ = 0, to_;
  MagnitudeBound low_bound_;
  std::optional<MagnitudeBound> high_bound_;
  std::map<Key, int32_t> ids_;
  std::vector<std::pair<Key, int32_t>> work_;
};

}  // namespace

Decimal Decimal::FromUint(uint64_t value) {
  Decimal d;
  if (value != 0) d.whole = std::to_string(value);
  return d;
}

Decimal Decimal::FromInt(int64_t value) {
  Decimal d = FromUint(value < 0 ? ~static_cast<uint64_t>(value) + 1 : static_cast<uint64_t>(value));
  d.negative = value < 0;
  return d;
}

Decimal Decimal::FromDouble(double value) {
  Decimal d;
  std::string digits;
  int point = 0;  // digits before it
  bool seen_point = false;
  const std::string text = fmt::format("{}", value);
  for (size_t i = 0; i < text.size(); ++i) {
    if (text[i] == 'e') {
      point += std::stoi(text.substr(i + 1));
      break;
    }
    if (text[i] == '.') seen_point = true;
    if (text[i] < '0' || text[i] > '9') continue;
    digits += text[i];
    if (!seen_point) ++point;
  }
  const size_t leading = std::min(digits.find_first_not_of('0'), digits.size());
  digits.erase(0, leading);
  point -= static_cast<int>(leading);
  if (digits.empty()) return d;
  d.negative = value < 0;
  if (point <= 0) {
    d.fraction = std::string(static_cast<size_t>(-point), '0') + digits;
  } else {
    if (digits.size() < static_cast<size_t>(point)) digits.resize(static_cast<size_t>(point), '0');
    d.whole = digits.substr(0, static_cast<size_t>(point));
    d.fraction = digits.substr(static_cast<size_t>(point));
  }
  while (!d.fraction.empty() && d.fraction.back() == '0') d.fraction.pop_back();
  return d;
}

std::string Decimal::ToString() const {
  return fmt::format("{}{}{}{}", negative ? "-" : "", whole.empty() ? "0" : whole, fraction.empty() ? "" : ".",
                     fraction);
}

int Compare(const Decimal& a, const Decimal& b) {
  if (a.zero() && b.zero()) return 0;
  if (a.negative != b.negative && !a.zero() && !b.zero()) return a.negative ? -1 : 1;
  if (a.zero()) return b.negative ? 1 : -1;
  if (b.zero()) return a.negative ? -1 : 1;
  return a.negative ? -CompareMagnitude(a, b) : CompareMagnitude(a, b);
}

void NumberRange::AtLeast(Bound bound) {
  if (low) {
    const int order = Compare(bound.value, low->value);
    if (order < 0 || (order == 0 && !bound.excluded)) return;
  }
  low = std::move(bound);
}

void NumberRange::AtMost(Bound bound) {
  if (high) {
    const int order = Compare(bound.value, high->value);
    if (order > 0 || (order == 0 && !bound.excluded)) return;
  }
  high = std::move(bound);
}

bool NumberRange::Contains(const Decimal& value) const {
  if (whole && !value.fraction.empty()) return false;
  if (low) {
    const int order = Compare(value, low->value);
    if (order < 0 || (order == 0 && low->excluded)) return false;
  }
  if (high) {
    const int order = Compare(value, high->value);
    if (order > 0 || (order == 0 && high->excluded)) return false;
  }
  return true;
}

void AddNumberRange(GrammarBuilder& builder, const NumberRange& range, int32_t from, int32_t to) {
  const auto below_zero = [](const NumberRange::Bound& b) { return b.value.negative && !b.value.zero(); };
  const NumberRange::Bound zero{}, above_zero{.value = {}, .excluded = true};
  const std::optional<NumberRange::Bound> none;
  if (!range.high || !below_zero(*range.high)) {
    const NumberRange::Bound low = range.low && !below_zero(*range.low) ? *range.low : zero;
    MagnitudeAutomaton(builder, low, range.high, range.whole, to).Build(from);
  }
  if (!range.low || below_zero(*range.low)) {
    const NumberRange::Bound low = range.high && below_zero(*range.high) ? *range.high : above_zero;
    const int32_t minus = builder.NewState();
    builder.Bytes(from, '-', '-', minus);
    MagnitudeAutomaton(builder, low, range.low, range.whole, to).Build(minus);
  }
}

}  // namespace surety::engine
