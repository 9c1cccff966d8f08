// Spans as OTLP's JSON: an ExportTraceServiceRequest, and what its answer says.
//
// Threads: pure functions. Source: OpenTelemetry protocol 1.x, JSON Protobuf encoding: ids in hex, 64-bit numbers as
// decimal strings, enumerations as numbers.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <string_view>

#include "observe/trace.h"

namespace surety::observe {

// Who the spans come from.
struct SpanSource {
  std::string service_name = "surety";
  std::string service_version;
};

std::string OtlpTracesJson(std::span<const Span> spans, const SpanSource& source);

// How many spans the receiver says that it refused; 0 where it says nothing, or nothing that can be read.
int64_t RejectedSpans(std::string_view answer);

}  // namespace surety::observe
