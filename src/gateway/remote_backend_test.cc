// A remote server as a backend, against a server that is scripted.
#include "gateway/remote_backend.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <atomic>
#include <thread>

#include "gateway/remote_error.h"
#include "gateway/testing/backend_conformance.h"
#include "gateway/testing/event_recorder.h"
#include "gateway/testing/scripted_server.h"

namespace surety::gateway {
namespace {

namespace json = boost::json;
using ::testing::HasSubstr;

constexpr std::string_view kSseHead = "HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\n\r\n";

std::string ModelsBody(std::string_view owner) {
  return R"({"object":"list","data":[{"id":"other","owned_by":"nobody"},{"id":"m","object":"model",)"
         R"("created":1700000000,"owned_by":")" + std::string(owner) +
         R"(","max_model_len":4096,"meta":{"n_embd":8}}]})";
}

std::string Delta(std::string_view text, int index = 0) {
  return "data: " + json::serialize(json::object{{"choices", {{{"index", index}, {"delta", {{"content", text}}},
                                                              {"finish_reason", nullptr}}}}}) + "\n\n";
}
std::string FinishChunk(std::string_view reason, int index = 0) {
  return "data: " + json::serialize(json::object{{"choices", {{{"index", index}, {"delta", json::object()},
                                                              {"finish_reason", reason}}}}}) + "\n\n";
}
constexpr std::string_view kUsageChunk =
    "data: {\"choices\":[],\"usage\":{\"prompt_tokens\":11,\"completion_tokens\":5,"
    "\"prompt_tokens_details\":{\"cached_tokens\":4}}}\n\n";
constexpr std::string_view kDone = "data: [DONE]\n\n";

std::string SseReply(std::string_view events) {
  return HttpChunked(events, 4096, "Content-Type: text/event-stream\r\n");
}

api::GenerationRequest ChatOf(std::string_view text, int n = 1) {
  api::GenerationRequest request;
  request.has_messages = true;
  request.messages = {json::object{{"role", "user"}, {"content", text}}};
  request.n_choices = n;
  return request;
}

// A server that says what it is and answers generations with what the test set.
class RemoteRig {
 public:
  using Answer = std::function<void(ScriptedConnection&, const ScriptedRequest&)>;

  explicit RemoteRig(std::string_view owner = "vllm")
      : models_(ModelsBody(owner)), server_([this](ScriptedConnection& connection) {
          ScriptedRequest request;
          while (connection.ReadRequest(request)) {
            if (request.target == "/v1/models") {
              if (!connection.Send(models_status == 200 ? HttpOk(models_) : HttpOk("{}", {}, "503 no"))) return;
            } else {
              Current()(connection, request);
              if (close_after) return;
            }
          }
        }) {}

  void Make(std::function<void(RemoteOptions&)> change = {}) {
    RemoteOptions options;
    options.name = "far";
    options.base_url = server_.Url("/v1");
    options.model = "m";
    options.api_key = "sk-secret";
    options.timeout_ns = 10'000'000'000;
    options.probe_interval_ns = 20'000'000;
    if (change) change(options);
    auto made = MakeRemoteBackend(std::move(options));
    ASSERT_TRUE(made.has_value()) << made.error().ToString();
    backend = *std::move(made);
  }

  // Answers all generations with these bytes.
  void Reply(std::string bytes) {
    const std::lock_guard lock(mutex_);
    answer = [bytes = std::move(bytes)](ScriptedConnection& connection, const ScriptedRequest&) {
      (void)connection.Send(bytes);
    };
  }

  std::shared_ptr<EventRecorder> Run(api::GenerationRequest request = ChatOf("hi")) {
    auto recorder = std::make_shared<EventRecorder>(request.n_choices);
    const auto id = backend->Submit(std::move(request), EventRecorder::SinkOf(recorder));
    EXPECT_TRUE(id.has_value()) << id.error().status.ToString();
    EXPECT_TRUE(!id || recorder->Wait());
    EXPECT_EQ(recorder->fault(), "");
    return recorder;
  }

  std::vector<ScriptedRequest> Generations() const {
    std::vector<ScriptedRequest> generations = server_.requests();
    std::erase_if(generations, [](const ScriptedRequest& request) { return request.method != "POST"; });
    return generations;
  }

