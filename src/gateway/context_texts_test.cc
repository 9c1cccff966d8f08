// What of a request is looked at, and how much of it a model is given.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <boost/json.hpp>

#include "gateway/context_builder.h"
#include "gateway/conversation.h"

namespace surety::gateway {
namespace {

using boost::json::array;
using boost::json::object;
using ::testing::HasSubstr;
using ::testing::Not;

int CountBytes(std::string_view text) { return static_cast<int>(text.size()); }

api::GenerationRequest AskingFor(std::string question) {
  api::GenerationRequest request;
  request.has_messages = true;
  request.messages.push_back(object{{"role", "user"}, {"content", question}});
  return request;
}

// Every place of a request in which a text can stand, each made from the text by its own way.
std::vector<std::pair<std::string, api::GenerationRequest>> EveryPlace(const std::string& text) {
  std::vector<std::pair<std::string, api::GenerationRequest>> out;
  const auto add = [&](std::string place, const std::function<void(api::GenerationRequest&)>& put) {
    api::GenerationRequest request = AskingFor("A question?");
    put(request);
    out.emplace_back(std::move(place), std::move(request));
  };
  const auto said = [](object message) {
    return [message](api::GenerationRequest& r) { r.messages.insert(r.messages.begin(), message); };
  };
  const auto calls = [&](std::string arguments) {
    return said({{"role", "assistant"},
                 {"content", nullptr},
                 {"tool_calls", array{object{{"id", "1"},
                                             {"type", "function"},
                                             {"function", object{{"name", "send"}, {"arguments", arguments}}}}}}});
  };
  std::string escaped;
  for (const char c : text) {
    char code[8];
    std::snprintf(code, sizeof code, "\\u%04x", static_cast<unsigned>(c));
    escaped += code;
  }
  add("content", said({{"role", "assistant"}, {"content", text}}));
  add("part", said({{"role", "assistant"}, {"content", array{object{{"type", "text"}, {"text", text}}}}}));
  add("arguments", calls(boost::json::serialize(object{{"to", text}})));
  add("escaped arguments", calls("{\"to\":\"" + escaped + "\"}"));
  add("no JSON", calls("{\"to\": " + text));
  add("name", said({{"role", "user"}, {"name", text}, {"content", "x"}}));
  add("result", said({{"role", "tool"}, {"content", text}, {"tool_call_id", "1"}}));
  const object schema{{"properties", object{{"to", object{{"enum", array{text}}}}}}};
  const object tool{{"type", "function"}, {"function", object{{"name", "send"}, {"parameters", schema}}}};
  add("schema of a tool", [tool](api::GenerationRequest& r) { r.template_values["tools"] = array{tool}; });
  add("prediction", [text](api::GenerationRequest& r) { r.prediction = text; });
  return out;
}

TEST(ContextTextsTest, ForbiddenDataIsFoundWhereverItStands) {
  RouteSpec route;
  ContextSpec spec;
  spec.name = "strict";
  spec.max_input_tokens = 100'000;
  spec.forbidden = {"ssn"};
  const auto build = [&](const api::GenerationRequest& request) {
    const PersonalDataFinder finder = [](std::string_view text) {
      return std::vector<std::string>(text.find("078-05-1120") == std::string_view::npos ? 0 : 1, "ssn");
    };
    ContextRequest context;
    context.route = &route;
    context.spec = &spec;
    context.request = &request;
    const auto conversation = ReadConversation(request);
    EXPECT_TRUE(conversation.has_value());
    const auto built = BuildContext(context, *conversation, Evidence(), CountBytes, finder);
    return built ? StatusCode::kOk : built.error().code();
  };
  for (const auto& [place, request] : EveryPlace("078-05-1120")) {
    EXPECT_EQ(build(request), StatusCode::kPermissionDenied) << place;
  }
  for (const auto& [place, request] : EveryPlace("something")) EXPECT_EQ(build(request), StatusCode::kOk) << place;
}

TEST(ContextTextsTest, RightsPhrasesAreLookedForWhereverTheyStand) {
  for (const auto& [place, request] : EveryPlace("I want to complain")) {
    const auto conversation = ReadConversation(request);
    ASSERT_TRUE(conversation.has_value());
    EXPECT_THAT(conversation->all_text, HasSubstr("I want to complain")) << place;
    EXPECT_EQ(conversation->question, "A question?");
  }
  // Names of fields are nobody's words.
  const auto plain = ReadConversation(EveryPlace("x").front().second);
  for (const char* field : {"role", "assistant", "content"}) EXPECT_THAT(plain->all_text, Not(HasSubstr(field)));
}

TEST(ContextTextsTest, AModelOfUnknownContextIsGivenWhatThePolicySays) {
  RouteSpec route;
  route.max_output_tokens = 100;
  const auto build = [&](int context_tokens, int max_input_tokens, size_t bytes) {
    const api::GenerationRequest request = AskingFor(std::string(bytes, 'q'));
    ContextSpec spec;
    spec.max_input_tokens = max_input_tokens;
    ContextRequest context;
    context.route = &route;
    context.spec = &spec;
    context.context_tokens = context_tokens;
    context.request = &request;
    const auto built = BuildContext(context, *ReadConversation(request), Evidence(), CountBytes, {});
    return built ? StatusCode::kOk : built.error().code();
  };
  EXPECT_EQ(build(0, 0, 1000), StatusCode::kOk);
  EXPECT_EQ(build(0, 0, kAssumedContextTokens), StatusCode::kOutOfRange);
  EXPECT_EQ(build(0, 20'000, 19'000), StatusCode::kOk);
  EXPECT_EQ(build(0, 20'000, 20'000), StatusCode::kOutOfRange);
  EXPECT_EQ(build(1000, 20'000, 1000), StatusCode::kOutOfRange);   // the control: a known one is the limit
  EXPECT_EQ(build(1000, 20'000, 800), StatusCode::kOk);
}

TEST(ContextTextsTest, ToolsOfTheCallerCountAsInput) {
  RouteSpec route;
  api::GenerationRequest request = AskingFor("A question?");
  const auto build = [&] {
    ContextRequest context;
    context.route = &route;
    context.context_tokens = 4000;
    context.request = &request;
    const auto built = BuildContext(context, *ReadConversation(request), Evidence(), CountBytes, {});
    return built ? StatusCode::kOk : built.error().code();
  };
  EXPECT_EQ(build(), StatusCode::kOk);
  request.template_values["tools"] = array{object{{"description", std::string(4000, 'd')}}};
  EXPECT_EQ(build(), StatusCode::kOutOfRange);
}

TEST(ContextTextsTest, AnOptionalToolThatFailedIsMarkedAsNotChecked) {
  RouteSpec route;
  const api::GenerationRequest request = AskingFor("A question?");
  ContextRequest context;
  context.route = &route;
  context.context_tokens = 4000;
  Evidence evidence;
  evidence.tools.resize(2);
  evidence.tools[0].tool = "limits";
  evidence.tools[0].status = UnavailableError("password=secret is wrong");
  evidence.tools[1].tool = "cards";
  evidence.tools[1].value = object{{"n", 2}};
  const auto built = BuildContext(context, *ReadConversation(request), evidence, CountBytes, {});
  ASSERT_TRUE(built.has_value());
  const std::string prompt = boost::json::serialize(built->messages);
  EXPECT_THAT(prompt, HasSubstr("not checked"));
  EXPECT_THAT(prompt, HasSubstr("limits"));
  EXPECT_THAT(prompt, HasSubstr("{\\\"n\\\":2}"));
  EXPECT_THAT(prompt, Not(HasSubstr("secret")));   // why is not the model's business
}

}  // namespace
}  // namespace surety::gateway
