#include "gateway/text_numbers.h"

#include <string>
#include <vector>

#include <boost/json/parse.hpp>
#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace surety::gateway {
namespace {

// "kind value|value currency", one a number.
std::vector<std::string> NumbersIn(std::string_view text) {
  static constexpr const char* kKinds[] = {"plain", "money", "percent", "date", "time", "code"};
  std::vector<std::string> found;
  for (const NumberMention& mention : FindNumbers(text)) {
    std::string line = kKinds[static_cast<size_t>(mention.kind)];
    for (size_t i = 0; i < mention.values.size(); ++i) line += (i == 0 ? " " : "|") + mention.values[i];
    if (!mention.currency.empty()) line += " " + mention.currency;
    found.push_back(line);
  }
  return found;
}

using ::testing::ElementsAre;
using ::testing::IsEmpty;

TEST(TextNumbersTest, OneValueHasManySpellings) {
  for (const char* text : {"1,000.00", "1 000", "1000", "1\u00A0000", "1\u202F000,00", "1'000.00", "1.000,00", "1k",
                           "1 thousand", "one thousand", "1,000", "\uFF11,000", "\u0661\u0660\u0660\u0660",
                           "**1**000"}) {
    EXPECT_THAT(NumbersIn(text), ElementsAre("plain 1000")) << text;
  }
  for (const char* text : {"$35", "USD 35", "35 USD", "US$35.00", "35 dollars", "thirty-five dollars", "$ 35", "usd35",
                           "3,500 cents"}) {
    EXPECT_THAT(NumbersIn(text)[0], ::testing::EndsWith("35 USD")) << text;
  }
  EXPECT_THAT(NumbersIn("\u20AC35 and 35 \u20AC, EUR 35, 35 euros"),
              ElementsAre("money 35 EUR", "money 35 EUR", "money 35 EUR", "money 35 EUR"));
  for (const char* text : {"5%", "5 %", "5 percent", "5.0 per cent", "five percent", "500 basis points", "500bps"}) {
    EXPECT_THAT(NumbersIn(text), ElementsAre("percent 5")) << text;
  }
  EXPECT_THAT(NumbersIn("$.50 0.5 0,5"), ElementsAre("money 0.5 USD", "plain 0.5", "plain 0.5"));
  EXPECT_THAT(NumbersIn("$1.5 million 2bn 3.25m"), ElementsAre("money 1500000 USD", "plain 2000000000",
                                                           "plain 3250000"));
}

TEST(TextNumbersTest, DatesBecomeIso) {
  for (const char* text : {"2026-11-30", "2026/11/30", "30 November 2026", "30th of November 2026", "November 30, 2026",
                           "Nov. 30th, 2026", "nov 30 2026", "30.11.2026", "30/11/2026", "11/30/2026", "11/30/26",
                           "30-Nov-2026"}) {
    EXPECT_THAT(NumbersIn(text), ElementsAre("date 2026-11-30")) << text;
  }
  EXPECT_THAT(NumbersIn("03/04/2026"), ElementsAre("date 2026-04-03|2026-03-04"));
  EXPECT_THAT(NumbersIn("30 November"), ElementsAre("date --11-30"));
  EXPECT_THAT(NumbersIn("November 2026"), ElementsAre("date 2026-11"));
  EXPECT_THAT(NumbersIn("2026-11-30T10:05:00Z"), ElementsAre("date 2026-11-30", "time 10:05"));
  EXPECT_THAT(NumbersIn("3:30 p.m. 12:00 am 15:30"), ElementsAre("time 15:30", "time 00:00", "time 15:30"));
  EXPECT_THAT(NumbersIn("2026-02-30"), ::testing::Not(ElementsAre(::testing::StartsWith("date"))));
}

// Every form, name and day: what is not asked of the patterns is no date.
TEST(TextNumbersTest, EveryFormOfADateIsRead) {
  const std::vector<std::string> names = {"January", "February", "March", "April", "May", "June", "July", "August",
                                          "September", "October", "November", "December"};
  const auto expect = [](const std::string& text, const std::string& day) {
    EXPECT_THAT(NumbersIn("x " + text + ", y"), ElementsAre("date " + day)) << text;
  };
  for (size_t month = 1; month <= 12; ++month) {
    const std::string& name = names[month - 1];
    for (const int day : {1, 2, 3, 9, 12, 28}) {
      const std::string iso = fmt::format("2026-{:02}-{:02}", month, day);
      const std::string suffix = day == 1 ? "st" : day == 2 ? "nd" : day == 3 ? "rd" : "th";
      for (const std::string& spelled : {name, name.substr(0, 3), name.substr(0, 3) + "."}) {
        for (const char* between : {" ", "-", "\n"}) expect(fmt::format("{}{}{} 2026", day, between, spelled), iso);
        for (const char* between : {" ", " of ", "\tof\n"}) {
          expect(fmt::format("{}{}{}{}, 2026", day, suffix, between, spelled), iso);
          expect(fmt::format("{}{}{} 2026", day, between, spelled), iso);
        }
        expect(fmt::format("{} {}, 2026", spelled, day), iso);
        expect(fmt::format("{} {}{} 2026", spelled, day, suffix), iso);
        expect(fmt::format("{} {}", spelled, day), iso.substr(4).insert(0, "-"));
        expect(fmt::format("{} {}{}", day, "of ", spelled), iso.substr(4).insert(0, "-"));
      }
      for (const char* part : {"-", "/", "."}) {
        expect(fmt::format("2026{0}{1:02}{0}{2:02}", part, month, day), iso);
        expect(fmt::format("2026{0}{1}{0}{2}", part, month, day), iso);
        if (day > 12) expect(fmt::format("{1}{0}{2}{0}2026", part, day, month), iso);
      }
    }
    expect(fmt::format("{}, 2026", name), fmt::format("2026-{:02}", month));
  }
  for (int hour = 0; hour < 24; ++hour) {
    EXPECT_THAT(NumbersIn(fmt::format("at {}:05", hour)), ElementsAre(fmt::format("time {:02}:05", hour)));
  }
}

TEST(TextNumbersTest, WordsCountAndOrdinalsAndLabelsDoNot) {
  EXPECT_THAT(NumbersIn("thirty days, two hundred and five, zero fees, twenty-one"),
              ElementsAre("plain 30", "plain 205", "plain 0", "plain 21"));
  EXPECT_THAT(NumbersIn("one of the first, the 2nd and the 31st; a third one; someone often tense"), IsEmpty());
  EXPECT_THAT(NumbersIn("one business day"), ElementsAre("plain 1"));
  EXPECT_THAT(NumbersIn("Steps:\n1. Sign\n2. Send\n  3) Wait"), IsEmpty());
  // A wrapped line does not make a label of a number.
  EXPECT_THAT(NumbersIn("The fee is\n35. It"), ElementsAre("plain 35"));
  EXPECT_THAT(NumbersIn("Fee 5\n100 days"), ElementsAre("plain 5", "plain 100"));
  EXPECT_THAT(NumbersIn("R05, section 4.2.1, 30-day, 3-5 days, 24h"),
              ElementsAre("code r05", "code 4.2.1", "plain 30", "plain 3", "plain 5", "plain 24"));
  EXPECT_THAT(NumbersIn("one million two hundred thousand and three"), ElementsAre("plain 1200003"));
}

TEST(TextNumbersTest, MentionsPointToTheirBytes) {
  const std::string text = "pay \u20AC\u200B1\u00A0234,50 by 30\u00ADth November";
  const auto found = FindNumbers(text);
  ASSERT_EQ(found.size(), 2u);
  EXPECT_EQ(text.substr(found[0].offset, found[0].length), "\u20AC\u200B1\u00A0234,50");
  EXPECT_EQ(text.substr(found[1].offset, found[1].length), "30\u00ADth November");
}

bool SetSupports(const NumberSet& set, std::string_view text) {
  const auto found = FindNumbers(text);
  return found.size() == 1 && set.Supports(found[0]);
}

TEST(TextNumbersTest, OneCentMakesTheDifference) {
  NumberSet set;
  set.AddText("The fee is $35.00, 5.9 % from 30 November 2026.");
  for (const char* text : {"$35", "35", "35 dollars", "5.9%", "2026-11-30", "30 November", "November 2026", "2026"}) {
    EXPECT_TRUE(SetSupports(set, text)) << text;
  }
  for (const char* text : {"$35.01", "$34.99", "\u20AC35", "35%", "5.91%", "0.59%", "2026-11-29", "2025", "36"}) {
    EXPECT_FALSE(SetSupports(set, text)) << text;
  }
}

TEST(TextNumbersTest, ToolsGiveValuesAndCurrencies) {
  NumberSet set;
  set.AddJson(boost::json::parse(
      R"({"rate":0.059,"fee":{"amount":35.5,"currency":"EUR"},"limit":2000,)"
      R"("when":"2026-11-30T10:00:00Z","code":"R01"})"));
  for (const char* text : {"5.9%", "\u20AC35.50", "35.5", "$2,000", "2000", "2026-11-30", "R01"}) {
    EXPECT_TRUE(SetSupports(set, text)) << text;
  }
  for (const char* text : {"$35.50", "\u20AC35.51", "59%", "R02", "2026-12-01"}) {
    EXPECT_FALSE(SetSupports(set, text)) << text;
  }
}

TEST(TextNumbersTest, EveryIntegerIsReadInDigitsGroupsAndWords) {
  static const char* const kOnes[] = {"", "one", "two", "three", "four", "five", "six", "seven", "eight", "nine", "ten",
                                      "eleven", "twelve", "thirteen", "fourteen", "fifteen", "sixteen", "seventeen",
                                      "eighteen", "nineteen"};
  static const char* const kTens[] = {"", "", "twenty", "thirty", "forty", "fifty", "sixty", "seventy", "eighty",
                                      "ninety"};
  const auto below_hundred = [](int n) {
    if (n < 20) return std::string(kOnes[n]);
    return std::string(kTens[n / 10]) + (n % 10 == 0 ? "" : std::string("-") + kOnes[n % 10]);
  };
  for (int n = 2; n < 1000; ++n) {
    std::string words = n < 100 ? below_hundred(n) : std::string(kOnes[n / 100]) + " hundred";
    if (n >= 100 && n % 100 != 0) words += " and " + below_hundred(n % 100);
    const std::string expected = "plain " + std::to_string(n);
    ASSERT_THAT(NumbersIn(words + " items"), ElementsAre(expected)) << words;
    ASSERT_THAT(NumbersIn(words + " thousand items"), ElementsAre(expected + "000")) << words;
    ASSERT_THAT(NumbersIn(std::to_string(n) + ",000.10 items"), ElementsAre(expected + "000.1"));
  }
}

}  // namespace
}  // namespace surety::gateway