  Answer answer = [](ScriptedConnection&, const ScriptedRequest&) {};   // set before the first request, or by Reply
  std::atomic<bool> close_after{false};
  std::atomic<int> models_status{200};

 private:
  Answer Current() {
    const std::lock_guard lock(mutex_);
    return answer;
  }

  std::mutex mutex_;
  const std::string models_;
  ScriptedServer server_;

 public:
  std::unique_ptr<api::Backend> backend;   // ends before its server
};

TEST(RemoteBackendTest, StreamsAChat) {
  RemoteRig rig;
  rig.Reply(SseReply(Delta("Hel") + Delta("lo") + FinishChunk("stop") + std::string(kUsageChunk) + std::string(kDone)));
  rig.Make([](RemoteOptions& options) { options.headers = {{"X-Org", "bank"}}; });
  EXPECT_EQ(rig.backend->health(), api::Health::kReady);
  EXPECT_EQ(rig.backend->description().context_tokens, 4096);
  EXPECT_EQ(rig.backend->description().name, "far");
  const auto recorder = rig.Run();
  EXPECT_EQ(recorder->text(), "Hello");
  const api::Event last = recorder->last();
  EXPECT_EQ(last.finish, api::FinishReason::kStop);
  EXPECT_EQ(last.usage.prompt_tokens, 11);
  EXPECT_EQ(last.usage.cached_tokens, 4);
  EXPECT_EQ(last.usage.output_tokens, 5);
  EXPECT_EQ(recorder->n_events(), 3);
  const ScriptedRequest sent = rig.Generations().at(0);
  EXPECT_EQ(sent.target, "/v1/chat/completions");
  EXPECT_EQ(sent.headers.at("authorization"), "Bearer sk-secret");
  EXPECT_EQ(sent.headers.at("x-org"), "bank");
  EXPECT_EQ(sent.headers.at("content-type"), "application/json");
  const json::value body = json::parse(sent.body);
  EXPECT_EQ(body.at("model"), "m");
  EXPECT_EQ(body.at("cache_salt").as_string().size(), 64u) << "vLLM knows salts";
}

TEST(RemoteBackendTest, EveryCutOfTheStreamIsTheSameAnswer) {
  RemoteRig rig;
  const std::string bytes = ": ping\r\n\r\n" + Delta("Gr\xc3\xbc\xc3\x9f") + "data:{\"choices\":[{\"delta\":\r\ndata: "
                            "{\"content\":\"e\"},\"finish_reason\":\"length\"}]}\n\n" + std::string(kUsageChunk);
  std::atomic<size_t> cut{0};
  rig.answer = [&](ScriptedConnection& connection, const ScriptedRequest&) {
    connection.SendSplit(std::string(kSseHead) + bytes, kSseHead.size() + cut);
  };
  rig.close_after = true;
  rig.Make();
  for (cut = 0; cut <= bytes.size(); ++cut) {
    const auto recorder = rig.Run();
    ASSERT_EQ(recorder->text(), "Gr\xc3\xbc\xc3\x9f" "e") << cut;
    ASSERT_EQ(recorder->last().finish, api::FinishReason::kLength) << cut;
    ASSERT_EQ(recorder->last().usage.output_tokens, 5) << cut;
  }
}

TEST(RemoteBackendTest, ABodyThatIsNoStreamIsTakenWhole) {
  RemoteRig rig;
  rig.Reply(HttpOk(R"({"choices":[{"index":0,"message":{"role":"assistant","content":"all"},"finish_reason":"stop",
      "stop_reason":"END"}],"usage":{"prompt_tokens":3,"completion_tokens":1}})"));
  rig.Make();
  const auto recorder = rig.Run();
  EXPECT_EQ(recorder->text(), "all");
  EXPECT_EQ(recorder->last().finish, api::FinishReason::kStop);
  EXPECT_EQ(recorder->last().stop_text, "END");
  EXPECT_EQ(recorder->last().usage.prompt_tokens, 3);
}

