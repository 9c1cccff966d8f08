// The API's shapes: requests and answers as OpenAI's published reference has them, over scripted events.
#include "http/openai_api.h"

#include <string>

#include <gtest/gtest.h>

#include "http/testing/openai_rig.h"

namespace surety::http {
namespace {

using namespace testing;  // NOLINT: the rig's words
namespace json = boost::json;
using api::FinishReason;

constexpr char kChatBody[] = R"({"model":"tiny","messages":[{"role":"user","content":"hi"}]})";

std::string With(const char* members) {
  return R"({"model":"tiny","messages":[{"role":"user","content":"hi"}],)" + std::string(members) + "}";
}

api::Event Tokens(std::string text, std::vector<api::TokenLogprob> list, int choice = 0) {
  api::Event event = Text(std::move(text), choice);
  for (const auto& one : list) event.tokens.push_back(one.token);
  event.logprobs = std::move(list);
  return event;
}

json::value ErrorOfRecord(const Record& record) { return record.Json().at("error"); }

TEST(OpenAiApiTest, AChatAnswersInTheReferencesShape) {
  ApiRig rig;
  rig.backend->scripts = {{Text("Hel"), Text("lo"), End(FinishReason::kStop)}};
  const auto record = rig.Post("/v1/chat/completions", kChatBody);
  EXPECT_EQ(record->status, 200);
  EXPECT_EQ(record->content_type, "application/json");
  EXPECT_EQ(record->Header("x-surety-model"), "tiny");
  EXPECT_EQ(record->Header("server-timing"), "queue;dur=1.000, prefill;dur=2.000, decode;dur=3.500");
  json::object body = record->Json();
  EXPECT_TRUE(body.at("system_fingerprint").as_string().starts_with("fp_"));
  body.erase("system_fingerprint");
  EXPECT_EQ(json::value(body), json::parse(R"({"id":"chatcmpl-r1","object":"chat.completion","created":1750000000,
      "model":"tiny","choices":[{"index":0,"message":{"role":"assistant","content":"Hello","refusal":null},
      "logprobs":null,"finish_reason":"stop","stop_reason":null}],
      "usage":{"prompt_tokens":10,"completion_tokens":3,"total_tokens":13,
      "prompt_tokens_details":{"cached_tokens":4},"completion_tokens_details":{"reasoning_tokens":0}}})"));
}

TEST(OpenAiApiTest, ALossyRuleIsRepeatedInTheAnswerAndInEveryChunk) {
  ApiRig rig;
  for (int i = 0; i < 3; ++i) rig.backend->scripts.push_back({Text("a"), Text("b"), End(FinishReason::kStop)});
  const auto whole = rig.Post("/v1/chat/completions", With(R"("verification":"typical")"));
  EXPECT_EQ(whole->Json().at("verification"), "typical");
  bool done;
  const auto record = rig.Post("/v1/chat/completions", With(R"("verification":"typical","stream":true)"));
  for (const auto& chunk : Chunks(record->body, done)) EXPECT_EQ(chunk.at("verification"), "typical");
  const auto exact = rig.Post("/v1/chat/completions", With(R"("verification":"rejection")"));
  EXPECT_FALSE(exact->Json().contains("verification"));
}

TEST(OpenAiApiTest, AStreamBeginsWithTheRoleAndEndsWithDone) {
  ApiRig rig;
  rig.backend->scripts = {{Text("Hel"), Text("lo"), End(FinishReason::kLength)}};
  const auto record = rig.Post("/v1/chat/completions",
                               With(R"("stream":true,"stream_options":{"include_usage":true})"));
  EXPECT_EQ(record->content_type, "text/event-stream; charset=utf-8");
  EXPECT_TRUE(record->finished);
  bool done;
  const auto chunks = Chunks(record->body, done);
  EXPECT_TRUE(done);
  ASSERT_EQ(chunks.size(), 5u);
  for (const auto& chunk : chunks) {
    EXPECT_EQ(chunk.at("id"), "chatcmpl-r1");
    EXPECT_EQ(chunk.at("object"), "chat.completion.chunk");
    EXPECT_EQ(chunk.at("created"), 1750000000);
    EXPECT_EQ(chunk.at("model"), "tiny");
    EXPECT_EQ(chunk.at("system_fingerprint"), chunks[0].at("system_fingerprint"));
  }
  const auto delta = [&](size_t i) { return chunks[i].at("choices").at(0).at("delta"); };
  EXPECT_EQ(delta(0), json::parse(R"({"role":"assistant","content":null,"refusal":null})"));
  EXPECT_EQ(delta(1), json::parse(R"({"content":"Hel"})"));
  EXPECT_EQ(delta(2), json::parse(R"({"content":"lo"})"));
  EXPECT_EQ(delta(3), json::parse("{}"));
  for (size_t i = 0; i < 4; ++i) {
    EXPECT_EQ(chunks[i].at("choices").at(0).at("finish_reason"), i < 3 ? json::value(nullptr) : json::value("length"));
    EXPECT_TRUE(chunks[i].at("usage").is_null());
  }
  EXPECT_TRUE(chunks[4].at("choices").as_array().empty());
  EXPECT_EQ(chunks[4].at("usage").at("total_tokens"), 13);
}

TEST(OpenAiApiTest, WithoutIncludeUsageNoChunkHasUsage) {
  ApiRig rig;
  rig.backend->scripts = {{Text("x"), End(FinishReason::kStop)}};
  EXPECT_EQ(rig.Post("/chat/completions", With(R"("stream":true)"))->body.find("usage"), std::string::npos);
}

TEST(OpenAiApiTest, UsageSaysWhatHeldWhereTheRequestGaveAPrediction) {
  ApiRig rig;
  const FakeBackend::Script script{Text("a"), Text("b", 1), End(FinishReason::kStop, 0, {10, 4, 9, 7, 5}),
                                   End(FinishReason::kStop, 1, {10, 4, 3, 2, 0})};
  rig.backend->scripts = {script, script, script};
  const json::value plain = json::parse(R"({"reasoning_tokens":0})");
  const json::value told = json::parse(
      R"({"reasoning_tokens":0,"accepted_prediction_tokens":5,"rejected_prediction_tokens":4})");
  EXPECT_EQ(rig.Post("/v1/chat/completions", With(R"("n":2)"))->Json().at("usage").at("completion_tokens_details"),
            plain);
  const std::string given = R"("n":2,"prediction":{"type":"content","content":"ab"})";
  const json::object usage = rig.Post("/v1/chat/completions", With(given.c_str()))->Json().at("usage").as_object();
  EXPECT_EQ(usage.at("completion_tokens_details"), told);
  EXPECT_EQ(usage.at("completion_tokens"), 12);  // rejected ones are not in it
  bool done;
  const auto chunks = Chunks(rig.Post("/v1/chat/completions", With((given +
      R"(,"stream":true,"stream_options":{"include_usage":true})").c_str()))->body, done);
  EXPECT_EQ(chunks.back().at("usage"), json::value(usage));
  EXPECT_EQ(rig.backend->requests[2].prediction, "ab");
}

TEST(OpenAiApiTest, TimingsHaveTheDraftsWhereThereWereAny) {
  ApiRig rig;
  const FakeBackend::Script drafted{Text("a"), End(FinishReason::kStop, 0, {10, 4, 9, 7, 5})};
  rig.backend->scripts = {{Text("a"), End(FinishReason::kStop)}, drafted, drafted, drafted};
  const json::value without = json::parse(R"({"queue_ms":1.000,"prefill_ms":2.000,"decode_ms":3.500})");
  json::value with = without;
  with.as_object()["draft_n"] = 7;
  with.as_object()["draft_n_accepted"] = 5;
  EXPECT_EQ(rig.Post("/v1/chat/completions", With(R"("timings":true)"))->Json().at("timings"), without);
  EXPECT_EQ(rig.Post("/v1/chat/completions", With(R"("timings":true)"))->Json().at("timings"), with);
  EXPECT_EQ(rig.Post("/v1/completions", R"({"prompt":"x","timings":true})")->Json().at("timings"), with);
  bool done;
  const auto chunks = Chunks(rig.Post("/v1/completions", R"({"prompt":"x","timings":true,"stream":true,
      "stream_options":{"include_usage":true}})")->body, done);
  EXPECT_EQ(chunks.back().at("timings"), with);
}

TEST(OpenAiApiTest, LogprobsShowTextAndTrueBytes) {
  ApiRig rig;
  rig.backend->scripts = {{Tokens("Hello", {{kHello, -0.5f, {{kHello, -0.5f}, {kHalf, -1.25f}}}}),
                           Tokens("", {{kHalf, -0.25f, {}}}), End(FinishReason::kStop)}};
  const auto record = rig.Post("/v1/chat/completions", With(R"("logprobs":true,"top_logprobs":2)"));
  EXPECT_EQ(rig.backend->requests[0].n_logprobs, 2);
  EXPECT_EQ(record->Json().at("choices").at(0).at("logprobs"), json::parse(R"({"content":[
      {"token":"Hello","logprob":-0.5,"bytes":[72,101,108,108,111],"top_logprobs":[
        {"token":"Hello","logprob":-0.5,"bytes":[72,101,108,108,111]},
        {"token":"\ufffd","logprob":-1.25,"bytes":[228,189]}]},
      {"token":"\ufffd","logprob":-0.25,"bytes":[228,189],"top_logprobs":[]}],"refusal":null})"));
}

TEST(OpenAiApiTest, ToolCallsHaveIdsNamesAndArguments) {
  ApiRig rig;
  api::Event first, more, second;
  first.tool_calls = {{0, "get", ""}};
  more.tool_calls = {{0, "", "{\"a\":"}, {0, "", "1}"}};
  second.tool_calls = {{1, "put", "{}"}};
  const FakeBackend::Script script{first, more, second, End(FinishReason::kStop)};
  rig.backend->scripts = {script, script};
  const char* tools = R"("tools":[{"type":"function","function":{"name":"get"}}])";
  const auto body = rig.Post("/v1/chat/completions", With(tools))->Json();
  const json::value choice = body.at("choices").at(0);
  EXPECT_EQ(choice.at("finish_reason"), "tool_calls");
  EXPECT_TRUE(choice.at("message").at("content").is_null());
  const json::array& calls = choice.at("message").at("tool_calls").as_array();
  ASSERT_EQ(calls.size(), 2u);
  EXPECT_TRUE(calls[0].at("id").as_string().starts_with("call_"));
  EXPECT_NE(calls[0].at("id"), calls[1].at("id"));
  EXPECT_EQ(calls[0].at("function"), json::parse(R"({"name":"get","arguments":"{\"a\":1}"})"));
  EXPECT_EQ(calls[1].at("function"), json::parse(R"({"name":"put","arguments":"{}"})"));
  bool done;
  const auto chunks = Chunks(rig.Post("/v1/chat/completions", With((std::string(tools) + R"(,"stream":true)").c_str()))
                                 ->body, done);
  ASSERT_EQ(chunks.size(), 6u);
  EXPECT_TRUE(chunks[0].at("choices").at(0).at("delta").at("content").is_null());
  EXPECT_EQ(chunks[1].at("choices").at(0).at("delta").at("tool_calls").at(0).at("id"), calls[0].at("id"));
  EXPECT_EQ(chunks[2].at("choices").at(0).at("delta"),
            json::parse(R"({"tool_calls":[{"index":0,"function":{"arguments":"{\"a\":"}}]})"));
  EXPECT_EQ(chunks[5].at("choices").at(0).at("finish_reason"), "tool_calls");
}

