// Tool calls: families by real templates, the same result for every cut of a stream, required calls that parse.
#include "engine/tool_calls.h"

#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>
#include <map>
#include <random>
#include <sstream>

#include "engine/grammar/parse_states.h"

namespace surety::engine {
namespace json = boost::json;
namespace {

struct Joined {
  std::string text;
  std::vector<std::pair<std::string, std::string>> calls;
  bool operator==(const Joined&) const = default;
};

void PrintTo(const Joined& joined, std::ostream* out) {
  *out << "text '" << joined.text << "'";
  for (const auto& [name, arguments] : joined.calls) *out << ", " << name << " " << arguments;
}

void Add(const ToolCallText& out, Joined& joined) {
  joined.text += out.text;
  for (const api::ToolCallDelta& delta : out.calls) {
    const auto index = static_cast<size_t>(delta.index);
    if (index == joined.calls.size()) joined.calls.emplace_back();
    ASSERT_LT(index, joined.calls.size());
    ASSERT_TRUE(delta.name.empty() || joined.calls[index].first.empty()) << "the name comes once";
    joined.calls[index].first += delta.name;
    joined.calls[index].second += delta.arguments;
  }
}

Joined Parse(ToolFamily family, std::string_view text, const std::vector<size_t>& cuts) {
  ToolCallParser parser(family, {"f", "get_weather"});
  Joined joined;
  size_t at = 0;
  for (const size_t cut : cuts) {
    Add(parser.Push(text.substr(at, cut - at)), joined);
    at = cut;
  }
  Add(parser.Push(text.substr(at)), joined);
  Add(parser.Finish(), joined);
  return joined;
}

using Calls = std::vector<std::pair<std::string, std::string>>;
struct Case {
  ToolFamily family;
  std::string input, text;
  Calls calls;
};

const std::vector<Case>& Cases() {
  using enum ToolFamily;
  static const std::vector<Case> cases = {
      {kHermes, "Hello", "Hello", {}},
      {kHermes, "  a < b \n", "  a < b \n", {}},
      {kHermes, "<tool_call>\n{\"name\": \"f\", \"arguments\": {\"x\": 1}}\n</tool_call>", "", {{"f", "{\"x\": 1}"}}},
      {kHermes,
       "Sure.\n<tool_call>{\"name\":\"f\",\"arguments\":{}}</tool_call>\n<tool_call>\n"
       "{\"arguments\": {\"a\":\"</tool_call>\\\"}\"}, \"name\": \"get_weather\"}\n</tool_call>\n",
       "Sure.",
       {{"f", "{}"}, {"get_weather", "{\"a\":\"</tool_call>\\\"}\"}"}}},
      {kHermes, "<tool_call>{\"name\":\"f\",\"arguments\":{}}", "", {{"f", "{}"}}},
      {kHermes,
       "<tool_call>{\"name\":\"f\",\"arguments\":\"{\\\"x\\\": 2}\"}</tool_call> done",
       "done",
       {{"f", "{\"x\": 2}"}}},
      {kHermes,
       "<tool_call>{\"name\":\"unknown\",\"arguments\":{}}</tool_call>",
       "<tool_call>{\"name\":\"unknown\",\"arguments\":{}}</tool_call>",
       {}},
      {kHermes,
       "x <tool_call>{\"name\":\"f\",\"arguments\":{\"a\":",
       "x <tool_call>{\"name\":\"f\",\"arguments\":{\"a\":",
       {}},
      {kHermes, "<tool_call>{\"name\":\"f\",}</tool_call>", "<tool_call>{\"name\":\"f\",}</tool_call>", {}},
      {kHermes,
       "<tool_call>{\"name\":\"f\",\"arguments\":{}} no</tool_call>",
       "<tool_call>{\"name\":\"f\",\"arguments\":{}} no</tool_call>",
       {}},
      {kHermes, "<tool_call><tool_call>{\"name\":\"f\",\"arguments\":{}}</tool_call>", "<tool_call>", {{"f", "{}"}}},
      {kHermes,
       "<tool_call>{\"name\":\"f\",\"arguments\":[1]}</tool_call>",
       "<tool_call>{\"name\":\"f\",\"arguments\":[1]}</tool_call>",
       {}},
      {kHermes, "<tool_", "<tool_", {}},
      {kHermes, "{\"name\":\"f\",\"arguments\":{}}", "{\"name\":\"f\",\"arguments\":{}}", {}},
      {kLlama, "{\"name\": \"f\", \"parameters\": {\"x\": [1, 2]}}", "", {{"f", "{\"x\": [1, 2]}"}}},
      {kLlama,
       " {\"type\":\"function\",\"name\":\"f\",\"parameters\":{}}; {\"name\":\"f\",\"parameters\":{\"b\":2}}",
       "",
       {{"f", "{}"}, {"f", "{\"b\":2}"}}},
      {kLlama, "<|python_tag|>{\"name\": \"f\", \"parameters\": {}}", "", {{"f", "{}"}}},
      {kLlama, "<|python_tag|>print(1)", "<|python_tag|>print(1)", {}},
      {kLlama, "{\"answer\": 42}", "{\"answer\": 42}", {}},
      {kLlama, "Call {\"name\": \"f\", \"parameters\": {}}", "Call {\"name\": \"f\", \"parameters\": {}}", {}},
      {kLlama, "{\"name\": \"f\", \"parameters\": {}} and more", "and more", {{"f", "{}"}}},
      {kMistral,
       "[TOOL_CALLS][{\"name\": \"f\", \"arguments\": {\"x\": \"]\"}}, {\"name\": \"get_weather\", "
       "\"arguments\": {}, \"id\": \"123456789\"}]",
       "",
       {{"f", "{\"x\": \"]\"}"}, {"get_weather", "{}"}}},
      {kMistral, "[TOOL_CALLS][]", "[TOOL_CALLS][]", {}},
      {kMistral, "[TOOL_CALLS][{\"name\": \"f\"}, 3]", "[TOOL_CALLS][{\"name\": \"f\"}, 3]", {}},
      {kMistralArgs,
       "Ok.\n[TOOL_CALLS]f[CALL_ID]123456789[ARGS]{\"x\": 1}[TOOL_CALLS]get_weather[ARGS]{}",
       "Ok.",
       {{"f", "{\"x\": 1}"}, {"get_weather", "{}"}}},
      {kMistralArgs, "[TOOL_CALLS]g[ARGS]{}", "[TOOL_CALLS]g[ARGS]{}", {}},
      {kMistralArgs, "[TOOL_CALLS]f[ARGS]", "[TOOL_CALLS]f[ARGS]", {}},
      {kNone,
       "<tool_call>{\"name\":\"f\",\"arguments\":{}}</tool_call> ",
       "<tool_call>{\"name\":\"f\",\"arguments\":{}}</tool_call> ",
       {}},
  };
  return cases;
}

TEST(ToolCallParserTest, ReadsCallsAndLeavesTheRestAsText) {
  for (const Case& c : Cases()) {
    EXPECT_EQ(Parse(c.family, c.input, {}), (Joined{c.text, c.calls})) << NameOf(c.family) << " " << c.input;
  }
}

TEST(ToolCallParserTest, EveryCutGivesTheSame) {
  for (const Case& c : Cases()) {
    const Joined whole{c.text, c.calls};
    std::vector<size_t> every;
    for (size_t i = 1; i < c.input.size(); ++i) {
      every.push_back(i);
      ASSERT_EQ(Parse(c.family, c.input, {i}), whole) << c.input << " cut at " << i;
    }
    ASSERT_EQ(Parse(c.family, c.input, every), whole) << c.input;
  }
}

TEST(ToolCallParserTest, RandomStreamsDoNotDependOnTheirCutsAndLoseNothing) {
  const char* pieces[] = {"<tool_call>",
                          "</tool_call>",
                          "[TOOL_CALLS]",
                          "[ARGS]",
                          "[CALL_ID]",
                          "<|python_tag|>",
                          "{",
                          "}",
                          "[",
                          "]",
                          "\"name\":",
                          "\"f\"",
                          "\"arguments\":",
                          "\"parameters\":",
                          "{}",
                          ",",
                          ";",
                          " ",
                          "\n",
                          "text",
                          "<tool",
                          "[TOOL",
                          "{\"name\":\"f\",\"arguments\":{\"x\":1}}",
                          "f[ARGS]{}",
                          "\\",
                          "\"",
                          "<tool_call>{\"name\":\"f\",\"arguments\":{\"x\":1}}</tool_call>",
                          "[TOOL_CALLS]f[ARGS]{}",
                          "{\"name\":\"f\",\"parameters\":{}}",
                          "[TOOL_CALLS][{\"name\":\"f\",\"arguments\":{}}]"};
  std::mt19937 random(17);
  int n_calls = 0;
  for (int i = 0; i < 6000; ++i) {
    const auto family = static_cast<ToolFamily>(random() % 5);
    std::string input;
    for (int n = static_cast<int>(random() % 12); n > 0; --n) input += pieces[random() % std::size(pieces)];
    const Joined whole = Parse(family, input, {});
    std::vector<size_t> cuts;
    for (size_t at = random() % 4; at < input.size(); at += 1 + random() % 5) cuts.push_back(at);
    ASSERT_EQ(Parse(family, input, cuts), whole) << NameOf(family) << " " << input;
    n_calls += static_cast<int>(whole.calls.size());
    if (whole.calls.empty()) {
      ASSERT_EQ(whole.text, input);
    }
    for (const auto& [name, arguments] : whole.calls) {
      EXPECT_EQ(name, "f");
      EXPECT_TRUE(json::parse(arguments).is_object());
    }
  }
  EXPECT_GT(n_calls, 200);
}

TEST(ToolCallParserTest, ACallThatIsTooLongIsText) {
  const std::string call = "<tool_call>{\"name\":\"f\",\"arguments\":{\"x\":\"" +
                           std::string(ToolCallParser::kMaxHeldBytes, 'y') + "\"}}</tool_call>";
  EXPECT_EQ(Parse(ToolFamily::kHermes, call, {}), (Joined{call, {}}));
  EXPECT_EQ(Parse(ToolFamily::kHermes, call, {1000, 200'000}), (Joined{call, {}}));
}

TEST(ToolCallParserTest, TextIsNotHeldLongerThanNeeded) {
  ToolCallParser parser(ToolFamily::kHermes, {"f"});
  EXPECT_EQ(parser.Push("Hello <b").text, "Hello <b");
  EXPECT_EQ(parser.Push("> <tool_ca").text, ">");
  EXPECT_EQ(parser.Push("x").text, " <tool_cax");
}

TEST(ToolFamilyTest, IsFoundInRealTemplates) {
  const std::map<std::string, ToolFamily> expected = {{"hermes-3", ToolFamily::kHermes},
                                                      {"qwen2.5", ToolFamily::kHermes},
                                                      {"qwen2.5-coder", ToolFamily::kHermes},
                                                      {"qwen3", ToolFamily::kHermes},
                                                      {"qwq", ToolFamily::kHermes},
                                                      {"llama-3.1", ToolFamily::kLlama},
                                                      {"llama-3.2", ToolFamily::kLlama},
                                                      {"mistral-nemo", ToolFamily::kMistral},
                                                      {"mistral-small-3.2", ToolFamily::kMistralArgs}};
  for (const auto& entry : std::filesystem::directory_iterator(std::string(SURETY_TESTDATA) + "/chat")) {
    std::ifstream file(entry.path());
    std::stringstream text;
    text << file.rdbuf();
    json::parse_options options;
    options.max_depth = 128;
    const json::value golden = json::parse(text.str(), {}, options);
    const auto* source = golden.as_object().if_contains("template");
    if (source == nullptr) continue;
    const auto found = expected.find(entry.path().stem().string());
    EXPECT_EQ(NameOf(ToolFamilyOf(source->as_string())),
              NameOf(found == expected.end() ? ToolFamily::kNone : found->second))
        << entry.path();
  }
}

const json::array& Tools() {
  static const json::array tools = json::parse(R"([
    {"type": "function", "function": {"name": "f"}},
    {"type": "function", "function": {"name": "get_weather", "description": "d", "parameters": {"type": "object",
      "properties": {"city": {"type": "string"}, "days": {"type": "integer", "minimum": 1, "maximum": 14}},
      "required": ["city"]}}}])")
                                       .as_array();
  return tools;
}

// A random text of the grammar, by its own automaton, in at most about n bytes.
std::string Sample(const Grammar&, ParseStates& states, std::mt19937& random, size_t n) {
  std::string text;
  ParseStates::Id id = states.IdOf(states.start());
  while (true) {
    if (states.state(id)->complete && (text.size() > n || random() % 4 == 0)) return text;
    std::vector<uint8_t> next;
    for (int byte = 32; byte < 127; ++byte) {
      if (states.Step(id, static_cast<uint8_t>(byte)) != ParseStates::kDeadId)
        next.push_back(static_cast<uint8_t>(byte));
    }
    if (states.Step(id, '\n') != ParseStates::kDeadId) next.push_back('\n');
    if (next.empty() || text.size() > 5000) return text;
    const auto quote = std::find(next.begin(), next.end(), static_cast<uint8_t>('"'));
    const uint8_t byte = quote != next.end() && random() % 3 == 0 ? *quote : next[random() % next.size()];
    text += static_cast<char>(byte);
    id = states.Step(id, byte);
  }
}

TEST(ToolCallGrammarTest, RequiredCallsAlwaysParse) {
  std::mt19937 random(23);
  for (const ToolFamily family :
       {ToolFamily::kHermes, ToolFamily::kLlama, ToolFamily::kMistral, ToolFamily::kMistralArgs}) {
    for (const bool parallel : {false, true}) {
      const api::ToolUse use{.choice = api::ToolUse::Choice::kRequired, .name = "", .parallel = parallel};
      const auto grammar = ToolCallGrammar(family, Tools(), use);
      ASSERT_TRUE(grammar.has_value()) << grammar.error().message();
      ParseStates states(*grammar);
      for (int i = 0; i < 150; ++i) {
        const std::string text = Sample(**grammar, states, random, 60);
        const Joined joined = Parse(family, text, {text.size() / 2});
        ASSERT_EQ(joined.text, "") << text;
        ASSERT_GE(joined.calls.size(), 1u) << text;
        ASSERT_TRUE(parallel || joined.calls.size() == 1) << text;
        for (const auto& [name, arguments] : joined.calls) {
          const json::value value = json::parse(arguments);
          ASSERT_EQ(value.as_object().contains("city"), name == "get_weather") << text;
        }
      }
    }
  }
}

TEST(ToolCallGrammarTest, ANamedToolIsTheOnlyOne) {
  const api::ToolUse use{.choice = api::ToolUse::Choice::kNamed, .name = "f", .parallel = false};
  const auto grammar = ToolCallGrammar(ToolFamily::kLlama, Tools(), use);
  ASSERT_TRUE(grammar.has_value());
  ParseStates states(*grammar);
  std::mt19937 random(1);
  EXPECT_TRUE(Sample(**grammar, states, random, 0).starts_with("{\"name\": \"f\", \"parameters\": {"));
}

TEST(ToolCallGrammarTest, SaysWhatIsWrong) {
  const auto error = [](const char* tools, api::ToolUse use, ToolFamily family = ToolFamily::kHermes) {
    const auto grammar = ToolCallGrammar(family, json::parse(tools).as_array(), use);
    return grammar ? std::string() : grammar.error().message();
  };
  const api::ToolUse required{.choice = api::ToolUse::Choice::kRequired, .name = "", .parallel = true};
  const api::ToolUse named{.choice = api::ToolUse::Choice::kNamed, .name = "g", .parallel = true};
  EXPECT_NE(error("[]", required).find("there are no tools"), std::string::npos);
  EXPECT_NE(error(R"([{"function": {"name": "f"}}])", named).find("'g', which is not among"), std::string::npos);
  EXPECT_NE(error(R"([{"function": {"name": "a b"}}])", required).find("tools[0].function.name"), std::string::npos);
  EXPECT_NE(error("[3]", required).find("tools[0].function must be"), std::string::npos);
  EXPECT_NE(
      error(R"([{"function": {"name": "f", "parameters": {"type": "object", "properties": {"a": {"not": {}}}}}}])",
            required)
          .find("tools[0].function.parameters #/properties/a/not"),
      std::string::npos);
  EXPECT_NE(error(R"([{"function": {"name": "f", "parameters": {"type": "array"}}}])", required).find("#/type"),
            std::string::npos);
  EXPECT_NE(error(R"([{"function": {"name": "f"}}])", required, ToolFamily::kNone).find("no form of tool calls"),
            std::string::npos);
}

}  // namespace
}  // namespace surety::engine
