// What a trace tells of requests: one span each, whatever becomes of them, with its children inside.
#include "http/request_trace.h"

#include <gtest/gtest.h>

#include "http/testing/openai_rig.h"

namespace surety::http {
namespace {

using namespace testing;  // NOLINT: the rig's words
using api::FinishReason;
using observe::Span;

constexpr char kTraceparent[] = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01";
constexpr char kChatBody[] = R"({"model":"small","messages":[{"role":"user","content":"a secret"}],"max_tokens":9,
  "temperature":0.7,"top_p":0.9,"top_k":40,"seed":5})";

class SpanList : public observe::SpanSink {
 public:
  void Take(std::vector<Span> taken) override {
    ++n_calls;
    for (Span& span : taken) spans.push_back(std::move(span));
  }
  std::vector<Span> spans;
  int n_calls = 0;
};

class HandClock : public Clock {
 public:
  int64_t NowNanos() const override { return now_ns; }
  int64_t WallNanos() const override { return 1'750'000'000'000'000'000 + now_ns; }
  void SleepNanos(int64_t) override {}
  int64_t now_ns = 50'000'000;
};

struct TracedRig {
  explicit TracedRig(double ratio = 1) : tracer(list, ratio, 11), api(&tracer, &clock) {}

  const Span& Server() const { return list.spans.at(0); }

  SpanList list;
  HandClock clock;
  observe::Tracer tracer;
  ApiRig api;
};

std::optional<observe::AttributeValue> Find(const Span& span, std::string_view name) {
  std::optional<observe::AttributeValue> found;
  for (const auto& [key, value] : span.attributes) {
    if (key != name) continue;
    EXPECT_FALSE(found) << name << " stands twice";
    found = value;
  }
  return found;
}

template <typename T>
void ExpectHas(const Span& span, std::string_view name, const T& value) {
  const auto found = Find(span, name);
  ASSERT_TRUE(found) << name;
  ASSERT_TRUE(std::holds_alternative<T>(*found)) << name;
  EXPECT_EQ(std::get<T>(*found), value) << name;
}

void ExpectHas(const Span& span, std::string_view name, const char* value) {
  ExpectHas<std::string>(span, name, value);
}

TEST(RequestTraceTest, AChatHasItsSpanWithTheGenAiAttributes) {
  TracedRig rig;
  rig.api.backend->scripts = {{Text("Hi"), End(FinishReason::kStop)}};
  rig.api.headers = {{"traceparent", kTraceparent}, {"tracestate", "congo=t61"}};
  const auto record = rig.api.Post("/v1/chat/completions", kChatBody);
  ASSERT_EQ(record->status, 200);
  ASSERT_EQ(rig.list.n_calls, 1);
  const Span& span = rig.Server();
  EXPECT_EQ(span.name, "chat small");
  EXPECT_EQ(span.kind, observe::SpanKind::kServer);
  EXPECT_EQ(observe::SpanIdText(span.parent), "b7ad6b7169203331");
  EXPECT_TRUE(span.parent_is_remote);
  EXPECT_EQ(span.trace_state, "congo=t61");
  EXPECT_EQ(span.status, observe::SpanStatus::kUnset);
  EXPECT_EQ(record->Header("traceresponse"), observe::FormatTraceparent(span.context));
  EXPECT_EQ(observe::TraceIdText(span.context.trace_id), "0af7651916cd43dd8448eb211c80319c");
  ExpectHas(span, "http.request.method", "POST");
  ExpectHas(span, "url.path", "/v1/chat/completions");
  ExpectHas(span, "http.response.status_code", int64_t{200});
  ExpectHas(span, "http.response.header.x-request-id", std::vector<std::string>{"r1"});
  ExpectHas(span, "gen_ai.operation.name", "chat");
  ExpectHas(span, "gen_ai.provider.name", "surety");
  ExpectHas(span, "gen_ai.request.model", "small");
  ExpectHas(span, "gen_ai.response.model", "tiny");
  ExpectHas(span, "gen_ai.response.id", "chatcmpl-r1");
  EXPECT_EQ(record->Json().at("id"), "chatcmpl-r1");
  ExpectHas(span, "gen_ai.request.stream", false);
  ExpectHas(span, "gen_ai.request.max_tokens", int64_t{9});
  ExpectHas(span, "gen_ai.request.temperature", 0.7);
  ExpectHas(span, "gen_ai.request.top_p", 0.9);
  ExpectHas(span, "gen_ai.request.top_k", int64_t{40});
  ExpectHas(span, "gen_ai.request.seed", int64_t{5});
  ExpectHas(span, "gen_ai.response.finish_reasons", std::vector<std::string>{"stop"});
  ExpectHas(span, "gen_ai.usage.input_tokens", int64_t{10});
  ExpectHas(span, "gen_ai.usage.cache_read.input_tokens", int64_t{4});
  ExpectHas(span, "gen_ai.usage.output_tokens", int64_t{3});
  EXPECT_FALSE(Find(span, "error.type"));
  EXPECT_FALSE(Find(span, "gen_ai.request.choice.count"));
  for (const Span& each : rig.list.spans) {
    for (const auto& [key, value] : each.attributes) {
      const auto* text = std::get_if<std::string>(&value);
      EXPECT_TRUE(text == nullptr || text->find("secret") == std::string::npos) << key;
    }
  }
}

