#include "http/openai_generation.h"

#include <string>

#include <gtest/gtest.h>

#include "http/testing/openai_rig.h"

namespace surety::http {
namespace {

namespace json = boost::json;

class GenerationTest : public ::testing::Test {
 protected:
  GenerationTest() {
    identity_.scope.tenant = "bank";
    identity_.priority = 2;
  }

  Parsed<GenerationCall> Map(Endpoint endpoint, const std::string& text) {
    const json::object body = json::parse(text).as_object();
    if (auto ok = CheckParameters(body, endpoint); !ok) return std::unexpected(ok.error());
    const CallContext context{identity_, testing::FakeBackend().description_, 99};
    if (endpoint == kChat) return MapChat(body, context);
    return endpoint == kCompletions ? MapCompletions(body, context) : MapResponses(body, context);
  }
  // The request of a chat with these further members.
  api::GenerationRequest Chat(const std::string& members) {
    auto call = Map(kChat, ChatBody(members));
    EXPECT_TRUE(call) << members << ": " << call.error().message;
    return call ? call->requests.at(0) : api::GenerationRequest();
  }
  static std::string ChatBody(const std::string& members) {
    return R"({"messages":[{"role":"user","content":"hi"}])" + (members.empty() ? "" : "," + members) + "}";
  }
  // "param|code" of the 400.
  std::string Fault(Endpoint endpoint, const std::string& text) {
    const auto call = Map(endpoint, text);
    EXPECT_FALSE(call) << text;
    if (call) return "";
    EXPECT_EQ(call.error().status, 400);
    EXPECT_FALSE(call.error().message.empty());
    return call.error().param + "|" + call.error().code;
  }
  std::string ChatFault(const std::string& members) { return Fault(kChat, ChatBody(members)); }
  std::string MessagesFault(const std::string& messages) {
    return Fault(kChat, R"({"messages":)" + messages + "}");
  }
  json::array Messages(const std::string& messages) {
    const auto call = Map(kChat, R"({"messages":)" + messages + "}");
    EXPECT_TRUE(call) << call.error().message;
    return call ? call->requests[0].messages : json::array();
  }

