#include "observe/otlp_json.h"

#include <gtest/gtest.h>

#include <limits>

#include <boost/json.hpp>

namespace surety::observe {
namespace {

namespace json = boost::json;

Span ExampleSpan() {
  Span span;
  span.context = *ParseTraceparent("00-5b8efff798038103d269b633813fc60c-eee19b7ec3c1b174-01");
  span.parent = {0xee, 0xe1, 0x9b, 0x7e, 0xc3, 0xc1, 0xb1, 0x73};
  span.parent_is_remote = true;
  span.name = "I'm a server span";
  span.kind = SpanKind::kServer;
  span.start_unix_ns = 1544712660000000000;
  span.end_unix_ns = 1544712661000000000;
  span.attributes = {{"my.span.attr", std::string("some value")}};
  return span;
}

TEST(OtlpJsonTest, HasTheShapeOfTheSpecificationsExample) {
  // The example of the protocol's documents, with our scope, ids in lower case (both are allowed) and flags.
  const json::value expected = json::parse(R"({"resourceSpans":[{
    "resource":{"attributes":[{"key":"service.name","value":{"stringValue":"my.service"}},
                              {"key":"service.version","value":{"stringValue":"1.0.0"}}]},
    "scopeSpans":[{"scope":{"name":"surety","version":"1.0.0"},
      "spans":[{"traceId":"5b8efff798038103d269b633813fc60c","spanId":"eee19b7ec3c1b174",
        "parentSpanId":"eee19b7ec3c1b173","name":"I'm a server span","flags":769,
        "startTimeUnixNano":"1544712660000000000","endTimeUnixNano":"1544712661000000000","kind":2,
        "attributes":[{"key":"my.span.attr","value":{"stringValue":"some value"}}]}]}]}]})");
  const Span span = ExampleSpan();
  EXPECT_EQ(json::parse(OtlpTracesJson({&span, 1}, {"my.service", "1.0.0"})), expected);
}

TEST(OtlpJsonTest, ValuesOfEveryKind) {
  Span span = ExampleSpan();
  span.attributes = {{"truth", true},
                     {"number", std::numeric_limits<int64_t>::max()},
                     {"double", 0.25},
                     {"infinite", std::numeric_limits<double>::infinity()},
                     {"undefined", std::numeric_limits<double>::quiet_NaN()},
                     {"list", std::vector<std::string>{"a", "b\"\n"}},
                     {"empty", std::vector<std::string>{}}};
  span.status = SpanStatus::kError;
  span.status_message = "no";
  span.trace_state = "congo=1";
  span.parent = {};
  const json::value all = json::parse(OtlpTracesJson({&span, 1}, {}));
  const json::object& out = all.at_pointer("/resourceSpans/0/scopeSpans/0/spans/0").as_object();
  EXPECT_EQ(out.at("attributes"), json::parse(R"([
    {"key":"truth","value":{"boolValue":true}},
    {"key":"number","value":{"intValue":"9223372036854775807"}},
    {"key":"double","value":{"doubleValue":0.25}},
    {"key":"infinite","value":{"doubleValue":"Infinity"}},
    {"key":"undefined","value":{"doubleValue":"NaN"}},
    {"key":"list","value":{"arrayValue":{"values":[{"stringValue":"a"},{"stringValue":"b\"\n"}]}}},
    {"key":"empty","value":{"arrayValue":{"values":[]}}}])"));
  EXPECT_EQ(out.at("status"), json::parse(R"({"message":"no","code":2})"));
  EXPECT_EQ(out.at("traceState"), "congo=1");
  EXPECT_FALSE(out.contains("parentSpanId"));
  EXPECT_EQ(out.at("flags"), 0x101);
}

TEST(OtlpJsonTest, RefusedSpansAreRead) {
  EXPECT_EQ(RejectedSpans("{}"), 0);
  EXPECT_EQ(RejectedSpans(R"({"partialSuccess":{}})"), 0);
  EXPECT_EQ(RejectedSpans(R"({"partialSuccess":{"rejectedSpans":"3","errorMessage":"x"}})"), 3);
  EXPECT_EQ(RejectedSpans(R"({"partialSuccess":{"rejectedSpans":4}})"), 4);
  for (const char* odd : {"", "[]", "not json", R"({"partialSuccess":1})",
                          R"({"partialSuccess":{"rejectedSpans":"x"}})", R"({"partialSuccess":{"rejectedSpans":[]}})",
                          R"({"partialSuccess":{"rejectedSpans":1.5}})"}) {
    EXPECT_EQ(RejectedSpans(odd), 0) << odd;
  }
}

}  // namespace
}  // namespace surety::observe
