// Every golden of testdata/chat: models' templates against what transformers renders.
#include <algorithm>
#include <filesystem>
#include <fstream>
#include <sstream>
#include <string>
#include <vector>

#include <boost/json.hpp>
#include <gtest/gtest.h>

#include "model/chat/template.h"

namespace surety::model {
namespace {

namespace json = boost::json;

json::value ReadJson(const std::filesystem::path& path) {
  std::ifstream file(path);
  std::stringstream text;
  text << file.rdbuf();
  return json::parse(text.str());
}

std::string Joined(const std::vector<TextSegment>& segments) {
  std::string text;
  for (const TextSegment& segment : segments) text += segment.text;
  return text;
}

// What transformers does to messages before a template sees them: reasoning under its other names.
void AliasReasoning(json::array& messages) {
  for (json::value& value : messages) {
    json::object& message = value.as_object();
    for (const char* name : {"reasoning_content", "thinking", "reasoning"}) {
      const json::value* reasoning = message.if_contains(name);
      if (reasoning == nullptr || reasoning->is_null()) continue;
      const json::value copy = *reasoning;
      if (!message.contains("thinking")) message["thinking"] = copy;
      message["reasoning_content"] = copy;
      break;
    }
  }
}

constexpr std::string_view kContinueTag = "CONTINUE_FINAL_MESSAGE_TAG ";

// transformers' continue_final_message: render with a tag behind the last message's content, and cut there.
void TagLastMessage(json::array& messages) {
  json::value& content = messages.back().as_object()["content"];
  json::value& tagged = content.is_string() ? content : content.as_array().back().as_object()["text"];
  json::string& text = tagged.as_string();
  text.append(kContinueTag);
}

std::string CutAtTag(std::string text) {
  const size_t tag = text.rfind(kContinueTag.substr(0, kContinueTag.size() - 1));
  if (tag == std::string::npos) return text;
  const bool trimmed = text.compare(tag, kContinueTag.size(), kContinueTag) != 0;
  text.resize(tag);
  if (trimmed) text.erase(text.find_last_not_of(" \t\n\r") + 1);
  return text;
}

TemplateInput InputOf(const json::object& golden, const json::object& test) {
  TemplateInput input;
  input.bos_token = golden.at("bos_token").as_string();
  input.eos_token = golden.at("eos_token").as_string();
  input.now_unix_seconds = 1721995200;  // 2024-07-26T12:00:00Z, the goldens' "now"
  json::array messages = test.at("messages").as_array();
  AliasReasoning(messages);
  if (test.contains("continue_final_message")) TagLastMessage(messages);
  input.values["messages"] = std::move(messages);
  for (const char* name : {"tools", "documents", "add_generation_prompt"}) {
    if (const json::value* value = test.if_contains(name)) input.values[name] = *value;
  }
  if (const json::value* more = test.if_contains("kwargs")) {
    for (const auto& member : more->as_object()) input.values[member.key()] = member.value();
  }
  return input;
}

std::vector<std::filesystem::path> Goldens() {
  std::vector<std::filesystem::path> paths;
  for (const auto& entry : std::filesystem::directory_iterator(SURETY_TESTDATA "/chat")) {
    if (entry.path().extension() == ".json" && entry.path().stem() != "jinja_cases") paths.push_back(entry.path());
  }
  std::sort(paths.begin(), paths.end());
  return paths;
}

class TemplateGoldenTest : public ::testing::TestWithParam<std::filesystem::path> {};

TEST_P(TemplateGoldenTest, RendersAsTransformersDoes) {
  const json::value file = ReadJson(GetParam());
  const json::object& golden = file.as_object();
  const auto parsed = ChatTemplate::Parse(std::string_view(golden.at("template").as_string()));
  ASSERT_TRUE(parsed.has_value()) << parsed.error().ToString();
  for (const json::value& value : golden.at("cases").as_array()) {
    const json::object& test = value.as_object();
    SCOPED_TRACE(std::string(test.at("name").as_string()));
    const auto segments = (*parsed)->Render(InputOf(golden, test));
    if (const json::value* error = test.if_contains("error")) {
      ASSERT_FALSE(segments.has_value()) << Joined(*segments);
      EXPECT_EQ(segments.error().code(), StatusCode::kInvalidArgument);
      EXPECT_EQ(segments.error().message(), std::string(error->as_string()));
      continue;
    }
    ASSERT_TRUE(segments.has_value()) << segments.error().ToString();
    std::string text = Joined(*segments);
    if (test.contains("continue_final_message")) text = CutAtTag(std::move(text));
    EXPECT_EQ(text, std::string(test.at("expected").as_string()));
    for (size_t i = 0; i < segments->size(); ++i) {
      EXPECT_FALSE((*segments)[i].text.empty());
      EXPECT_TRUE(i == 0 || (*segments)[i].trusted != (*segments)[i - 1].trusted);
    }
  }
}

INSTANTIATE_TEST_SUITE_P(Templates, TemplateGoldenTest, ::testing::ValuesIn(Goldens()), [](const auto& info) {
  std::string name = info.param.stem().string();
  const auto is_mark = [](char c) { return std::isalnum(static_cast<unsigned char>(c)) == 0; };
  std::replace_if(name.begin(), name.end(), is_mark, '_');
  return name;
});

}  // namespace
}  // namespace surety::model
