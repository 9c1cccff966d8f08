// Where a server's traces go: flags, and the environment variables of OpenTelemetry where a flag is absent.
//
// Threads: one. Owns: what MakeTracing returns holds its own thread; the registry must outlive it.
// Errors: kInvalidArgument naming the flag or the variable.
// Source: OpenTelemetry specification, environment variables of the OTLP exporter.
#pragma once

#include <functional>
#include <memory>
#include <optional>
#include <string>

#include "base/status.h"
#include "cli/flags.h"
#include "observe/metrics.h"
#include "observe/otlp_http.h"
#include "observe/span_exporter.h"
#include "observe/trace.h"

namespace surety::cli {

// Empty where the variable is not set.
using Environment = std::function<std::string(const char* name)>;
Environment RealEnvironment();

struct TraceTarget {
  observe::OtlpEndpoint endpoint;
  observe::OtlpHeaders headers;
  std::string service_name;
};

// Both null: no traces.
struct Tracing {
  std::unique_ptr<observe::SpanExporter> exporter;
  std::unique_ptr<observe::Tracer> tracer;  // goes first
};

struct TraceFlags {
  std::string otlp_endpoint;
  double sample = 1;

  void Declare(Flags& flags);
  Status Validate() const;
  // Nothing: no endpoint is given.
  Result<std::optional<TraceTarget>> Target(const Environment& environment) const;
  Result<Tracing> MakeTracing(observe::Registry& metrics, std::function<void(const std::string&)> on_problem) const;
};

}  // namespace surety::cli