TEST(RequestTraceTest, QueuePrefillAndDecodeFollowOneAnotherInside) {
  TracedRig rig;
  const auto record = rig.api.Post("/v1/chat/completions", kChatBody);
  rig.clock.now_ns += 20'000'000;
  rig.api.backend->Emit(1, End(FinishReason::kLength));  // queue 1 ms, prefill 2 ms, decode 3.5 ms
  rig.clock.now_ns += 1'000'000;
  EXPECT_EQ(rig.list.n_calls, 0) << "while the backend may still call the sink";
  rig.api.backend->Forget(1);
  ASSERT_EQ(rig.list.spans.size(), 4u);
  const Span& server = rig.Server();
  EXPECT_EQ(server.start_unix_ns, 1'750'000'000'050'000'000);
  EXPECT_EQ(server.end_unix_ns, 1'750'000'000'070'000'000);
  EXPECT_EQ(server.parent, observe::SpanId());
  int64_t at = server.end_unix_ns - 6'500'000;
  const std::pair<const char*, int64_t> expected[] = {{"queue", 1'000'000}, {"prefill", 2'000'000},
                                                      {"decode", 3'500'000}};
  for (size_t i = 0; i < 3; ++i) {
    const Span& child = rig.list.spans[i + 1];
    EXPECT_EQ(child.name, expected[i].first);
    EXPECT_EQ(child.kind, observe::SpanKind::kInternal);
    EXPECT_EQ(child.parent, server.context.span_id);
    EXPECT_FALSE(child.parent_is_remote);
    EXPECT_EQ(child.context.trace_id, server.context.trace_id);
    EXPECT_NE(child.context.span_id, server.context.span_id);
    EXPECT_EQ(child.start_unix_ns, at);
    at += expected[i].second;
    EXPECT_EQ(child.end_unix_ns, at);
  }
  EXPECT_EQ(at, server.end_unix_ns);
}

TEST(RequestTraceTest, EveryAnswerOfARequestIsToldUpToALimit) {
  TracedRig rig;
  FakeBackend::Script first, second;
  for (int i = 0; i < 10; ++i) first.push_back(End(FinishReason::kStop, i));
  for (int i = 0; i < 10; ++i) second.push_back(End(FinishReason::kTimeout, i));
  rig.api.backend->scripts = {first, second};
  rig.api.Post("/v1/completions", R"({"prompt":["a","b"],"n":10,"max_tokens":1,"stream":true})");
  ASSERT_EQ(rig.list.n_calls, 1);
  EXPECT_EQ(rig.list.spans.size(), 1u + 16 * 3);
  const Span& span = rig.Server();
  EXPECT_EQ(span.name, "text_completion tiny");
  ExpectHas(span, "gen_ai.response.id", "cmpl-r1");
  ExpectHas(span, "gen_ai.request.choice.count", int64_t{10});
  ExpectHas(span, "gen_ai.request.stream", true);
  ExpectHas(span, "gen_ai.usage.input_tokens", int64_t{20});
  ExpectHas(span, "gen_ai.usage.output_tokens", int64_t{60});
  ExpectHas(rig.list.spans[1 + 10 * 3], "surety.prompt.index", int64_t{1});
  ExpectHas(rig.list.spans[1 + 3], "surety.choice.index", int64_t{1});
}

