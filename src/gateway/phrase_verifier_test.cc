#include <string>
#include <vector>

#include <boost/json/serialize.hpp>
#include <boost/json/string.hpp>
#include <boost/json/value.hpp>
#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "gateway/answer_views.h"
#include "gateway/verifier.h"

namespace surety::gateway {
namespace {

using ::testing::HasSubstr;

std::unique_ptr<Verifier> PhraseCheckOf(std::vector<std::string> phrases, std::vector<std::string> patterns = {}) {
  VerifierSpec spec;
  spec.name = "promises";
  spec.phrases = std::move(phrases);
  spec.patterns = std::move(patterns);
  auto verifier = MakeVerifier(spec, ".", Clock::Real());
  EXPECT_TRUE(verifier.has_value()) << verifier.error().ToString();
  return *std::move(verifier);
}

bool PhraseFails(const Verifier& verifier, const AnswerText& answer) {
  const Verdict verdict = verifier.Check(answer, Evidence(), 0);
  EXPECT_NE(verdict.outcome, Verdict::Outcome::kError);
  return verdict.outcome == Verdict::Outcome::kFail;
}

bool PhraseFails(const Verifier& verifier, const std::string& text) {
  AnswerText answer;
  answer.text = text;
  return PhraseFails(verifier, answer);
}

std::string JsonText(std::string_view text) { return boost::json::serialize(boost::json::value(text)); }
std::string AllEscaped(std::string_view text) {
  std::string escaped;
  for (const char c : text) escaped += fmt::format("\\u{:04x}", static_cast<unsigned char>(c));
  return escaped;
}

constexpr std::string_view kPromise = "we guarantee approval";

TEST(PhraseVerifierTest, SplitAtEveryByteOverTwoFieldsItIsFound) {
  const auto verifier = PhraseCheckOf({std::string(kPromise)});
  for (size_t at = 0; at <= kPromise.size(); ++at) {
    const std::string head = "Dear client, " + std::string(kPromise.substr(0, at));
    const std::string tail = std::string(kPromise.substr(at)) + " today.";
    const std::string neutral = "nothing";
    for (int first = 0; first < 3; ++first) {
      for (int second = 0; second < 3; ++second) {
        if (first == second) continue;
        AnswerText answer;
        const auto put = [&](int field, const std::string& text) {
          if (field == 0) answer.text = text;
          if (field == 1) answer.reasoning = text;
          if (field == 2) answer.calls.push_back({"send", R"({"to":"x","body":)" + JsonText(text) + "}"});
        };
        put(first, head);
        put(second, tail);
        // The destination "x" parts a call's body from what stands before it; then the order must be the other one.
        if (second == 2) answer.calls[0].arguments = R"({"body":)" + JsonText(tail) + "}";
        EXPECT_TRUE(PhraseFails(*verifier, answer)) << at << " " << first << second;
      }
    }
    AnswerText values;
    values.calls.push_back({"send", "{\"a\":" + JsonText(head) + ",\"b\":" + JsonText(tail) + "}"});
    EXPECT_TRUE(PhraseFails(*verifier, values)) << at;
    AnswerText calls;
    calls.calls = {{"send", "{\"a\":" + JsonText(head) + "}"}, {"send", "{\"a\":" + JsonText(tail) + "}"}};
    EXPECT_TRUE(PhraseFails(*verifier, calls)) << at;
    AnswerText raw;   // arguments that are no JSON
    raw.calls = {{"send", head}, {"send", tail}};
    EXPECT_TRUE(PhraseFails(*verifier, raw)) << at;
    AnswerText json;
    json.text = "[" + JsonText(head) + "," + JsonText(tail) + "]";
    EXPECT_TRUE(PhraseFails(*verifier, json)) << at;
  }
  AnswerText control;
  control.text = "Dear client, we will decide on approval.";
  control.reasoning = "We do not guarantee anything.";
  control.calls = {{"send", R"({"body":"approval is open"})"}};
  EXPECT_FALSE(PhraseFails(*verifier, control));
}

TEST(PhraseVerifierTest, EscapesAndNestedJsonHideNothing) {
  const auto verifier = PhraseCheckOf({std::string(kPromise)});
  std::vector<std::string> arguments = {
      "{\"body\":\"" + AllEscaped(kPromise) + "\"}",
      R"({"body":"we \u0067uarantee approval"})", R"({"body":"we \u0067uarantee appro\u00advval"})",
      R"({"body":"we guarantee\napproval"})", R"({"we guarantee approval":1})",
      R"({"body":"we guar\u200bantee approv\ud83d\udc4d)", "{\"body\":\"" + AllEscaped("we guarantee") + " approval"};
  // JSON as a text in JSON, three times.
  std::string nested = R"({"b":")" + AllEscaped(kPromise) + "\"}";
  for (int depth = 0; depth < 3; ++depth) {
    arguments.push_back(nested);
    nested = "{\"b\":" + JsonText(nested) + "}";
  }
  arguments[2] = R"({"body":"we \u0067uarantee appro\u00adval"})";
  arguments[5] = R"({"body":"we guar\u200bantee approval \ud83d\udc4d)";
  for (const std::string& text : arguments) {
    AnswerText answer;
    answer.calls.push_back({"send", text});
    EXPECT_TRUE(PhraseFails(*verifier, answer)) << text;
  }
  EXPECT_FALSE(PhraseFails(*verifier, R"({"body":"we \u0068uarantee approval"})"));
}