  Identity identity_;
};

TEST_F(GenerationTest, DefaultsAreTheReferences) {
  const api::GenerationRequest r = Chat("");
  EXPECT_TRUE(r.has_messages && !r.has_prompt && !r.has_tokens);
  EXPECT_EQ(r.sampling.temperature, 1);
  EXPECT_EQ(r.sampling.top_p, 1);
  EXPECT_EQ(r.sampling.top_k, 0);
  EXPECT_EQ(r.sampling.repetition_penalty, 1);
  EXPECT_EQ(r.sampling.seed, 99u);
  EXPECT_EQ(r.max_tokens, -1);
  EXPECT_EQ(r.n_choices, 1);
  EXPECT_EQ(r.n_logprobs, -1);
  EXPECT_EQ(r.priority, 2);
  EXPECT_EQ(r.timeout_ms, 0);
  EXPECT_EQ(r.scope.tenant, "bank");
  EXPECT_EQ(r.tool_use.choice, api::ToolUse::Choice::kNone);
  EXPECT_TRUE(r.sampling.Validate(261).ok());
  EXPECT_EQ(Map(kCompletions, R"({"prompt":"x"})")->requests[0].max_tokens, 16);
}

TEST_F(GenerationTest, MapsEverySamplingParameter) {
  const api::GenerationRequest r = Chat(
      R"("temperature":0.5,"top_p":0.25,"top_k":7,"min_p":0.125,"typical_p":0.75,"repetition_penalty":1.5,
         "repetition_window":64,"frequency_penalty":-0.5,"presence_penalty":1.25,"seed":-5,"min_tokens":3,
         "logit_bias":{"5":-100,"260":2.5},"stop_token_ids":[257,10.0],"ignore_eos":true,"n":3,"timeout":1.5,
         "stop":["a","b"],"max_completion_tokens":9,"cache_salt":"s","priority":5)");
  EXPECT_EQ(r.sampling.temperature, 0.5f);
  EXPECT_EQ(r.sampling.top_p, 0.25f);
  EXPECT_EQ(r.sampling.top_k, 7);
  EXPECT_EQ(r.sampling.min_p, 0.125f);
  EXPECT_EQ(r.sampling.typical_p, 0.75f);
  EXPECT_EQ(r.sampling.repetition_penalty, 1.5f);
  EXPECT_EQ(r.sampling.repetition_window, 64);
  EXPECT_EQ(r.sampling.frequency_penalty, -0.5f);
  EXPECT_EQ(r.sampling.presence_penalty, 1.25f);
  EXPECT_EQ(r.sampling.seed, static_cast<uint64_t>(-5));
  EXPECT_EQ(r.sampling.min_tokens, 3);
  EXPECT_EQ(r.sampling.logit_bias, (std::vector<std::pair<api::TokenId, float>>{{5, -100.0f}, {260, 2.5f}}));
  EXPECT_EQ(r.stop_tokens, (std::vector<api::TokenId>{257, 10}));
  EXPECT_TRUE(r.ignore_end_of_text);
  EXPECT_EQ(r.n_choices, 3);
  EXPECT_EQ(r.timeout_ms, 1500);
  EXPECT_EQ(r.stop, (std::vector<std::string>{"a", "b"}));
  EXPECT_EQ(r.max_tokens, 9);
  EXPECT_EQ(r.scope.salt, "s");
  EXPECT_EQ(r.scope.tenant, "bank");
  EXPECT_EQ(r.priority, 5);
  const api::GenerationRequest other = Chat(
      R"("repeat_penalty":1.25,"repeat_last_n":8,"n_predict":4,"top_k":-1,"stop":"x","seed":-1,"max_tokens":4)");
  EXPECT_EQ(other.sampling.repetition_penalty, 1.25f);
  EXPECT_EQ(other.sampling.repetition_window, 8);
  EXPECT_EQ(other.sampling.top_k, 0);
  EXPECT_EQ(other.sampling.seed, 99u);
  EXPECT_EQ(other.max_tokens, 4);
  EXPECT_EQ(other.stop, std::vector<std::string>{"x"});
}

TEST_F(GenerationTest, RefusesWhatTheTableCannotKnow) {
  EXPECT_EQ(ChatFault(R"("max_tokens":5,"max_completion_tokens":6)"), "max_tokens|invalid_value");
  EXPECT_EQ(ChatFault(R"("max_tokens":0)"), "max_tokens|invalid_value");
  EXPECT_EQ(ChatFault(R"("priority":1)"), "priority|invalid_value");
  EXPECT_EQ(ChatFault(R"("logit_bias":{"261":1})"), "logit_bias.261|invalid_value");
  EXPECT_EQ(ChatFault(R"("logit_bias":{"-1":1})"), "logit_bias.-1|invalid_value");
  EXPECT_EQ(ChatFault(R"("logit_bias":{"1x":1})"), "logit_bias.1x|invalid_value");
  EXPECT_EQ(ChatFault(R"("logit_bias":{"1":100.5})"), "logit_bias.1|invalid_value");
  EXPECT_EQ(ChatFault(R"("logit_bias":{"1":"a"})"), "logit_bias.1|invalid_type");
  EXPECT_EQ(ChatFault(R"("stop_token_ids":[1,99999999999])"), "stop_token_ids[1]|invalid_value");
  EXPECT_EQ(ChatFault(R"("stop_token_ids":[1,true])"), "stop_token_ids[1]|invalid_type");
  EXPECT_EQ(ChatFault(R"("stop":["a",""])"), "stop[1]|invalid_value");
  EXPECT_EQ(ChatFault(R"("stop":["a",3])"), "stop[1]|invalid_type");
  EXPECT_EQ(ChatFault(R"("top_p":1e-300)"), "top_p|invalid_value");  // no float above 0
  EXPECT_EQ(ChatFault(R"("top_logprobs":2)"), "top_logprobs|invalid_value");
  EXPECT_EQ(ChatFault(R"("stream_options":{})"), "stream_options|invalid_value");
  EXPECT_EQ(ChatFault(R"("prompt_logprobs":1,"stream":true)"), "prompt_logprobs|invalid_value");
  EXPECT_EQ(ChatFault(R"("metadata":{"a":1})"), "metadata.a|invalid_type");
  EXPECT_EQ(ChatFault(R"("chat_template_kwargs":{"messages":[]})"), "chat_template_kwargs.messages|invalid_value");
  EXPECT_EQ(ChatFault(R"("repeat_penalty":1.5,"repetition_penalty":1.25)"), "repeat_penalty|invalid_value");
}

TEST_F(GenerationTest, DraftsAreForbiddenByEitherName) {
  EXPECT_TRUE(Chat("").speculate);
  EXPECT_TRUE(Chat(R"("speculate":true,"speculative.n_max":8,"speculative.n_min":1,"speculative.p_min":0.5)")
                  .speculate);
  EXPECT_TRUE(Chat(R"("speculate":null)").speculate);
  EXPECT_EQ(Chat(R"("speculate":true)").verification, api::Verification::kCoupled);
  EXPECT_EQ(Chat(R"("verification":"rejection")").verification, api::Verification::kRejection);
  EXPECT_EQ(Chat(R"("verification":"typical")").verification, api::Verification::kLossyTypical);
  EXPECT_EQ(ChatFault(R"("verification":"sloppy")"), "verification|unsupported_value");
  EXPECT_FALSE(Chat(R"("speculate":false)").speculate);
  EXPECT_FALSE(Chat(R"("speculative.n_max":0)").speculate);
  EXPECT_FALSE(Map(kCompletions, R"({"prompt":["a","b"],"speculative.n_max":0.0})")->requests[1].speculate);
  EXPECT_FALSE(Map(kResponses, R"({"input":"a","speculate":false})")->requests[0].speculate);
  EXPECT_EQ(ChatFault(R"("speculate":"no")"), "speculate|invalid_type");
  EXPECT_EQ(ChatFault(R"("speculative.n_max":-1)"), "speculative.n_max|invalid_value");
  EXPECT_EQ(Fault(kResponses, R"({"input":"a","speculative.n_max":0})"), "speculative.n_max|unknown_parameter");
}

TEST_F(GenerationTest, APredictionIsATextOrPartsOfIt) {
  const auto of = [&](const char* content) {
    const auto call = Map(kChat, ChatBody(R"("prediction":{"type":"content","content":)" + std::string(content) + "}"));
    EXPECT_TRUE(call && call->prediction) << content;
    return call ? call->requests[0].prediction : "";
  };
  EXPECT_EQ(of(R"("a text")"), "a text");
  EXPECT_EQ(of(R"([{"type":"text","text":"a"},{"type":"text","text":"b"}])"), "a\nb");
  EXPECT_EQ(of("\"\""), "");
  EXPECT_EQ(of("[]"), "");
  EXPECT_EQ(of(("\"" + std::string(1 << 20, 'x') + "\"").c_str()).size(), size_t{1} << 20);
  for (const char* absent : {"", R"("prediction":null)"}) {
    const auto call = Map(kChat, ChatBody(absent));
    EXPECT_TRUE(call && !call->prediction && call->requests[0].prediction.empty());
  }
  EXPECT_EQ(ChatFault(R"("prediction":"a text")"), "prediction|invalid_type");
  EXPECT_EQ(ChatFault(R"("prediction":{})"), "prediction.type|missing_required_parameter");
  EXPECT_EQ(ChatFault(R"("prediction":{"content":"a"})"), "prediction.type|missing_required_parameter");
  EXPECT_EQ(ChatFault(R"("prediction":{"type":"content","content":null})"),
            "prediction.content|missing_required_parameter");
  EXPECT_EQ(ChatFault(R"("prediction":{"type":"text","content":"a"})"), "prediction.type|unsupported_value");
  EXPECT_EQ(ChatFault(R"("prediction":{"type":"content","content":5})"), "prediction.content|invalid_type");
  EXPECT_EQ(ChatFault(R"("prediction":{"type":"content","content":["a"]})"), "prediction.content[0]|invalid_type");
  EXPECT_EQ(ChatFault(R"("prediction":{"type":"content","content":[{"type":"text","text":5}]})"),
            "prediction.content[0].text|invalid_type");
  EXPECT_EQ(ChatFault(R"("prediction":{"type":"content","content":"a","more":1})"),
            "prediction.more|unknown_parameter");
  const std::string half = R"({"type":"text","text":")" + std::string(1 << 19, 'x') + "\"}";
  for (const std::string& content : {"\"" + std::string((1 << 20) + 1, 'x') + "\"", "[" + half + "," + half + "]"}) {
    EXPECT_EQ(ChatFault(R"("prediction":{"type":"content","content":)" + content + "}"),
              "prediction.content|invalid_value");
  }
}

TEST_F(GenerationTest, ABodyCannotChooseAScope) {
  for (const char* name : {"scope", "tenant", "permissions", "region", "product"}) {
    const std::string member = std::string("\"").append(name).append("\":\"other\"");
    EXPECT_EQ(ChatFault(member), std::string(name) + "|unknown_parameter");
  }
}

TEST_F(GenerationTest, MessagesBecomeWhatTemplatesRead) {
  EXPECT_EQ(Messages(R"([{"role":"developer","content":"d"},
                         {"role":"user","content":[{"type":"text","text":"a"},{"type":"text","text":"b"}],"name":"Al"},
                         {"role":"assistant","content":null,"refusal":null,"annotations":[],"audio":null,
                          "function_call":null,"tool_calls":[{"id":"c1","type":"function",
                            "function":{"name":"f","arguments":"{\"x\":[1]}"}}]},
                         {"role":"tool","tool_call_id":"c1","content":"r"}])"),
            json::parse(R"([{"role":"system","content":"d"},{"role":"user","content":"a\nb","name":"Al"},
                            {"role":"assistant","tool_calls":[{"type":"function","function":{"name":"f",
                              "arguments":{"x":[1]}},"id":"c1"}],"content":""},
                            {"role":"tool","content":"r","tool_call_id":"c1"}])"));
  // Arguments that are no object stay what they are.
  const json::array odd = Messages(
      R"([{"role":"assistant","tool_calls":[{"function":{"name":"f","arguments":"{\"x\":"}}]}])");
  EXPECT_EQ(odd[0].at("tool_calls").at(0).at("function").at("arguments"), "{\"x\":");
}

