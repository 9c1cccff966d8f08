// Where spans go over HTTP: the collector's address, further headers, and the transport, one connection a batch.
//
// Threads: SpanTransport's. Owns: its socket. Errors: kInvalidArgument saying what is wrong with an address or a list
// of headers; a Post that fails says why in its reply. A look-up of the collector's name cannot be cut short.
// Source: OpenTelemetry protocol 1.x, OTLP/HTTP; OpenTelemetry specification, OTLP exporter (endpoints, headers).
#pragma once

#include <memory>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "base/status.h"
#include "observe/span_exporter.h"

namespace surety::observe {

struct OtlpEndpoint {
  std::string host, port;
  std::string authority;  // for the Host header
  std::string path;       // "/v1/traces"
};

// "http://host:4318", "http://[::1]:4318/base". Plain HTTP only. `whole`: the path is used as it is; else "/v1/traces"
// is appended to it.
Result<OtlpEndpoint> ParseOtlpEndpoint(std::string_view url, bool whole);

using OtlpHeaders = std::vector<std::pair<std::string, std::string>>;
// "name=value,name2=value2", the values percent-encoded.
Result<OtlpHeaders> ParseOtlpHeaders(std::string_view list);

std::unique_ptr<SpanTransport> MakeOtlpTransport(OtlpEndpoint endpoint, OtlpHeaders headers,
                                                 const std::string& user_agent);

}  // namespace surety::observe