TEST(OpenAiApiTest, SeveralChoicesComeByIndex) {
  ApiRig rig;
  rig.backend->scripts = {{Text("b", 1), Text("a", 0), Text("B", 1), End(FinishReason::kStop, 1, {10, 0, 2}),
                           End(FinishReason::kLength, 0, {10, 4, 1})}};
  const auto body = rig.Post("/v1/chat/completions", With(R"("n":2)"))->Json();
  EXPECT_EQ(body.at("choices").at(0).at("message").at("content"), "a");
  EXPECT_EQ(body.at("choices").at(0).at("finish_reason"), "length");
  EXPECT_EQ(body.at("choices").at(1).at("message").at("content"), "bB");
  // The prompt counts once, with what its first choice found in the cache; outputs add up.
  EXPECT_EQ(body.at("usage").at("prompt_tokens"), 10);
  EXPECT_EQ(body.at("usage").at("prompt_tokens_details").at("cached_tokens"), 4);
  EXPECT_EQ(body.at("usage").at("completion_tokens"), 3);
}

TEST(OpenAiApiTest, CompletionsHaveTheLegacyShape) {
  ApiRig rig;
  api::Event first = Tokens("Hello", {{kHello, -0.5f, {{kHello, -0.5f}, {kWorld, -2}}}});
  first.prompt_logprobs = {{kBos, 0, {}}, {'\xC3' & 255, -3, {}}, {'\xBC' & 255, -0.125f, {}}};
  rig.backend->scripts = {{first, Tokens("", {{kHalf, -1, {}}}), End(FinishReason::kLength)}};
  const auto body =
      rig.Post("/v1/completions", R"({"prompt":"ü","echo":true,"logprobs":1,"max_tokens":2})")->Json();
  EXPECT_EQ(rig.backend->requests[0].n_prompt_logprobs, 1);
  EXPECT_EQ(body.at("object"), "text_completion");
  EXPECT_EQ(body.at("id"), "cmpl-r1");
  EXPECT_EQ(body.at("choices"), json::parse(R"([{"index":0,"text":"üHello","logprobs":{
      "tokens":["<s>","bytes:\\xc3","bytes:\\xbc","Hello","bytes:\\xe4\\xbd"],
      "token_logprobs":[null,-3,-0.125,-0.5,-1],
      "top_logprobs":[null,{"bytes:\\xc3":-3},{"bytes:\\xbc":-0.125},{"Hello":-0.5},{"bytes:\\xe4\\xbd":-1}],
      "text_offset":[0,0,0,1,6]},"finish_reason":"length","stop_reason":null}])"));
}

