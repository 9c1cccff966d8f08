#include "cli/json_out.h"

#include <limits>

#include <gtest/gtest.h>

#include "cli/progress.h"

namespace surety::cli {
namespace {

TEST(JsonOutTest, WhatIsPrintedParsesBackToTheSameValue) {
  const boost::json::value value = {{"text", "a \"quoted\"\nline \x01"}, {"numbers", {1, -2, 0.25, 1e30}},
                                    {"nested", {{"empty", boost::json::array()}, {"none", nullptr}, {"yes", true}}}};
  EXPECT_EQ(boost::json::parse(PrettyJson(value)), value);
}

TEST(JsonOutTest, NumbersThatJsonCannotSayBecomeNull) {
  const boost::json::value value = {{"nan", std::numeric_limits<double>::quiet_NaN()},
                                    {"inf", std::numeric_limits<double>::infinity()}};
  EXPECT_EQ(PrettyJson(value), "{\n  \"nan\": null,\n  \"inf\": null\n}\n");
}

TEST(JsonOutTest, DoublesAreShortAndRoundedToFourDigits) {
  EXPECT_EQ(PrettyJson(boost::json::value(0.1)), "0.1\n");
  EXPECT_DOUBLE_EQ(Rounded(1234.5678), 1235);
  EXPECT_DOUBLE_EQ(Rounded(0.0001236789), 0.0001237);
}

TEST(JsonOutTest, BytesThatAreNoUtf8BecomeReplacementCharactersInKeysAndTexts) {
  const boost::json::value value = {{"k\xE9", "caf\xE9 \xF0\x9F"}, {"good", "caf\xC3\xA9"}};
  EXPECT_EQ(PrettyJson(value), "{\n  \"k\uFFFD\": \"caf\uFFFD \uFFFD\",\n  \"good\": \"caf\u00E9\"\n}\n");
}

TEST(ProgressTest, SizesAndTimesReadWell) {
  EXPECT_EQ(HumanBytes(999), "999 B");
  EXPECT_EQ(HumanBytes(491'400'064), "491.4 MB");
  EXPECT_EQ(HumanSeconds(0.25), "250 ms");
  EXPECT_EQ(HumanSeconds(250), "4 min 10 s");
}

}  // namespace
}  // namespace surety::cli