TEST(RemoteBackendTest, PlainPromptsGoToCompletions) {
  RemoteRig rig("surety");
  rig.Reply(SseReply("data: {\"choices\":[{\"index\":0,\"text\":\" upon\",\"finish_reason\":null}]}\n\n"
                     "data: {\"choices\":[{\"index\":0,\"text\":\"\",\"finish_reason\":\"length\"}]}\n\n" +
                     std::string(kDone)));
  rig.Make();
  api::GenerationRequest request;
  request.has_prompt = true;
  request.prompt = "Once";
  const auto recorder = rig.Run(request);
  EXPECT_EQ(recorder->text(), " upon");
  EXPECT_EQ(recorder->last().usage.output_tokens, 2) << "estimated: a token for three bytes";
  EXPECT_GT(recorder->last().usage.prompt_tokens, 0);
  EXPECT_EQ(rig.Generations().at(0).target, "/v1/completions");
}

TEST(RemoteBackendTest, ChoicesEndEachOnceAndShareTheUsage) {
  RemoteRig rig;
  rig.Reply(SseReply(Delta("a", 1) + Delta("long text", 0) + Delta("b", 2) + FinishChunk("stop", 1) +
                     FinishChunk("length", 2) + FinishChunk("content_filter", 0) + std::string(kUsageChunk) +
                     std::string(kDone)));
  rig.Make();
  const auto recorder = rig.Run(ChatOf("x", 3));
  EXPECT_EQ(recorder->text(0), "long text");
  EXPECT_EQ(recorder->text(1), "a");
  EXPECT_EQ(recorder->last(0).finish, api::FinishReason::kFiltered);
  EXPECT_EQ(recorder->last(1).finish, api::FinishReason::kStop);
  EXPECT_EQ(recorder->last(2).finish, api::FinishReason::kLength);
  int sum = 0;
  for (int i = 0; i < 3; ++i) sum += recorder->last(i).usage.output_tokens;
  EXPECT_EQ(sum, 5) << "what the server counted, no more and no less";
  EXPECT_EQ(recorder->last(2).usage.prompt_tokens, 11);
}

TEST(RemoteBackendTest, ToolCallsComeInPieces) {
  RemoteRig rig;
  const auto call = [](std::string_view delta) {
    return "data: {\"choices\":[{\"index\":0,\"delta\":{\"tool_calls\":[" + std::string(delta) + "]}}]}\n\n";
  };
  rig.Reply(SseReply(call(R"({"index":0,"id":"c0","type":"function","function":{"name":"f","arguments":""}})") +
                     call(R"({"index":0,"function":{"arguments":"{\"a\""}})") +
                     call(R"({"index":0,"function":{"name":"f","arguments":":1}"}})") +
                     call(R"({"id":"c1","function":{"name":"g","arguments":"{}"}})") + FinishChunk("tool_calls") +
                     std::string(kDone)));
  rig.Make();
  const auto recorder = rig.Run();
  std::map<int, std::string> names, arguments;
  for (const api::ToolCallDelta& delta : recorder->calls()) {
    names[delta.index] += delta.name;
    arguments[delta.index] += delta.arguments;
  }
  EXPECT_EQ(names, (std::map<int, std::string>{{0, "f"}, {1, "g"}}));
  EXPECT_EQ(arguments, (std::map<int, std::string>{{0, R"({"a":1})"}, {1, "{}"}}));
  EXPECT_EQ(recorder->last().finish, api::FinishReason::kStop);
}