TEST(RequestTraceTest, ToolCallsAreAReasonOfTheirOwn) {
  TracedRig rig;
  api::Event call;
  call.tool_calls = {{0, "f", "{}"}};
  rig.api.backend->scripts = {{call, End(FinishReason::kStop)}};
  rig.api.Post("/v1/chat/completions", kChatBody);
  ExpectHas(rig.Server(), "gen_ai.response.finish_reasons", std::vector<std::string>{"tool_calls"});
}

TEST(RequestTraceTest, EmbeddingsHaveASpan) {
  TracedRig rig;
  rig.api.Post("/v1/embeddings", R"({"model":"tiny","input":["a","bc"]})");
  ASSERT_EQ(rig.list.spans.size(), 1u);
  EXPECT_EQ(rig.Server().name, "embeddings tiny");
  ExpectHas(rig.Server(), "gen_ai.operation.name", "embeddings");
  ExpectHas(rig.Server(), "gen_ai.usage.input_tokens", int64_t{4});
  ExpectHas(rig.Server(), "gen_ai.embeddings.dimension.count", int64_t{3});
  EXPECT_FALSE(Find(rig.Server(), "gen_ai.usage.output_tokens"));
}

TEST(RequestTraceTest, ErrorsHaveTheirCodeAndOneSpan) {
  TracedRig rig;
  const auto last = [&]() -> const Span& { return rig.list.spans.back(); };
  rig.api.Post("/v1/chat/completions", "{");
  EXPECT_EQ(last().name, "chat");
  ExpectHas(last(), "error.type", "invalid_json");
  ExpectHas(last(), "http.response.status_code", int64_t{400});
  EXPECT_EQ(last().status, observe::SpanStatus::kUnset);
  rig.api.Post("/v1/responses", R"({"model":"none","input":"x"})");
  ExpectHas(last(), "error.type", "model_not_found");
  rig.api.backend->refuse = api::Refusal{ResourceExhaustedError("full"), "", 1};
  rig.api.Post("/v1/chat/completions", kChatBody);
  ExpectHas(last(), "error.type", "rate_limit_exceeded");
  ExpectHas(last(), "http.response.status_code", int64_t{429});
  rig.api.backend->refuse = api::Refusal{UnavailableError("draining"), "", 1};
  rig.api.Post("/v1/chat/completions", kChatBody);
  ExpectHas(last(), "error.type", "unavailable");
  EXPECT_EQ(last().status, observe::SpanStatus::kError);
  EXPECT_EQ(rig.list.n_calls, 4);
}

TEST(RequestTraceTest, AStreamThatBreaksIsAnErrorWithItsStatus) {
  TracedRig rig;
  api::Event broken = End(FinishReason::kError);
  broken.error = InternalError("broken");
  rig.api.backend->scripts = {{Text("Hi"), broken}};
  rig.api.Post("/v1/completions", R"({"prompt":"a","stream":true})");
  ASSERT_EQ(rig.list.n_calls, 1);
  ExpectHas(rig.Server(), "error.type", "internal_error");
  ExpectHas(rig.Server(), "http.response.status_code", int64_t{200});
  ExpectHas(rig.Server(), "gen_ai.response.finish_reasons", std::vector<std::string>{"error"});
  EXPECT_EQ(rig.Server().status, observe::SpanStatus::kError);
}

