// What SameHardFacts lets through and what not: pairs of questions written for it.
#include <random>
#include <string>
#include <utility>
#include <vector>

#include <gtest/gtest.h>

#include "gateway/response_cache.h"
#include "gateway/testing/hard_fact_pairs.h"

namespace surety::gateway {
namespace {

TEST(HardFactsTest, QuestionsForDifferentThingsAreToldApart) {
  for (const auto& [a, b] : kOppositeQuestions) {
    EXPECT_FALSE(SameHardFacts(a, b)) << a << " / " << b;
    EXPECT_FALSE(SameHardFacts(b, a)) << b << " / " << a;
    EXPECT_TRUE(SameHardFacts(a, a)) << a;  // the control: neither alone is what refuses
    EXPECT_TRUE(SameHardFacts(b, std::string(b) + " "));
  }
}

TEST(HardFactsTest, QuestionsForTheSameThingPass) {
  for (const auto& [a, b] : kEqualQuestions) {
    EXPECT_TRUE(SameHardFacts(a, b)) << a << " / " << b;
    EXPECT_TRUE(SameHardFacts(b, a)) << b << " / " << a;
  }
}

// What it is documented to miss on the safe side.
TEST(HardFactsTest, SharedWordsInAnotherOrderAreRefused) {
  EXPECT_FALSE(SameHardFacts("What is the limit for Zelle?", "what's the zelle limit"));
}

// Figures and words by the rules of English, independent of the reader.
std::string HardFactsInWords(int n) {
  static const char* const kSmall[] = {"zero", "one", "two", "three", "four", "five", "six", "seven", "eight", "nine",
                                       "ten", "eleven", "twelve", "thirteen", "fourteen", "fifteen", "sixteen",
                                       "seventeen", "eighteen", "nineteen"};
  static const char* const kTens[] = {"", "", "twenty", "thirty", "forty", "fifty", "sixty", "seventy", "eighty",
                                      "ninety"};
  if (n < 20) return kSmall[n];
  if (n < 100) return std::string(kTens[n / 10]) + (n % 10 ? "-" + HardFactsInWords(n % 10) : "");
  if (n < 1000) {
    return HardFactsInWords(n / 100) + " hundred" + (n % 100 ? " and " + HardFactsInWords(n % 100) : "");
  }
  return HardFactsInWords(n / 1000) + " thousand" + (n % 1000 ? " " + HardFactsInWords(n % 1000) : "");
}

TEST(HardFactsTest, NumbersAreOneInFiguresGroupsAndWords) {
  std::mt19937 random(3);
  const auto question = [](const std::string& number) { return "Can I send " + number + " pesos?"; };
  for (int i = 0; i < 3000; ++i) {
    const int n = i < 200 ? i : static_cast<int>(random() % 1'000'000), other = n + 1 + static_cast<int>(random() % 9);
    const std::string figures = std::to_string(n);
    std::string grouped = figures;
    if (n >= 1000) grouped.insert(grouped.size() - 3, ",");
    for (const std::string& form : {figures, grouped, figures + ".00", grouped + ".0", HardFactsInWords(n)}) {
      EXPECT_TRUE(SameHardFacts(question(figures), question(form))) << form;
      EXPECT_FALSE(SameHardFacts(question(std::to_string(other)), question(form))) << other << " " << form;
      EXPECT_FALSE(SameHardFacts(question(figures + "%"), question(form))) << form;
    }
    EXPECT_FALSE(SameHardFacts(question(HardFactsInWords(other)), question(HardFactsInWords(n)))) << n;
  }
}

TEST(HardFactsTest, BytesThatAreNoTextEqualOnlyThemselves) {
  EXPECT_TRUE(SameHardFacts("fee \xff", "fee \xff"));
  EXPECT_FALSE(SameHardFacts("fee \xff", "fee"));
  EXPECT_FALSE(SameHardFacts("fee", "the fee \xc3"));
  EXPECT_TRUE(SameHardFacts("", ""));
  EXPECT_TRUE(SameHardFacts("fee", "the fee"));
}

// Random bytes and cuts through characters: no answer but a symmetric one.
TEST(HardFactsTest, IsSymmetricOnAnyBytes) {
  std::mt19937 random(5);
  const std::vector<std::string> pieces = {
      "R01", " ", "not", "1,0",     "00.", ".5",  "%",    "k", "\u00e9", "\u2019", "'t",      "Can", "$", "-", "\u2212",
      "two", "A", "and", "hundred", "\xe2", "from", "5pm", "?", "I",      "#",      "million", "\u8f6c", "per cent"};
  for (int i = 0; i < 20'000; ++i) {
    std::string a, b;
    for (size_t n = random() % 8; n > 0; --n) a += pieces[random() % pieces.size()] + (random() % 2 ? " " : "");
    for (size_t n = random() % 8; n > 0; --n) b += pieces[random() % pieces.size()] + (random() % 2 ? " " : "");
    ASSERT_EQ(SameHardFacts(a, b), SameHardFacts(b, a)) << a << " / " << b;
    ASSERT_TRUE(SameHardFacts(a, a));
  }
}

}  // namespace
}  // namespace surety::gateway
