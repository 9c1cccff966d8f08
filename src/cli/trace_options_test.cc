#include "cli/trace_options.h"

#include <gtest/gtest.h>

#include <map>

namespace surety::cli {
namespace {

Environment Variables(std::map<std::string, std::string> values) {
  return [values = std::move(values)](const char* name) {
    const auto found = values.find(name);
    return found == values.end() ? std::string() : found->second;
  };
}

TEST(TraceOptionsTest, WithoutAnEndpointThereAreNoTraces) {
  const auto target = TraceFlags().Target(Variables({{"OTEL_SERVICE_NAME", "x"}}));
  ASSERT_TRUE(target);
  EXPECT_FALSE(*target);
}

TEST(TraceOptionsTest, TheFlagComesBeforeTheVariables) {
  std::map<std::string, std::string> values = {{"OTEL_EXPORTER_OTLP_ENDPOINT", "http://all:4318/base"},
                                               {"OTEL_EXPORTER_OTLP_HEADERS", "a=1"},
                                               {"OTEL_SERVICE_NAME", "desk"}};
  TraceFlags flags;
  auto target = **flags.Target(Variables(values));
  EXPECT_EQ(target.endpoint.authority, "all:4318");
  EXPECT_EQ(target.endpoint.path, "/base/v1/traces");
  EXPECT_EQ(target.headers, (observe::OtlpHeaders{{"a", "1"}}));
  EXPECT_EQ(target.service_name, "desk");
  values["OTEL_EXPORTER_OTLP_TRACES_ENDPOINT"] = "http://traces:4318/own";
  values["OTEL_EXPORTER_OTLP_TRACES_HEADERS"] = "b=2";
  target = **flags.Target(Variables(values));
  EXPECT_EQ(target.endpoint.authority, "traces:4318");
  EXPECT_EQ(target.endpoint.path, "/own");
  EXPECT_EQ(target.headers, (observe::OtlpHeaders{{"b", "2"}}));
  flags.otlp_endpoint = "http://flag:1";
  EXPECT_EQ((**flags.Target(Variables(values))).endpoint.authority, "flag:1");
  EXPECT_EQ((**flags.Target(Variables({}))).service_name, "surety");
}

TEST(TraceOptionsTest, WhatIsWrongIsNamed) {
  TraceFlags flags;
  flags.sample = 1.5;
  EXPECT_NE(flags.Validate().message().find("--trace-sample"), std::string::npos);
  flags.otlp_endpoint = "https://x";
  EXPECT_NE(flags.Target(Variables({})).error().message().find("--otlp-endpoint"), std::string::npos);
  const auto from_variable = TraceFlags().Target(Variables({{"OTEL_EXPORTER_OTLP_ENDPOINT", "x"}}));
  EXPECT_NE(from_variable.error().message().find("$OTEL_EXPORTER_OTLP_ENDPOINT"), std::string::npos);
  const auto headers = TraceFlags().Target(
      Variables({{"OTEL_EXPORTER_OTLP_ENDPOINT", "http://x"}, {"OTEL_EXPORTER_OTLP_HEADERS", "secret"}}));
  EXPECT_NE(headers.error().message().find("$OTEL_EXPORTER_OTLP_HEADERS"), std::string::npos);
}

}  // namespace
}  // namespace surety::cli