TEST(OpenAiApiTest, ManyPromptsAreManyRequestsInOneAnswer) {
  ApiRig rig;
  rig.backend->scripts = {{Text("a"), Text("b", 1), End(FinishReason::kStop), End(FinishReason::kStop, 1)},
                          {Text("d", 1), Text("c"), End(FinishReason::kStop, 1), End(FinishReason::kStop)}};
  const auto body = rig.Post("/v1/completions", R"({"prompt":["x",[72]],"n":2,"echo":true})")->Json();
  std::string all;
  for (const json::value& choice : body.at("choices").as_array()) {
    all += std::to_string(choice.at("index").as_int64()) + std::string(choice.at("text").as_string()) + " ";
  }
  EXPECT_EQ(all, "0xa 1xb 2Hc 3Hd ");
  EXPECT_EQ(body.at("usage").at("prompt_tokens"), 20);
  EXPECT_EQ(body.at("usage").at("completion_tokens"), 12);
}

TEST(OpenAiApiTest, BestOfGivesTheHighestMeanLogprob) {
  ApiRig rig;
  rig.backend->scripts = {{Tokens("sum", {{1, -1, {}}}, 0),                        // mean -1
                           Tokens("long", {{1, -0.6f, {}}, {1, -0.6f, {}}}, 1),    // mean -0.6, though its sum is less
                           Tokens("mid", {{1, -0.9f, {}}}, 2), End(FinishReason::kStop, 0), End(FinishReason::kStop, 1),
                           End(FinishReason::kStop, 2)}};
  const auto body = rig.Post("/v1/completions", R"({"prompt":"x","n":2,"best_of":3})")->Json();
  EXPECT_EQ(rig.backend->requests[0].n_choices, 3);
  EXPECT_EQ(rig.backend->requests[0].n_logprobs, 0);
  ASSERT_EQ(body.at("choices").as_array().size(), 2u);
  EXPECT_EQ(body.at("choices").at(0).at("text"), "long");
  EXPECT_EQ(body.at("choices").at(1).at("text"), "mid");
  EXPECT_TRUE(body.at("choices").at(0).at("logprobs").is_null());  // not asked for
  EXPECT_EQ(body.at("usage").at("completion_tokens"), 9);
}