// Whatever the peer does, each choice ends once, and what is not a whole answer is not called one.
TEST(RemoteBackendTest, BrokenAnswersEndInOneErrorForEachChoice) {
  struct Row {
    const char* what;
    std::string bytes;
    StatusCode code;
  };
  const std::string head(kSseHead);
  const Row rows[] = {
      {"nothing", "", StatusCode::kUnavailable},
      {"head alone", head, StatusCode::kUnavailable},
      {"cut text", head + Delta("half"), StatusCode::kUnavailable},
      {"one choice of two", head + Delta("half") + FinishChunk("stop", 0), StatusCode::kUnavailable},
      {"done without ends", head + Delta("half") + std::string(kDone), StatusCode::kUnavailable},
      {"no json", head + Delta("half") + "data: {oops\n\n", StatusCode::kInternal},
      {"a list", head + "data: []\n\n", StatusCode::kInternal},
      {"bad utf-8", head + "data: {\"choices\":[{\"delta\":{\"content\":\"\xff\"}}]}\n\n", StatusCode::kInternal},
      {"another choice", head + Delta("x", 7), StatusCode::kInternal},
      {"negative choice", head + Delta("x", -1), StatusCode::kInternal},
      {"unknown reason", head + FinishChunk("tired"), StatusCode::kInternal},
      {"behind the end", head + FinishChunk("stop") + Delta("more"), StatusCode::kInternal},
      {"content no text", head + "data: {\"choices\":[{\"delta\":{\"content\":5}}]}\n\n", StatusCode::kInternal},
      {"call no name", head + "data: {\"choices\":[{\"delta\":{\"tool_calls\":[{\"index\":0}]}}]}\n\n",
       StatusCode::kInternal},
      {"too deep", head + "data: {\"choices\":" + std::string(100, '[') + "\n\n", StatusCode::kInternal},
      {"error object", head + Delta("a") + "data: {\"error\":{\"message\":\"boom\",\"code\":\"overloaded\"}}\n\n",
       StatusCode::kUnavailable},
      {"error number", head + "data: {\"error\":{\"message\":\"x\",\"code\":429}}\n\n", StatusCode::kResourceExhausted},
      {"error text", head + "data: {\"error\":\"boom\"}\n\n", StatusCode::kInternal},
      {"no http", "hello\r\n\r\n", StatusCode::kUnavailable},
      {"cut chunk", HttpChunked(Delta("a"), 10, "Content-Type: text/event-stream\r\n").substr(0, 100),
       StatusCode::kUnavailable},
      {"json no answer", HttpOk("[]"), StatusCode::kInternal},
      {"redirect", HttpOk("", "Location: http://x/\r\n", "302 Found"), StatusCode::kInternal},
  };
  for (const Row& row : rows) {
    RemoteRig rig;
    rig.Reply(row.bytes);
    rig.close_after = true;
    rig.Make();
    const auto recorder = rig.Run(ChatOf("x", 2));
    EXPECT_EQ(recorder->last(1).finish, api::FinishReason::kError) << row.what;
    EXPECT_EQ(recorder->last(1).error.code(), row.code) << row.what << ": " << recorder->last(1).error.ToString();
    EXPECT_THAT(recorder->last(1).error.message(), ::testing::StartsWith("far: ")) << row.what;
    EXPECT_EQ(rig.Generations().size(), 1u) << row.what << ": nothing is tried again here";
  }
}

// What a choice got is not whole when the stream turns out to be none, or when pieces were dropped after a Cancel.
TEST(RemoteBackendTest, AnEndThatCameWithABrokenOrCancelledStreamDoesNotCount) {
  RemoteRig rig;
  rig.Reply(SseReply(Delta("a", 0) + FinishChunk("stop", 0) + "data: {oops\n\n"));
  rig.Make();
  EXPECT_EQ(rig.Run(ChatOf("x", 2))->last(0).finish, api::FinishReason::kError);
  rig.Reply(SseReply(R"(data: {"choices":[{"index":0,"delta":{"content":"a"},"finish_reason":"stop"},)"
                     R"({"index":1,"delta":{"content":"b"},"finish_reason":"stop"}]})" "\n\n" + std::string(kDone)));
  auto recorder = std::make_shared<EventRecorder>(2);
  const auto sink = EventRecorder::SinkOf(recorder);
  ASSERT_TRUE(rig.backend->Submit(ChatOf("x", 2), [&](api::Event event) {
    if (!event.text.empty()) rig.backend->Cancel(event.request);
    sink(std::move(event));
  }).has_value());
  ASSERT_TRUE(recorder->Wait());
  EXPECT_EQ(recorder->text(0), "a");
  EXPECT_EQ(recorder->text(1), "");
  EXPECT_EQ(recorder->last(1).finish, api::FinishReason::kCancelled);
}