TEST(RequestTraceTest, AClientThatLeavesEndsItsSpanWithTheBackendsLastWord) {
  TracedRig rig;
  const auto record = rig.api.Post("/v1/completions", R"({"prompt":"a","stream":true})");
  rig.api.backend->Emit(1, Text("Hi"));
  rig.clock.now_ns += 30'000'000;
  record->on_disconnect();
  EXPECT_EQ(rig.api.backend->cancelled.size(), 1u);
  rig.clock.now_ns += 2'000'000;
  rig.api.backend->Emit(1, End(FinishReason::kCancelled));
  rig.api.backend->Forget(1);
  ASSERT_EQ(rig.list.n_calls, 1);
  const Span& span = rig.Server();
  ExpectHas(span, "error.type", "client_disconnected");
  ExpectHas(span, "http.response.status_code", int64_t{200});
  ExpectHas(span, "gen_ai.response.finish_reasons", std::vector<std::string>{"cancelled"});
  ExpectHas(span, "gen_ai.usage.output_tokens", int64_t{3});
  EXPECT_EQ(span.end_unix_ns - span.start_unix_ns, 32'000'000);
  for (const Span& child : rig.list.spans) {
    EXPECT_GE(child.start_unix_ns, span.start_unix_ns);
    EXPECT_LE(child.end_unix_ns, span.end_unix_ns);
  }
}

TEST(RequestTraceTest, ARequestThatNobodyTakesHasASpan) {
  TracedRig rig;
  rig.api.post = [](Task) { return false; };
  const auto routes = [&] {
    OpenAiOptions options;
    options.models = rig.api.registry;
    options.clock = &rig.clock;
    options.tracer = &rig.tracer;
    options.post = rig.api.post;
    return OpenAiRoutes(options);
  }();
  rig.api.routes = routes;
  EXPECT_EQ(rig.api.Post("/v1/chat/completions", kChatBody)->status, 503);
  ASSERT_EQ(rig.list.spans.size(), 1u);
  ExpectHas(rig.Server(), "error.type", "overloaded");
}

TEST(RequestTraceTest, WhatIsNotSampledLeavesNothingButTheAnswersId) {
  TracedRig never(0);
  never.api.backend->scripts = {{End(FinishReason::kStop)}, {End(FinishReason::kStop)}, {End(FinishReason::kStop)}};
  EXPECT_EQ(never.api.Post("/v1/chat/completions", kChatBody)->Header("traceresponse"), "");
  EXPECT_EQ(never.list.n_calls, 0);
  never.api.headers = {{"traceparent", kTraceparent}};  // the caller records: so does the server
  never.api.Post("/v1/chat/completions", kChatBody);
  EXPECT_EQ(never.list.n_calls, 1);
  TracedRig always(1);
  always.api.backend->scripts = {{End(FinishReason::kStop)}, {End(FinishReason::kStop)}};
  always.api.headers = {{"traceparent", "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-00"}};
  const auto record = always.api.Post("/v1/chat/completions", kChatBody);
  EXPECT_EQ(always.list.n_calls, 0);
  const auto answer = observe::ParseTraceparent(record->Header("traceresponse"));
  ASSERT_TRUE(answer);
  EXPECT_EQ(observe::TraceIdText(answer->trace_id), "0af7651916cd43dd8448eb211c80319c");
  EXPECT_FALSE(answer->sampled());
  always.api.headers = {{"traceparent", "00-nonsense"}};  // as good as none: a new trace
  EXPECT_EQ(always.api.Post("/v1/chat/completions", kChatBody)->Header("traceresponse"), "");
  EXPECT_EQ(always.list.n_calls, 1);
  EXPECT_EQ(always.Server().parent, observe::SpanId());
}

TEST(RequestTraceTest, LookUpsHaveNone) {
  TracedRig rig;
  rig.api.Call("GET", "/v1/models", "");
  rig.api.Post("/tokenize", R"({"prompt":"a"})");
  EXPECT_EQ(rig.list.n_calls, 0);
}

}  // namespace
}  // namespace surety::http
