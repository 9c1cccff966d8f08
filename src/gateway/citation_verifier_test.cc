#include <chrono>
#include <string>
#include <vector>

#include <boost/json/parse.hpp>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "gateway/citation_check.h"
#include "gateway/citation_text.h"
#include "gateway/verifier.h"

namespace surety::gateway {
namespace {

constexpr int64_t kCiteNow = 1'796'040'000'000'000'000;   // 2026-11-30
constexpr char kFeeText[] =
    "The overdraft fee is $35.00 per item, and at most $105 a day. It is waived for balances above $5.\n\n"
    "Customers may dispute a charge within 60 days of the statement. The bank must answer within ten business days.";

Evidence CiteEvidence() {
  Evidence evidence;
  evidence.as_of_ns = kCiteNow;
  Passage fees;
  fees.document = "fees", fees.chunk = "3", fees.version = "2026-01", fees.text = kFeeText;
  Passage old = fees;
  old.chunk = "2", old.version = "2025-01", old.text = "The overdraft fee is $30.00 per item since last year.";
  old.validity.to_ns = kCiteNow;   // no longer at that instant
  Passage other;
  other.document = "cards", other.chunk = "1", other.version = "v2";
  other.text = "Lost cards are replaced without a fee, within 5 working days.";
  evidence.passages = {fees, old, other};
  return evidence;
}

Verdict CiteCheck(const std::string& text, const Evidence& evidence = CiteEvidence(),
                  VerifierSpec::Kind kind = VerifierSpec::Kind::kCitations) {
  VerifierSpec spec;
  spec.name = "citations";
  spec.kind = kind;
  const auto verifier = MakeVerifier(spec, ".", Clock::Real());
  EXPECT_TRUE(verifier.has_value());
  AnswerText answer;
  answer.text = text;
  const Verdict verdict = (*verifier)->Check(answer, evidence, 0);
  for (const Finding& finding : verdict.findings) {
    EXPECT_LE(finding.offset + finding.length, text.size());
    EXPECT_EQ(finding.where, "text");
  }
  return verdict;
}

std::vector<std::string> CiteFindings(const std::string& text) {
  std::vector<std::string> found;
  for (const Finding& finding : CiteCheck(text).findings) {
    found.push_back(finding.what + " | " + text.substr(finding.offset, finding.length));
  }
  return found;
}

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::StartsWith;

TEST(CitationVerifierTest, PassesCitedSentencesInBothForms) {
  for (const char* text : {
           R"(The fee is $35. [fees:3@2026-01 "The overdraft fee is $35.00 per item"])",
           R"(The fee is $35 [fees:3@2026-01 "The overdraft fee is $35.00 per item"].)",
           R"(Our terms say "The overdraft fee is $35.00 per item" [fees:3@2026-01].)",
           "Our terms say \u201CThe overdraft   fee is\n$35.00 per item.\u201D [fees:3@2026-01]",
           R"(The fee is thirty-five dollars [fees:3@2026-01 "overdraft fee is $35.00 per item, and at most $105"])",
           R"(You may dispute it within 60 days [fees:3@2026-01 "Customers may dispute a charge within 60 days"].)",
           R"(1. It costs $35. [fees:3@2026-01 "fee is $35.00 per item"])"
           "\n2. A lost card is replaced within five working days. "
           R"([cards:1@v2 "replaced without a fee, within 5 working days"])",
           "Hello, how are things?", ""}) {
    const Verdict verdict = CiteCheck(text);
    EXPECT_EQ(verdict.outcome, Verdict::Outcome::kPass) << text << ": " << verdict.reason;
  }
}

TEST(CitationVerifierTest, EachVerdictOfAQuote) {
  // wrong-chunk: it stands in another passage of this request.
  EXPECT_THAT(CiteFindings(R"(See [cards:1@v2 "The overdraft fee is $35.00 per item"])"),
              ElementsAre(HasSubstr("wrong-chunk quote")));
  // Another version than the one that was retrieved is another passage.
  EXPECT_THAT(CiteFindings(R"(See [fees:3@2026-02 "The overdraft fee is $35.00 per item"])"),
              ElementsAre(HasSubstr("wrong-chunk quote")));
  // stitched: two places of one passage, with and without dots; of two passages.
  EXPECT_THAT(CiteFindings(R"(See [fees:3@2026-01 "The overdraft fee is waived for balances"])"),
              ElementsAre(HasSubstr("stitched quote")));
  EXPECT_THAT(CiteFindings(R"(See [fees:3@2026-01 "The overdraft fee ... waived for balances"])"),
              ElementsAre(HasSubstr("stitched quote")));
  EXPECT_THAT(CiteFindings(R"(See [fees:3@2026-01 "The overdraft fee is replaced without a fee"])"),
              ElementsAre(HasSubstr("stitched quote")));
  // absent: invented, from a document that is no evidence, not in force, too short, without words, cut out of a number.
  EXPECT_THAT(CiteFindings(R"(See [fees:3@2026-01 "There is never any overdraft charge"])"),
              ElementsAre(HasSubstr("absent quote: a quote that is not in it")));
  EXPECT_THAT(CiteFindings(R"(See [secret:9@1 "something that nobody gave us"])"),
              ElementsAre(HasSubstr("absent quote: a passage that is not evidence")));
  EXPECT_THAT(CiteFindings(R"(See [fees:2@2025-01 "The overdraft fee is $30.00 per item"])"),
              ElementsAre(HasSubstr("not in force")));
  EXPECT_THAT(CiteFindings(R"(See [fees:3@2026-01 "overdraft"])"), ElementsAre(HasSubstr("a quote of 9 characters")));
  EXPECT_THAT(CiteFindings("See [fees:3@2026-01]."), ElementsAre(HasSubstr("without a quote")));
  EXPECT_THAT(CiteFindings(R"(See [fees:3@2026-01 "nothing)"), ElementsAre(HasSubstr("does not end")));
  EXPECT_THAT(CiteFindings(R"(See [fees:3@2026-01 "at most $10"])"), ElementsAre(HasSubstr("absent quote")));
  EXPECT_THAT(CiteFindings(R"(See [fees:3@2026-01 "overdraft fee is $35"])"), ElementsAre(HasSubstr("absent quote")));
  EXPECT_THAT(CiteFindings(R"(See [fees:3@2026-01 "overdraft fee is $35.00 per it"])"),
              ElementsAre(HasSubstr("absent")));
}

TEST(CitationVerifierTest, ClaimsNeedACitation) {
  for (const char* text : {"The fee applies.", "You are entitled to a refund.", "You must reply.",
                           "It ends on 30 November.", "It takes sixty days.", "You may cancel.", "There is no charge.",
                           "You have the right to appeal.",
                           "The customer shall pay.", "Interest accrues.", "W\u0435 mu\u00ADst act."}) {
    EXPECT_THAT(CiteFindings(text), ::testing::Contains(HasSubstr("without a citation that is found"))) << text;
  }
  for (const char* text : {"Thank you for asking.", "I will look at it right away.", "That is right.",
                           "Is this clear?"}) {
    EXPECT_THAT(CiteFindings(text), IsEmpty()) << text;
  }
}

TEST(CitationVerifierTest, ACitationCoversItsOwnSentenceAlone) {
  const std::string cited = R"(The fee is $35. [fees:3@2026-01 "The overdraft fee is $35.00 per item"])";
  EXPECT_THAT(CiteFindings(cited + " You must pay at once."),
              ElementsAre("an obligation without a citation that is found | You must pay at once."));
  EXPECT_THAT(CiteFindings("You must pay at once.\n\n" + cited),
              ElementsAre("an obligation without a citation that is found | You must pay at once."));
  EXPECT_THAT(CiteFindings("- You must pay\n- " + cited), ElementsAre(StartsWith("an obligation")));
  EXPECT_THAT(CiteFindings(R"("The overdraft fee is $35.00 per item." [fees:3@2026-01] You must pay.)"),
              ElementsAre(StartsWith("an obligation")));
  // Dr. and e.g. do not end a sentence.
  EXPECT_THAT(CiteFindings(R"(Ask Dr. No about fees, e.g. overdraft, [fees:3@2026-01 "The overdraft fee is $35.00"].)"),
              IsEmpty());
}

TEST(CitationVerifierTest, NumbersOfASentenceStandInItsSources) {
  const std::string citation = R"( [fees:3@2026-01 "The overdraft fee is $35.00 per item"])";
  EXPECT_THAT(CiteFindings("The fee is $35.00." + citation), IsEmpty());
  EXPECT_THAT(CiteFindings("The fee is $35.01." + citation),
              ElementsAre("a number that no cited words, tool or fact bears out | $35.01"));
  // In the passage, but not in the words that are cited.
  EXPECT_THAT(CiteFindings("The fee is $35, at most $105." + citation), ElementsAre(HasSubstr("| $105")));
  Evidence evidence = CiteEvidence();
  ToolResult tool;
  tool.tool = "fees";
  tool.value = boost::json::parse(R"({"total":70.5})");
  evidence.tools.push_back(tool);
  evidence.facts["items"] = "2";
  const std::string text = "For 2 items that is $70.50, as of 30 November 2026." + citation;
  EXPECT_EQ(CiteCheck(text, evidence).outcome, Verdict::Outcome::kPass) << CiteCheck(text, evidence).reason;
  EXPECT_EQ(CiteCheck("For 2 items that is $70.51." + citation, evidence).outcome, Verdict::Outcome::kFail);
  evidence.tools[0].status = UnavailableError("late");
  EXPECT_EQ(CiteCheck(text, evidence).outcome, Verdict::Outcome::kFail);
}

TEST(CitationVerifierTest, ForceBeginsAndEndsAtAnInstant) {
  Evidence evidence = CiteEvidence();
  const std::string text = R"(It is $30 [fees:2@2025-01 "The overdraft fee is $30.00 per item"].)";
  EXPECT_EQ(CiteCheck(text, evidence).outcome, Verdict::Outcome::kFail);
  evidence.as_of_ns = kCiteNow - 1;
  EXPECT_EQ(CiteCheck(text, evidence).outcome, Verdict::Outcome::kPass);
}

// What is kept is a function of the bytes: read again, or after thousands of others, it says the same.
TEST(CitationVerifierTest, KeptReadingsAreThoseOfTheText) {
  const auto text_of = [](int i) {
    return "Item " + std::to_string(i) + " costs $" + std::to_string(i) + ".50 \u00a0a \u201cmonth\u201d." +
           std::string(static_cast<size_t>(i % 7) * 300, 'x');
  };
  const auto first = ReadingOf(text_of(0));
  EXPECT_EQ(ReadingOf(text_of(0)), first) << "asked at once, it is kept";
  for (int round = 0; round < 2; ++round) {
    for (int i = 0; i < 3000; ++i) {
      const std::string text = text_of(i);
      const auto reading = ReadingOf(text);
      ASSERT_EQ(reading->folded.text, FoldText(text, Folding::kQuote).text);
      const auto numbers = FindNumbers(text);
      ASSERT_EQ(reading->numbers.size(), numbers.size());
      for (size_t n = 0; n < numbers.size(); ++n) ASSERT_EQ(reading->numbers[n].values, numbers[n].values);
    }
  }
  EXPECT_NE(ReadingOf(text_of(0)), first) << "more than is kept went by";
}

TEST(CitationVerifierTest, EveryContiguousRunOfWordsIsFoundAndEveryGapIsNot) {
  const Evidence evidence = CiteEvidence();
  std::vector<std::string> words;
  for (size_t at = 0; const char c : std::string(kFeeText)) {
    (void)at;
    if (words.empty() || c == ' ' || c == '\n') words.emplace_back();
    if (c != ' ' && c != '\n') words.back() += c;
  }
  std::erase(words, "");
  PassageSet passages(evidence);
  const auto verdict_of = [&](size_t first, size_t last, size_t left_out) {
    Citation citation;
    citation.key = "fees:3@2026-01";
    for (size_t i = first; i < last; ++i) {
      if (i != left_out) citation.quote += (citation.quote.empty() ? "" : " ") + words[i];
    }
    return passages.Check(citation, 1).verdict;
  };
  for (size_t first = 0; first + 5 <= words.size(); ++first) {
    ASSERT_EQ(verdict_of(first, first + 5, words.size()), QuoteVerdict::kFound) << first;
    ASSERT_NE(verdict_of(first, first + 5, first + 2), QuoteVerdict::kFound) << first;
  }
  EXPECT_EQ(verdict_of(0, 8, 4), QuoteVerdict::kStitched);
}

TEST(CitationVerifierTest, ControlBytesOfTheTextAreNoMarksOfCitations) {
  const std::vector<Citation> none;
  EXPECT_EQ(SplitSentences("a \x01 b.\x01 c \x02.", none).size(), 2u);
  EXPECT_THAT(CiteFindings("You must pay.\x01"), ElementsAre(HasSubstr("an obligation without")));
}

TEST(CitationVerifierTest, HostileTextsAreNotSlow) {
  const auto begin = std::chrono::steady_clock::now();
  std::string brackets, quotes, marks;
  for (int i = 0; i < 20'000; ++i) brackets += "[a:b@c \"", quotes += "\u00BB [a:b@c]", marks += ". \n";
  for (const std::string& text : {brackets, quotes, marks}) (void)CiteCheck(text);
  EXPECT_LT(std::chrono::steady_clock::now() - begin, std::chrono::seconds(20));
}

TEST(NumberVerifierTest, NumbersComeFromTheEvidence) {
  const auto check = [](const std::string& text) {
    return CiteCheck(text, CiteEvidence(), VerifierSpec::Kind::kNumbers).outcome;
  };
  EXPECT_EQ(check("It is $35, at most $105, within 60 days."), Verdict::Outcome::kPass);
  EXPECT_EQ(check("It is $35.01."), Verdict::Outcome::kFail);
  EXPECT_EQ(check("It was $30."), Verdict::Outcome::kFail);   // stands only in what is no longer in force
  EXPECT_EQ(check("No number at all."), Verdict::Outcome::kPass);
}

TEST(NumberVerifierTest, ArgumentsOfCallsAreCheckedToo) {
  VerifierSpec spec;
  spec.name = "numbers";
  spec.kind = VerifierSpec::Kind::kNumbers;
  const auto verifier = MakeVerifier(spec, ".", Clock::Real());
  const Evidence evidence = CiteEvidence();
  const auto check = [&](std::string arguments) {
    AnswerText answer;
    answer.calls.push_back({"refund", std::move(arguments)});
    return (*verifier)->Check(answer, evidence, 0).outcome;
  };
  EXPECT_EQ(check(R"({"amount":35,"days":[60,5.0],"note":"ten days"})"), Verdict::Outcome::kPass);
  EXPECT_EQ(check(R"({"amount":35.01})"), Verdict::Outcome::kFail);
  EXPECT_EQ(check(R"({"amount":"35.01"})"), Verdict::Outcome::kFail);
  EXPECT_EQ(check(R"({"amount":3)"), Verdict::Outcome::kFail);       // broken JSON is read as text
  EXPECT_EQ(check(R"({"amount":1e9})"), Verdict::Outcome::kFail);
}

TEST(CitationVerifierTest, RefusesASpecThatCannotWork) {
  VerifierSpec spec;
  spec.name = "citations";
  spec.kind = VerifierSpec::Kind::kCitations;
  spec.min_quote = 0;
  const auto verifier = MakeVerifier(spec, ".", Clock::Real());
  ASSERT_FALSE(verifier.has_value());
  EXPECT_THAT(verifier.error().message(), HasSubstr("verifier 'citations': min_quote"));
}

}  // namespace
}  // namespace surety::gateway
