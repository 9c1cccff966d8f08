// Canonical JSON against the vectors of RFC 8785 (appendix B and section 3.2), and its own law: equal values have equal
// bytes, and nothing is lost.
#include <bit>
#include <charconv>
#include <cmath>

#include <boost/json.hpp>
#include <gtest/gtest.h>

#include "base/random.h"
#include "gateway/tools.h"

namespace surety::gateway {
namespace {

namespace json = boost::json;

TEST(CanonicalJsonTest, NumbersOfRfc8785AppendixB) {
  const std::pair<uint64_t, const char*> vectors[] = {
      {0x0000000000000000, "0"}, {0x8000000000000000, "0"}, {0x0000000000000001, "5e-324"},
      {0x8000000000000001, "-5e-324"}, {0x7fefffffffffffff, "1.7976931348623157e+308"},
      {0xffefffffffffffff, "-1.7976931348623157e+308"}, {0x4340000000000000, "9007199254740992"},
      {0xc340000000000000, "-9007199254740992"}, {0x4430000000000000, "295147905179352830000"},
      {0x44b52d02c7e14af5, "9.999999999999997e+22"}, {0x44b52d02c7e14af6, "1e+23"},
      {0x44b52d02c7e14af7, "1.0000000000000001e+23"}, {0x444b1ae4d6e2ef4e, "999999999999999700000"},
      {0x444b1ae4d6e2ef4f, "999999999999999900000"}, {0x444b1ae4d6e2ef50, "1e+21"},
      {0x3eb0c6f7a0b5ed8c, "9.999999999999997e-7"}, {0x3eb0c6f7a0b5ed8d, "0.000001"},
      {0x41b3de4355555553, "333333333.3333332"}, {0x41b3de4355555554, "333333333.33333325"},
      {0x41b3de4355555555, "333333333.3333333"}, {0x41b3de4355555556, "333333333.3333334"},
      {0x41b3de4355555557, "333333333.33333343"}, {0xbecbf647612f3696, "-0.0000033333333333333333"},
      {0x43143ff3c1cb0959, "1424953923781206.2"}};
  for (const auto& [bits, text] : vectors) EXPECT_EQ(CanonicalJson(std::bit_cast<double>(bits)), text);
}

TEST(CanonicalJsonTest, TheExampleOfRfc8785) {
  // Its numbers are C++'s here: what a reader of JSON makes of them is not this function's business.
  json::value value = json::parse(R"({"string": "\u20ac$\u000F\u000aA'\u0042\u0022\u005c\\\"\/",
                                      "literals": [null, true, false]})");
  value.as_object()["numbers"] = {333333333.33333329, 1E30, 4.50, 2e-3, 0.000000000000000000000000001};
  EXPECT_EQ(CanonicalJson(value),
            "{\"literals\":[null,true,false],\"numbers\":[333333333.3333333,1e+30,4.5,0.002,1e-27],"
            "\"string\":\"\xe2\x82\xac$\\u000f\\nA'B\\\"\\\\\\\\\\\"/\"}");
}

TEST(CanonicalJsonTest, MembersInTheOrderOfUtf16) {
  const json::value value = json::parse(
      R"({"\u20ac":3,"\r":0,"\ufb33":6,"1":1,"\ud83d\ude00":5,"\u0080":2,"\u00f6":2.5,"":-1,"\ue000":5.5})");
  EXPECT_EQ(CanonicalJson(value),
            "{\"\":-1,\"\\r\":0,\"1\":1,\"\xc2\x80\":2,\"\xc3\xb6\":2.5,\"\xe2\x82\xac\":3,\"\xf0\x9f\x98\x80\":5,"
            "\"\xee\x80\x80\":5.5,\"\xef\xac\xb3\":6}");
}

TEST(CanonicalJsonTest, EqualValuesHaveEqualBytesAndDifferentOnesDoNot) {
  const auto same = [](const char* a, const char* b) {
    return CanonicalJson(json::parse(a)) == CanonicalJson(json::parse(b));
  };
  EXPECT_TRUE(same("1", "1.0"));
  EXPECT_TRUE(same("100", "1e2"));
  EXPECT_TRUE(same("-0.0", "0"));
  EXPECT_TRUE(same(R"({"a":1,"b":[2]})", R"( { "b" : [ 2.0 ] , "a" : 1 } )"));
  EXPECT_TRUE(same(R"("\u0041")", R"("A")"));
  EXPECT_TRUE(same("9223372036854775808", "9223372036854775808.0"));
  EXPECT_FALSE(same("9007199254740993", "9007199254740992")) << "beyond 2^53 whole numbers keep their digits";
  EXPECT_FALSE(same("1", "\"1\""));
  EXPECT_FALSE(same("[1,2]", "[2,1]"));
  EXPECT_FALSE(same("{}", "[]"));
  EXPECT_FALSE(same("null", "false"));
}

json::value RandomJson(uint64_t seed, uint64_t& at, int depth) {
  const auto draw = [&](uint64_t n) { return RandomBits({seed, at++, RandomPurpose::kTest, 0}) % n; };
  switch (draw(depth > 3 ? 5 : 7)) {
    case 0: return nullptr;
    case 1: return draw(2) == 0;
    case 2: return static_cast<int64_t>(RandomBits({seed, at++, RandomPurpose::kTest, 0}));
    case 3: return static_cast<double>(draw(1000)) / 8;   // digits that every reader of numbers agrees on
    case 4: {
      std::string text;
      for (uint64_t n = draw(8); n > 0; --n) text += static_cast<char>(draw(127));
      return json::string(text);
    }
    case 5: {
      json::array list;
      for (uint64_t n = draw(5); n > 0; --n) list.push_back(RandomJson(seed, at, depth + 1));
      return list;
    }
    default: {
      json::object object;
      for (uint64_t n = draw(5); n > 0; --n) object["k" + std::to_string(draw(20))] = RandomJson(seed, at, depth + 1);
      return object;
    }
  }
}

TEST(CanonicalJsonTest, ReadsBackAsTheSameValue) {
  for (uint64_t seed = 0; seed < 2000; ++seed) {
    uint64_t at = 0;
    const json::value value = RandomJson(seed, at, 0);
    const std::string text = CanonicalJson(value);
    EXPECT_EQ(CanonicalJson(json::parse(text)), text);
  }
}

TEST(CanonicalJsonTest, EveryDoubleReadsBackAsItself) {
  for (uint64_t i = 0; i < 50'000; ++i) {
    const double value = std::bit_cast<double>(RandomBits({1, i, RandomPurpose::kTest, 0}));
    if (!std::isfinite(value)) continue;
    const std::string text = CanonicalJson(value);
    double read = 0;
    const auto end = std::from_chars(text.data(), text.data() + text.size(), read);
    ASSERT_EQ(end.ptr, text.data() + text.size()) << text;
    ASSERT_EQ(read, value) << text;
  }
}

}  // namespace
}  // namespace surety::gateway
