#include "http/request_log.h"

#include <boost/json.hpp>

#include <algorithm>
#include <chrono>
#include <cstdio>

#include "http/request_head.h"

namespace surety::http {
namespace {

const std::vector<double> kDurationBounds = {0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5,
                                             1,     2.5,    5,     10,   30,    60,   120, 300,  600};

std::string_view NameOf(Outcome outcome) {
  switch (outcome) {
    case Outcome::kComplete: return "complete";
    case Outcome::kDisconnected: return "disconnected";
    case Outcome::kTooSlow: return "too_slow";
    case Outcome::kAborted: return "aborted";
  }
  return "unknown";
}

// "2026-11-29T23:17:05.123Z"
std::string TimeText(int64_t wall_nanos) {
  const std::time_t seconds = wall_nanos / 1'000'000'000;
  std::tm tm = {};
  gmtime_r(&seconds, &tm);
  std::array<char, 32> day, text;
  (void)std::strftime(day.data(), day.size(), "%Y-%m-%dT%H:%M:%S", &tm);
  (void)std::snprintf(text.data(), text.size(), "%.20s.%03dZ", day.data(),
                      static_cast<int>(wall_nanos / 1'000'000 % 1000));
  return text.data();
}

}  // namespace

RequestLog::RequestLog(observe::Registry& registry, std::string listener, const Router& router, AccessLog access_log,
                       const Clock& clock)
    : listener_(std::move(listener)), access_log_(std::move(access_log)), clock_(clock) {
  const observe::Labels labels = {{"listener", listener_}};
  connections_ = &registry.AddGauge("surety_http_connections_open", "Connections that are open.", labels);
  in_flight_ = &registry.AddGauge("surety_http_requests_in_flight", "Requests being read or answered.", labels);
  refused_connections_ = &registry.AddCounter("surety_http_connections_refused_total",
                                              "Connections refused because too many were open.", labels);
  failed_authentications_ = &registry.AddCounter("surety_http_authentication_failures_total",
                                                 "Requests with wrong or expired credentials.", labels);
  disconnects_ = &registry.AddCounter("surety_http_disconnects_total",
                                      "Requests whose client left, or was too slow, before the answer was complete.",
                                      labels);
  bytes_in_ = &registry.AddCounter("surety_http_request_body_bytes_total", "Bytes of request bodies.", labels);
  bytes_out_ = &registry.AddCounter("surety_http_response_bytes_total", "Bytes of responses, heads included.", labels);
  for (size_t i = 0; i <= router.routes().size(); ++i) {
    RouteSeries series;
    series.method = i < router.routes().size() ? router.routes()[i].method : "other";
    series.path = i < router.routes().size() ? router.routes()[i].path : "unmatched";
    observe::Labels of_route = labels;
    of_route["method"] = series.method;
    of_route["route"] = series.path;
    series.duration = &registry.AddHistogram("surety_http_request_duration_seconds",
                                             "From the end of a request's head to the end of its answer.",
                                             kDurationBounds, of_route);
    for (size_t c = 0; c < kClasses; ++c) {
      of_route["status"] = c == 0 ? "gone" : std::to_string(c) + "xx";
      series.requests[c] = &registry.AddCounter("surety_http_requests_total", "Requests by class of status; gone: the "
                                                "client left before there was an answer.", of_route);
    }
    routes_.push_back(std::move(series));
  }
}

void RequestLog::RequestEnded(const RequestRecord& record) {
  in_flight_->Add(-1);
  const bool has_route = record.route_index >= 0 && static_cast<size_t>(record.route_index) + 1 < routes_.size();
  RouteSeries& series = has_route ? routes_[static_cast<size_t>(record.route_index)] : routes_.back();
  series.requests[static_cast<size_t>(std::clamp(record.status / 100, 0, 5))]->Add(1);
  series.duration->Observe(NanosToSeconds(clock_.NowNanos() - record.start_ns));
  bytes_in_->Add(static_cast<double>(record.body_bytes));
  bytes_out_->Add(static_cast<double>(record.sent_bytes));
  if (record.outcome != Outcome::kComplete) disconnects_->Add(1);
  if (access_log_) access_log_(Line(record));
}

std::string RequestLog::Line(const RequestRecord& record) const {
  const bool has_route = record.route_index >= 0 && static_cast<size_t>(record.route_index) + 1 < routes_.size();
  const double duration_ms = static_cast<double>((clock_.NowNanos() - record.start_ns) / 1000) / 1000;
  boost::json::object line{{"time", TimeText(clock_.WallNanos())},
                           {"request_id", record.request_id},
                           {"listener", listener_},
                           {"remote", record.remote},
                           {"subject", record.subject},
                           {"method", Printable(record.method, 20)},
                           {"path", Printable(record.path)},
                           {"route", has_route ? routes_[static_cast<size_t>(record.route_index)].path : ""},
                           {"status", record.status},
                           {"outcome", NameOf(record.outcome)},
                           {"duration_ms", duration_ms},
                           {"body_bytes", record.body_bytes},
                           {"sent_bytes", record.sent_bytes}};
  return boost::json::serialize(line);
}

}  // namespace surety::http