TEST_F(GenerationTest, FaultyMessagesNameTheirPath) {
  EXPECT_EQ(Fault(kChat, "{}"), "messages|missing_required_parameter");
  EXPECT_EQ(MessagesFault("[]"), "messages|invalid_value");
  EXPECT_EQ(MessagesFault("[1]"), "messages[0]|invalid_type");
  EXPECT_EQ(MessagesFault(R"([{"content":"x"}])"), "messages[0].role|missing_required_parameter");
  EXPECT_EQ(MessagesFault(R"([{"role":"boss","content":"x"}])"), "messages[0].role|unsupported_value");
  EXPECT_EQ(MessagesFault(R"([{"role":"user"}])"), "messages[0].content|missing_required_parameter");
  EXPECT_EQ(MessagesFault(R"([{"role":"user","content":5}])"), "messages[0].content|invalid_type");
  EXPECT_EQ(MessagesFault(R"([{"role":"user","content":"a"},{"role":"user","content":[{"type":"text","text":"a"},
                              {"type":"image_url","image_url":{"url":"http://x"}}]}])"),
            "messages[1].content[1].type|unsupported_value");
  EXPECT_EQ(MessagesFault(R"([{"role":"user","content":[{"type":5}]}])"), "messages[0].content[0].type|invalid_type");
  EXPECT_EQ(MessagesFault(R"([{"role":"user","content":[{"type":"text"}]}])"),
            "messages[0].content[0].text|missing_required_parameter");
  EXPECT_EQ(MessagesFault(R"([{"role":"user","content":"x","contnet":1}])"), "messages[0].contnet|unknown_parameter");
  EXPECT_EQ(MessagesFault(R"([{"role":"user","content":"x","tool_calls":[{}]}])"),
            "messages[0].tool_calls|invalid_value");
  EXPECT_EQ(MessagesFault(R"([{"role":"assistant","tool_calls":[{"function":{"name":"f"}}]}])"),
            "messages[0].tool_calls[0].function.arguments|missing_required_parameter");
  EXPECT_EQ(MessagesFault(R"([{"role":"assistant","function_call":{"name":"f"}}])"),
            "messages[0].function_call|unsupported_parameter");
}

