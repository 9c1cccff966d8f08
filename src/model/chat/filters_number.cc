// Filters on numbers, and default.
#include <algorithm>
#include <charconv>
#include <cmath>
#include <cstdio>
#include <optional>

#include "model/chat/function_spec.h"
#include "model/chat/operators.h"
#include "model/chat/text_ops.h"

namespace surety::model::chat {
namespace {

// Python's int(text, base) and float(text): white space around, a sign, underscores between digits.
std::optional<std::string> NumberText(const TaintedText& text) {
  const TaintedText stripped = Strip(text, nullptr, Side::kBoth);
  const std::string& raw = stripped.text();
  std::string out;
  for (size_t i = 0; i < raw.size(); ++i) {
    if (raw[i] != '_') {
      out += raw[i];
      continue;
    }
    const auto alnum = [](char c) { return (c >= '0' && c <= '9') || ((c | 0x20) >= 'a' && (c | 0x20) <= 'z'); };
    if (i == 0 || i + 1 == raw.size() || !alnum(raw[i - 1]) || !alnum(raw[i + 1])) return std::nullopt;
  }
  return out;
}

// Nothing if it is no integer; an error if it has more than 64 bits.
Result<std::optional<int64_t>> ParseInteger(const TaintedText& text, int base) {
  auto digits = NumberText(text);
  if (!digits || digits->empty()) return std::nullopt;
  const bool negative = digits->front() == '-';
  std::string_view rest = *digits;
  if (negative || rest.front() == '+') rest.remove_prefix(1);
  const auto has_prefix = [&](char letter) {
    return rest.size() > 2 && rest[0] == '0' && (rest[1] | 0x20) == letter;
  };
  if ((base == 16 && has_prefix('x')) || (base == 8 && has_prefix('o')) || (base == 2 && has_prefix('b'))) {
    rest.remove_prefix(2);
  }
  if (rest.empty() || rest[0] == '-' || rest[0] == '+') return std::nullopt;
  std::string signed_digits(negative ? "-" : "");
  signed_digits.append(rest);
  int64_t value = 0;
  const char* end = signed_digits.data() + signed_digits.size();
  const auto [stop, error] = std::from_chars(signed_digits.data(), end, value, base);
  if (stop != end || error == std::errc::invalid_argument) return std::nullopt;
  if (error != std::errc()) return Error(InvalidArgumentError("int: an integer of more than 64 bits"));
  return value;
}

std::optional<double> ParseFloat(const TaintedText& text) {
  const auto digits = NumberText(text);
  if (!digits) return std::nullopt;
  std::string_view rest = *digits;
  if (rest.starts_with('+')) {
    rest.remove_prefix(1);
    if (rest.starts_with('-')) return std::nullopt;
  }
  if (rest.find('(') != std::string_view::npos) return std::nullopt;
  double value = 0;
  const auto [stop, error] = std::from_chars(rest.data(), rest.data() + rest.size(), value);
  if (stop != rest.data() + rest.size() || error == std::errc::invalid_argument) return std::nullopt;
  if (error == std::errc::result_out_of_range) return std::strtod(std::string(rest).c_str(), nullptr);
  return value;
}

// Nothing for infinities and NaN; an error beyond 64 bits.
Result<std::optional<int64_t>> Truncated(double d) {
  if (!std::isfinite(d)) return std::nullopt;
  const double whole = std::trunc(d);
  if (whole < -0x1p63 || whole >= 0x1p63) return Error(InvalidArgumentError("int: an integer of more than 64 bits"));
  return static_cast<int64_t>(whole);
}

Result<Value> Int(Machine& machine, const Value& self, const BoundArgs& args) {
  if (self.IsUndefined()) return Error(UndefinedError(self));
  SURETY_ASSIGN_OR_RETURN(const int64_t base, args.Integer(1, 10));
  if (base < 2 || base > 36) return Error(InvalidArgumentError("int: the base must be from 2 to 36"));
  std::optional<int64_t> value;
  if (self.IsInteger()) return Value(self.integer());
  if (self.Is<double>()) {
    SURETY_ASSIGN_OR_RETURN(value, Truncated(self.number()));
  } else if (self.IsText()) {
    machine.budget().SpendBytes(self.text().size());
    SURETY_ASSIGN_OR_RETURN(value, ParseInteger(self.text(), static_cast<int>(base)));
    if (!value) {
      if (const auto number = ParseFloat(self.text())) {
        SURETY_ASSIGN_OR_RETURN(value, Truncated(*number));
      }
    }
  }
  if (value) return Value(*value);
  return args.Has(0) ? args[0] : Value(int64_t{0});
}

Result<Value> Float(Machine& machine, const Value& self, const BoundArgs& args) {
  if (self.IsUndefined()) return Error(UndefinedError(self));
  if (self.IsNumber()) return Value(self.number());
  if (self.IsText()) {
    machine.budget().SpendBytes(self.text().size());
    if (const auto number = ParseFloat(self.text())) return Value(*number);
  }
  return args.Has(0) ? args[0] : Value(0.0);
}

Status NeedsNumber(std::string_view filter, const Value& self) {
  if (self.IsUndefined()) return UndefinedError(self);
  return InvalidArgumentError(std::string(filter) + " works on numbers, not on " + std::string(self.TypeName()));
}

Result<Value> Abs(Machine&, const Value& self, const BoundArgs&) {
  if (!self.IsNumber()) return Error(NeedsNumber("abs", self));
  if (self.Is<double>()) return Value(std::fabs(self.number()));
  return self.integer() < 0 ? Negate(self, true) : Value(self.integer());
}

// Python's round(x, digits): the decimal nearest to the exact value, ties to even.
double RoundTo(double x, int digits) {
  if (digits >= 0) {
    char text[400];
    std::snprintf(text, sizeof(text), "%.*f", digits, x);
    return std::strtod(text, nullptr);
  }
  const double scale = std::pow(10.0, -digits);
  return std::nearbyint(x / scale) * scale;
}

Result<Value> Round(Machine&, const Value& self, const BoundArgs& args) {
  constexpr int64_t kMaxDigits = 30;
  if (!self.IsNumber()) return Error(NeedsNumber("round", self));
  SURETY_ASSIGN_OR_RETURN(const int64_t digits, args.Integer(0, 0));
  SURETY_ASSIGN_OR_RETURN(const TaintedText method, args.Text(1, "common"));
  if (digits < -kMaxDigits || digits > kMaxDigits) {
    return Error(InvalidArgumentError("round: a precision of more than " + std::to_string(kMaxDigits)));
  }
  if (method.text() == "common") {
    if (self.IsInteger() && digits >= 0) return Value(self.integer());
    const double rounded = std::isfinite(self.number()) ? RoundTo(self.number(), static_cast<int>(digits))
                                                        : self.number();
    if (!self.IsInteger()) return Value(rounded);
    SURETY_ASSIGN_OR_RETURN(const std::optional<int64_t> whole, Truncated(rounded));
    return Value(whole.value_or(0));
  }
  if (method.text() != "ceil" && method.text() != "floor") {
    return Error(InvalidArgumentError("round: the method must be common, ceil or floor"));
  }
  const double scale = std::pow(10.0, static_cast<double>(digits));
  const double scaled = self.number() * scale;
  return Value((method.text() == "ceil" ? std::ceil(scaled) : std::floor(scaled)) / scale);
}

Result<Value> Default(Machine&, const Value& self, const BoundArgs& args) {
  if (!self.IsUndefined() && (!args.Truth(1, false) || self.Truth())) return self;
  return args.Has(0) ? args[0] : Value(TaintedText());
}

constexpr FunctionSpec kNumberFilters[] = {
    {"int", Int, 0, {"default", "base"}},
    {"float", Float, 0, {"default"}},
    {"abs", Abs},
    {"round", Round, 0, {"precision", "method"}},
    {"default", Default, 0, {"default_value", "boolean"}},
    {"d", Default, 0, {"default_value", "boolean"}},
};

}  // namespace

std::span<const FunctionSpec> NumberFilters() { return kNumberFilters; }

}  // namespace surety::model::chat
