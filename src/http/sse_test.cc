#include "http/sse.h"

#include <cmath>
#include <cstring>
#include <limits>
#include <string>

#include <boost/json.hpp>
#include <gtest/gtest.h>

#include "base/random.h"

namespace surety::http {
namespace {

std::string Utf8Of(char32_t c) {
  std::string out;
  if (c < 0x80) {
    out += static_cast<char>(c);
  } else if (c < 0x800) {
    out += static_cast<char>(0xC0 | c >> 6);
    out += static_cast<char>(0x80 | (c & 63));
  } else if (c < 0x10000) {
    out += static_cast<char>(0xE0 | c >> 12);
    out += static_cast<char>(0x80 | (c >> 6 & 63));
    out += static_cast<char>(0x80 | (c & 63));
  } else {
    out += static_cast<char>(0xF0 | c >> 18);
    out += static_cast<char>(0x80 | (c >> 12 & 63));
    out += static_cast<char>(0x80 | (c >> 6 & 63));
    out += static_cast<char>(0x80 | (c & 63));
  }
  return out;
}

TEST(SseTest, JsonStringsReadBackForEveryCharacter) {
  std::string all;
  for (char32_t c = 0; c <= 0x10FFFF; c += c < 0x3000 ? 1 : 97) {
    if (c >= 0xD800 && c < 0xE000) continue;
    const std::string text = "a" + Utf8Of(c) + "b";
    const std::string json = JsonString(text);
    ASSERT_EQ(boost::json::parse(json).as_string(), text) << static_cast<uint32_t>(c);
    all += text;
  }
  EXPECT_EQ(boost::json::parse(JsonString(all)).as_string(), all);
}

TEST(SseTest, NoTextHoldsWhatAnyClientTakesForALineEnd) {
  // The line boundaries of Python's str.splitlines, the most generous of the splitters in use.
  const std::string text = "a\nb\rc\r\nd\ve\ff\x1Cg\x1Dh\x1Ei\xC2\x85j\xE2\x80\xA8k\xE2\x80\xA9l";
  const std::string json = JsonString(text);
  for (const char* end : {"\n", "\r", "\v", "\f", "\x1C", "\x1D", "\x1E", "\xC2\x85", "\xE2\x80\xA8", "\xE2\x80\xA9"}) {
    EXPECT_EQ(json.find(end), std::string::npos) << json;
  }
  EXPECT_EQ(boost::json::parse(json).as_string(), text);
  std::string frame;
  AppendSseEvent(frame, json, "name");
  EXPECT_EQ(frame, "event: name\ndata: " + json + "\n\n");
}

TEST(SseTest, NumbersReadBackToTheBit) {
  for (uint32_t i = 0; i < 2000; ++i) {
    const auto bits = static_cast<uint32_t>(RandomBits({.seed = 1, .position = i, .purpose = RandomPurpose::kTest}));
    float value;
    static_assert(sizeof value == sizeof bits);
    std::memcpy(&value, &bits, sizeof value);
    if (!std::isfinite(value)) continue;
    std::string text;
    AppendJsonNumber(text, value);
    EXPECT_EQ(static_cast<float>(boost::json::parse(text).to_number<double>()), value) << text;
  }
  std::string text;
  AppendJsonNumber(text, -std::numeric_limits<float>::infinity());
  EXPECT_EQ(text, "-9999");
}

TEST(SseTest, LossyTextReplacesMaximalPrefixes) {
  // Unicode 15, table 3-8 and its neighbours.
  EXPECT_EQ(LossyUtf8("a\xF0\x80\x80\x41"), "a\uFFFD\uFFFD\uFFFDA");
  EXPECT_EQ(LossyUtf8("\x61\xF1\x80\x80\xE1\x80\xC2\x62\x80\x63\x80\xBF\x64"),
            "a\uFFFD\uFFFD\uFFFDb\uFFFDc\uFFFD\uFFFDd");
  EXPECT_EQ(LossyUtf8("\xED\xA0\x80"), "\uFFFD\uFFFD\uFFFD");
  EXPECT_EQ(LossyUtf8("\xE4\xBD"), "\uFFFD");
  EXPECT_EQ(LossyUtf8("ü😀"), "ü😀");
  EXPECT_EQ(FirstInvalidUtf8("ü\xC0\x80"), 2u);
  EXPECT_EQ(FirstInvalidUtf8("ü"), 2u);
}

}  // namespace
}  // namespace surety::http
