// What of a request goes to which server, and what is refused.
#include "gateway/remote_request.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <set>

namespace surety::gateway {
namespace {

namespace json = boost::json;
using ::testing::HasSubstr;

constexpr RemoteKind kAllKinds[] = {RemoteKind::kUnknown, RemoteKind::kOpenAi, RemoteKind::kVllm,
                                    RemoteKind::kLlamaServer, RemoteKind::kSurety, RemoteKind::kLlamaCppPython};

RemoteDialect DialectOf(RemoteKind kind) { return {kind, "their-name", false, "salt"}; }

api::GenerationRequest PlainChat() {
  api::GenerationRequest request;
  request.has_messages = true;
  request.messages = {json::object{{"role", "user"}, {"content", "hi"}}};
  return request;
}

json::object BodyFor(const api::GenerationRequest& request, RemoteKind kind) {
  auto mapped = MapRemoteRequest(request, DialectOf(kind));
  EXPECT_TRUE(mapped.has_value()) << mapped.error().status.ToString();
  return mapped ? mapped->json : json::object();
}

TEST(RemoteRequestTest, APlainChatIsWhatOpenAiDocuments) {
  api::GenerationRequest request = PlainChat();
  request.sampling.temperature = 0.7f;
  request.sampling.seed = 42;
  request.max_tokens = 10;
  request.stop = {"\n", "END"};
  request.n_choices = 2;
  const json::object body = BodyFor(request, RemoteKind::kOpenAi);
  EXPECT_EQ(json::value(body), json::parse(R"({
    "messages": [{"role": "user", "content": "hi"}], "model": "their-name", "stream": true,
    "stream_options": {"include_usage": true}, "temperature": 0.7, "top_p": 1.0, "frequency_penalty": 0.0,
    "presence_penalty": 0.0, "seed": 42, "max_tokens": 10, "stop": ["\n", "END"], "n": 2})"));
}

// A field changed from its default either shows in the body or is refused by its name: never neither.
TEST(RemoteRequestTest, EveryFieldIsSentOrRefusedByNameOnEveryServer) {
  struct Row {
    const char* param;
    std::function<void(api::GenerationRequest&)> set;
    std::set<RemoteKind> refused_by;
  };
  using enum RemoteKind;
  const std::set<RemoteKind> all(std::begin(kAllKinds), std::end(kAllKinds)), none, plain = {kUnknown, kOpenAi},
                             bare = {kUnknown, kOpenAi, kLlamaCppPython};
  const Row rows[] = {
      {"sampling.logit_bias", [](auto& r) { r.sampling.logit_bias = {{1, 2.0f}}; }, all},
      {"stop_tokens", [](auto& r) { r.stop_tokens = {1}; }, all},
      {"n_logprobs", [](auto& r) { r.n_logprobs = 0; }, all},
      {"n_prompt_logprobs", [](auto& r) { r.n_prompt_logprobs = 0; }, all},
      {"sampling.lane", [](auto& r) { r.sampling.lane = 1; }, all},
      {"sampling.temperature", [](auto& r) { r.sampling.temperature = 0.5f; }, none},
      {"sampling.top_p", [](auto& r) { r.sampling.top_p = 0.5f; }, none},
      {"sampling.frequency_penalty", [](auto& r) { r.sampling.frequency_penalty = 0.5f; }, none},
      {"sampling.presence_penalty", [](auto& r) { r.sampling.presence_penalty = 0.5f; }, none},
      {"sampling.seed", [](auto& r) { r.sampling.seed = 7; }, none},
      {"max_tokens", [](auto& r) { r.max_tokens = 7; }, none},
      {"stop", [](auto& r) { r.stop = {"a"}; }, none},
      {"stop", [](auto& r) { r.stop = {"a", "b", "c", "d", "e"}; }, plain},
      {"sampling.top_k", [](auto& r) { r.sampling.top_k = 5; }, plain},
      {"sampling.min_p", [](auto& r) { r.sampling.min_p = 0.5f; }, plain},
      {"sampling.typical_p", [](auto& r) { r.sampling.typical_p = 0.5f; }, {kUnknown, kOpenAi, kVllm, kLlamaCppPython}},
      {"sampling.repetition_penalty", [](auto& r) { r.sampling.repetition_penalty = 1.5f; }, bare},
      {"sampling.repetition_window", [](auto& r) {
         r.sampling.repetition_penalty = 1.5f;
         r.sampling.repetition_window = 64;
       }, {kVllm}},
      {"sampling.min_tokens", [](auto& r) { r.sampling.min_tokens = 5; }, {kUnknown, kOpenAi, kLlamaServer}},
      {"ignore_end_of_text", [](auto& r) { r.ignore_end_of_text = true; }, bare},
      {"n_choices", [](auto& r) { r.n_choices = 3; }, {kLlamaServer, kLlamaCppPython}},
      {"constraint.grammar", [](auto& r) {
         r.constraint.kind = api::Constraint::Kind::kGrammar;
         r.constraint.grammar = "root ::= \"a\"";
       }, {kUnknown, kOpenAi, kVllm}},
      {"constraint", [](auto& r) { r.constraint.kind = api::Constraint::Kind::kJsonObject; }, none},
      {"constraint.schema", [](auto& r) {
         r.constraint.kind = api::Constraint::Kind::kJsonSchema;
         r.constraint.schema = json::object{{"type", "object"}};
       }, none},
      {"template_values.tools", [](auto& r) { r.template_values["tools"] = json::array{json::object{}}; }, none},
      {"template_values.thinking", [](auto& r) { r.template_values["thinking"] = true; }, bare},
      {"template_values.add_generation_prompt",
       [](auto& r) { r.template_values["add_generation_prompt"] = false; }, bare},
      {"verification", [](auto& r) { r.verification = api::Verification::kLossyTypical; },
       {kUnknown, kOpenAi, kVllm, kLlamaServer, kLlamaCppPython}},
      {"messages[0].reasoning_content", [](auto& r) { r.messages[0].as_object()["reasoning_content"] = "x"; }, bare},
  };
  for (const Row& row : rows) {
    for (const RemoteKind kind : kAllKinds) {
      api::GenerationRequest request = PlainChat();
      row.set(request);
      const auto mapped = MapRemoteRequest(request, DialectOf(kind));
      const std::string which = std::string(row.param) + " to " + std::string(NameOf(kind));
      if (mapped) {
        EXPECT_FALSE(row.refused_by.contains(kind)) << which;
        EXPECT_NE(mapped->json, BodyFor(PlainChat(), kind)) << which << " was dropped";
        continue;
      }
      EXPECT_EQ(mapped.error().status.code(), StatusCode::kInvalidArgument) << which;
      const bool expected = row.refused_by.contains(kind) ||
                            (std::string_view(row.param) == "sampling.repetition_window" && bare.contains(kind));
      EXPECT_TRUE(expected) << which << ": " << mapped.error().status.ToString();
      EXPECT_TRUE(!row.refused_by.contains(kind) || mapped.error().param == row.param) << which;
    }
  }
}

TEST(RemoteRequestTest, RangesAndShapes) {
  const auto refused_param = [](RemoteKind kind, std::function<void(api::GenerationRequest&)> set) {
    api::GenerationRequest request = PlainChat();
    set(request);
    const auto mapped = MapRemoteRequest(request, DialectOf(kind));
    return mapped ? std::string("accepted") : mapped.error().param;
  };
  using R = api::GenerationRequest;
  EXPECT_EQ(refused_param(RemoteKind::kSurety, [](R& r) { r.sampling.temperature = -1; }), "sampling.temperature");
  EXPECT_EQ(refused_param(RemoteKind::kOpenAi, [](R& r) { r.sampling.temperature = 3; }), "sampling.temperature");
  EXPECT_EQ(refused_param(RemoteKind::kVllm, [](R& r) { r.sampling.temperature = 3; }), "accepted");
  EXPECT_EQ(refused_param(RemoteKind::kOpenAi, [](R& r) { r.max_tokens = 0; }), "max_tokens");
  EXPECT_EQ(refused_param(RemoteKind::kOpenAi, [](R& r) { r.sampling.seed = ~0ull; }), "sampling.seed");
  EXPECT_EQ(refused_param(RemoteKind::kOpenAi, [](R& r) {
              r.sampling.seed = ~0ull;
              r.seed_is_secret = true;
            }), "accepted");
  EXPECT_EQ(refused_param(RemoteKind::kOpenAi, [](R& r) { r.has_prompt = true; }), "messages");
  EXPECT_EQ(refused_param(RemoteKind::kOpenAi, [](R& r) { r.messages.push_back("text"); }), "messages[1]");
  EXPECT_EQ(refused_param(RemoteKind::kOpenAi, [](R& r) {
              r.has_tokens = true;
              r.tokens = {1};
              r.has_messages = false;
            }), "tokens");
  EXPECT_EQ(refused_param(RemoteKind::kOpenAi, [](R& r) { r.tool_use.choice = api::ToolUse::Choice::kRequired; }),
            "tool_use");
}

TEST(RemoteRequestTest, CompletionsNeedALengthWhereTheServerWouldEndThemEarly) {
  api::GenerationRequest request;
  request.has_prompt = true;
  request.prompt = "Once";
  for (const RemoteKind kind : kAllKinds) {
    const auto mapped = MapRemoteRequest(request, DialectOf(kind));
    if (kind == RemoteKind::kSurety || kind == RemoteKind::kLlamaServer) {
      ASSERT_TRUE(mapped.has_value());
      EXPECT_EQ(mapped->json.at("n_predict"), -1);
      EXPECT_EQ(mapped->json.at("prompt"), "Once");
      EXPECT_FALSE(mapped->chat);
    } else {
      ASSERT_FALSE(mapped.has_value());
      EXPECT_EQ(mapped.error().param, "max_tokens");
    }
  }
}

TEST(RemoteRequestTest, SamplingThatIsOffIsSaidWhereServersHaveDefaults) {
  const json::object vllm = BodyFor(PlainChat(), RemoteKind::kVllm);
  EXPECT_EQ(vllm.at("top_k"), 0);
  EXPECT_EQ(vllm.at("min_p"), 0);
  EXPECT_EQ(vllm.at("repetition_penalty"), 1);
  const json::object llama = BodyFor(PlainChat(), RemoteKind::kLlamaServer);
  EXPECT_EQ(llama.at("repeat_penalty"), 1);
  EXPECT_EQ(llama.at("typical_p"), 1);
  EXPECT_EQ(llama.at("n_predict"), -1);
  const json::object python = BodyFor(PlainChat(), RemoteKind::kLlamaCppPython);
  EXPECT_EQ(python.at("repeat_penalty"), 1);
  EXPECT_EQ(python.at("top_k"), 0);
  EXPECT_EQ(python.at("min_p"), 0);
  EXPECT_FALSE(python.contains("cache_salt"));
}

TEST(RemoteRequestTest, CallsInMessagesGoAsTextsWithIds) {
  api::GenerationRequest request = PlainChat();
  request.messages.push_back(json::parse(
      R"({"role":"assistant","content":"","tool_calls":[{"type":"function","id":"c1","function":{"name":"f",
          "arguments":{"a":1}}},{"type":"function","function":{"name":"g","arguments":"not json"}}]})"));
  const json::value calls = BodyFor(request, RemoteKind::kOpenAi).at("messages").at(1).at("tool_calls");
  EXPECT_EQ(calls.at(0).at("id"), "c1");
  EXPECT_EQ(calls.at(0).at("function").at("arguments"), R"({"a":1})");
  EXPECT_EQ(calls.at(1).at("function").at("arguments"), "not json");
  EXPECT_TRUE(calls.at(1).at("id").is_string());
}

