#include "gateway/pattern_folding.h"

#include <gtest/gtest.h>

#include "base/random.h"
#include "gateway/amount_reader.h"

namespace surety::gateway {
namespace {

TEST(PatternFoldingTest, PatternsSeeOneFormOfDigitsAndSpaces) {
  EXPECT_EQ(FoldForPattern("  Pay \u20AC\u00A0**10\u202F000**\n\n now "), "Pay \u20AC 10 000 now");
  EXPECT_EQ(FoldForPattern("\uFF11\u200B\uFF10\u0665k"), "105k");
  EXPECT_EQ(FoldForPattern("Stra\u00DFe No. 5"), "Stra\u00DFe No. 5");
  EXPECT_EQ(CountCharacters("a\u00E9\U0001F600\xFF"), 4);
}

TEST(PatternFoldingTest, FoldingTheFoldedChangesNothing) {
  for (uint64_t seed = 1; seed <= 400; ++seed) {
    std::string text;
    for (uint64_t i = 0; i < 40; ++i) {
      text += static_cast<char>(RandomBits({.seed = seed, .position = i}) & 0xFF);   // any bytes
    }
    const std::string folded = FoldForPattern(text);
    EXPECT_EQ(FoldForPattern(folded), folded) << seed;
  }
}

TEST(AmountReaderTest, AmountsAsPeopleWriteThem) {
  const std::pair<const char*, double> amounts[] = {
      {"10000", 1e4}, {"10,000", 1e4}, {"10 000", 1e4}, {"10.000", 1e4}, {"10'000", 1e4}, {"10\u2019000", 1e4},
      {"10_000", 1e4}, {"10k", 1e4}, {"10 K", 1e4}, {"10.5k", 10500}, {"1,5", 1.5}, {"1.50", 1.5},
      {"10,000.50", 10000.5}, {"10.000,50", 10000.5}, {"1,234,567", 1234567}, {"1.234.567,8", 1234567.8},
      {"1 234 567.25", 1234567.25},
      {"12,34,567", 1234567}, {"2 million", 2e6}, {"2m", 2e6}, {"1.2bn", 1.2e9}, {"$5,000", 5000}, {"EUR 12.5", 12.5},
      {"10kUSD", 1e4}, {"10 thousand dollars", 1e4}, {"-500", 500}, {"5 hundred", 500}, {"3 lakh", 3e5}, {"0", 0},
      {"10,000USD", 1e4}, {".5 million", 5e5}, {"007", 7}, {"10.", 10}, {"5,", 5}};
  for (const auto& [text, value] : amounts) {
    const auto read = ReadAmount(text);
    ASSERT_TRUE(read.has_value()) << text;
    EXPECT_DOUBLE_EQ(*read, value) << text;
  }
  for (const char* text : {"", "ten", "12 34", "1e6", "10k 5", "1 2 3", "0x10", "--", "10 000 00"}) {
    EXPECT_FALSE(ReadAmount(text).has_value()) << text;
  }
  EXPECT_FALSE(ReadAmount(std::string(500, '9')).has_value()) << "beyond every double";
}

}  // namespace
}  // namespace surety::gateway