TEST_F(GenerationTest, ToolsAndTheirChoice) {
  using Choice = api::ToolUse::Choice;
  const std::string tools = R"("tools":[{"type":"function","function":{"name":"get","description":"d",
      "parameters":{"type":"object"},"strict":true}}])";
  const api::GenerationRequest automatic = Chat(tools);
  EXPECT_EQ(automatic.tool_use.choice, Choice::kAuto);
  EXPECT_TRUE(automatic.tool_use.parallel);
  EXPECT_EQ(automatic.template_values.at("tools"),
            json::parse(R"([{"type":"function","function":{"name":"get","description":"d",
                             "parameters":{"type":"object"},"strict":true}}])"));
  EXPECT_EQ(Chat(tools + R"(,"tool_choice":"none")").tool_use.choice, Choice::kNone);
  EXPECT_EQ(Chat(tools + R"(,"tool_choice":"required","parallel_tool_calls":false)").tool_use.choice,
            Choice::kRequired);
  EXPECT_FALSE(Chat(tools + R"(,"parallel_tool_calls":false)").tool_use.parallel);
  const auto named = Chat(tools + R"(,"tool_choice":{"type":"function","function":{"name":"get"}})").tool_use;
  EXPECT_EQ(named.choice, Choice::kNamed);
  EXPECT_EQ(named.name, "get");
  EXPECT_EQ(Chat(R"("tools":[],"tool_choice":"auto")").tool_use.choice, Choice::kNone);

  EXPECT_EQ(ChatFault(R"("tool_choice":"required")"), "tool_choice|invalid_value");
  EXPECT_EQ(ChatFault(tools + R"(,"tool_choice":"any")"), "tool_choice|unsupported_value");
  EXPECT_EQ(ChatFault(tools + R"(,"tool_choice":{"type":"function","function":{"name":"put"}})"),
            "tool_choice.function.name|invalid_value");
  EXPECT_EQ(ChatFault(R"("tools":[{"type":"web_search"}])"), "tools[0].type|unsupported_value");
  EXPECT_EQ(ChatFault(R"("tools":[{"type":"function","function":{"name":"a b"}}])"),
            "tools[0].function.name|invalid_value");
  EXPECT_EQ(ChatFault(R"("tools":[{"type":"function","function":{"name":"a","parameters":[]}}])"),
            "tools[0].function.parameters|invalid_type");
  EXPECT_EQ(ChatFault(R"("tools":[{"type":"function","function":{"name":"a"}},
                                  {"type":"function","function":{"name":"a"}}])"), "tools[1]|invalid_value");
}

