// How a server listens, what it allows, and when it gives up on a client.
//
// Units: in the names. Errors: Validate names the setting, its value and its range.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "base/status.h"
#include "http/handler.h"

namespace surety::http {

struct ServerLimits {
  int64_t max_body_bytes = 32 << 20;           // 413
  int64_t max_header_bytes = 32 << 10;         // request line and headers together: 431
  int64_t max_buffered_body_bytes = 1 << 30;   // bodies being read, over all connections: 503
  int max_connections = 4096;                  // 503, then closed
  int64_t header_timeout_ms = 10'000;          // from the first byte of a request (TLS handshake included): 408
  int64_t body_timeout_ms = 60'000;            // from the end of the head to the end of the body: 408
  int64_t idle_timeout_ms = 75'000;            // between two requests: closed
  int64_t write_timeout_ms = 30'000;           // without any byte taken by the client: closed
  int64_t max_stream_buffer_bytes = 1 << 20;   // of a stream, not yet taken by the client: closed
  int64_t linger_timeout_ms = 2'000;           // for the client to read a last answer before the connection is closed

  Status Validate() const;
};

struct ListenerOptions {
  std::string name = "api";             // in metrics and logs
  std::string host = "127.0.0.1";
  int port = 0;                         // 0: a free one
  Role open_role = Role::kUser;         // of everybody, where the server runs without keys
  std::vector<Route> routes;
};

struct TlsOptions {
  std::string certificate_file;         // PEM: the certificate, then its chain
  std::string key_file;                 // PEM, without a passphrase
};

struct ServerOptions {
  int io_threads = 1;
  ServerLimits limits;
  std::optional<TlsOptions> tls;
  std::vector<std::string> cors_origins;   // "https://app.example"; "*": any; empty: no cross-origin use
  std::vector<std::string> allowed_hosts;  // names besides loopback ones that a server without keys answers to

  Status Validate() const;
};

}  // namespace surety::http
