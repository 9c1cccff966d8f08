#include "http/openai_error.h"

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <utility>

#include "http/request_trace.h"

namespace surety::http {
namespace {

constexpr double kMaxRetryAfterSeconds = 3600;

struct Kind {
  int status;
  const char* type;
  const char* code;
};

Kind KindOf(StatusCode code) {
  switch (code) {
    case StatusCode::kInvalidArgument: return {400, "invalid_request_error", "invalid_value"};
    case StatusCode::kOutOfRange: return {400, "invalid_request_error", "invalid_value"};
    case StatusCode::kFailedPrecondition: return {400, "invalid_request_error", "unsupported_by_model"};
    case StatusCode::kUnimplemented: return {400, "invalid_request_error", "unsupported_by_model"};
    case StatusCode::kUnauthenticated: return {401, "authentication_error", "invalid_api_key"};
    case StatusCode::kPermissionDenied: return {403, "permission_error", "permission_denied"};
    case StatusCode::kNotFound: return {404, "invalid_request_error", "not_found"};
    case StatusCode::kAlreadyExists: return {409, "invalid_request_error", "already_exists"};
    case StatusCode::kDeadlineExceeded: return {408, "timeout_error", "timeout"};
    case StatusCode::kResourceExhausted: return {429, "rate_limit_error", "rate_limit_exceeded"};
    case StatusCode::kUnavailable: return {503, "server_error", "unavailable"};
    case StatusCode::kCancelled: return {503, "server_error", "cancelled"};
    case StatusCode::kOk:
    case StatusCode::kInternal:
    case StatusCode::kDataLoss:
    case StatusCode::kIoError: break;
  }
  return {500, "server_error", "internal_error"};
}

}  // namespace

std::unexpected<ApiError> BadField(std::string param, std::string message, std::string code) {
  ApiError error;
  error.message = std::move(message);
  error.param = std::move(param);
  error.code = std::move(code);
  return std::unexpected<ApiError>(std::move(error));
}

ApiError ErrorOf(const Status& status, std::string param) {
  const Kind kind = KindOf(status.code());
  ApiError error;
  error.status = kind.status;
  error.message = status.message().empty() ? "the server could not complete the request" : status.message();
  error.type = kind.type;
  error.code = kind.code;
  error.param = std::move(param);
  return error;
}

ApiError ErrorOf(const api::Refusal& refusal, std::string param) {
  ApiError error = ErrorOf(refusal.status, std::move(param));
  if (refusal.status.code() == StatusCode::kOutOfRange) error.code = "context_length_exceeded";
  if (error.status == 429 || error.status == 503) {
    error.retry_after_s = refusal.retry_after_s > 0 ? refusal.retry_after_s : 1.0;  // also for a NaN
  }
  return error;
}

std::string ErrorBody(const ApiError& error) {
  boost::json::object inner;
  inner["message"] = error.message;
  inner["type"] = error.type;
  inner["param"] = error.param.empty() ? boost::json::value(nullptr) : boost::json::value(error.param);
  inner["code"] = error.code.empty() ? boost::json::value(nullptr) : boost::json::value(error.code);
  for (const auto& member : error.more) inner[member.key()] = member.value();
  return boost::json::serialize(boost::json::object{{"error", std::move(inner)}});
}

void SendError(ResponseWriter& writer, const ApiError& error, HeaderList headers) {
  if (RequestTrace* trace = writer.trace()) trace->Failed(error.code, error.status >= 500);
  if (error.retry_after_s >= 0) {
    const double seconds = std::min(error.retry_after_s, kMaxRetryAfterSeconds);
    const auto millis = static_cast<int64_t>(std::ceil(seconds * 1000));
    headers.emplace_back("Retry-After", std::to_string(std::max<int64_t>(1, (millis + 999) / 1000)));
    headers.emplace_back("retry-after-ms", std::to_string(millis));
  }
  writer.Send(error.status, "application/json", ErrorBody(error), std::move(headers));
}

std::string ItemPath(std::string_view path, size_t index) {
  return std::string(path) + "[" + std::to_string(index) + "]";
}

std::string Quoted(std::string_view text) {
  constexpr size_t kMaxBytes = 64;
  size_t length = std::min(text.size(), kMaxBytes);
  // Never half a character.
  while (length > 0 && length < text.size() && (static_cast<unsigned char>(text[length]) & 0xC0) == 0x80) --length;
  std::string quoted = "'";
  for (const char c : text.substr(0, length)) quoted += static_cast<unsigned char>(c) < 0x20 || c == 0x7F ? '?' : c;
  quoted += length < text.size() ? "...'" : "'";
  return quoted;
}

}  // namespace surety::http
