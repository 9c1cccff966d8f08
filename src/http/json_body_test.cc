#include "http/json_body.h"

#include <string>

#include <gtest/gtest.h>

namespace surety::http {
namespace {

ApiError ErrorFor(std::string_view text) {
  const auto parsed = ParseJsonBody(text);
  EXPECT_FALSE(parsed) << text;
  return parsed ? ApiError{} : parsed.error();
}

TEST(JsonBodyTest, ReadsAllKindsOfValues) {
  const auto parsed = ParseJsonBody(R"( {"a": [1, -2, 2.5, 18446744073709551615],
                                         "b": {"c": "\u00fc\ud83d\ude00"}, "d": null, "": true} )");
  ASSERT_TRUE(parsed) << parsed.error().message;
  const char* same = R"({"a":[1,-2,2.5,18446744073709551615],"b":{"c":"ü😀"},"d":null,"":true})";
  EXPECT_EQ(*parsed, boost::json::parse(same));
}

TEST(JsonBodyTest, NamesTheFieldOfEachFault) {
  struct Case {
    const char *text, *path, *code;
  };
  const std::string bad_utf8 = std::string("{\"a\":[\"x\",{\"b\":\"\xC3\x28\"}]}");
  for (const Case& c : {
           Case{R"({"a":1,"b":{"c":[0,{"d":1,"d":2}]}})", "b.c[1].d", "duplicate_key"},
           Case{R"({"a":1,"a":1})", "a", "duplicate_key"},
           Case{R"({"\u0061":1,"a":1})", "a", "duplicate_key"},
           Case{R"({"m":[{"content":"\ud800"}]})", "m[0].content", "invalid_json"},
           Case{R"({"m":["ok","\udc00"]})", "m[1]", "invalid_json"},
           Case{R"({"m":"\ud83dx"})", "m", "invalid_json"},
           Case{bad_utf8.c_str(), "a[1].b", "invalid_json"},
           Case{R"({"temperature":1e999})", "temperature", "invalid_value"},
           Case{R"({"temperature":NaN})", "temperature", "invalid_json"},
           Case{R"({"temperature":-Infinity})", "temperature", "invalid_json"},
           Case{R"({"n":01})", "", "invalid_json"},
           Case{R"({"n":-})", "n", "invalid_json"},
           Case{R"({"a":1,})", "", "invalid_json"},
           Case{R"({"a":1} {)", "", "invalid_json"},
           Case{R"({"a":"x)", "a", "invalid_json"},
           Case{R"({'a':1})", "", "invalid_json"},
           Case{"{\"a\":\"line\nbreak\"}", "a", "invalid_json"},
           Case{"[1]", "", "invalid_json"},
           Case{"\"text\"", "", "invalid_json"},
           Case{"", "", "invalid_json"},
       }) {
    const ApiError error = ErrorFor(c.text);
    EXPECT_EQ(error.param, c.path) << c.text;
    EXPECT_EQ(error.code, c.code) << c.text << ": " << error.message;
    EXPECT_EQ(error.status, 400);
    EXPECT_EQ(error.type, "invalid_request_error");
  }
}

TEST(JsonBodyTest, SaysWhatIsWrong) {
  EXPECT_NE(ErrorFor("{\"a\":\"\xFF\"}").message.find("invalid UTF-8 at byte 6"), std::string::npos);
  EXPECT_NE(ErrorFor(R"({"a":"\ud800"})").message.find("surrogate"), std::string::npos);
  EXPECT_NE(ErrorFor(R"({"a":[1)").message.find("ends in the middle"), std::string::npos);
}

TEST(JsonBodyTest, BoundsDepthExactly) {
  const auto nested = [](int depth) {  // the object is the first level
    std::string text = "{\"a\":";
    return text.append(depth - 1, '[').append(depth - 1, ']').append("}");
  };
  EXPECT_TRUE(ParseJsonBody(nested(kMaxJsonDepth)));
  EXPECT_NE(ErrorFor(nested(kMaxJsonDepth + 1)).message.find("64 levels"), std::string::npos);
  EXPECT_NE(ErrorFor(std::string("{\"a\":").append(60000, '[')).message.find("64 levels"), std::string::npos);
}

TEST(JsonBodyTest, EveryPrefixOfABodyIsRefused) {
  const std::string body = R"({"model":"m","messages":[{"role":"user","content":"h\u00e9\ud83d\ude00ü"}],"n":-1.5e3})";
  for (size_t n = 0; n < body.size(); ++n) EXPECT_FALSE(ParseJsonBody(body.substr(0, n))) << n;
  EXPECT_TRUE(ParseJsonBody(body));
}

}  // namespace
}  // namespace surety::http
