#include "http/server_options.h"

namespace surety::http {
namespace {

Status InRange(const char* name, int64_t value, int64_t low, int64_t high) {
  if (value >= low && value <= high) return OkStatus();
  return InvalidArgumentError(std::string(name) + " is " + std::to_string(value) + "; it must be between " +
                              std::to_string(low) + " and " + std::to_string(high));
}

constexpr int64_t kDayMs = 86'400'000;

}  // namespace

Status ServerLimits::Validate() const {
  SURETY_RETURN_IF_ERROR(InRange("max_body_bytes", max_body_bytes, 1024, int64_t{4} << 30));
  SURETY_RETURN_IF_ERROR(InRange("max_header_bytes", max_header_bytes, 1024, 1 << 20));
  SURETY_RETURN_IF_ERROR(
      InRange("max_buffered_body_bytes", max_buffered_body_bytes, max_body_bytes, int64_t{1} << 40));
  SURETY_RETURN_IF_ERROR(InRange("max_connections", max_connections, 1, 1'000'000));
  SURETY_RETURN_IF_ERROR(InRange("header_timeout_ms", header_timeout_ms, 10, kDayMs));
  SURETY_RETURN_IF_ERROR(InRange("body_timeout_ms", body_timeout_ms, 10, kDayMs));
  SURETY_RETURN_IF_ERROR(InRange("idle_timeout_ms", idle_timeout_ms, 10, kDayMs));
  SURETY_RETURN_IF_ERROR(InRange("write_timeout_ms", write_timeout_ms, 10, kDayMs));
  SURETY_RETURN_IF_ERROR(
      InRange("max_stream_buffer_bytes", max_stream_buffer_bytes, 4096, int64_t{1} << 30));
  return InRange("linger_timeout_ms", linger_timeout_ms, 1, 60'000);
}

Status ServerOptions::Validate() const {
  SURETY_RETURN_IF_ERROR(InRange("io_threads", io_threads, 1, 256));
  if (tls && (tls->certificate_file.empty() || tls->key_file.empty())) {
    return InvalidArgumentError("TLS needs both a certificate file and a key file");
  }
  for (const std::string& origin : cors_origins) {
    const size_t scheme = origin.find("://");
    const bool has_path = scheme != std::string::npos && origin.find('/', scheme + 3) != std::string::npos;
    if (origin != "*" && (scheme == std::string::npos || scheme == 0 || has_path || origin.size() == scheme + 3)) {
      return InvalidArgumentError("'" + origin + "' is no origin: write it as 'https://app.example' or "
                                  "'http://host:port', without a path, or '*' for any");
    }
  }
  return limits.Validate();
}

}  // namespace surety::http
