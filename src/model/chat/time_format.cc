#include "model/chat/time_format.h"

#include <ctime>

namespace surety::model::chat {

Result<std::string> FormatUtcTime(int64_t unix_seconds, std::string_view format) {
  static constexpr std::string_view kDirectives = "aAbBcCdDeFgGhHIjklmMnpPrRStTuUVwWxXyY%";
  const auto seconds = static_cast<std::time_t>(unix_seconds);
  std::tm time{};
  if (::gmtime_r(&seconds, &time) == nullptr || time.tm_year < -1900 || time.tm_year > 8099) {
    return Error(InvalidArgumentError("strftime_now: the time is out of range"));
  }
  std::string out;
  for (size_t i = 0; i < format.size(); ++i) {
    if (format[i] != '%') {
      out += format[i];
      continue;
    }
    std::string directive = "%";
    if (i + 1 < format.size() && format[i + 1] == '-') directive += format[++i];
    const char letter = i + 1 < format.size() ? format[++i] : '\0';
    if (letter == 'f') {
      out += "000000";
    } else if (letter != 'z' && letter != 'Z') {
      if (letter == '\0' || kDirectives.find(letter) == std::string_view::npos) {
        return Error(InvalidArgumentError("strftime_now: unknown directive '" + directive +
                                          (letter == '\0' ? "" : std::string(1, letter)) + "'"));
      }
      directive += letter;
      char text[64];
      out.append(text, std::strftime(text, sizeof(text), directive.c_str(), &time));
    }
  }
  return out;
}

}  // namespace surety::model::chat
