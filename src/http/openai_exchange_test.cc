// How an HTTP request ends: refusals, errors, time-outs, drains, clients that leave; always exactly once.
#include "http/openai_exchange.h"

#include <string>
#include <thread>

#include <gtest/gtest.h>

#include "base/random.h"
#include "http/testing/openai_rig.h"

namespace surety::http {
namespace {

using namespace testing;  // NOLINT: the rig's words
namespace json = boost::json;
using api::FinishReason;

std::string Chat(const std::string& members = "") {
  return R"({"messages":[{"role":"user","content":"hi"}])" + (members.empty() ? "" : "," + members) + "}";
}
constexpr char kPath[] = "/v1/chat/completions";

api::Event Failed(Status status) {
  api::Event event = End(FinishReason::kError);
  event.error = std::move(status);
  return event;
}

TEST(ExchangeTest, RefusalsHaveTheirStatusAlsoInStreams) {
  struct Case {
    StatusCode code;
    int status;
    const char *type, *name;
    double retry_s;
    const char *retry_after, *retry_ms;
  };
  for (const Case& c : {
           Case{StatusCode::kInvalidArgument, 400, "invalid_request_error", "invalid_value", 0, "", ""},
           Case{StatusCode::kUnimplemented, 400, "invalid_request_error", "unsupported_by_model", 0, "", ""},
           Case{StatusCode::kNotFound, 404, "invalid_request_error", "not_found", 0, "", ""},
           Case{StatusCode::kDeadlineExceeded, 408, "timeout_error", "timeout", 0, "", ""},
           Case{StatusCode::kResourceExhausted, 429, "rate_limit_error", "rate_limit_exceeded", 2.25, "3", "2250"},
           Case{StatusCode::kResourceExhausted, 429, "rate_limit_error", "rate_limit_exceeded", 0.03, "1", "30"},
           Case{StatusCode::kResourceExhausted, 429, "rate_limit_error", "rate_limit_exceeded", 0, "1", "1000"},
           Case{StatusCode::kUnavailable, 503, "server_error", "unavailable", 1e300, "3600", "3600000"},
           Case{StatusCode::kInternal, 500, "server_error", "internal_error", 0, "", ""},
       }) {
    for (const char* stream : {R"("stream":false)", R"("stream":true)"}) {
      ApiRig rig;
      rig.backend->refuse = api::Refusal{Status(c.code, "because"), "sampling.top_k", c.retry_s};
      const auto record = rig.Post(kPath, Chat(stream));
      EXPECT_EQ(record->status, c.status);
      EXPECT_FALSE(record->streamed);
      EXPECT_EQ(record->n_answers, 1);
      const json::object error{{"message", "because"}, {"type", c.type}, {"param", "top_k"}, {"code", c.name}};
      EXPECT_EQ(record->Json(), (json::object{{"error", error}}));
      EXPECT_EQ(record->Header("Retry-After"), c.retry_after);
      EXPECT_EQ(record->Header("retry-after-ms"), c.retry_ms);
    }
  }
}

TEST(ExchangeTest, AnOverflowOfTheContextCountsThePrompt) {
  ApiRig rig;
  rig.backend->refuse = api::Refusal{OutOfRangeError("the prompt is too long"), "", 0};
  const auto record = rig.Post("/v1/completions", R"({"prompt":["a","0123456789"]})");
  EXPECT_EQ(record->status, 400);
  const json::value error = record->Json().at("error");
  EXPECT_EQ(error.at("code"), "context_length_exceeded");
  EXPECT_EQ(error.at("param"), "prompt");
  EXPECT_EQ(error.at("n_ctx"), 128);
  EXPECT_EQ(error.at("n_prompt_tokens"), 2);  // "a" and the beginning mark
  rig.backend->refuse_after = 1;
  rig.backend->scripts = {{Text("x"), End(FinishReason::kStop)}};
  EXPECT_EQ(rig.Post("/v1/completions", R"({"prompt":["a","0123456789"]})")->Json().at("error").at("n_prompt_tokens"),
            11);
  EXPECT_EQ(rig.backend->cancelled, std::vector<api::RequestId>{1});  // the prompt before it
  const auto chat = rig.Post(kPath, Chat())->Json().at("error");
  EXPECT_EQ(chat.at("param"), "messages");
  EXPECT_GT(chat.at("n_prompt_tokens").as_int64(), 5);
}

TEST(ExchangeTest, EndsByWhatHappenedAndWhatWasMade) {
  struct Case {
    const char* name;
    FakeBackend::Script script;
    int status;             // of a body
    const char* code;       // of its error, or empty
    int stream_status;
    bool stream_fails;      // a last event with an error and no [DONE]
  };
  const Status internal = InternalError("page table lost");
  for (const Case& c : {
           Case{"error first", {Failed(internal)}, 500, "internal_error", 500, false},
           Case{"error later", {Text("a"), Failed(internal)}, 500, "internal_error", 200, true},
           Case{"time-out first", {End(FinishReason::kTimeout)}, 408, "timeout", 408, false},
           Case{"time-out later", {Text("a"), End(FinishReason::kTimeout)}, 200, "", 200, false},
           Case{"drain first", {End(FinishReason::kCancelled)}, 503, "unavailable", 503, false},
           Case{"drain later", {Text("a"), End(FinishReason::kCancelled)}, 503, "unavailable", 200, true},
       }) {
    SCOPED_TRACE(c.name);
    ApiRig rig;
    rig.backend->scripts = {c.script, c.script};
    const auto body = rig.Post(kPath, Chat());
    EXPECT_EQ(body->status, c.status);
    EXPECT_EQ(body->n_answers, 1);
    if (c.status != 200) {
      EXPECT_EQ(body->Json().at("error").at("code"), c.code);
    } else {
      EXPECT_EQ(body->Json().at("choices").at(0).at("finish_reason"), "length");
      EXPECT_EQ(body->Json().at("choices").at(0).at("stop_reason"), "timeout");
      EXPECT_EQ(body->Json().at("choices").at(0).at("message").at("content"), "a");
    }
    if (c.status == 503) {
      EXPECT_EQ(body->Header("Retry-After"), "1");
    }
    const auto stream = rig.Post(kPath, Chat(R"("stream":true)"));
    EXPECT_EQ(stream->status, c.stream_status);
    EXPECT_EQ(stream->n_answers, 1);
    EXPECT_TRUE(stream->finished);
    if (!stream->streamed) continue;
    bool done;
    const auto chunks = Chunks(stream->body, done);
    EXPECT_EQ(done, !c.stream_fails);
    EXPECT_EQ(chunks.back().contains("error"), c.stream_fails);
    if (c.stream_fails) {
      EXPECT_EQ(chunks.back().at("error").at("code"), c.code);
    }
  }
}

TEST(ExchangeTest, AClientThatLeavesCancelsAllItsRequests) {
  for (const bool stream : {false, true}) {
    ApiRig rig;
    const auto record = rig.Post("/v1/completions", std::string(R"({"prompt":["a","b"],"stream":)") +
                                                        (stream ? "true}" : "false}"));
    rig.backend->Emit(1, Text("x"));
    ASSERT_TRUE(record->on_disconnect);
    record->on_disconnect();
    EXPECT_EQ(rig.backend->cancelled, (std::vector<api::RequestId>{1, 2}));
    const size_t n_pieces = record->pieces.size();
    rig.backend->Emit(2, Text("y"));
    rig.backend->Emit(1, End(FinishReason::kCancelled));
    rig.backend->Emit(2, End(FinishReason::kCancelled));
    EXPECT_EQ(record->pieces.size(), n_pieces + (stream ? 1 : 0));  // the writer drops it
    EXPECT_EQ(record->n_answers, 1);
    EXPECT_TRUE(record->finished);
  }
}

TEST(ExchangeTest, AWriteThatFailsCancels) {
  ApiRig rig;
  auto record = std::make_shared<Record>();
  record->fail_after = 1;
  rig.Call("POST", kPath, Chat(R"("stream":true,"n":2)"), record);
  rig.backend->Emit(1, Text("a"));
  EXPECT_TRUE(rig.backend->cancelled.empty());
  rig.backend->Emit(1, Text("b", 1));
  EXPECT_EQ(rig.backend->cancelled, std::vector<api::RequestId>{1});
  rig.backend->Emit(1, Text("c"));
  rig.backend->Emit(1, End(FinishReason::kCancelled));
  rig.backend->Emit(1, End(FinishReason::kCancelled, 1));
  EXPECT_EQ(record->pieces.size(), 1u);
  EXPECT_TRUE(record->finished);
}

TEST(ExchangeTest, ADisconnectBeforeTheSubmissionSubmitsNothing) {
  ApiRig rig;
  class GoneWriter : public RecordingWriter {
   public:
    using RecordingWriter::RecordingWriter;
    void OnDisconnect(std::function<void()> callback) override { callback(); }
  };
  auto record = std::make_shared<Record>();
  HttpRequest request;
  request.method = "POST";
  request.path = kPath;
  request.body = Chat();
  for (const Route& route : rig.routes) {
    if (route.path == kPath) route.handler(request, std::make_shared<GoneWriter>(record));
  }
  EXPECT_TRUE(rig.backend->requests.empty());
  EXPECT_EQ(record->n_answers, 1);
}

TEST(ExchangeTest, AFailedChoiceEndsTheWholeAnswer) {
  ApiRig rig;
  const auto record = rig.Post(kPath, Chat(R"("n":2)"));
  rig.backend->Emit(1, Text("a"));
  rig.backend->Emit(1, Failed(InternalError("x")));
  EXPECT_EQ(record->status, 500);
  EXPECT_EQ(rig.backend->cancelled, std::vector<api::RequestId>{1});
  rig.backend->Emit(1, End(FinishReason::kStop, 1));
  EXPECT_EQ(record->n_answers, 1);
}

TEST(ExchangeTest, NothingLivesOnAfterTheLastEvent) {
  std::weak_ptr<Record> watched;
  ApiRig rig;
  {
    const auto record = rig.Post(kPath, Chat());
    watched = record;
  }
  EXPECT_FALSE(watched.expired());  // the writer holds it, the sink holds the writer
  rig.backend->Emit(1, End(FinishReason::kStop));
  rig.backend->Forget(1);
  EXPECT_TRUE(watched.expired());
}

TEST(ExchangeTest, AFullQueueIsA503AtOnce) {
  ApiRig rig;
  OpenAiOptions options;
  options.models = rig.registry;
  options.post = [](Task) { return false; };
  rig.routes = OpenAiRoutes(options);
  const auto record = rig.Post(kPath, Chat());
  EXPECT_EQ(record->status, 503);
  EXPECT_EQ(record->Json().at("error").at("code"), "overloaded");
  EXPECT_EQ(record->Header("Retry-After"), "1");
  EXPECT_EQ(rig.Call("GET", "/v1/models", "")->status, 200);
}

// Events, disconnects and submissions on threads of their own; for ThreadSanitizer, and for the count of ends.
TEST(ExchangeTest, EndsOnceUnderConcurrentEventsAndDisconnects) {
  for (int round = 0; round < 200; ++round) {
    ApiRig rig;
    const auto record = rig.Post("/v1/completions", R"({"prompt":["a","b"],"stream":true})");
    const auto disconnect = record->on_disconnect;
    std::thread first([&] {
      for (int i = 0; i < 5; ++i) rig.backend->Emit(1, Text("x"));
      rig.backend->Emit(1, End(FinishReason::kStop));
    });
    std::thread second([&] {
      for (int i = 0; i < 5; ++i) rig.backend->Emit(2, Text("y"));
      rig.backend->Emit(2, End(FinishReason::kStop));
    });
    std::thread third([&] {
      if (round % 2 == 0) disconnect();
    });
    first.join();
    second.join();
    third.join();
    EXPECT_EQ(record->n_answers, 1);
    EXPECT_TRUE(record->finished);
  }
}

}  // namespace
}  // namespace surety::http
