#include "gateway/tool_time.h"

#include <charconv>
#include <chrono>
#include <cmath>

#include <boost/json.hpp>

namespace surety::gateway {

Result<int64_t> ParseInstant(std::string_view text) {
  const auto wrong = Error(InvalidArgumentError("'" + std::string(text.substr(0, 40)) +
                                                "' is no instant like 2026-11-30T10:00:00Z"));
  const auto number = [&](size_t at, size_t n) {
    int value = 0;
    if (at + n > text.size()) return -1;
    for (const char c : text.substr(at, n)) {
      if (c < '0' || c > '9') return -1;
      value = value * 10 + (c - '0');
    }
    return value;
  };
  if (text.size() < 20 || text[4] != '-' || text[7] != '-' || (text[10] != 'T' && text[10] != 't' && text[10] != ' ') ||
      text[13] != ':' || text[16] != ':') {
    return wrong;
  }
  const int year = number(0, 4), month = number(5, 2), day = number(8, 2);
  const int hour = number(11, 2), minute = number(14, 2), second = number(17, 2);
  const std::chrono::year_month_day date{std::chrono::year(year), std::chrono::month(static_cast<unsigned>(month)),
                                         std::chrono::day(static_cast<unsigned>(day))};
  if (month < 1 || day < 1 || !date.ok() || year < 1970 || year > 2261 || hour < 0 || hour > 23 || minute < 0 ||
      minute > 59 || second < 0 || second > 60) {
    return wrong;
  }
  size_t at = 19;
  int64_t fraction_ns = 0;
  if (text[at] == '.') {
    int64_t unit = 100'000'000;
    size_t n = 0;
    for (++at; at < text.size() && text[at] >= '0' && text[at] <= '9'; ++at, ++n, unit /= 10) {
      fraction_ns += (text[at] - '0') * unit;
    }
    if (n == 0) return wrong;
  }
  int64_t offset_s = 0;
  const std::string_view zone = text.substr(at);
  if (zone.size() == 6 && (zone[0] == '+' || zone[0] == '-') && zone[3] == ':') {
    const int hours = number(at + 1, 2), minutes = number(at + 4, 2);
    if (hours < 0 || hours > 23 || minutes < 0 || minutes > 59) return wrong;
    offset_s = (hours * 60 + minutes) * (zone[0] == '+' ? 60 : -60);
  } else if (zone != "Z" && zone != "z") {
    return wrong;
  }
  const int64_t days = std::chrono::sys_days(date).time_since_epoch().count();
  const int64_t seconds = days * 86'400 + hour * 3600 + minute * 60 + second - offset_s;
  return seconds * 1'000'000'000 + fraction_ns;
}

Result<int64_t> ObservedAt(const boost::json::value& result, int64_t otherwise_ns) {
  const boost::json::object* object = result.if_object();
  const boost::json::value* value = object == nullptr ? nullptr : object->if_contains("observed_at");
  if (value == nullptr || value->is_null()) return otherwise_ns;
  const auto in_context = [](Status status) { return Error(status.WithContext("observed_at")); };
  if (value->is_string()) {
    Result<int64_t> instant = ParseInstant(std::string_view(value->get_string()));
    return instant ? instant : in_context(instant.error());
  }
  const double seconds = value->is_number() ? value->to_number<double>() : -1;
  if (!(seconds >= 0 && seconds < 9.2e9)) return in_context(InvalidArgumentError("is neither an instant nor seconds"));
  if (value->is_int64()) return value->get_int64() * 1'000'000'000;
  return static_cast<int64_t>(std::llround(seconds * 1e9));
}

}  // namespace surety::gateway
