#include "gateway/policy_values.h"

#include <array>
#include <charconv>
#include <chrono>
#include <cmath>
#include <limits>
#include <utility>

#include <fmt/format.h>

namespace surety::gateway {
namespace {

using ValueUnit = std::pair<std::string_view, int64_t>;

constexpr int64_t kSecondNs = 1'000'000'000;
constexpr int64_t kDayNs = 86'400 * kSecondNs;

// The end of the leading number; 0: none.
size_t ValueNumberLength(std::string_view text) {
  size_t i = 0;
  while (i < text.size() && ((text[i] >= '0' && text[i] <= '9') || text[i] == '.')) ++i;
  return i;
}

// A number with one of the units as a whole number of the smallest; nullopt-like: -1.
template <size_t N>
int64_t WithUnit(std::string_view text, const std::array<ValueUnit, N>& units, int64_t limit) {
  const size_t n = ValueNumberLength(text);
  const auto number = ParseNumber(text.substr(0, n));
  if (n == 0 || !number) return -1;
  for (const auto& [unit, factor] : units) {
    if (text.substr(n) != unit) continue;
    const double value = *number * static_cast<double>(factor);
    if (!(value <= static_cast<double>(limit))) return -1;
    // Whole numbers stay exact beyond 2^53.
    if (const auto whole = ParseInteger(text.substr(0, n))) return *whole * factor;
    return std::llround(value);
  }
  return -1;
}

// Exactly `n` digits at the front, taken off; -1: not there.
int TakeDigits(std::string_view& text, size_t n) {
  if (text.size() < n) return -1;
  int value = 0;
  for (size_t i = 0; i < n; ++i) {
    if (text[i] < '0' || text[i] > '9') return -1;
    value = value * 10 + (text[i] - '0');
  }
  text.remove_prefix(n);
  return value;
}

bool TakeChar(std::string_view& text, char c) {
  if (text.empty() || text.front() != c) return false;
  text.remove_prefix(1);
  return true;
}

// Days since the epoch; false: not a date of the calendar.
bool TakeDate(std::string_view& text, int64_t& days) {
  const int year = TakeDigits(text, 4);
  if (year < 0 || !TakeChar(text, '-')) return false;
  const int month = TakeDigits(text, 2);
  if (month < 0 || !TakeChar(text, '-')) return false;
  const int day = TakeDigits(text, 2);
  if (day < 0) return false;
  const std::chrono::year_month_day date{std::chrono::year(year), std::chrono::month(static_cast<unsigned>(month)),
                                         std::chrono::day(static_cast<unsigned>(day))};
  if (!date.ok()) return false;
  days = std::chrono::sys_days(date).time_since_epoch().count();
  return true;
}

// The time of day with its offset, as nanoseconds in UTC after the date's midnight.
bool TakeTime(std::string_view& text, int64_t& ns) {
  const int hour = TakeDigits(text, 2);
  if (hour < 0 || hour > 23 || !TakeChar(text, ':')) return false;
  const int minute = TakeDigits(text, 2);
  if (minute < 0 || minute > 59 || !TakeChar(text, ':')) return false;
  const int second = TakeDigits(text, 2);
  if (second < 0 || second > 59) return false;
  ns = ((hour * 60 + minute) * int64_t{60} + second) * kSecondNs;
  if (TakeChar(text, '.')) {
    int64_t unit = kSecondNs;
    size_t n = 0;
    for (; !text.empty() && text.front() >= '0' && text.front() <= '9'; ++n) {
      if (unit == 1) return false;  // finer than a nanosecond
      unit /= 10;
      ns += (text.front() - '0') * unit;
      text.remove_prefix(1);
    }
    if (n == 0) return false;
  }
  if (TakeChar(text, 'Z')) return true;
  const bool west = TakeChar(text, '-');
  if (!west && !TakeChar(text, '+')) return false;
  const int offset_hour = TakeDigits(text, 2);
  if (offset_hour < 0 || offset_hour > 23 || !TakeChar(text, ':')) return false;
  const int offset_minute = TakeDigits(text, 2);
  if (offset_minute < 0 || offset_minute > 59) return false;
  const int64_t offset = (offset_hour * 60 + offset_minute) * 60 * kSecondNs;
  ns += west ? offset : -offset;
  return true;
}

}  // namespace

Result<int64_t> ParseDuration(std::string_view text) {
  static constexpr std::array<ValueUnit, 7> kUnits = {{{"ns", 1}, {"us", 1000}, {"ms", 1'000'000}, {"s", kSecondNs},
                                                       {"m", 60 * kSecondNs}, {"h", 3600 * kSecondNs}, {"d", kDayNs}}};
  const int64_t value = WithUnit(text, kUnits, 36'525 * kDayNs);
  if (value > 0) return value;
  return Error(InvalidArgumentError(fmt::format(
      "'{}' is no duration: write a number above 0 with ms, s, m, h or d, as in 400ms, 10s, 5m, 6h, 1d", text)));
}

Result<int64_t> ParseSize(std::string_view text) {
  static constexpr std::array<ValueUnit, 10> kUnits = {{{"", 1}, {"B", 1}, {"KB", 1000}, {"MB", 1'000'000},
                                                        {"GB", 1'000'000'000}, {"TB", 1'000'000'000'000},
                                                        {"KiB", 1LL << 10}, {"MiB", 1LL << 20}, {"GiB", 1LL << 30},
                                                        {"TiB", 1LL << 40}}};
  const int64_t value = WithUnit(text, kUnits, 1LL << 60);
  if (value >= 0) return value;
  return Error(InvalidArgumentError(fmt::format(
      "'{}' is no size: write a number with B, KB, MB, GB, KiB, MiB or GiB, as in 64MB", text)));
}

Result<int64_t> ParseInstant(std::string_view text) {
  std::string_view rest = text;
  int64_t days = 0, ns = 0;
  const bool read = TakeDate(rest, days) &&
                    (rest.empty() || (TakeChar(rest, 'T') && TakeTime(rest, ns) && rest.empty()));
  constexpr int64_t kMaxDays = std::numeric_limits<int64_t>::max() / kDayNs - 2;
  if (read && days <= kMaxDays && days >= -kMaxDays) return days * kDayNs + ns;
  return Error(InvalidArgumentError(fmt::format(
      "'{}' is no instant: write one with its offset, as in 2026-11-15T00:00:00-05:00, or a date, 2026-11-15 (UTC)",
      text)));
}

Result<double> ParseShare(std::string_view text) {
  const bool percent = text.ends_with('%');
  const auto number = ParseNumber(percent ? text.substr(0, text.size() - 1) : text);
  const double value = number ? *number / (percent ? 100 : 1) : -1;
  if (value >= 0 && value <= 1) return value;
  return Error(InvalidArgumentError(fmt::format("'{}' is no share: write 0.5% or 0.005, from 0 to 1", text)));
}

Result<int64_t> ParseInteger(std::string_view text) {
  int64_t value = 0;
  const auto [end, fault] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (fault == std::errc() && end == text.data() + text.size() && !text.empty()) return value;
  return Error(InvalidArgumentError(fmt::format("'{}' is no whole number", text)));
}

Result<double> ParseNumber(std::string_view text) {
  double value = 0;
  const auto [end, fault] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (fault == std::errc() && end == text.data() + text.size() && !text.empty() && std::isfinite(value)) return value;
  return Error(InvalidArgumentError(fmt::format("'{}' is no number", text)));
}

std::string FormatInstant(int64_t t_ns) {
  if (t_ns == std::numeric_limits<int64_t>::min()) return "always";
  if (t_ns == std::numeric_limits<int64_t>::max()) return "never";
  const int64_t days = t_ns / kDayNs - (t_ns % kDayNs < 0 ? 1 : 0);
  const int64_t in_day = t_ns - days * kDayNs;
  const std::chrono::year_month_day date{std::chrono::sys_days(std::chrono::days(days))};
  const int64_t second = in_day / kSecondNs;
  std::string fraction;
  if (in_day % kSecondNs != 0) {
    fraction = fmt::format(".{:09}", in_day % kSecondNs);
    fraction.erase(fraction.find_last_not_of('0') + 1);
  }
  return fmt::format("{:04}-{:02}-{:02}T{:02}:{:02}:{:02}{}Z", static_cast<int>(date.year()),
                     static_cast<unsigned>(date.month()), static_cast<unsigned>(date.day()), second / 3600,
                     second / 60 % 60, second % 60, fraction);
}

std::string FormatDuration(int64_t duration_ns) {
  static constexpr std::array<ValueUnit, 6> kUnits = {{{"d", kDayNs}, {"h", 3600 * kSecondNs}, {"m", 60 * kSecondNs},
                                                       {"s", kSecondNs}, {"ms", 1'000'000}, {"us", 1000}}};
  for (const auto& [unit, factor] : kUnits) {
    if (duration_ns != 0 && duration_ns % factor == 0) return fmt::format("{}{}", duration_ns / factor, unit);
  }
  return fmt::format("{}ns", duration_ns);
}

}  // namespace surety::gateway
