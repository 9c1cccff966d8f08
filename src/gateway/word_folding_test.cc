#include "gateway/word_folding.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "base/random.h"
#include "gateway/amount_reader.h"
#include "gateway/signal_phrases.h"

namespace surety::gateway {
namespace {

using testing::ElementsAre;

TEST(WordFoldingTest, WordsAreLettersAndDigitsInOneForm) {
  EXPECT_THAT(FoldWords("I DID not, authorise \u2014 this!"), ElementsAre("i", "did", "not", "authorise", "this"));
  EXPECT_THAT(FoldWords("didn't didn\u2019t didn`t didn\u00B4t"), ElementsAre("didnt", "didnt", "didnt", "didnt"));
  EXPECT_THAT(FoldWords("dis**pute** ~~charge~~ `back`"), ElementsAre("dispute", "charge", "back"));
  EXPECT_THAT(FoldWords("dis\u200Bpu\u00ADte\uFEFF \u202Echarge"), ElementsAre("dispute", "charge"));
  EXPECT_THAT(FoldWords("\uFF24\uFF29\uFF33\uFF30\uFF35\uFF34\uFF25 \U0001D41D\U0001D422\U0001D42C \uFB01le"),
              ElementsAre("dispute", "dis", "file"));
  EXPECT_THAT(FoldWords("r\u00E9clamation re\u0301clamation STRASSE Stra\u00DFe"),
              ElementsAre("reclamation", "reclamation", "strasse", "strasse"));
  EXPECT_THAT(FoldWords("\u0664\u0662 \uFF11"), ElementsAre("42", "1"));
  EXPECT_THAT(FoldWords("bad\xFF byte\xC0"), ElementsAre("bad", "byte"));
  EXPECT_THAT(FoldWords("\u4E89\u8BAE"), ElementsAre("\u4E89", "\u8BAE"));
  EXPECT_THAT(FoldWords(" \t\n*** \u200B "), ElementsAre());
}

TEST(WordFoldingTest, FoldingTheFoldedChangesNothing) {
  for (uint64_t seed = 1; seed <= 400; ++seed) {
    std::string text;
    for (uint64_t i = 0; i < 40; ++i) {
      text += static_cast<char>(RandomBits({.seed = seed, .position = i}) & 0xFF);   // any bytes
    }
    std::string joined;
    const std::vector<std::string> words = FoldWords(text);
    for (const std::string& word : words) joined += word + " ";
    EXPECT_EQ(FoldWords(joined), words) << seed;
    const std::string pattern = FoldForPattern(text);
    EXPECT_EQ(FoldForPattern(pattern), pattern) << seed;
  }
}

TEST(WordFoldingTest, PatternsSeeOneFormOfDigitsAndSpaces) {
  EXPECT_EQ(FoldForPattern("  Pay \u20AC\u00A0**10\u202F000**\n\n now "), "Pay \u20AC 10 000 now");
  EXPECT_EQ(FoldForPattern("\uFF11\u200B\uFF10\u0665k"), "105k");
  EXPECT_EQ(FoldForPattern("Stra\u00DFe No. 5"), "Stra\u00DFe No. 5");
  EXPECT_EQ(CountCharacters("a\u00E9\U0001F600\xFF"), 4);
}

TEST(SignalPhrasesTest, WholeWordsInARowAndNothingElse) {
  const auto matcher = SignalPhrases::Make({{"a", {"not authorised", "unauthorised"}}, {"b", {"card", "card lost"}}});
  ASSERT_TRUE(matcher.has_value());
  const auto labels = [&](const char* text) { return matcher->LabelsIn(FoldWords(text)); };
  EXPECT_THAT(labels("It was not authorised by me"), ElementsAre("a"));
  EXPECT_THAT(labels("it was not\n> AUTHORISED"), ElementsAre("a"));
  EXPECT_THAT(labels("not really authorised, authorised not"), ElementsAre());
  EXPECT_THAT(labels("knot authorised, not authorisedly, cards, discard"), ElementsAre());
  EXPECT_THAT(labels("unauthorised: my card"), ElementsAre("a", "b"));
  EXPECT_THAT(SignalPhrases::Make({{"a", {" -- "}}}).error().message(), testing::HasSubstr("\" -- \" has no word"));
}

TEST(SignalPhrasesTest, AgreesWithASearchWordByWord) {
  // Few words, so that phrases overlap and end inside each other.
  for (uint64_t seed = 1; seed <= 300; ++seed) {
    uint64_t at = 0;
    const auto draw = [&](int n) {
      return static_cast<int>(RandomUniform({.seed = seed, .position = at++}) * n) % n;
    };
    const auto words = [&](int n) {
      std::string text;
      for (int i = 0; i < n; ++i) text += std::string(1, static_cast<char>('a' + draw(3))) + " ";
      return text;
    };
    std::map<std::string, std::vector<std::string>> phrases;
    for (int i = 0; i < 6; ++i) phrases[std::string(1, static_cast<char>('A' + draw(3)))].push_back(words(1 + draw(4)));
    const std::string text = words(draw(12));
    std::vector<std::string> expected;
    for (const auto& [label, list] : phrases) {
      for (const std::string& phrase : list) {
        if ((" " + text).find(" " + phrase) == std::string::npos) continue;
        expected.push_back(label);
        break;
      }
    }
    EXPECT_EQ(SignalPhrases::Make(phrases)->LabelsIn(FoldWords(text)), expected) << text;
  }
}

TEST(AmountReaderTest, AmountsAsPeopleWriteThem) {
  const std::pair<const char*, double> amounts[] = {
      {"10000", 1e4}, {"10,000", 1e4}, {"10 000", 1e4}, {"10.000", 1e4}, {"10'000", 1e4}, {"10\u2019000", 1e4},
      {"10_000", 1e4}, {"10k", 1e4}, {"10 K", 1e4}, {"10.5k", 10500}, {"1,5", 1.5}, {"1.50", 1.5}, {"10,000.50", 10000.5},
      {"10.000,50", 10000.5}, {"1,234,567", 1234567}, {"1.234.567,8", 1234567.8}, {"1 234 567.25", 1234567.25},
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
