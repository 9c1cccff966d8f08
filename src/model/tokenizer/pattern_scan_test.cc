// The hand-written matchers against the patterns that they stand for.
#include "model/tokenizer/pattern_scan.h"

#include <gtest/gtest.h>

#include <boost/json.hpp>
#include <fstream>
#include <iterator>
#include <string>
#include <vector>

#include "base/random.h"
#include "model/tokenizer/regex.h"
#include "model/tokenizer/unicode.h"

namespace surety::model {
namespace {

using Spans = std::vector<std::pair<size_t, size_t>>;

Spans SpansOf(const Regex& regex, std::string_view text) {
  Spans spans;
  regex.ForEachMatch(text, [&](size_t begin, size_t end) { spans.emplace_back(begin, end); });
  return spans;
}

class PatternScanTest : public ::testing::TestWithParam<const char*> {
 protected:
  void ExpectEqual(std::string_view text) const {
    ASSERT_EQ(SpansOf(scanned_, text), SpansOf(compiled_, text)) << ::testing::PrintToString(std::string(text));
  }
  // The regular expression library's tables are of Unicode 14, the matchers' of 16: characters between do not count.
  static bool InBothTables(char32_t c) {
    static const Regex letters = *Regex::MakeCompiled("\\p{L}"), numbers = *Regex::MakeCompiled("\\p{N}");
    std::string text;
    AppendUtf8(c, text);
    return IsLetter(c) == !SpansOf(letters, text).empty() && IsNumber(c) == !SpansOf(numbers, text).empty();
  }

  const Regex scanned_ = *Regex::Make(GetParam());
  const Regex compiled_ = *Regex::MakeCompiled(GetParam());
};

TEST_P(PatternScanTest, HasAScanner) { EXPECT_NE(FindScanner(GetParam()), nullptr); }

TEST_P(PatternScanTest, EqualsThePatternOnTheCorpus) {
  std::ifstream file(std::string(SURETY_TESTDATA) + "/tokenizer/nasty.json", std::ios::binary);
  const std::string json{std::istreambuf_iterator<char>(file), std::istreambuf_iterator<char>()};
  const auto root = boost::json::parse(json);
  int n = 0;
  for (const auto& value : root.at("strings").as_array()) {
    const std::string text(value.as_string());
    char32_t c = 0;
    bool comparable = true;
    for (size_t at = 0; at < text.size();) {
      const int length = DecodeUtf8(text, at, c);
      ASSERT_GT(length, 0);
      comparable = comparable && InBothTables(c);
      at += static_cast<size_t>(length);
    }
    if (!comparable) continue;
    ExpectEqual(text);
    ++n;
  }
  EXPECT_GT(n, 2000);
}

TEST_P(PatternScanTest, EqualsThePatternOnRandomStrings) {
  // Few characters, so that rules meet each other often; then characters from everywhere.
  const std::vector<std::u32string> alphabets = {U" a1'\n", U" \t\r\n\u00A0\u3000a.", U"'sStTrReEvVlLmMdD\u017F\u2019 ",
                                                 U"aé中1٣-_ \n\u180E\u200B\u0085"};
  for (uint64_t round = 0; round < 40'000; ++round) {
    std::string text;
    const uint64_t size = RandomBits({round, 0, RandomPurpose::kTest}) % 14;
    for (uint64_t i = 1; i <= size; ++i) {
      const uint64_t bits = RandomBits({round, i, RandomPurpose::kTest});
      char32_t c = static_cast<char32_t>((bits >> 8) % 0x110000);
      if (round % 5 < alphabets.size()) {
        const std::u32string& alphabet = alphabets[round % 5];
        c = alphabet[bits % alphabet.size()];
      } else if (bits % 3 == 0) {
        c = static_cast<char32_t>((bits >> 8) % 0x250);
      }
      if ((c >= 0xD800 && c <= 0xDFFF) || !InBothTables(c)) continue;
      AppendUtf8(c, text);
    }
    ExpectEqual(text);
  }
}

INSTANTIATE_TEST_SUITE_P(Patterns, PatternScanTest, ::testing::Values(kGpt2Pattern, kLlama3Pattern, kQwen2Pattern));

}  // namespace
}  // namespace surety::model
