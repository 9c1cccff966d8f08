#include "observe/otlp_json.h"

#include <charconv>
#include <cmath>

#include <boost/json.hpp>

namespace surety::observe {
namespace {

namespace json = boost::json;

constexpr uint32_t kKnowsParentIsRemote = 0x100, kParentIsRemote = 0x200;

json::object OtlpValue(const AttributeValue& value) {
  struct Visitor {
    json::object operator()(const std::string& text) const { return {{"stringValue", text}}; }
    json::object operator()(bool truth) const { return {{"boolValue", truth}}; }
    json::object operator()(int64_t number) const { return {{"intValue", std::to_string(number)}}; }
    json::object operator()(double number) const {
      if (std::isfinite(number)) return {{"doubleValue", number}};
      return {{"doubleValue", std::isnan(number) ? "NaN" : number > 0 ? "Infinity" : "-Infinity"}};
    }
    json::object operator()(const std::vector<std::string>& texts) const {
      json::array values;
      for (const std::string& text : texts) values.push_back(json::object{{"stringValue", text}});
      return {{"arrayValue", json::object{{"values", std::move(values)}}}};
    }
  };
  return std::visit(Visitor(), value);
}

json::array OtlpAttributes(const Attributes& attributes) {
  json::array list;
  for (const auto& [key, value] : attributes) list.push_back(json::object{{"key", key}, {"value", OtlpValue(value)}});
  return list;
}

json::object OtlpSpan(const Span& span) {
  json::object out;
  out["traceId"] = TraceIdText(span.context.trace_id);
  out["spanId"] = SpanIdText(span.context.span_id);
  if (!span.trace_state.empty()) out["traceState"] = span.trace_state;
  uint32_t flags = span.context.flags | kKnowsParentIsRemote;
  if (span.parent != SpanId()) {
    out["parentSpanId"] = SpanIdText(span.parent);
    if (span.parent_is_remote) flags |= kParentIsRemote;
  }
  out["flags"] = flags;
  out["name"] = span.name;
  out["kind"] = static_cast<int>(span.kind);
  out["startTimeUnixNano"] = std::to_string(span.start_unix_ns);
  out["endTimeUnixNano"] = std::to_string(span.end_unix_ns);
  out["attributes"] = OtlpAttributes(span.attributes);
  json::object status;
  if (!span.status_message.empty()) status["message"] = span.status_message;
  if (span.status != SpanStatus::kUnset) status["code"] = static_cast<int>(span.status);
  if (!status.empty()) out["status"] = std::move(status);
  return out;
}

}  // namespace

std::string OtlpTracesJson(std::span<const Span> spans, const SpanSource& source) {
  json::array list;
  for (const Span& span : spans) list.push_back(OtlpSpan(span));
  json::object scope{{"name", "surety"}};
  Attributes resource = {{"service.name", source.service_name}};
  if (!source.service_version.empty()) {
    scope["version"] = source.service_version;
    resource.emplace_back("service.version", source.service_version);
  }
  json::object scope_spans{{"scope", std::move(scope)}, {"spans", std::move(list)}};
  json::object resource_spans{{"resource", json::object{{"attributes", OtlpAttributes(resource)}}},
                              {"scopeSpans", json::array{std::move(scope_spans)}}};
  return json::serialize(json::object{{"resourceSpans", json::array{std::move(resource_spans)}}});
}

int64_t RejectedSpans(std::string_view answer) {
  boost::system::error_code error;
  const json::value value = json::parse(json::string_view(answer.data(), answer.size()), error);
  if (error || !value.is_object()) return 0;
  const json::value* partial = value.get_object().if_contains("partialSuccess");
  if (partial == nullptr || !partial->is_object()) return 0;
  const json::value* rejected = partial->get_object().if_contains("rejectedSpans");
  if (rejected == nullptr) return 0;
  if (rejected->is_string()) {
    const json::string& text = rejected->get_string();
    int64_t number = 0;
    const auto read = std::from_chars(text.data(), text.data() + text.size(), number);
    return read.ec == std::errc() && read.ptr == text.data() + text.size() ? number : 0;
  }
  boost::system::error_code not_whole;
  const auto number = rejected->to_number<int64_t>(not_whole);
  return not_whole ? 0 : number;
}

}  // namespace surety::observe
