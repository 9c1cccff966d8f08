#include "cli/trace_options.h"

#include <cstdlib>
#include <random>
#include <utility>

#include <fmt/format.h>

namespace surety::cli {

Environment RealEnvironment() {
  return [](const char* name) {
    const char* value = std::getenv(name);
    return std::string(value == nullptr ? "" : value);
  };
}

void TraceFlags::Declare(Flags& flags) {
  flags.Group("Traces");
  flags.Add("--otlp-endpoint", otlp_endpoint,
            "http://HOST:PORT of a collector for spans (OTLP over HTTP, JSON); default: "
            "$OTEL_EXPORTER_OTLP_TRACES_ENDPOINT, $OTEL_EXPORTER_OTLP_ENDPOINT");
  flags.Add("--trace-sample", sample, "share of traces recorded, 0 to 1, where the caller brings none");
}

Status TraceFlags::Validate() const {
  if (sample >= 0 && sample <= 1) return OkStatus();
  return InvalidArgumentError(fmt::format("--trace-sample: {} is not a number from 0 to 1", sample));
}

Result<std::optional<TraceTarget>> TraceFlags::Target(const Environment& environment) const {
  struct Place {
    std::string name, url;
    bool whole;  // its path is used as it is
  };
  const Place places[] = {
      {"--otlp-endpoint", otlp_endpoint, false},
      {"$OTEL_EXPORTER_OTLP_TRACES_ENDPOINT", environment("OTEL_EXPORTER_OTLP_TRACES_ENDPOINT"), true},
      {"$OTEL_EXPORTER_OTLP_ENDPOINT", environment("OTEL_EXPORTER_OTLP_ENDPOINT"), false},
  };
  for (const Place& place : places) {
    if (place.url.empty()) continue;
    TraceTarget target;
    auto endpoint = observe::ParseOtlpEndpoint(place.url, place.whole);
    if (!endpoint) return Error(endpoint.error().WithContext(place.name));
    target.endpoint = *std::move(endpoint);
    std::string variable = "OTEL_EXPORTER_OTLP_TRACES_HEADERS";
    if (environment(variable.c_str()).empty()) variable = "OTEL_EXPORTER_OTLP_HEADERS";
    auto headers = observe::ParseOtlpHeaders(environment(variable.c_str()));
    if (!headers) return Error(headers.error().WithContext("$" + variable));
    target.headers = *std::move(headers);
    target.service_name = environment("OTEL_SERVICE_NAME");
    if (target.service_name.empty()) target.service_name = "surety";
    return target;
  }
  return std::nullopt;
}

Result<Tracing> TraceFlags::MakeTracing(observe::Registry& metrics,
                                        std::function<void(const std::string&)> on_problem) const {
  SURETY_ASSIGN_OR_RETURN(auto target, Target(RealEnvironment()));
  Tracing tracing;
  if (!target) return tracing;
  observe::SpanExporterOptions options;
  options.source = {target->service_name, SURETY_VERSION};
  options.on_problem = std::move(on_problem);
  tracing.exporter = std::make_unique<observe::SpanExporter>(
      std::move(options),
      observe::MakeOtlpTransport(std::move(target->endpoint), std::move(target->headers), "surety/" SURETY_VERSION),
      metrics);
  std::random_device device;
  const uint64_t seed = (static_cast<uint64_t>(device()) << 32) | device();
  tracing.tracer = std::make_unique<observe::Tracer>(*tracing.exporter, sample, seed);
  return tracing;
}

}  // namespace surety::cli