TEST_F(GenerationTest, FormsOfAnAnswer) {
  using Kind = api::Constraint::Kind;
  EXPECT_EQ(Chat(R"("response_format":{"type":"text"})").constraint.kind, Kind::kNone);
  EXPECT_EQ(Chat(R"("response_format":{"type":"json_object"})").constraint.kind, Kind::kJsonObject);
  const auto schema = Chat(R"("response_format":{"type":"json_schema","json_schema":{"name":"s","strict":true,
                              "schema":{"type":"object"}}})").constraint;
  EXPECT_EQ(schema.kind, Kind::kJsonSchema);
  EXPECT_EQ(schema.schema, json::parse(R"({"type":"object"})"));
  // As llama-server's callers write it: without a name.
  EXPECT_EQ(Chat(R"("response_format":{"type":"json_schema","json_schema":{"schema":{"const":1}}})").constraint.kind,
            Kind::kJsonSchema);
  EXPECT_EQ(ChatFault(R"("response_format":{"type":"json_schema","json_schema":{"name":"a b","schema":{}}})"),
            "response_format.json_schema.name|invalid_value");
  EXPECT_EQ(Chat(R"("grammar":"root ::= \"a\"")").constraint.grammar, "root ::= \"a\"");
  EXPECT_EQ(Chat(R"("json_schema":{"type":"null"})").constraint.kind, Kind::kJsonSchema);
  EXPECT_EQ(Chat(R"("guided_json":{"type":"null"})").constraint.kind, Kind::kJsonSchema);
  EXPECT_EQ(Chat(R"("structured_outputs":{"json_object":true})").constraint.kind, Kind::kJsonObject);
  EXPECT_EQ(Chat(R"("structured_outputs":{"grammar":"g"})").constraint.kind, Kind::kGrammar);

  EXPECT_EQ(ChatFault(R"("response_format":{"type":"xml"})"), "response_format.type|unsupported_value");
  EXPECT_EQ(ChatFault(R"("response_format":{})"), "response_format.type|missing_required_parameter");
  EXPECT_EQ(ChatFault(R"("response_format":{"type":"json_schema"})"),
            "response_format.json_schema|missing_required_parameter");
  EXPECT_EQ(ChatFault(R"("response_format":{"type":"json_schema","json_schema":{"name":"s","schema":[]}})"),
            "response_format.json_schema.schema|invalid_type");
  EXPECT_EQ(ChatFault(R"("response_format":{"type":"json_object"},"grammar":"g")"), "grammar|invalid_value");
}