TEST(OpenAiApiTest, EchoOfNoTokensGivesThePromptAlone) {
  ApiRig rig;
  rig.backend->scripts = {{Text("dropped"), End(FinishReason::kLength)}};
  const auto body = rig.Post("/v1/completions", R"({"prompt":"x","max_tokens":0,"echo":true})")->Json();
  EXPECT_EQ(rig.backend->requests[0].max_tokens, 1);
  EXPECT_EQ(body.at("choices").at(0).at("text"), "x");
  EXPECT_EQ(body.at("usage").at("completion_tokens"), 0);
}

TEST(OpenAiApiTest, PromptLogprobsHaveVllmsForm) {
  ApiRig rig;
  api::Event first = Text("x");
  first.prompt_logprobs = {{kBos, 0, {}}, {kHello, -2, {{kWorld, -1}, {kHello, -2}}}};
  rig.backend->scripts = {{first, End(FinishReason::kStop)}};
  EXPECT_EQ(rig.Post("/v1/chat/completions", With(R"("prompt_logprobs":2)"))->Json().at("prompt_logprobs"),
            json::parse(R"([null,{"258":{"logprob":-2,"rank":2,"decoded_token":"Hello"},
                                  "259":{"logprob":-1,"rank":1,"decoded_token":" world"}}])"));
}

