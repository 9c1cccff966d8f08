// Schemas against jsonschema's judgement (testdata/golden/json_schema.json, tools/goldens/json_schema.py) and against
// rules of the specification.
#include <gtest/gtest.h>

#include <boost/json.hpp>
#include <fstream>
#include <sstream>
#include <string>

#include "engine/grammar/grammar.h"
#include "engine/grammar/json_rules.h"
#include "engine/grammar/number_range.h"
#include "engine/grammar/parse_states.h"
#include "engine/grammar/schema_compiler.h"

namespace surety::engine {
namespace json = boost::json;
namespace {

json::value Golden() {
  std::ifstream file(std::string(SURETY_TESTDATA) + "/golden/json_schema.json");
  std::stringstream text;
  text << file.rdbuf();
  json::parse_options options;
  options.max_depth = 128;
  return json::parse(text.str(), {}, options);
}

bool AcceptsText(ParseStates& states, std::string_view text) {
  ParseStates::Id id = states.IdOf(states.start());
  for (const char c : text) id = states.Step(id, static_cast<uint8_t>(c));
  return states.state(id)->complete;
}

bool SchemaAccepts(std::string_view schema, std::string_view text) {
  const auto grammar = CompileJsonSchema(json::parse(schema));
  EXPECT_TRUE(grammar.has_value()) << schema << "\n" << grammar.error().message();
  if (!grammar) return false;
  ParseStates states(*grammar);
  return AcceptsText(states, text);
}

std::string SchemaError(std::string_view schema) {
  const auto grammar = CompileJsonSchema(json::parse(schema));
  if (grammar) return "";
  EXPECT_EQ(grammar.error().code(), StatusCode::kInvalidArgument);
  return grammar.error().message();
}

TEST(JsonSchemaTest, AgreesWithJsonschemaOnRandomSchemas) {
  const json::value golden = Golden();
  int n_refused = 0, n_tests = 0;
  for (const json::value& item : golden.at("cases").as_array()) {
    const auto grammar = CompileJsonSchema(item.at("schema"));
    if (!grammar) {
      // Only what no value satisfies may fail: a range without numbers, a length without strings.
      ASSERT_NE(grammar.error().message().find("no finite text"), std::string::npos)
          << item.at("schema") << grammar.error().message();
      for (const json::value& test : item.at("tests").as_array()) ASSERT_EQ(test.as_array()[1].as_int64(), 0) << item;
      ++n_refused;
      continue;
    }
    ParseStates states(*grammar);
    for (const json::value& test : item.at("tests").as_array()) {
      const std::string_view text = test.as_array()[0].as_string();
      EXPECT_EQ(AcceptsText(states, text), test.as_array()[1].as_int64() == 1) << item.at("schema") << "\n" << text;
      ++n_tests;
    }
  }
  EXPECT_LT(n_refused, 100);
  EXPECT_GT(n_tests, 8000);
}

TEST(JsonSchemaTest, TheOfficialSuiteIsFollowedOrTheSchemaRefused) {
  const json::value golden = Golden();
  int n_schemas = 0, n_refused = 0, n_judged = 0;
  for (const json::value& item : golden.at("suite").at("cases").as_array()) {
    ++n_schemas;
    const auto grammar = CompileJsonSchema(item.at("schema"));
    if (!grammar) {
      EXPECT_NE(grammar.error().message().find("schema #"), std::string::npos) << grammar.error().message();
      ++n_refused;
      continue;
    }
    ParseStates states(*grammar);
    for (const json::value& test : item.at("tests").as_array()) {
      const json::array& t = test.as_array();
      const bool accepted = AcceptsText(states, t[0].as_string());
      if (accepted) {
        EXPECT_TRUE(t[1].as_bool()) << item.at("file") << item.at("schema") << t[0];
      }
      if (t[2].is_null()) continue;
      EXPECT_EQ(accepted, t[2].as_bool()) << item.at("file") << item.at("schema") << t[0];
      ++n_judged;
    }
  }
  RecordProperty("schemas", n_schemas);
  RecordProperty("refused", n_refused);
  EXPECT_GT(n_schemas - n_refused, 100);
  EXPECT_GT(n_judged, 300);
}

TEST(JsonSchemaTest, RefusesWhatItCannotEnforceWithItsPointer) {
  const std::pair<std::string_view, std::string_view> cases[] = {
      {R"({"properties": {"a": {"not": {}}}})", "#/properties/a/not: this keyword cannot be enforced"},
      {R"({"properties": {"a/b~": {"if": {}}}})", "#/properties/a~1b~0/if"},
      {R"({"type": "strin"})", "#/type: must be one of"},
      {R"({"type": []})", "#/type: must be one of"},
      {R"({"items": [1]})", "#/items: must be a schema, or a list"},
      {R"({"items": []})", "#/items: must be a schema, or a list"},
      {R"({"items": [{}], "prefixItems": [{}]})", "#/items: must be one schema beside prefixItems"},
      {R"({"minLength": -1})", "#/minLength: must be a whole number"},
      {R"({"minimum": "1"})", "#/minimum: must be a number"},
      {R"({"minimum": 1, "exclusiveMinimum": true})", "#/exclusiveMinimum: must be a number"},
      {R"j({"pattern": "(?=a)"})j", "#/pattern: pattern at 1: look-around"},
      {R"j({"pattern": "(a)\\1"})j", "#/pattern: pattern at 4: back references"},
      {R"j({"pattern": "a{2,1}"})j", "#/pattern: pattern at 2: the most"},
      {R"j({"pattern": "[z-a]"})j", "#/pattern: pattern at 2: a range"},
      {R"({"format": "hostname"})", "#/format: 'hostname' cannot be enforced"},
      {R"({"type": "array", "uniqueItems": true})", "#/uniqueItems"},
      {R"({"type": "array", "contains": {}})", "#/contains"},
      {R"({"$ref": "http://example.org/x"})", "#/$ref: only references within"},
      {R"({"$ref": "#/$defs/x"})", "#/$ref: there is no #/$defs/x"},
      {R"({"nullable": true})", "#/nullable: not part of JSON Schema"},
      {R"({"oneOf": [{"type": "integer"}, {"type": "number"}]})", "#/oneOf: parts 0 and 1 may hold at once"},
      {R"({"type": "object", "properties": {"a": {}}, "minProperties": 2})", "#/minProperties"},
      {R"({"type": "string", "minLength": 1000000000})", "#/minLength: too large"},
      {R"({"type": "object", "required": ["a"], "properties": {"a": false}})", "no finite text"},
      {R"({"$ref": "#"})", "#/$ref: the schema refers to itself"},
      {R"({"anyOf": [{"$ref": "#"}, {"type": "null"}]})", "#/anyOf/0/$ref: the schema refers to itself"},
      {R"({"type": "object", "properties": {"a": {"$ref": "#"}}, "required": ["a"]})", "no finite text"},
      {R"([])", "#: must be an object, true or false"},
  };
  for (const auto& [schema, message] : cases) {
    EXPECT_NE(SchemaError(schema).find(message), std::string::npos) << schema << "\n" << SchemaError(schema);
  }
}

// Pydantic 1 and zod write tuples so.
TEST(JsonSchemaTest, ListsOfItemsAreTakenAsOlderDraftsMeantThem) {
  constexpr std::string_view kOpen = R"({"items": [{"type": "integer"}, {"type": "null"}]})";
  EXPECT_TRUE(SchemaAccepts(kOpen, "[]"));
  EXPECT_TRUE(SchemaAccepts(kOpen, "[1, null]"));
  EXPECT_TRUE(SchemaAccepts(kOpen, R"([1, null, "x", {}])"));
  EXPECT_FALSE(SchemaAccepts(kOpen, "[null]"));
  EXPECT_FALSE(SchemaAccepts(kOpen, "[1, 1]"));
  constexpr std::string_view kClosed =
      R"({"items": [{"type": "integer"}, {"type": "null"}], "minItems": 1, "additionalItems": false})";
  EXPECT_TRUE(SchemaAccepts(kClosed, "[1]"));
  EXPECT_TRUE(SchemaAccepts(kClosed, "[1, null]"));
  EXPECT_FALSE(SchemaAccepts(kClosed, "[]"));
  EXPECT_FALSE(SchemaAccepts(kClosed, "[1, null, null]"));
  constexpr std::string_view kFurther =
      R"({"items": [{"$ref": "#/items/1"}, {"type": "null"}], "additionalItems": {"type": "string"}})";
  EXPECT_TRUE(SchemaAccepts(kFurther, R"([null, null, "x"])"));
  EXPECT_FALSE(SchemaAccepts(kFurther, "[null, null, null]"));
  // Beside one schema it says nothing.
  EXPECT_TRUE(SchemaAccepts(R"({"items": {"type": "null"}, "additionalItems": false})", "[null, null]"));
}

TEST(JsonSchemaTest, MembersComeInTheSchemasOrder) {
  constexpr std::string_view kSchema =
      R"({"type": "object", "properties": {"b": {"type": "null"}, "a": {"type": "null"}}, "required": ["b", "a"]})";
  EXPECT_TRUE(SchemaAccepts(kSchema, R"({"b": null, "a": null})"));
  EXPECT_TRUE(SchemaAccepts(kSchema, "{\n  \"b\": null,\n  \"a\": null\n}"));
  EXPECT_FALSE(SchemaAccepts(kSchema, R"({"a": null, "b": null})"));
  EXPECT_FALSE(SchemaAccepts(kSchema, R"({"b": null})"));
  EXPECT_FALSE(SchemaAccepts(kSchema, R"({"b": null, "a": null, "a": null})"));
}

TEST(JsonSchemaTest, FurtherMembersCannotStandForDeclaredOnes) {
  constexpr std::string_view kSchema =
      R"({"type": "object", "properties": {"ab": {"type": "null"}}, "additionalProperties": {"type": "boolean"}})";
  EXPECT_TRUE(SchemaAccepts(kSchema, R"({"ab":null,"a":true,"abc":false})"));
  EXPECT_FALSE(SchemaAccepts(kSchema, R"({"ab":true})"));
  EXPECT_FALSE(SchemaAccepts(kSchema, R"({"a":true,"ab":true})"));
  EXPECT_FALSE(SchemaAccepts(kSchema, R"({"\u0061b":true})"));  // the same name, spelt otherwise
}

TEST(JsonSchemaTest, StringsAreValidJson) {
  EXPECT_TRUE(SchemaAccepts(R"({"type": "string"})", R"("\ud83d\ude00 \u00e9 \n")"));
  EXPECT_FALSE(SchemaAccepts(R"({"type": "string"})", R"("\ud83d")"));
  EXPECT_FALSE(SchemaAccepts(R"({"type": "string"})", R"("\ude00")"));
  EXPECT_FALSE(SchemaAccepts(R"({"type": "string"})", "\"\n\""));
  EXPECT_FALSE(SchemaAccepts(R"({"type": "string"})", "\"\xFF\""));
  EXPECT_TRUE(SchemaAccepts(R"({"type": "string", "maxLength": 1})", R"("\ud83d\ude00")"));
  EXPECT_FALSE(SchemaAccepts(R"({"type": "string", "maxLength": 1})", R"("\u0061b")"));
}

TEST(JsonSchemaTest, RecursiveSchemasWork) {
  constexpr std::string_view kTree = R"({"$defs": {"node": {"type": "object", "properties": {
      "value": {"type": "integer"}, "children": {"type": "array", "items": {"$ref": "#/$defs/node"}}},
      "required": ["value"], "additionalProperties": false}}, "$ref": "#/$defs/node"})";
  EXPECT_TRUE(SchemaAccepts(kTree, R"({"value": 1, "children": [{"value": 2, "children": [{"value": 3}]}]})"));
  EXPECT_FALSE(SchemaAccepts(kTree, R"({"value": 1, "children": [{"value": 2, "children": [{}]}]})"));
}

TEST(JsonSchemaTest, DeepAndWideSchemasAreRefusedNotFollowed) {
  json::value deep = json::object{{"type", "null"}};
  for (int i = 0; i < 300; ++i) deep = json::object{{"type", "array"}, {"items", std::move(deep)}};
  auto grammar = CompileJsonSchema(deep);
  ASSERT_FALSE(grammar.has_value());
  EXPECT_NE(grammar.error().message().find("levels within each other"), std::string::npos);
  // 2^20 combinations of branches.
  json::array all;
  for (int i = 0; i < 20; ++i) {
    all.push_back(json::object{{"anyOf", json::array{json::object{{"minimum", i}}, json::object{{"maximum", i}}}}});
  }
  grammar = CompileJsonSchema(json::object{{"type", "integer"}, {"allOf", std::move(all)}});
  ASSERT_FALSE(grammar.has_value());
  EXPECT_NE(grammar.error().message().find("too large to compile"), std::string::npos);
  EXPECT_NE(
      SchemaError(R"j({"type": "string", "pattern": ")j" + std::string(50'000, '(') + R"j("})j").find("groups within"),
      std::string::npos);
  EXPECT_NE(SchemaError(R"j({"type": "string", "pattern": "((((a{100}){100}){100}){100})"})j").find("too large"),
            std::string::npos);
  EXPECT_NE(SchemaError(R"j({"type": "string", "pattern": "(a|b)*a(a|b){30}"})j").find("too large"), std::string::npos);
}

TEST(JsonObjectTest, TakesAnyObjectUpToItsDepth) {
  const auto grammar = CompileJsonObject();
  ASSERT_TRUE(grammar.has_value());
  ParseStates states(*grammar);
  EXPECT_TRUE(AcceptsText(states, R"({"a": [1, -2.5e+10, {"b": null}], "\"": "\u00e9", "": {}})"));
  EXPECT_FALSE(AcceptsText(states, "[]"));
  EXPECT_FALSE(AcceptsText(states, R"({"a": 01})"));
  EXPECT_FALSE(AcceptsText(states, R"({"a": 1,})"));
  const auto nested = [](int n) {
    std::string text;
    for (int i = 0; i < n; ++i) text += "{\"a\":";
    return text + "1" + std::string(static_cast<size_t>(n), '}');
  };
  EXPECT_TRUE(AcceptsText(states, nested(kMaxAnyJsonDepth)));
  EXPECT_FALSE(AcceptsText(states, nested(kMaxAnyJsonDepth + 1)));
}

// Every numeral of up to six characters against arithmetic on its value.
TEST(NumberRangeTest, AgreesWithArithmetic) {
  const double bounds[][2] = {{0, 1}, {-1, 1}, {-12.5, -0.25}, {9, 101}, {0.05, 0.5}, {-100, 7.75}, {10, 10}, {0, 0}};
  for (const auto& [low, high] : bounds) {
    for (int excluded = 0; excluded < 4; ++excluded) {
      for (const bool whole : {false, true}) {
        NumberRange range;
        range.whole = whole;
        range.AtLeast({Decimal::FromDouble(low), (excluded & 1) != 0});
        range.AtMost({Decimal::FromDouble(high), (excluded & 2) != 0});
        GrammarBuilder builder{GrammarLimits{}};
        const int32_t rule = builder.NewRule("range"), start = builder.NewState(), end = builder.NewState();
        AddNumberRange(builder, range, start, end);
        builder.SetRule(rule, start, end);
        const auto grammar = builder.Finish(rule);
        if (!grammar) continue;
        ParseStates states(*grammar);
        for (const char* sign : {"", "-"}) {
          for (int n = 0; n < 1200; ++n) {
            for (int digits = 0; digits < 4; ++digits) {
              std::string text = std::to_string(n);
              double value = n;
              if (digits > 0) {
                if (text.size() <= static_cast<size_t>(digits))
                  text.insert(0, static_cast<size_t>(digits) + 1 - text.size(), '0');
                text.insert(text.size() - static_cast<size_t>(digits), ".");
                value = std::stod(text);
              }
              if (*sign == '-') value = -value;
              const bool in =
                  (excluded & 1 ? value > low : value >= low) && (excluded & 2 ? value < high : value <= high);
              const bool expected = in && !(whole && digits > 0) && !(*sign == '-' && value == 0);
              ASSERT_EQ(AcceptsText(states, sign + text), expected) << sign << text << " in " << low << ".." << high;
            }
          }
        }
      }
    }
  }
}

TEST(NumberRangeTest, DecimalsAreExact) {
  EXPECT_EQ(Decimal::FromDouble(0.1).ToString(), "0.1");
  EXPECT_EQ(Decimal::FromDouble(-1.5e-7).ToString(), "-0.00000015");
  EXPECT_EQ(Decimal::FromDouble(1e22).ToString(), "10000000000000000000000");
  EXPECT_EQ(Decimal::FromDouble(123456.75).ToString(), "123456.75");
  EXPECT_EQ(Decimal::FromDouble(-0.0).ToString(), "0");
  EXPECT_EQ(Decimal::FromInt(INT64_MIN).ToString(), "-9223372036854775808");
  EXPECT_LT(Compare(Decimal::FromDouble(-2), Decimal::FromDouble(-1.5)), 0);
  EXPECT_GT(Compare(Decimal::FromDouble(0.25), Decimal::FromDouble(0.2)), 0);
}

}  // namespace
}  // namespace surety::engine
