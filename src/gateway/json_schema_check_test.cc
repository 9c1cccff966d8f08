#include "gateway/json_schema_check.h"

#include <string>

#include <boost/json/parse.hpp>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "gateway/strict_json.h"
#include "gateway/verifier.h"

namespace surety::gateway {
namespace {

using ::testing::HasSubstr;

bool SchemaFits(const char* schema, const char* value) {
  const auto made = JsonSchema::Make(boost::json::parse(schema));
  EXPECT_TRUE(made.has_value()) << schema << made.error().ToString();
  return (*made)->Violation(boost::json::parse(value)).empty();
}

TEST(JsonSchemaCheckTest, EachKeywordAcceptsAndRefuses) {
  struct Case {
    const char *schema, *good, *bad;
  };
  for (const Case& c : {
           Case{R"({"type":"integer"})", "3.0", "3.5"}, Case{R"({"type":["string","null"]})", "null", "1"},
           Case{R"({"enum":[1,"a",[1]]})", "[1.0]", "[2]"}, Case{R"({"const":{"a":1}})", R"({"a":1.0})", R"({"a":2})"},
           Case{R"({"required":["a"]})", R"({"a":null})", "{}"}, Case{R"({"required":["a"]})", "[]", R"({"b":1})"},
           Case{R"({"properties":{"a":{"type":"string"}}})", R"({"b":1})", R"({"a":1})"},
           Case{R"({"properties":{"a":{}},"additionalProperties":false})", R"({"a":1})", R"({"a":1,"b":2})"},
           Case{R"({"additionalProperties":{"type":"null"}})", R"({"x":null})", R"({"x":0})"},
           Case{R"({"items":{"minimum":2}})", "[2,3]", "[3,1]"},
           Case{R"({"prefixItems":[{"const":1}],"items":{"const":2}})", "[1,2,2]", "[1,2,1]"},
           Case{R"({"minItems":1,"maxItems":2})", "[1]", "[1,2,3]"},
           Case{R"({"uniqueItems":true})", "[1,2]", "[1,1.0]"},
           Case{R"({"minimum":1})", "1", "0.99"}, Case{R"({"exclusiveMaximum":1})", "0.99", "1"},
           Case{R"({"maximum":18446744073709551614})", "18446744073709551614", "18446744073709551615"},
           Case{R"({"exclusiveMinimum":0})", "1e-9", "0"}, Case{R"({"multipleOf":0.01})", "35.07", "35.005"},
           Case{R"({"minLength":2,"maxLength":2})", "\"\u00E9\u00E9\"", "\"\u00E9\""},
           Case{R"({"pattern":"^R\\d\\d$"})", "\"R01\"", "\"R1\""}, Case{R"({"minProperties":1})", R"({"a":1})", "{}"},
           Case{R"({"maxProperties":1})", R"({"a":1})", R"({"a":1,"b":1})"},
           Case{R"({"anyOf":[{"const":1},{"const":2}]})", "2", "3"},
           Case{R"({"allOf":[{"minimum":1},{"maximum":2}]})", "2", "3"},
           Case{R"({"oneOf":[{"minimum":1},{"minimum":5}]})", "2", "6"}, Case{R"({"not":{"const":1}})", "2", "1"},
           Case{R"({"$defs":{"n":{"type":"number"}},"items":{"$ref":"#/$defs/n"}})", "[1]", "[\"a\"]"},
           Case{R"({"properties":{"next":{"$ref":"#"}},"required":["v"]})", R"({"v":1,"next":{"v":2}})",
                R"({"v":1,"next":{"w":2}})"},
           Case{R"({"properties":{"a":false}})", "{}", R"({"a":1})"}}) {
    EXPECT_TRUE(SchemaFits(c.schema, c.good)) << c.schema << " " << c.good;
    EXPECT_FALSE(SchemaFits(c.schema, c.bad)) << c.schema << " " << c.bad;
  }
}

TEST(JsonSchemaCheckTest, WhatWouldNotBeCheckedIsRefused) {
  const auto error = [](const char* schema) {
    const auto made = JsonSchema::Make(boost::json::parse(schema));
    return made ? std::string() : made.error().message();
  };
  EXPECT_THAT(error(R"({"properties":{"a":{"maxLenght":3}}})"),
              HasSubstr("#/properties/a: unknown keyword 'maxLenght'; did"));
  EXPECT_THAT(error(R"({"format":"email"})"), HasSubstr("unknown keyword 'format'"));
  EXPECT_THAT(error(R"({"type":"text"})"), HasSubstr("#/type: must name types"));
  EXPECT_THAT(error(R"({"minLength":-1})"), HasSubstr("count"));
  EXPECT_THAT(error(R"({"pattern":"("})"), HasSubstr("#/pattern"));
  EXPECT_THAT(error(R"({"$ref":"#/$defs/x"})"), HasSubstr("leads to no schema"));
  EXPECT_THAT(error(R"({"$ref":"http://x/y"})"), HasSubstr("within the schema"));
  EXPECT_THAT(error(R"({"$ref":"#"})"), HasSubstr("refers to itself"));
  EXPECT_THAT(error(R"({"$defs":{"a":{"anyOf":[{"$ref":"#/$defs/b"}]},"b":{"not":{"$ref":"#/$defs/a"}}}})"),
              HasSubstr("refers to itself"));
  EXPECT_THAT(error(R"({"anyOf":[]})"), HasSubstr("list of schemas"));
  EXPECT_EQ(error(R"({"title":"x","description":"y","default":1})"), "");
}

TEST(SchemaVerifierTest, TheAnswerIsOneValueThatFits) {
  VerifierSpec spec;
  spec.name = "form";
  spec.kind = VerifierSpec::Kind::kSchema;
  spec.schema = boost::json::parse(R"({"type":"object","required":["code"],"properties":{"code":{"type":"string"}}})");
  const auto verifier = MakeVerifier(spec, ".", Clock::Real());
  ASSERT_TRUE(verifier.has_value());
  const auto outcome = [&](const char* text) {
    AnswerText answer;
    answer.text = text;
    return (*verifier)->Check(answer, Evidence(), 0).outcome;
  };
  EXPECT_EQ(outcome(R"( {"code":"R01"} )"), Verdict::Outcome::kPass);
  for (const char* text : {"", "Sure: {\"code\":\"R01\"}", "```json\n{\"code\":\"R01\"}\n```", R"({"code":1})",
                           R"({"code":"R01"}{})", R"({"code":1,"code":"R01"})", R"({"code":"R01")"}) {
    EXPECT_EQ(outcome(text), Verdict::Outcome::kFail) << text;
  }
  spec.schema = nullptr;
  EXPECT_FALSE(MakeVerifier(spec, ".", Clock::Real()).has_value());
}

TEST(StrictJsonTest, OneMeaningOrNone) {
  for (const char* text : {R"({"a":1,"a":2})", R"({"a":{"b":1,"\u0062":2}})", "1 2", "", "nul", "[1,]",
                           "{\"a\":\"\xFF\"}",
                           "1e999", R"("\ud800")"}) {
    EXPECT_FALSE(ParseStrictJson(text).has_value()) << text;
  }
  EXPECT_FALSE(ParseStrictJson(std::string(100, '[') + std::string(100, ']')).has_value());
  EXPECT_TRUE(ParseStrictJson(R"([{"a":1},{"a":2}])").has_value());
}

// A schema of expressions, whose branches each refer back: unbounded, 24 levels take eleven seconds.
TEST(JsonSchemaTest, ASchemaThatRefersToItselfEndsOnWhateverItIsGiven) {
  const char* text = R"({"anyOf": [{"type": "string"},
    {"type": "object", "properties": {"arg": {"$ref": "#"}, "op": {"const": "not"}}},
    {"type": "object", "properties": {"arg": {"$ref": "#"}, "op": {"const": "neg"}}}]})";
  const auto nested = [](int depth, const std::string& leaf) {
    std::string value = leaf;
    for (int i = 0; i < depth; ++i) value = R"({"arg": )" + value + R"(, "op": "neg"})";
    return boost::json::parse(value);
  };
  for (const bool negated : {false, true}) {
    boost::json::value schema = boost::json::parse(text);
    if (negated) {
      schema.as_object()["$defs"] = boost::json::object{};
      schema = boost::json::object{{"$defs", {{"e", boost::json::parse(text)}}}, {"not", {{"$ref", "#/$defs/e"}}}};
      boost::json::array& branches = schema.at("$defs").at("e").at("anyOf").as_array();
      for (size_t i = 1; i < 3; ++i) branches[i].at("properties").at("arg").as_object()["$ref"] = "#/$defs/e";
    }
    const auto made = JsonSchema::Make(schema);
    ASSERT_TRUE(made.has_value()) << made.error().ToString();
    EXPECT_EQ((*made)->Violation(nested(6, R"("x")")).empty(), !negated);   // the controls
    EXPECT_EQ((*made)->Violation(nested(6, "1")).empty(), negated);
    EXPECT_FALSE((*made)->Violation(nested(30, "1")).empty());   // given up, and so no fit in either sense
  }
}

}  // namespace
}  // namespace surety::gateway