TEST(OpenAiApiTest, TheStopTextIsGivenWhereItIsAskedFor) {
  ApiRig rig;
  api::Event end = End(FinishReason::kStop);
  end.stop_text = "STOP";
  rig.backend->scripts = {{Text("a"), end}, {Text("a"), end}};
  auto choice = rig.Post("/v1/chat/completions", With(R"("stop":"STOP")"))->Json().at("choices").at(0);
  EXPECT_EQ(choice.at("message").at("content"), "a");
  EXPECT_EQ(choice.at("stop_reason"), "STOP");
  choice = rig.Post("/v1/chat/completions", With(R"("stop":"STOP","include_stop_str_in_output":true)"))
               ->Json().at("choices").at(0);
  EXPECT_EQ(choice.at("message").at("content"), "aSTOP");
}

TEST(OpenAiApiTest, EmbeddingsInBothEncodings) {
  ApiRig rig;
  const auto body = rig.Post("/v1/embeddings", R"({"input":["a","bcd"],"model":"small"})")->Json();
  EXPECT_EQ(json::value(body), json::parse(R"({"object":"list","data":[
      {"object":"embedding","index":0,"embedding":[0.5,-1,1]},{"object":"embedding","index":1,"embedding":[0.5,-1,3]}],
      "model":"tiny","usage":{"prompt_tokens":4,"total_tokens":4}})"));
  // struct.pack("<3f", 0.5, -1, 1) in base64, by Python.
  EXPECT_EQ(rig.Post("/v1/embeddings", R"({"input":"a","encoding_format":"base64"})")->Json().at("data").at(0).at(
                "embedding"), "AAAAPwAAgL8AAIA/");
  EXPECT_EQ(rig.Post("/v1/embeddings", R"({"input":[1,2]})")->Json().at("usage").at("prompt_tokens"), 2);
  EXPECT_EQ(rig.Post("/embeddings", R"({"input":[[1],[2,3]],"dimensions":3})")->Json().at("data").as_array().size(),
            2u);
  for (const auto& [input, param] : {std::pair{"\"\"", "input"}, {"[]", "input"}, {"[\"a\",\"\"]", "input[1]"},
                                     {"[[]]", "input[0]"}, {"[\"a\",[1]]", "input[1]"}, {"[300]", "input[0]"},
                                     {"null", "input"}, {"[\"a\",null]", "input[1]"}}) {
    const auto record = rig.Post("/v1/embeddings", R"({"input":)" + std::string(input) + "}");
    EXPECT_EQ(record->status, 400) << input;
    EXPECT_EQ(ErrorOfRecord(*record).at("param"), param) << input;
  }
  EXPECT_EQ(ErrorOfRecord(*rig.Post("/v1/embeddings", R"({"input":"a","dimensions":2})")).at("param"), "dimensions");
  rig.backend->description_.embeds = false;
  EXPECT_EQ(ErrorOfRecord(*rig.Post("/v1/embeddings", R"({"input":"a"})")).at("code"), "unsupported_by_model");
}

TEST(OpenAiApiTest, TokensWithTheNamesOfBothServers) {
  ApiRig rig;
  EXPECT_EQ(json::value(rig.Post("/tokenize", R"({"content":"hi"})")->Json()),
            json::parse(R"({"count":2,"max_model_len":128,"tokens":[104,105]})"));
  EXPECT_EQ(rig.Post("/tokenize", R"({"content":"h","add_special":true})")->Json().at("tokens"),
            json::array({256, 104}));
  EXPECT_EQ(rig.Post("/tokenize", R"({"prompt":"h"})")->Json().at("tokens"), json::array({256, 104}));
  EXPECT_EQ(rig.Post("/tokenize", R"({"prompt":"h","add_special_tokens":false,"return_token_strs":true})")->Json()
                .at("token_strs"), json::array({"h"}));
  EXPECT_EQ(rig.Post("/tokenize", R"({"content":"aü","with_pieces":true})")->Json().at("tokens"),
            json::parse(R"([{"id":97,"piece":"a"},{"id":195,"piece":[195]},{"id":188,"piece":[188]}])"));
  EXPECT_GT(rig.Post("/tokenize", R"({"messages":[{"role":"user","content":"x"}]})")->Json().at("count").as_int64(), 5);
  EXPECT_EQ(ErrorOfRecord(*rig.Post("/tokenize", "{}")).at("code"), "missing_required_parameter");
  EXPECT_EQ(rig.Post("/tokenize", R"({"prompt":"a","content":"b"})")->status, 400);
  const auto text = rig.Post("/detokenize", R"({"tokens":[258,259]})")->Json();
  EXPECT_EQ(text.at("content"), "Hello world");
  EXPECT_EQ(text.at("prompt"), "Hello world");
  EXPECT_EQ(ErrorOfRecord(*rig.Post("/detokenize", R"({"tokens":[1,999]})")).at("param"), "tokens[1]");
  EXPECT_EQ(rig.Post("/apply-template", R"({"messages":[{"role":"user","content":"x"}]})")->Json().at("prompt"),
            R"([{"role":"user","content":"x"}])");
}