TEST(RemoteBackendTest, AMissingDoneOrAnOpenConnectionDoesNotHoldAWholeAnswerUp) {
  RemoteRig rig;
  std::atomic<int> with_usage{0};
  rig.answer = [&](ScriptedConnection& connection, const ScriptedRequest&) {
    connection.Send(std::string(kSseHead) + Delta("whole") + FinishChunk("stop") +
                    (with_usage == 1 ? std::string(kUsageChunk) + std::string(kDone) : ""));
    (void)connection.WaitForClose(10'000);
  };
  rig.close_after = true;
  rig.Make();
  for (with_usage = 1; with_usage >= 0; --with_usage) {
    const int64_t begun = Clock::Real().NowNanos();
    const auto recorder = rig.Run();
    EXPECT_EQ(recorder->text(), "whole");
    EXPECT_EQ(recorder->last().finish, api::FinishReason::kStop);
    EXPECT_LT(Clock::Real().NowNanos() - begun, 6'000'000'000);
  }
}

TEST(RemoteBackendTest, StatusesMapByAClosedTable) {
  struct Row {
    const char* status;
    StatusCode code;
    bool retry;
  };
  for (const Row& row : {Row{"408 x", StatusCode::kUnavailable, true},
                         Row{"429 x", StatusCode::kResourceExhausted, true},
                         Row{"500 x", StatusCode::kUnavailable, true},
                         Row{"502 x", StatusCode::kUnavailable, true}, Row{"503 x", StatusCode::kUnavailable, true},
                         Row{"504 x", StatusCode::kUnavailable, true},
                         Row{"400 x", StatusCode::kInvalidArgument, false}, Row{"401 x", StatusCode::kInternal, false},
                         Row{"403 x", StatusCode::kInternal, false}, Row{"404 x", StatusCode::kInternal, false},
                         Row{"409 x", StatusCode::kInternal, false}, Row{"418 x", StatusCode::kInternal, false},
                         Row{"422 x", StatusCode::kInvalidArgument, false}, Row{"501 x", StatusCode::kInternal, false},
                         Row{"505 x", StatusCode::kInternal, false}, Row{"529 x", StatusCode::kInternal, false}}) {
    RemoteRig rig;
    rig.Reply(HttpOk(R"({"error":{"message":"bad sk-secret\nthing"}})", {}, row.status));
    rig.Make();
    const api::Event last = rig.Run()->last();
    EXPECT_EQ(last.error.code(), row.code) << row.status;
    EXPECT_EQ(MayRetry(last.error), row.retry) << row.status;
    EXPECT_EQ(last.usage.prompt_tokens, 0) << "nothing was computed";
    const bool key = std::string_view(row.status).starts_with("40") && row.code == StatusCode::kInternal;
    if (key && row.status[2] != '4' && row.status[2] != '9') {
      EXPECT_THAT(last.error.message(), ::testing::Not(HasSubstr("sk-"))) << "a key may be repeated in it";
    } else {
      EXPECT_THAT(last.error.message(), HasSubstr("thing")) << row.status;
    }
    EXPECT_THAT(last.error.message(), ::testing::Not(HasSubstr("\n")));
  }
}

TEST(RemoteBackendTest, AServerThatAsksToBeLeftAloneIs) {
  RemoteRig rig;
  rig.Reply(HttpOk("{}", "retry-after-ms: 400\r\n", "429 Too Many Requests"));
  rig.Make();
  EXPECT_EQ(rig.Run()->last().error.code(), StatusCode::kResourceExhausted);
  const auto refused = rig.backend->Submit(ChatOf("x"), [](api::Event) {});
  ASSERT_FALSE(refused.has_value());
  EXPECT_EQ(refused.error().status.code(), StatusCode::kResourceExhausted);
  EXPECT_GT(refused.error().retry_after_s, 0);
  EXPECT_LE(refused.error().retry_after_s, 0.4);
  EXPECT_EQ(rig.Generations().size(), 1u);
  std::this_thread::sleep_for(std::chrono::milliseconds(420));
  rig.Reply(SseReply(Delta("a") + FinishChunk("stop") + std::string(kDone)));
  EXPECT_EQ(rig.Run()->last().finish, api::FinishReason::kStop);
}

TEST(RemoteBackendTest, LimitsOfTime) {
  RemoteRig rig;
  std::atomic<bool> trickle{false};
  rig.answer = [&](ScriptedConnection& connection, const ScriptedRequest&) {
    connection.Send(std::string(kSseHead) + Delta("begun"));
    while (trickle && connection.Send(": ping\n\n")) std::this_thread::sleep_for(std::chrono::milliseconds(10));
    (void)connection.WaitForClose(10'000);
  };
  rig.close_after = true;
  rig.Make([](RemoteOptions& options) {
    options.timeout_ns = 900'000'000;
    options.idle_timeout_ns = 500'000'000;
  });
  api::GenerationRequest request = ChatOf("x");
  request.timeout_ms = 300;
  api::Event last = rig.Run(request)->last();
  EXPECT_EQ(last.finish, api::FinishReason::kTimeout) << "its own limit; what came is its answer";
  EXPECT_GT(last.usage.output_tokens, 0);
  last = rig.Run()->last();
  EXPECT_EQ(last.error.code(), StatusCode::kUnavailable) << last.error.ToString();
  EXPECT_THAT(last.error.message(), HasSubstr("no byte"));
  trickle = true;
  last = rig.Run()->last();
  EXPECT_EQ(last.error.code(), StatusCode::kDeadlineExceeded) << last.error.ToString();
}

TEST(RemoteBackendTest, CancelClosesTheConnection) {
  RemoteRig rig;
  std::atomic<bool> closed{false};
  rig.answer = [&](ScriptedConnection& connection, const ScriptedRequest&) {
    connection.Send(std::string(kSseHead) + Delta("begun"));
    closed = connection.WaitForClose(5000);
  };
  rig.close_after = true;
  rig.Make();
  auto recorder = std::make_shared<EventRecorder>(1);
  const auto id = rig.backend->Submit(ChatOf("x"), EventRecorder::SinkOf(recorder));
  ASSERT_TRUE(id.has_value());
  ASSERT_TRUE(recorder->WaitForText(1));
  rig.backend->Cancel(*id);
  ASSERT_TRUE(recorder->Wait(3000));
  EXPECT_EQ(recorder->last().finish, api::FinishReason::kCancelled);
  for (int i = 0; i < 300 && !closed; ++i) std::this_thread::sleep_for(std::chrono::milliseconds(10));
  EXPECT_TRUE(closed);
}

TEST(RemoteBackendTest, HealthFollowsOutcomesAndRecoversByAsking) {
  RemoteRig rig;
  rig.models_status = 503;
  rig.Make();
  EXPECT_EQ(rig.backend->health(), api::Health::kStarting);
  rig.Reply(HttpOk("{}", {}, "503 no"));
  for (int i = 0; i < 3; ++i) (void)rig.Run();
  EXPECT_EQ(rig.backend->health(), api::Health::kStalled);
  rig.models_status = 200;
  for (int i = 0; i < 300 && rig.backend->health() != api::Health::kReady; ++i) {
    std::this_thread::sleep_for(std::chrono::milliseconds(10));
  }
  EXPECT_EQ(rig.backend->health(), api::Health::kReady) << "noticed without a request";
  api::GenerationRequest request = ChatOf("x");
  request.sampling.top_k = 3;
  EXPECT_EQ(rig.Run(request)->last().error.code(), StatusCode::kUnavailable) << "its kind is known by now: accepted";
  rig.Reply(HttpOk("{}", {}, "400 Bad Request"));
  for (int i = 0; i < 5; ++i) (void)rig.Run();
  EXPECT_EQ(rig.backend->health(), api::Health::kReady) << "wrong requests are not its fault";
}

TEST(RemoteBackendTest, TokensEmbeddingsAndTemplates) {
  RemoteRig rig("surety");
  rig.answer = [](ScriptedConnection& connection, const ScriptedRequest& request) {
    const json::value body = json::parse(request.body);
    std::string reply = "{}";
    if (request.target == "/tokenize") {
      reply = body.as_object().contains("content") ? R"({"tokens":[1,2,3]})" : R"({"tokens":[4,5]})";
    } else if (request.target == "/detokenize") {
      reply = R"({"content":"text"})";
    } else if (request.target == "/apply-template") {
      reply = R"({"prompt":"<user>hi"})";
    } else if (request.target == "/v1/embeddings") {
      reply = R"({"data":[{"index":1,"embedding":[3,4]},{"index":0,"embedding":[1,2.5]}],"usage":{"prompt_tokens":7}})";
    }
    (void)connection.Send(HttpOk(reply));
  };
  rig.Make([](RemoteOptions& options) { options.embeds = true; });
  api::Backend& backend = *rig.backend;
  EXPECT_EQ(*backend.TokenizeText("abc", false, true), (std::vector<api::TokenId>{1, 2, 3}));
  EXPECT_EQ(*backend.Tokenize(ChatOf("x")), (std::vector<api::TokenId>{4, 5}));
  EXPECT_EQ(*backend.Detokenize(std::vector<api::TokenId>{1}), "text");
  EXPECT_EQ(*backend.RenderTemplate(ChatOf("x")), "<user>hi");
  const auto vectors = backend.Embed(std::vector<std::string>{"one", "three"});
  ASSERT_TRUE(vectors.has_value()) << vectors.error().ToString();
  EXPECT_EQ((*vectors)[0].values, (std::vector<float>{1, 2.5}));
  EXPECT_EQ((*vectors)[1].values, (std::vector<float>{3, 4}));
  EXPECT_EQ((*vectors)[0].n_tokens + (*vectors)[1].n_tokens, 7);
  EXPECT_FALSE(backend.Embed(std::vector<std::string>{"one"}).has_value()) << "one text, two vectors";
  EXPECT_EQ(backend.Forget({}, api::ForgetExtent::kScope).error().code(), StatusCode::kUnimplemented);
}

TEST(RemoteBackendTest, WithoutATokenizerCountsAreEstimatesAndSaySo) {
  RemoteRig rig("openai");
  rig.Make();
  const auto tokens = rig.backend->TokenizeText("123456789", true, true);
  ASSERT_TRUE(tokens.has_value());
  EXPECT_EQ(*tokens, (std::vector<api::TokenId>{-1, -1, -1}));
  EXPECT_GT(rig.backend->Tokenize(ChatOf("hello"))->size(), 3u);
  EXPECT_EQ(rig.backend->RenderTemplate(ChatOf("x")).error().code(), StatusCode::kUnimplemented);
  EXPECT_EQ(rig.backend->Detokenize(std::vector<api::TokenId>{1}).error().code(), StatusCode::kUnimplemented);
  EXPECT_EQ(rig.Generations().size(), 0u) << "nobody is asked";
}

// llama-cpp-python's server ends what it generates when another request comes.
TEST(RemoteBackendTest, AServerOfOneRequestAtATimeGetsOne) {
  RemoteRig rig("me");
  std::atomic<int> running{0}, most{0};
  rig.answer = [&](ScriptedConnection& connection, const ScriptedRequest&) {
    most = std::max(most.load(), ++running);
    std::this_thread::sleep_for(std::chrono::milliseconds(30));
    --running;
    (void)connection.Send(SseReply(Delta("x") + FinishChunk("stop") + std::string(kDone)));
  };
  rig.Make([](RemoteOptions& options) { options.timeout_ns = 20'000'000'000; });
  std::vector<std::shared_ptr<EventRecorder>> recorders;
  for (int i = 0; i < 6; ++i) {
    api::GenerationRequest request = ChatOf("hi");
    if (i == 5) request.timeout_ms = 1;   // over before its turn
    recorders.push_back(std::make_shared<EventRecorder>(1));
    ASSERT_TRUE(rig.backend->Submit(std::move(request), EventRecorder::SinkOf(recorders.back())).has_value());
  }
  for (const auto& recorder : recorders) ASSERT_TRUE(recorder->Wait());
  for (int i = 0; i < 5; ++i) EXPECT_EQ(recorders[static_cast<size_t>(i)]->last().finish, api::FinishReason::kStop);
  EXPECT_EQ(recorders[5]->last().finish, api::FinishReason::kTimeout);
  EXPECT_EQ(most, 1);
}

// It would answer with a model that it has.
TEST(RemoteBackendTest, LlamaCppPythonMustHaveTheModel) {
  ScriptedServer server(ScriptedServer::Answering([](const ScriptedRequest&) {
    return HttpOk(R"({"object":"list","data":[{"id":"m","object":"model","owned_by":"me","permissions":[]}]})");
  }));
  RemoteOptions options;
  options.base_url = server.Url("/v1");
  options.model = "m";
  EXPECT_EQ((*MakeRemoteBackend(options))->health(), api::Health::kReady);
  options.model = "another";
  const auto backend = *MakeRemoteBackend(options);
  EXPECT_EQ(backend->health(), api::Health::kStarting);
  EXPECT_THAT(json::serialize(backend->DebugState()), HasSubstr("the server has no model 'another'"));
  EXPECT_EQ(backend->Submit(ChatOf("hi"), [](api::Event) {}).error().status.code(), StatusCode::kNotFound);
}

TEST(RemoteBackendTest, WhatIsLearntLateCounts) {
  RemoteRig rig("surety");
  rig.models_status = 503;
  rig.Reply(SseReply(Delta("x") + FinishChunk("stop") + std::string(kDone)));
  rig.Make();
  api::GenerationRequest grammar = ChatOf("hi");
  grammar.constraint.kind = api::Constraint::Kind::kGrammar;
  grammar.constraint.grammar = "root ::= \"x\"";
  const auto refused = rig.backend->Submit(grammar, [](api::Event) {});
  ASSERT_FALSE(refused.has_value());
  EXPECT_EQ(refused.error().status.code(), StatusCode::kUnavailable) << "the caller has done nothing wrong";
  EXPECT_EQ(rig.backend->description().context_tokens, 0);
  rig.models_status = 200;
  while (rig.backend->health() != api::Health::kReady) std::this_thread::yield();
  EXPECT_EQ(rig.backend->description().context_tokens, 4096);
  EXPECT_EQ(rig.Run(grammar)->text(), "x");
}

TEST(RemoteBackendTest, OptionsAreChecked) {
  const auto code = [](std::function<void(RemoteOptions&)> change) {
    RemoteOptions options;
    options.base_url = "http://127.0.0.1:1/v1";
    options.model = "m";
    change(options);
    return options.Validate().code();
  };
  EXPECT_EQ(code([](RemoteOptions&) {}), StatusCode::kOk);
  EXPECT_EQ(code([](RemoteOptions& o) { o.base_url = "no"; }), StatusCode::kInvalidArgument);
  EXPECT_EQ(code([](RemoteOptions& o) { o.base_url += "?x"; }), StatusCode::kInvalidArgument);
  EXPECT_EQ(code([](RemoteOptions& o) { o.model = ""; }), StatusCode::kInvalidArgument);
  EXPECT_EQ(code([](RemoteOptions& o) { o.api_key = "a\r\nX: y"; }), StatusCode::kInvalidArgument);
  EXPECT_EQ(code([](RemoteOptions& o) { o.headers = {{"X", "a\nb"}}; }), StatusCode::kInvalidArgument);
  EXPECT_EQ(code([](RemoteOptions& o) { o.max_parallel = 0; }), StatusCode::kInvalidArgument);
}

TEST(RemoteBackendTest, KeepsTheInvariantsOfBackends) {
  RemoteRig rig;
  rig.answer = [](ScriptedConnection& connection, const ScriptedRequest& request) {
    const json::value body = json::parse(request.body);
    const int n = body.as_object().contains("n") ? body.at("n").to_number<int>() : 1;
    if (body.at("messages").at(0).at("content") == "endless") {
      connection.Send(kSseHead);
      while (connection.Send(Delta("more "))) std::this_thread::sleep_for(std::chrono::milliseconds(2));
      return;
    }
    std::string events;
    for (int i = 0; i < n; ++i) events += Delta("text", i) + FinishChunk("stop", i);
    (void)connection.Send(SseReply(events + std::string(kUsageChunk) + std::string(kDone)));
  };
  rig.Make([](RemoteOptions& options) { options.max_parallel = 5; });
  ConformanceSubject subject;
  subject.quick = [](int n) { return ChatOf("quick", n); };
  subject.endless = [] { return ChatOf("endless"); };
  subject.max_parallel = 5;
  EXPECT_THAT(CheckConformance(*rig.backend, subject), ::testing::IsEmpty());
}

TEST(RemoteBackendTest, DestructionEndsWhatRuns) {
  auto recorder = std::make_shared<EventRecorder>(2);
  {
    RemoteRig rig;
    rig.answer = [](ScriptedConnection& connection, const ScriptedRequest&) { (void)connection.WaitForClose(5000); };
    rig.Make();
    ASSERT_TRUE(rig.backend->Submit(ChatOf("x", 2), EventRecorder::SinkOf(recorder)).has_value());
    rig.backend.reset();
  }
  EXPECT_TRUE(recorder->Wait(0));
  EXPECT_EQ(recorder->fault(), "");
  EXPECT_EQ(recorder->last(1).finish, api::FinishReason::kCancelled);
}

}  // namespace
}  // namespace surety::gateway