TEST(RemoteRequestTest, ToolChoices) {
  api::GenerationRequest request = PlainChat();
  request.template_values["tools"] = json::array{json::object{{"type", "function"}}};
  using Choice = api::ToolUse::Choice;
  const auto choice = [&](Choice value) {
    request.tool_use.choice = value;
    request.tool_use.name = "f";
    return BodyFor(request, RemoteKind::kOpenAi).at("tool_choice");
  };
  EXPECT_EQ(choice(Choice::kNone), "none");
  EXPECT_EQ(choice(Choice::kAuto), "auto");
  EXPECT_EQ(choice(Choice::kRequired), "required");
  EXPECT_EQ(choice(Choice::kNamed).at("function").at("name"), "f");
  request.tool_use.choice = Choice::kRequired;
  EXPECT_EQ(MapRemoteRequest(request, DialectOf(RemoteKind::kLlamaCppPython)).error().param, "tool_use.choice");
  request.tool_use.choice = Choice::kNamed;
  request.tool_use.parallel = false;
  EXPECT_EQ(BodyFor(request, RemoteKind::kOpenAi).at("parallel_tool_calls"), false);
}

TEST(RemoteRequestTest, SaltsDifferWithEveryFieldAndNameNone) {
  api::Scope base{"bank-a", {"read", "write"}, "EU", "loans", "7", "en", "class-1", "2026-01-01", ""};
  std::vector<api::Scope> scopes(10, base);
  scopes[1].tenant = "bank-b";
  scopes[2].permissions = {"read"};
  scopes[3].region = "US";
  scopes[4].product = "cards";
  scopes[5].policy_version = "8";
  scopes[6].language = "es";
  scopes[7].eligibility = "class-2";
  scopes[8].effective_date = "2026-01-02";
  scopes[9].salt = "x";
  api::Scope moved = base;  // a byte from one field into the next
  moved.tenant = "bank-aE";
  moved.region = "U";
  scopes.push_back(moved);
  std::set<std::string> salts;
  for (const api::Scope& scope : scopes) {
    const std::string salt = DerivedSalt("secret", scope);
    EXPECT_EQ(salt.size(), 64u);
    EXPECT_THAT(salt, ::testing::Not(HasSubstr("bank")));
    salts.insert(salt);
  }
  EXPECT_EQ(salts.size(), scopes.size());
  api::Scope same = base;
  same.permissions = {"write", "read", "read"};
  EXPECT_EQ(DerivedSalt("secret", same), DerivedSalt("secret", base)) << "permissions are a set";
  EXPECT_NE(DerivedSalt("other", base), DerivedSalt("secret", base));
  EXPECT_EQ(BodyFor(PlainChat(), RemoteKind::kVllm).at("cache_salt"), "salt");
  EXPECT_FALSE(BodyFor(PlainChat(), RemoteKind::kOpenAi).contains("cache_salt"));
}

}  // namespace
}  // namespace surety::gateway