TEST(OpenAiApiTest, ModelsAndTheirAliases) {
  ApiRig rig;
  const auto list = rig.Call("GET", "/v1/models", "")->Json();
  EXPECT_EQ(list.at("object"), "list");
  ASSERT_EQ(list.at("data").as_array().size(), 2u);
  EXPECT_EQ(list.at("data").at(0).at("id"), "tiny");
  EXPECT_EQ(list.at("data").at(1).at("id"), "small");
  EXPECT_EQ(list.at("data").at(1).at("root"), "tiny");
  const auto one = rig.Call("GET", "/v1/models/tiny", "")->Json();
  EXPECT_EQ(one.at("object"), "model");
  EXPECT_EQ(one.at("owned_by"), "surety");
  EXPECT_EQ(one.at("created"), 1700000000);
  EXPECT_EQ(one.at("max_model_len"), 128);
  EXPECT_EQ(rig.Call("GET", "/v1/models/none/such", "")->status, 404);
  const auto record = rig.Post("/v1/chat/completions",
                               R"({"model":"gpt-5","messages":[{"role":"user","content":"x"}]})");
  EXPECT_EQ(record->status, 404);
  EXPECT_EQ(ErrorOfRecord(*record).at("code"), "model_not_found");
  EXPECT_EQ(ErrorOfRecord(*record).at("param"), "model");
  EXPECT_TRUE(ErrorOfRecord(*record).at("message").as_string().ends_with("Known: tiny, small"));
}

TEST(OpenAiApiTest, OpenApiDescribesEveryParameter) {
  ApiRig rig;
  const auto document = rig.Call("GET", "/openapi.json", "")->Json();
  EXPECT_EQ(document.at("openapi"), "3.1.0");
  const auto schema = [&](const char* path) {
    return document.at("paths").at(path).at("post").at("requestBody").at("content").at("application/json").at("schema");
  };
  const json::value chat = schema("/v1/chat/completions");
  EXPECT_EQ(chat.at("required"), json::array({"messages"}));
  EXPECT_EQ(chat.at("additionalProperties"), false);
  const json::value temperature = chat.at("properties").at("temperature");
  EXPECT_EQ(temperature.at("type"), json::array({"number", "null"}));
  EXPECT_EQ(temperature.at("minimum"), 0.0);
  EXPECT_EQ(temperature.at("maximum"), 2.0);
  EXPECT_EQ(temperature.at("default"), 1);
  EXPECT_EQ(chat.at("properties").at("top_p").at("exclusiveMinimum"), 0);
  EXPECT_EQ(chat.at("properties").at("speculative.n_max").at("maximum"), 2147483647.0);  // a dot in the key
  EXPECT_TRUE(chat.at("properties").at("prediction").at("properties").as_object().contains("content"));
  EXPECT_EQ(chat.at("properties").at("stream_options").at("properties").at("include_usage").at("type"),
            json::array({"boolean", "null"}));
  EXPECT_EQ(schema("/v1/embeddings").at("properties").at("encoding_format").at("enum"),
            json::array({"float", "base64", nullptr}));
  EXPECT_EQ(document.at("components").at("schemas").at("Error").at("properties").at("error").at("type"), "object");
  EXPECT_TRUE(document.at("paths").at("/v1/models/{id}").at("get").at("parameters").is_array());
}

}  // namespace
}  // namespace surety::http
