// Texts that a caller or a model can send, made to be slow: whatever is opened again and again and never closed, the
// work grows with the text and not with its square.
#include <string>
#include <string_view>

#include <boost/json.hpp>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "gateway/phrase_matcher.h"
#include "gateway/testing/cpu_growth.h"
#include "gateway/text_folding.h"
#include "gateway/verifier.h"

namespace surety::gateway {
namespace {

constexpr size_t kHostileBytes = 64 << 10;

std::string HostileRepeat(std::string_view piece, size_t bytes) {
  std::string text;
  while (text.size() < bytes) text += piece;
  return text;
}

constexpr std::string_view kHostileMarks[] = {
    "<!--", "<!-- ", "<!--->", "<a", "<a ", "</a", "<!doctype ", "<?xml ", "<a href=\"", "<a title='", "<<", "&", "&#",
    "&#x", "&#1", "&nbsp", "&amp;lt;", "\u0301", "e\u0301\u0327", "\u1100\u1161", "\u200B", "\xff", "\xe2\x80", "-->",
    "<!--\u0301", "\n", "\r\n ", "\t"};

TEST(HostileTextTest, FoldingIsLinearWhateverIsOpenedAndNeverClosed) {
  for (const std::string_view mark : kHostileMarks) {
    for (const Folding folding : {Folding::kQuote, Folding::kPhrase}) {
      const double growth = CpuGrowth(kHostileBytes, [&](size_t bytes) {
        FoldText(HostileRepeat(mark, bytes), folding, /*html=*/true);
      });
      EXPECT_LT(growth, 3) << testing::PrintToString(mark);
    }
  }
}

TEST(HostileTextTest, CommentsAndTagsThatEndAreStillLeftOut) {
  const auto shown = [](std::string_view text) { return FoldText(text, Folding::kPhrase, true).text; };
  EXPECT_EQ(shown("a<!-- b -->c<!-- d -->e"), "ace");
  EXPECT_EQ(shown("a<!-- b --><!-- c"), "a<!-- c");
  EXPECT_EQ(shown("a<b>c</b>d<e"), "acd<e");
  EXPECT_EQ(shown("<i>1 < 2 --> 3<!-- 4 -->"), "1 < 2 --> 3");
  // The end that one search found behind another's begin is still its own.
  EXPECT_EQ(shown("<!<b>x</b>-->y<!--z-->"), "<!x-->y");
  // A tag of more than 4096 bytes is none, and what follows is read on.
  EXPECT_EQ(shown("<a" + std::string(5000, ' ') + ">x<b>y"), "<a >xy");
}

int64_t NanosToFind(const PhraseMatcher& matcher, const std::string& text) {
  return CpuNanosOf([&] { matcher.Find(FoldText(text, Folding::kPhrase)); });
}

Verdict JudgeHostile(VerifierSpec::Kind kind, const std::string& text, int64_t deadline_ns = 0) {
  VerifierSpec spec;
  spec.name = "v";
  spec.kind = kind;
  spec.phrases = {"we guarantee it"};
  spec.patterns = {"guaran.?tee"};
  spec.schema = boost::json::parse(R"({"type": "array", "uniqueItems": true})");
  spec.table = "nacha_return_codes.json";
  const auto verifier = MakeVerifier(spec, SURETY_TESTDATA "/../policies/tables", Clock::Real());
  EXPECT_TRUE(verifier) << verifier.error().message();
  Evidence evidence;
  evidence.passages.push_back({"a", "b", "c", "", "The fee is $5 [a:b@c \"five\"].", {}, false, 0});
  return (*verifier)->Check({text, "", {}}, evidence, deadline_ns);
}

constexpr std::string_view kHostileAnswers[] = {
    "\n", "\n\n", " \n ", ". ", ".", ".\"", ").]", "[a:b@c \"", "[a:b@c\"\\", "[a:b@c \u201C", "[a:b@c \u00AB",
    "[a:b@c",
    "[a:b@c \"five\"] ", "[a:b@c ", "\"", "\"five\" [a:b@c]", "[", "[a:b@", "R01 ", "R99 ", "R-99 ", "R 0",
    "<b>R99</b>",
    "1 ", "1,", "4111", "4111 ", "4111,", "123-45-6789 ", "12 ", "00 44 20 ", "$5 ", "-5 ", "5-", "five ", "hundred ",
    "a@b.cc ", "a@", "a.b@c", "ab12", "ab12\u200B", "GB82 ", "+44 ", "+", "(", "(212) 555-", "a ", "we guarantee ",
    "guaran tee ", "w e ", "<!--", "<a", "&#", "must ", "fee ", "1 thousand ", "$1 k ", "minus ", "owe 5 ", "a.a.",
    "1.1.", "{\"a\":\"", "[\"", "\\\"", "\\u0041", "[[", "{\"a\":{"};

TEST(HostileTextTest, VerifiersAreLinearWhateverTheAnswerRepeats) {
  using Kind = VerifierSpec::Kind;
  for (const Kind kind : {Kind::kCitations, Kind::kNumbers, Kind::kPhrases, Kind::kPii, Kind::kSchema, Kind::kTable}) {
    for (const std::string_view piece : kHostileAnswers) {
      const double growth = CpuGrowth(8 << 10, [&](size_t bytes) { JudgeHostile(kind, HostileRepeat(piece, bytes)); });
      EXPECT_LT(growth, 3) << static_cast<int>(kind) << " " << testing::PrintToString(piece);
    }
  }
}

TEST(HostileTextTest, ListsOfDifferentItemsAreComparedInLinearTime) {
  const auto list_of = [](size_t items) {
    std::string list = "[";
    for (size_t i = 0; i < items; ++i) {
      const std::string number = std::to_string(i);
      list += (i == 0 ? "[" : ",[") + number + ",{\"a\":" + number + "}]";
    }
    return list + "]";
  };
  EXPECT_LT(CpuGrowth(4000, [&](size_t items) { JudgeHostile(VerifierSpec::Kind::kSchema, list_of(items)); }), 3);
  const auto outcome = [](const std::string& list) { return JudgeHostile(VerifierSpec::Kind::kSchema, list).outcome; };
  EXPECT_EQ(outcome(list_of(10)), Verdict::Outcome::kPass);
  EXPECT_EQ(outcome(R"([1, "1", [1], {"a": 1}, {"a": "1"}, {"b": 1}, true, null, "", [], {}, 0, "n0;", 9007199254740993,
                        9007199254740992, ["a", "b"], ["ab"], ["a:b"], {"a": 1, "b": 2}])"), Verdict::Outcome::kPass);
  for (const char* twice : {"[1, 1.0]", "[0, -0.0]", R"(["a", "a"])", R"([{"a": 1, "b": 2}, {"b": 2, "a": 1}])",
                            "[[1, 2], [1, 2.0]]", "[null, null]", "[1, 2, true, true]", "[1e2, 100]"}) {
    EXPECT_EQ(outcome(twice), Verdict::Outcome::kFail) << twice;
  }
}

TEST(HostileTextTest, AVerifierPastItsDeadlineGivesUpAndAFullListOfFindingsIsEnough) {
  using Kind = VerifierSpec::Kind;
  const std::pair<Kind, std::string_view> pieces[] = {{Kind::kCitations, "The fee is $7. "}, {Kind::kNumbers, "7 "},
                                                      {Kind::kPhrases, "we guarantee it. "}, {Kind::kPii, "a@b.cc "},
                                                      {Kind::kSchema, "[1,1]"}, {Kind::kTable, "R99 "}};
  for (const auto& [kind, piece] : pieces) {
    const std::string text = HostileRepeat(piece, 16 << 10);
    const Verdict late = JudgeHostile(kind, text, Clock::Real().NowNanos() - 1);
    EXPECT_EQ(late.outcome, Verdict::Outcome::kError) << static_cast<int>(kind);
    EXPECT_THAT(late.reason, testing::HasSubstr("late")) << static_cast<int>(kind);
    const Verdict verdict = JudgeHostile(kind, text, Clock::Real().NowNanos() + 60'000'000'000);
    EXPECT_EQ(verdict.outcome, Verdict::Outcome::kFail) << static_cast<int>(kind);
    EXPECT_LE(verdict.findings.size(), 200U) << static_cast<int>(kind);
    EXPECT_EQ(verdict.findings.size() == 200U, kind != Kind::kSchema) << static_cast<int>(kind);
  }
}

// A phrase of n words, all but the last in the text, with every space that may stand between them.
TEST(HostileTextTest, FindingAPhraseIsLinearInItsWordsAndInTheText) {
  const auto matcher_of = [](int words) {
    std::string phrase;
    for (int i = 1; i < words; ++i) phrase += "a ";
    const std::string phrases[] = {phrase + "b"};
    return *PhraseMatcher::Make(phrases);
  };
  for (const std::string_view between : {" ", " - ", "-- ", "...", ".-"}) {
    const std::string text = HostileRepeat("a" + std::string(between), 60);
    ASSERT_LT(NanosToFind(matcher_of(9), text), 50'000'000) << between;
    ASSERT_LT(NanosToFind(matcher_of(12), text), 50'000'000) << between;
    EXPECT_LT(NanosToFind(matcher_of(20), text), 50'000'000) << between;
    const PhraseMatcher matcher = matcher_of(20);
    EXPECT_LT(CpuGrowth(8 << 10, [&](size_t bytes) {
                matcher.Find(FoldText(HostileRepeat("a" + std::string(between), bytes), Folding::kPhrase));
              }), 3) << between;
  }
  const std::string text = "a a - a  a a a a a a a a-a a a a a a a a b";
  EXPECT_EQ(matcher_of(20).Find(FoldText(text, Folding::kPhrase)).size(), 1U);
  EXPECT_EQ(matcher_of(21).Find(FoldText(text, Folding::kPhrase)).size(), 0U);
}

}  // namespace
}  // namespace surety::gateway
