// What became of each request: metrics, and one line for the access log. No bodies, no queries, no credentials.
//
// Threads: any. Owns: nothing; registry and clock must outlive it.
#pragma once

#include <array>
#include <cstdint>
#include <functional>
#include <string>
#include <string_view>
#include <vector>

#include "base/clock.h"
#include "http/router.h"
#include "observe/metrics.h"

namespace surety::http {

// One JSON object on a line, without the line feed. May be called from several threads at once; must not block long.
using AccessLog = std::function<void(std::string_view line)>;

enum class Outcome : uint8_t { kComplete, kDisconnected, kTooSlow, kAborted };

struct RequestRecord {
  std::string request_id, remote, subject, method, path;
  int route_index = -1;            // -1: no route
  int status = 0;                  // 0: the client left before there was an answer
  int64_t start_ns = 0;            // monotonic
  int64_t body_bytes = 0;          // received
  int64_t sent_bytes = 0;          // head and framing included
  Outcome outcome = Outcome::kComplete;
};

class RequestLog {
 public:
  RequestLog(observe::Registry& registry, std::string listener, const Router& router, AccessLog access_log,
             const Clock& clock);

  void ConnectionOpened() { connections_->Add(1); }
  void ConnectionClosed() { connections_->Add(-1); }
  void ConnectionRefused() { refused_connections_->Add(1); }
  void RequestBegan() { in_flight_->Add(1); }
  void RequestEnded(const RequestRecord& record);
  void AuthenticationFailed() { failed_authentications_->Add(1); }

  std::string Line(const RequestRecord& record) const;

 private:
  static constexpr size_t kClasses = 6;  // gone, 1xx .. 5xx
  struct RouteSeries {
    std::string method, path;
    std::array<observe::Counter*, kClasses> requests = {};
    observe::Histogram* duration = nullptr;
  };

  std::string listener_;
  AccessLog access_log_;
  const Clock& clock_;
  observe::Gauge* connections_;
  observe::Gauge* in_flight_;
  observe::Counter* refused_connections_;
  observe::Counter* failed_authentications_;
  observe::Counter* disconnects_;
  observe::Counter* bytes_in_;
  observe::Counter* bytes_out_;
  std::vector<RouteSeries> routes_;      // the last is for requests without a route
};

}  // namespace surety::http