TEST_F(GenerationTest, PromptsOfEachForm) {
  const auto prompts = [&](const char* prompt) {
    const auto call = Map(kCompletions, R"({"prompt":)" + std::string(prompt) + R"(,"echo":true,"seed":1})");
    EXPECT_TRUE(call) << call.error().message;
    std::string all;
    for (const auto& r : call->requests) {
      all += r.has_prompt ? "t:" + r.prompt : "i:" + std::to_string(r.tokens.size());
      all += ';';
    }
    return all;
  };
  EXPECT_EQ(prompts(R"("a")"), "t:a;");
  EXPECT_EQ(prompts(R"("")"), "t:;");
  EXPECT_EQ(prompts(R"(["a","b"])"), "t:a;t:b;");
  EXPECT_EQ(prompts("[1,2,3]"), "i:3;");
  EXPECT_EQ(prompts("[[1,2],[3]]"), "i:2;i:1;");
  for (const auto& [prompt, fault] : {std::pair{"[]", "prompt|invalid_value"}, {"[1,\"a\"]", "prompt[1]|invalid_type"},
                                      {"[[1],5]", "prompt[1]|invalid_type"}, {"[[]]", "prompt[0]|invalid_value"},
                                      {"[-1]", "prompt[0]|invalid_value"}, {"[1.5]", "prompt[0]|invalid_value"},
                                      {"[[261]]", "prompt[0][0]|invalid_value"}, {"5", "prompt|invalid_type"}}) {
    EXPECT_EQ(Fault(kCompletions, R"({"prompt":)" + std::string(prompt) + "}"), fault);
  }
  EXPECT_EQ(Fault(kCompletions, "{}"), "prompt|missing_required_parameter");
  EXPECT_EQ(Fault(kCompletions, R"({"prompt":"a","n":3,"best_of":2})"), "best_of|invalid_value");
  EXPECT_EQ(Fault(kCompletions, R"({"prompt":"a","best_of":2,"stream":true})"), "best_of|invalid_value");
  EXPECT_EQ(Fault(kCompletions, R"({"prompt":"a","suffix":"b"})"), "suffix|unsupported_value");
  EXPECT_EQ(Fault(kCompletions, R"({"prompt":"a","max_tokens":0})"), "max_tokens|invalid_value");
}

