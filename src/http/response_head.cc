#include "http/response_head.h"

#include <boost/json.hpp>
#include <ctime>

#include <algorithm>
#include <array>

namespace surety::http {
namespace {

bool IsTokenChar(char c) {
  if ((c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9')) return true;
  return c != '\0' && std::string_view("!#$%&'*+-.^_`|~").find(c) != std::string_view::npos;
}

bool IsValidHeader(const std::string& name, const std::string& value) {
  if (name.empty() || !std::ranges::all_of(name, IsTokenChar)) return false;
  return std::ranges::none_of(value, [](char c) {
    const auto byte = static_cast<unsigned char>(c);
    return (byte < 0x20 && c != '\t') || byte == 0x7f;
  });
}

bool EqualsIgnoringCase(std::string_view a, std::string_view lower) {
  return std::ranges::equal(a, lower, [](char x, char y) {
    return (x >= 'A' && x <= 'Z' ? x - 'A' + 'a' : x) == y;
  });
}

bool IsOurs(std::string_view name) {
  for (const std::string_view ours : {"content-length", "transfer-encoding", "connection", "keep-alive", "date",
                                      "content-type", "x-request-id", "trailer", "upgrade"}) {
    if (EqualsIgnoringCase(name, ours)) return true;
  }
  return false;
}

// Locale-free: strftime's names of days are not.
std::string HttpDate(int64_t wall_nanos) {
  constexpr std::array<const char*, 7> kDays = {"Sun", "Mon", "Tue", "Wed", "Thu", "Fri", "Sat"};
  constexpr std::array<const char*, 12> kMonths = {"Jan", "Feb", "Mar", "Apr", "May", "Jun",
                                                   "Jul", "Aug", "Sep", "Oct", "Nov", "Dec"};
  const std::time_t seconds = wall_nanos / 1'000'000'000;
  std::tm tm = {};
  gmtime_r(&seconds, &tm);
  std::array<char, 64> text;
  const int n = std::snprintf(text.data(), text.size(), "%s, %02d %s %04d %02d:%02d:%02d GMT", kDays[tm.tm_wday],
                              tm.tm_mday, kMonths[tm.tm_mon], tm.tm_year + 1900, tm.tm_hour, tm.tm_min, tm.tm_sec);
  return std::string(text.data(), static_cast<size_t>(std::clamp(n, 0, 63)));
}

std::string_view TypeOf(int status) {
  if (status == 401) return "authentication_error";
  if (status == 403) return "permission_error";
  if (status == 429) return "rate_limit_error";
  return status >= 500 ? "server_error" : "invalid_request_error";
}

}  // namespace

std::string_view ReasonOf(int status) {
  switch (status) {
    case 100: return "Continue";
    case 200: return "OK";
    case 201: return "Created";
    case 202: return "Accepted";
    case 204: return "No Content";
    case 301: return "Moved Permanently";
    case 302: return "Found";
    case 304: return "Not Modified";
    case 307: return "Temporary Redirect";
    case 400: return "Bad Request";
    case 401: return "Unauthorized";
    case 403: return "Forbidden";
    case 404: return "Not Found";
    case 405: return "Method Not Allowed";
    case 408: return "Request Timeout";
    case 409: return "Conflict";
    case 411: return "Length Required";
    case 413: return "Content Too Large";
    case 415: return "Unsupported Media Type";
    case 417: return "Expectation Failed";
    case 422: return "Unprocessable Content";
    case 429: return "Too Many Requests";
    case 431: return "Request Header Fields Too Large";
    case 500: return "Internal Server Error";
    case 501: return "Not Implemented";
    case 502: return "Bad Gateway";
    case 503: return "Service Unavailable";
    case 504: return "Gateway Timeout";
    default: return "Status";
  }
}

std::string ErrorBody(const Refused& refused) {
  const boost::json::object error{{"message", refused.message},
                                  {"type", TypeOf(refused.status)},
                                  {"param", nullptr},
                                  {"code", refused.code}};
  return boost::json::serialize(boost::json::object{{"error", error}});
}

std::string SerializeHead(const ResponseFrame& frame) {
  std::string out = "HTTP/1.1 " + std::to_string(frame.status) + " ";
  out.append(ReasonOf(frame.status)).append("\r\nDate: ").append(HttpDate(frame.wall_nanos));
  out.append("\r\nx-request-id: ").append(frame.request_id).append("\r\nX-Content-Type-Options: nosniff\r\n");
  if (!frame.content_type.empty()) out.append("Content-Type: ").append(frame.content_type).append("\r\n");
  bool has_cache_control = false;
  if (frame.headers != nullptr) {
    for (const auto& [name, value] : *frame.headers) {
      if (!IsValidHeader(name, value) || IsOurs(name)) continue;
      has_cache_control |= EqualsIgnoringCase(name, "cache-control");
      out.append(name).append(": ").append(value).append("\r\n");
    }
  }
  // Answers belong to one caller: no cache on the way may keep them.
  if (!has_cache_control) out += "Cache-Control: no-store\r\n";
  if (frame.chunked) out += "Transfer-Encoding: chunked\r\n";
  if (frame.content_length >= 0) out += "Content-Length: " + std::to_string(frame.content_length) + "\r\n";
  if (frame.close) out += "Connection: close\r\n";
  else if (!frame.http_1_1) out += "Connection: keep-alive\r\n";
  return out += "\r\n";
}

}  // namespace surety::http
