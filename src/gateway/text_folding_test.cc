#include "gateway/text_folding.h"

#include <cstdlib>
#include <memory>
#include <random>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include <gtest/gtest.h>
#include <utf8proc.h>

namespace surety::gateway {
namespace {

std::string FoldTestUtf8(char32_t c) {
  utf8proc_uint8_t bytes[4];
  const auto n = utf8proc_encode_char(static_cast<utf8proc_int32_t>(c), bytes);
  return std::string(reinterpret_cast<const char*>(bytes), static_cast<size_t>(n));
}

// The library's own normalisation of a whole text.
std::string FoldTestNfkc(const std::string& text) {
  const std::unique_ptr<utf8proc_uint8_t, decltype(&std::free)> made(
      utf8proc_NFKC(reinterpret_cast<const utf8proc_uint8_t*>(text.c_str())), std::free);
  return reinterpret_cast<const char*>(made.get());
}

bool FoldTestPlain(char32_t c) {
  const utf8proc_property_t& p = *utf8proc_get_property(static_cast<utf8proc_int32_t>(c));
  return !p.ignorable && p.category != UTF8PROC_CATEGORY_CF && p.category != UTF8PROC_CATEGORY_CC &&
         p.category != UTF8PROC_CATEGORY_CN && p.category != UTF8PROC_CATEGORY_ZS &&
         p.category != UTF8PROC_CATEGORY_ZL && p.category != UTF8PROC_CATEGORY_ZP &&
         p.category != UTF8PROC_CATEGORY_CS && c != 0x2800 &&
         !(c >= 0x2018 && c <= 0x201F);
}

void ExpectSoundMap(const std::string& original, const FoldedText& folded) {
  size_t begin = 0, end = 0;
  for (size_t i = 0; i < folded.text.size(); ++i) {
    const auto [b, e] = folded.Origin(i);
    ASSERT_LT(b, e);
    ASSERT_LE(e, original.size());
    ASSERT_GE(b, begin);
    ASSERT_GE(e, end);
    begin = b, end = e;
  }
}

std::string FoldPhrase(std::string_view text) { return FoldText(text, Folding::kPhrase).text; }

// ASCII goes a short way past the library's tables: that they say the same, character by character.
TEST(TextFoldingTest, AsciiIsAsTheTablesHaveIt) {
  for (char32_t c = 0; c < 0x80; ++c) {
    const utf8proc_property_t& p = *utf8proc_get_property(static_cast<utf8proc_int32_t>(c));
    const bool space = (c >= 9 && c <= 13) || p.category == UTF8PROC_CATEGORY_ZS;
    EXPECT_EQ(p.combining_class, 0) << static_cast<int>(c);
    const std::string text = std::string("a") + static_cast<char>(c) + "b";
    const std::string middle = space ? " " : FoldTestPlain(c) ? std::string(1, static_cast<char>(c)) : "";
    EXPECT_EQ(FoldText(text, Folding::kQuote).text, "a" + middle + "b") << static_cast<int>(c);
  }
}

// The slow way of a text: each character of ASCII as a reference, so that none of them goes the short way. `places`:
// where each byte of the original stands in it, and its end.
std::string FoldTestReferences(std::string_view text, std::vector<size_t>& places) {
  std::string out;
  for (const char c : text) {
    places.push_back(out.size());
    const auto byte = static_cast<unsigned char>(c);
    out += byte < 0x80 ? "&#" + std::to_string(byte) + ";" : std::string(1, c);
  }
  places.push_back(out.size());
  return out;
}

// What is read in runs is what is read character by character, origins and gaps too.
TEST(TextFoldingTest, RunsOfAsciiAreFoldedAsTheirCharactersAre) {
  std::mt19937 random(5);
  const std::vector<std::string> pool = {
      "a", "Z", "e", " ", "  ", "\t", "\n", "\r\n", "0", "9", "*", "_", "`", "~", "\x01", "\x7F", "-", "<", "&", "\"",
      "fee", "The Fee is 35", "\u0301", "\u0323", "\u0338", "\u00E9", "\u2019", "\u2014", "\u00A0", "\u200B", "\u0435",
      "\u1100", "\u1161", "\u11A8", "\uFB01", "\uFDFA", "\u00DF", "\u3000", "\xFF", "\xC3", "\U0001D430"};
  size_t gaps = 0, joined = 0;
  for (int i = 0; i < 20'000; ++i) {
    std::string text;
    for (size_t n = random() % 12; n > 0; --n) text += pool[random() % pool.size()];
    std::vector<size_t> places;
    const std::string slow = FoldTestReferences(text, places);
    for (const Folding folding : {Folding::kQuote, Folding::kPhrase}) {
      const FoldedText folded = FoldText(text, folding), expected = FoldText(slow, folding, /*html=*/true);
      ASSERT_EQ(folded.text, expected.text) << text;
      for (size_t at = 0; at < folded.text.size(); ++at) {
        const auto [begin, end] = folded.Origin(at);
        ASSERT_EQ(std::pair(places[begin], places[end]), expected.Origin(at)) << text << " at " << at;
        ASSERT_EQ(folded.GapBefore(at), expected.GapBefore(at)) << text << " at " << at;
        gaps += folded.GapBefore(at) ? 1 : 0;
        joined += end > begin + 4 ? 1 : 0;
      }
    }
  }
  EXPECT_GT(gaps, 1'000u);
  EXPECT_GT(joined, 1'000u);
}

TEST(TextFoldingTest, QuoteFoldingIsNfkcForEveryCharacterBetweenLetters) {
  size_t seen = 0;
  for (char32_t c = 0x21; c < 0x110000; ++c) {
    if (!FoldTestPlain(c)) continue;
    const std::string text = "a" + FoldTestUtf8(c) + "b";
    std::string expected = FoldTestNfkc(text);
    if (expected.find(' ') != std::string::npos || FoldTestUtf8(c) == "\u1160" || FoldTestUtf8(c) == "\u115F") continue;
    if (expected.find("\u3164") != std::string::npos || expected.find("\u1160") != std::string::npos) continue;
    const FoldedText folded = FoldText(text, Folding::kQuote);
    ASSERT_EQ(folded.text, expected) << std::hex << static_cast<uint32_t>(c);
    ExpectSoundMap(text, folded);
    ++seen;
  }
  EXPECT_GT(seen, 100'000u);
}

TEST(TextFoldingTest, QuoteFoldingIsNfkcForRandomMarksAndSyllables) {
  std::mt19937 random(7);
  const std::u32string pool =
      U"aeAE\u0301\u0323\u0307\u0338\u1100\u1161\u11A8\uAC00\u09C7\u09BE\u0BC6\u0BBE\u0B47\u0B56"
                              U"\u1025\u102E\uFF21\uFB01\u2460\u00C5\u212B\u0041\u030A\u3131\u0D46\u0D57\U0001D15E";
  for (int i = 0; i < 20'000; ++i) {
    std::string text;
    for (int n = 0; n < 8; ++n) text += FoldTestUtf8(pool[random() % pool.size()]);
    const FoldedText folded = FoldText(text, Folding::kQuote);
    ASSERT_EQ(folded.text, FoldTestNfkc(text)) << text;
    ExpectSoundMap(text, folded);
  }
}

TEST(TextFoldingTest, ReadersSeeOneTextBehindManySpellings) {
  for (const std::string spelling :
       {"we guarantee", "WE  GUARANTEE", "we\u00A0guarantee", "we\t\n guarantee", "we gua\u00ADran\u200Btee",
        "w\u200De guarant\uFEFFee", "**we** _guarantee_", "we `guarantee`"}) {
    EXPECT_EQ(FoldPhrase(spelling), "we guarantee") << spelling;
  }
  EXPECT_EQ(FoldPhrase("\uFF57\uFF45 \uFF47\uFF55\uFF41\uFF52\uFF41\uFF4E\uFF54\uFF45\uFF45"), "we guarantee");
  EXPECT_EQ(FoldPhrase("w\u0435 gu\u0430r\u0430nt\u0435\u0435"), "we guarantee");         // Cyrillic
  EXPECT_EQ(FoldPhrase("\u03C9\u03B5 gu\u03B1r\u03B1\u03B7\u03C4\u03B5\u03B5"), "we guarantee");  // Greek
  EXPECT_EQ(FoldPhrase("w\u00E9 guar\u0336antee\u0301"), "we guarantee");                 // accents, struck through
  EXPECT_EQ(FoldPhrase("\U0001D430\U0001D41E \u24D6uarantee"), "we guarantee");           // bold, circled
  EXPECT_EQ(FoldPhrase("\u1D21\u1D07 \u0262\u1D1C\u1D00\u0280\u1D00\u0274\u1D1B\u1D07\u1D07"), "we guarantee");
  EXPECT_EQ(FoldPhrase("w\xFF" "e guar\xC3" "antee"), "we guarantee");                    // bytes that are no UTF-8
  EXPECT_EQ(FoldPhrase("\u0664\u0662 \u096A\uFF12"), "42 42");                            // digits of other scripts
  EXPECT_EQ(FoldPhrase("Stra\u00DFe"), "strasse");
  EXPECT_EQ(FoldPhrase("we grant"), "we grant");                                          // the control
}

TEST(TextFoldingTest, HtmlIsReadAsABrowserDoes) {
  const auto fold = [](std::string_view text) { return FoldText(text, Folding::kPhrase, true).text; };
  EXPECT_EQ(fold("we&nbsp;gu&#97;r&#x61;n<b class=\"x\">t</b>ee<!-- no -->s"), "we guarantees");
  EXPECT_EQ(fold("a < b and c > d & e"), "a < b and c > d & e");
  EXPECT_EQ(fold("&#99999999999;x &#;"), "x &#;");
  EXPECT_EQ(FoldPhrase("<b>x</b>"), "<b>x</b>");
}

TEST(TextFoldingTest, FindingsPointIntoTheOriginal) {
  const std::string original = "\u00ADYes: **gu\u0430\u200Bran**tee\u0301!";
  const FoldedText folded = FoldText(original, Folding::kPhrase);
  const size_t at = folded.text.find("guarantee");
  ASSERT_NE(at, std::string::npos);
  const auto [offset, length] = folded.OriginOf(at, at + 9);
  EXPECT_EQ(original.substr(offset, length), "gu\u0430\u200Bran**tee");
  EXPECT_TRUE(folded.GapBefore(at));                        // the marks before it
  EXPECT_FALSE(folded.GapBefore(at + 1));
}

TEST(TextFoldingTest, FoldingTwiceChangesNothingAndTextIsValid) {
  std::mt19937 random(11);
  for (int i = 0; i < 3'000; ++i) {
    std::string text;
    for (size_t n = random() % 24; n > 0; --n) {
      const uint32_t kind = random() % 4;
      const uint32_t limit = kind == 1 ? 0x250 : 0xD7FF;
      text += kind == 0 ? std::string(1, static_cast<char>(random())) : FoldTestUtf8(random() % limit);
    }
    for (const Folding folding : {Folding::kQuote, Folding::kPhrase}) {
      const FoldedText folded = FoldText(text, folding);
      ExpectSoundMap(text, folded);
      ASSERT_EQ(FoldText(folded.text, folding).text, folded.text);
      ASSERT_EQ(folded.text.find("  "), std::string::npos);
    }
  }
}

}  // namespace
}  // namespace surety::gateway