TEST(PhraseVerifierTest, DisguisesThatTheHeaderNamesAreSeen) {
  const auto verifier = PhraseCheckOf({std::string(kPromise)});
  for (const char* text : {
           "We GUARANTEE approval", "we  guarantee\n\tapproval", "we\u00A0guarantee\u2003approval",
           "we gua\u00ADran\u200Btee appro\u2060val", "**we** *guarantee* __approval__", "we `guar`antee approval",
           "\u0475\u0435we gu\u0430rantee \u0430pproval we gu\u0430r\u0430nt\u0435\u0435 \u0430ppr\u043Ev\u0430l",
           "w3 gu4r4nt33 4ppr0v4l", "we gu@r@ntee @pprov@l", "w e g u a r a n t e e a p p r o v a l",
           "w.e g.u.a.r.a.n.t.e.e a.p.p.r.o.v.a.l", "we guar-\nantee ap-\nproval", "we-guarantee-approval",
           "we_guarantee_approval", "weguaranteeapproval", "we, guarantee - approval", "we guarantee approval1",
           "we guarantee\u00B9 approval\u00B2", "\uFF57\uFF45 guarantee approval", "we guara\u0336ntee\u0301 approval",
           "w&#101; guarantee&nbsp;approval", "we <b>guar</b>antee<br>approval", "we guar<!-- x -->antee approval",
           "w\xC3" "e guarantee approval", "> we\n> guarantee\n> approval", "we guarantee\u200Bapproval\u200Bnow",
           "\U0001F1FC\U0001F1EA \U0001D558uarantee approval"}) {
    EXPECT_TRUE(PhraseFails(*verifier, std::string(text))) << text;
  }
  EXPECT_TRUE(PhraseFails(*verifier, std::string("\u202Elavorppa eetnaraug ew")));   // turned round
  for (const char* text : {
           "we guaranteed approval", "we guarantee approvals", "awe guarantee approval",
           "we guarantee. Approval is open",
           "we never guarantee approval", "we guarantee you approval", "guarantee approval",
           "the we guarantor approval", "we guarantee 1 approval",
           "we guarantee123 approval"}) {
    EXPECT_FALSE(PhraseFails(*verifier, std::string(text))) << text;
  }
}

TEST(PhraseVerifierTest, NumbersAreNoWords) {
  const auto verifier = PhraseCheckOf({"is free", "lie", "100 % safe"});
  EXPECT_FALSE(PhraseFails(*verifier, std::string("In 15 free days; 113 items; 1e9; 100 x safe; 1100 % safe")));
  EXPECT_TRUE(PhraseFails(*verifier, std::string("It 1s free")));
  EXPECT_TRUE(PhraseFails(*verifier, std::string("a l1e")));
  EXPECT_TRUE(PhraseFails(*verifier, std::string("It is 100% safe")));
}

