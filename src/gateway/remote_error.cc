#include "gateway/remote_error.h"

#include <algorithm>
#include <array>
#include <charconv>
#include <chrono>
#include <cmath>
#include <string_view>

#include <boost/json.hpp>

#include "gateway/http_access.h"

namespace surety::gateway {
namespace {

namespace json = boost::json;

constexpr double kMaxRetryAfterSeconds = 60;
constexpr size_t kMaxShownBytes = 300;

// One line, no control bytes, not cut inside a character.
std::string ShownText(std::string_view text) {
  std::string shown;
  for (const char c : text) shown += (c >= 0 && c < ' ') || c == 0x7f ? ' ' : c;
  if (shown.size() <= kMaxShownBytes) return shown;
  size_t end = kMaxShownBytes;
  while (end > 0 && (static_cast<unsigned char>(shown[end]) & 0xC0) == 0x80) --end;
  return shown.substr(0, end) + "...";
}

std::string TextMember(const json::value& value, std::string_view name) {
  const json::object* object = value.if_object();
  const json::value* member = object == nullptr ? nullptr : object->if_contains(name);
  return member != nullptr && member->is_string() ? std::string(member->get_string()) : std::string();
}

// The number of a text that is one, all of it; negative otherwise.
double PlainNumber(std::string_view text) {
  double value = -1;
  const auto read = std::from_chars(text.data(), text.data() + text.size(), value, std::chars_format::fixed);
  return read.ec == std::errc() && read.ptr == text.data() + text.size() && std::isfinite(value) ? value : -1;
}

// "Sun, 06 Nov 1994 08:49:37 GMT" as seconds since 1970; negative: something else.
int64_t HttpDateSeconds(std::string_view text) {
  static constexpr std::string_view kMonths = "JanFebMarAprMayJunJulAugSepOctNovDec";
  if (text.size() != 29 || !text.ends_with(" GMT") || text[3] != ',') return -1;
  const auto number = [&](size_t at, size_t n) {
    int value = -1;
    const auto read = std::from_chars(text.data() + at, text.data() + at + n, value);
    return read.ptr == text.data() + at + n ? value : -1;
  };
  const size_t month = kMonths.find(text.substr(8, 3));
  const int day = number(5, 2), year = number(12, 4), hour = number(17, 2), minute = number(20, 2);
  const int second = number(23, 2);
  if (month == std::string_view::npos || month % 3 != 0 || hour < 0 || hour > 23 || minute < 0 || minute > 59 ||
      second < 0 || second > 60) {
    return -1;
  }
  const std::chrono::year_month_day date{std::chrono::year(year),
                                         std::chrono::month(static_cast<unsigned>(month / 3 + 1)),
                                         std::chrono::day(static_cast<unsigned>(day))};
  if (!date.ok()) return -1;
  return std::chrono::sys_days(date).time_since_epoch().count() * int64_t{86400} + hour * 3600 + minute * 60 + second;
}

bool IsContextError(std::string_view code, std::string_view type) {
  return code == "context_length_exceeded" || type == "exceed_context_size_error";
}

}  // namespace

double RetryAfterSeconds(const std::map<std::string, std::string>& headers, int64_t now_wall_ns) {
  const auto ceiling = [](double seconds) { return std::clamp(seconds, 0.0, kMaxRetryAfterSeconds); };
  for (const char* name : {"retry-after-ms", "x-ms-retry-after-ms"}) {
    const auto header = headers.find(name);
    if (header == headers.end()) continue;
    if (const double millis = PlainNumber(header->second); millis >= 0) return ceiling(millis / 1000);
  }
  const auto header = headers.find("retry-after");
  if (header == headers.end()) return 0;
  if (const double seconds = PlainNumber(header->second); seconds >= 0) return ceiling(seconds);
  const int64_t date = HttpDateSeconds(header->second);
  return date < 0 ? 0 : ceiling(static_cast<double>(date) - static_cast<double>(now_wall_ns) * 1e-9);
}

bool MayRetry(const Status& status) {
  return status.code() == StatusCode::kUnavailable || status.code() == StatusCode::kResourceExhausted;
}

RemoteFailure FailureOf(const HttpReply& reply, int64_t now_wall_ns, const std::vector<std::string>& secrets) {
  boost::system::error_code ec;
  const json::value body = json::parse(reply.body, ec);
  const json::object* object = ec ? nullptr : body.if_object();
  const json::value* inner = object == nullptr ? nullptr : object->if_contains("error");
  std::string said, code, type;
  if (inner != nullptr) {
    said = inner->is_string() ? std::string(inner->get_string()) : TextMember(*inner, "message");
    code = TextMember(*inner, "code");
    type = TextMember(*inner, "type");
  } else if (object != nullptr) {
    said = TextMember(body, "message");
  }
  const std::string head = "status " + std::to_string(reply.status);
  const std::string message = said.empty() ? head : head + ": " + ShownText(WithoutSecrets(said, secrets));
  RemoteFailure failure;
  switch (reply.status) {
    case 408: case 500: case 502: case 503: case 504:
      failure = {UnavailableError(message), RetryAfterSeconds(reply.headers, now_wall_ns)};
      break;
    case 429:
      failure = {ResourceExhaustedError(message), RetryAfterSeconds(reply.headers, now_wall_ns)};
      break;
    case 400: case 413: case 422:
      failure.status = IsContextError(code, type) ? OutOfRangeError(message) : InvalidArgumentError(message);
      break;
    case 401: case 403:  // its message may repeat the key
      failure.status = InternalError(head + ": the server does not accept this gateway's key");
      break;
    case 404: failure.status = InternalError(message + " (the model or the address is not known there)"); break;
    default:
      failure.status = InternalError(reply.status >= 300 && reply.status < 400 ? head + ": redirects are not followed"
                                                                               : message);
  }
  return failure;
}

Status StreamedFailure(const json::value& error, const std::vector<std::string>& secrets) {
  const std::string said = error.is_string() ? std::string(error.get_string()) : TextMember(error, "message");
  const std::string code = TextMember(error, "code"), type = TextMember(error, "type");
  std::string message = "an error inside the answer";
  if (!said.empty()) message += ": " + ShownText(WithoutSecrets(said, secrets));
  const json::object* object = error.if_object();
  const json::value* number = object == nullptr ? nullptr : object->if_contains("code");
  if (number != nullptr && number->is_number()) {
    HttpReply reply;
    boost::system::error_code ec;
    reply.status = number->to_number<int>(ec);
    return Status(ec ? StatusCode::kInternal : FailureOf(reply, 0).status.code(), message);
  }
  if (IsContextError(code, type)) return OutOfRangeError(message);
  if (code == "rate_limit_exceeded" || type == "rate_limit_error") return ResourceExhaustedError(message);
  static constexpr std::array<std::string_view, 4> kUnavailableCodes = {"unavailable", "overloaded", "timeout",
                                                                        "service_unavailable"};
  if (std::ranges::find(kUnavailableCodes, code) != kUnavailableCodes.end() || type == "overloaded_error" ||
      type == "unavailable_error") {
    return UnavailableError(message);
  }
  if (type == "invalid_request_error") return InvalidArgumentError(message);
  return InternalError(message);
}

}  // namespace surety::gateway