TEST_F(GenerationTest, ItemsOfResponsesBecomeMessages) {
  const auto call = Map(kResponses, R"({"instructions":"i","input":[{"role":"user","content":"q"},
      {"type":"message","id":"msg_1","status":"completed","role":"assistant",
       "content":[{"type":"output_text","text":"I look","annotations":[],"logprobs":[]}]},
      {"type":"function_call","call_id":"c1","name":"f","arguments":"{\"a\":1}","id":"fc_1","status":"completed"},
      {"type":"function_call","call_id":"c2","name":"g","arguments":"{}"},
      {"type":"function_call_output","call_id":"c1","output":"one"}],
      "text":{"format":{"type":"json_schema","name":"n","schema":{"type":"object"}}},
      "tools":[{"type":"function","name":"f","parameters":{"type":"object"},"strict":false}],"max_output_tokens":7,
      "include":["message.output_text.logprobs"],"top_logprobs":3,"store":false})");
  ASSERT_TRUE(call) << call.error().message;
  const api::GenerationRequest& r = call->requests[0];
  EXPECT_EQ(r.messages, json::parse(R"([{"role":"system","content":"i"},{"role":"user","content":"q"},
      {"role":"assistant","content":"I look","tool_calls":[
        {"type":"function","id":"c1","function":{"name":"f","arguments":{"a":1}}},
        {"type":"function","id":"c2","function":{"name":"g","arguments":{}}}]},
      {"role":"tool","tool_call_id":"c1","content":"one"}])"));
  EXPECT_EQ(r.constraint.kind, api::Constraint::Kind::kJsonSchema);
  EXPECT_EQ(r.max_tokens, 7);
  EXPECT_EQ(r.n_logprobs, 3);
  EXPECT_EQ(r.template_values.at("tools").at(0).at("function").at("name"), "f");

  EXPECT_EQ(Fault(kResponses, "{}"), "input|missing_required_parameter");
  EXPECT_EQ(Fault(kResponses, R"({"input":[]})"), "input|invalid_value");
  EXPECT_EQ(Fault(kResponses, R"({"input":"a","store":true})"), "store|unsupported_value");
  EXPECT_EQ(Fault(kResponses, R"({"input":"a","previous_response_id":"r"})"),
            "previous_response_id|unsupported_parameter");
  EXPECT_EQ(Fault(kResponses, R"({"input":[{"type":"item_reference","id":"x"}]})"), "input[0].type|unsupported_value");
  EXPECT_EQ(Fault(kResponses, R"({"input":[{"role":"user","content":[{"type":"input_image"}]}]})"),
            "input[0].content[0].type|unsupported_value");
  EXPECT_EQ(Fault(kResponses, R"({"input":"a","include":["file_search_call.results"]})"),
            "include[0]|unsupported_value");
}

TEST_F(GenerationTest, FieldsOfRefusalsHaveTheBodysNames) {
  const auto field = [](const char* name, Endpoint e, const char* body = "{}") {
    return BodyField(name, e, json::parse(body).as_object());
  };
  EXPECT_EQ(field("messages", kResponses), "input");
  EXPECT_EQ(field("messages[2].content", kChat), "messages[2].content");
  EXPECT_EQ(field("max_tokens", kChat, R"({"max_completion_tokens":4})"), "max_completion_tokens");
  EXPECT_EQ(field("max_tokens", kResponses), "max_output_tokens");
  EXPECT_EQ(field("sampling.top_k", kChat), "top_k");
  EXPECT_EQ(field("constraint.grammar", kChat, R"({"grammar":"g"})"), "grammar");
  EXPECT_EQ(field("constraint", kChat, R"({"response_format":{}})"), "response_format");
  EXPECT_EQ(field("tokens", kCompletions), "prompt");
  EXPECT_EQ(field("n_choices", kChat), "n");
}

}  // namespace
}  // namespace surety::http