TEST(PhraseVerifierTest, PatternsRunOverFoldedText) {
  const auto verifier = PhraseCheckOf({}, {R"(\bwe (?:will|shall) (?:refund|waive)\b)"});
  EXPECT_TRUE(PhraseFails(*verifier, std::string("We  **WILL**\nref\u00ADund it")));
  EXPECT_FALSE(PhraseFails(*verifier, std::string("We will consider a refund")));
  AnswerText answer;
  answer.reasoning = "we shall w\u0430ive it";
  EXPECT_TRUE(PhraseFails(*verifier, answer));
}

TEST(PhraseVerifierTest, FindingsPointIntoTheField) {
  const auto verifier = PhraseCheckOf({"guarantee"});
  AnswerText answer;
  answer.calls = {{"a", "{}"}, {"b", R"({"x":"no","y":"a \u0067uar\u200bantee!"})"}};
  Verdict verdict = verifier->Check(answer, Evidence(), 0);
  ASSERT_EQ(verdict.findings.size(), 1u);
  EXPECT_EQ(verdict.findings[0].where, "calls[1].arguments");
  EXPECT_EQ(answer.calls[1].arguments.substr(verdict.findings[0].offset, verdict.findings[0].length),
            R"(\u0067uar\u200bantee)");
  EXPECT_THAT(verdict.reason, HasSubstr("forbidden phrase 'guarantee' in calls[1].arguments"));
  answer = {};
  answer.text = "it is guar";
  answer.reasoning = "antee";
  verdict = verifier->Check(answer, Evidence(), 0);
  ASSERT_EQ(verdict.findings.size(), 1u);
  EXPECT_EQ(verdict.findings[0].offset, 6u);
  EXPECT_EQ(verdict.findings[0].length, 4u);
  EXPECT_THAT(verdict.findings[0].what, HasSubstr("goes on in reasoning"));
}

TEST(PhraseVerifierTest, RefusesListsThatCheckNothing) {
  const auto error = [](std::vector<std::string> phrases, std::vector<std::string> patterns) {
    VerifierSpec spec;
    spec.name = "p";
    spec.phrases = std::move(phrases);
    spec.patterns = std::move(patterns);
    const auto made = MakeVerifier(spec, ".", Clock::Real());
    return made ? std::string() : made.error().message();
  };
  EXPECT_THAT(error({}, {}), HasSubstr("would pass everything"));
  EXPECT_THAT(error({"  \u200B"}, {}), HasSubstr("no letter"));
  EXPECT_THAT(error({}, {"a("}), HasSubstr("verifier 'p': pattern 'a('"));
  EXPECT_THAT(error({}, {"a*"}), HasSubstr("empty text"));
  EXPECT_EQ(error({"a"}, {"a+"}), "");
}

TEST(PhraseVerifierTest, AnotherListIsAnotherVersion) {
  EXPECT_NE(PhraseCheckOf({"a", "b"})->version(), PhraseCheckOf({"ab"})->version());
  EXPECT_EQ(PhraseCheckOf({"a", "b"})->version(), PhraseCheckOf({"a", "b"})->version());
}

TEST(AnswerViewsTest, EveryByteStandsInAFieldView) {
  AnswerText answer;
  answer.text = "t\\u0041";
  answer.reasoning = "r";
  answer.calls = {{"name", R"({"a":"\ud83d\ude00","b":"\ud83d"})"}, {"", ""}};
  const auto views = ViewsOf(answer);
  std::vector<std::string> fields;
  bool emoji = false;
  for (const AnswerView& view : views) {
    if (view.kind == AnswerView::Kind::kField) fields.push_back(view.text);
    emoji |= view.kind == AnswerView::Kind::kUnescaped && view.text.find("\U0001F600") != std::string::npos;
    for (size_t at = 0; at < view.text.size(); ++at) {
      const Finding finding = view.Locate("", at, at + 1);
      const std::string& field = finding.where == "text" ? answer.text : finding.where == "reasoning" ? answer.reasoning
                                 : finding.where == "calls[0].name" ? answer.calls[0].name : answer.calls[0].arguments;
      ASSERT_LE(finding.offset + finding.length, field.size()) << finding.where << at;
    }
  }
  EXPECT_THAT(fields, ::testing::ElementsAre(answer.text, "r", "name", answer.calls[0].arguments));
  EXPECT_TRUE(emoji);
}

}  // namespace
}  // namespace surety::gateway
