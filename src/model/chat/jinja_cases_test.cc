// Every golden of testdata/chat/jinja_cases.json: small templates against Jinja itself.
#include <fstream>
#include <sstream>
#include <string>

#include <boost/json.hpp>
#include <gtest/gtest.h>

#include "model/chat/template.h"

namespace surety::model {
namespace {

namespace json = boost::json;

Result<std::string> RenderPlain(std::string_view source, const json::object& values) {
  auto parsed = ChatTemplate::Parse(source);
  if (!parsed) return Error(parsed.error());
  TemplateInput input;
  input.values = values;
  auto segments = (*parsed)->Render(input);
  if (!segments) return Error(segments.error());
  std::string text;
  for (const TextSegment& segment : *segments) text += segment.text;
  return text;
}

// Where this engine differs from Jinja on purpose: it refuses what no chat template needs, or what Jinja lets pass
// although it means nothing. A refusal is an error, never another text.
bool IsKnownRefusal(const std::string& message) {
  for (const char* reason : {"is not allowed", "has no text", "an iterator has no text", "64 bits", "not supported",
                             "is not available", "complex number"}) {
    if (message.find(reason) != std::string::npos) return true;
  }
  return false;
}

TEST(JinjaCasesTest, AgreesWithJinja) {
  std::ifstream file(SURETY_TESTDATA "/chat/jinja_cases.json");
  std::stringstream text;
  text << file.rdbuf();
  const json::value golden = json::parse(text.str());
  const json::object& values = golden.at("values").as_object();
  int refusals = 0;
  for (const json::value& value : golden.at("cases").as_array()) {
    const std::string source(value.at("template").as_string());
    SCOPED_TRACE(source);
    const auto result = RenderPlain(source, values);
    if (const json::value* expected = value.as_object().if_contains("expected")) {
      if (!result && IsKnownRefusal(result.error().message())) {
        ++refusals;
        continue;
      }
      if (!result) {
        ADD_FAILURE() << result.error().ToString() << "\nbut Jinja: " << expected->as_string();
      } else {
        EXPECT_EQ(*result, std::string(expected->as_string()));
      }
    } else {
      EXPECT_FALSE(result.has_value()) << *result << "\nbut Jinja raises " << value.at("raises").as_string();
    }
  }
  EXPECT_LE(refusals, 2);
}

}  // namespace
}  // namespace surety::model
