// What a reader sees in an answer is what its verifiers see, however it is written; each with a text that is fine.
#include <string>

#include <boost/json.hpp>
#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "gateway/personal_data.h"
#include "gateway/remote_answer.h"
#include "gateway/tool_time.h"
#include "gateway/verifier.h"
#include "gateway/yaml_tree.h"

namespace surety::gateway {
namespace {

using ::testing::HasSubstr;

Verdict JudgeEvasion(VerifierSpec::Kind kind, const std::string& text) {
  VerifierSpec spec;
  spec.name = "v";
  spec.kind = kind;
  spec.table = "nacha_return_codes.json";
  const auto verifier = MakeVerifier(spec, SURETY_TESTDATA "/../policies/tables", Clock::Real());
  EXPECT_TRUE(verifier) << verifier.error().message();
  Evidence evidence;
  evidence.as_of_ns = 1'796'032'800'000'000'000;  // 2026-11-30
  evidence.passages.push_back({"fees", "3", "2026", "", "The fee is $35 for an item.", {}, false, 0});
  return (*verifier)->Check({text, "", {}}, evidence, 0);
}

bool Passes(VerifierSpec::Kind kind, const std::string& text) {
  return JudgeEvasion(kind, text).outcome == Verdict::Outcome::kPass;
}

TEST(AnswerEvasionTest, NumbersInsideWhatLooksLikeACitationCount) {
  const auto kind = VerifierSpec::Kind::kNumbers;
  for (const char* good : {"The fee is $35. [fees:3@2026 \"The fee is $35 for an item\"]",
                           "The fee is $35 [fees:3@2026].",
                           "[fees:3@2026 \"The fee", "See fees [fees:3@2026]."}) {
    EXPECT_TRUE(Passes(kind, good)) << good;
  }
  for (const char* bad : {"The fee is [a:b@c \"$900\"].", "The fee is [fees:3@2026 \"The fee is $900\"].",
                          "The fee is [pay:900@dollars].", "The fee is \"$900\" [fees:3@2026].", "It is [a:900@c",
                          "The fee is [fees:4@2026]."}) {
    EXPECT_FALSE(Passes(kind, bad)) << bad;
  }
}

std::string Personal(const std::string& text) {
  std::string out;
  for (const PersonalItem& item : FindPersonalData(text)) {
    EXPECT_LE(item.offset + item.length, text.size()) << text;
    out += std::string(out.empty() ? "" : " ") + std::string(NameOf(item.kind)) + (item.shape ? "?" : "");
  }
  return out;
}

TEST(AnswerEvasionTest, PersonalDataIsSeenAsItIsShown) {
  for (const char* card : {"4111&nbsp;1111&nbsp;1111&nbsp;1111", "4111<b>1111</b>11111111", "4111, 1111, 1111, 1111",
                           "4111:1111:1111:1111", "(4111)(1111)(1111)(1111)", "4111;1111;1111;1111",
                           "4111|1111|1111|1111",
                           "4&#49;11 1111 1111 1111", "4111<!-- 5 -->111111111111", "3782, 822463, 10005"}) {
    EXPECT_EQ(Personal(std::string("Card ") + card + " it is."), "card") << card;
  }
  EXPECT_EQ(Personal("1&#50;3-45-6789"), "ssn");
  EXPECT_EQ(Personal("123<i>-45-</i>6789"), "ssn");
  EXPECT_EQ(Personal("My SSN: 12345 6789."), "ssn");
  EXPECT_EQ(Personal("SSN 1234-56789"), "ssn");
  EXPECT_EQ(Personal("GB82.WEST.1234.5698.7654.32"), "iban");
  EXPECT_EQ(Personal("GB82, WEST, 1234, 5698, 7654, 32"), "iban");
  EXPECT_EQ(Personal("GB82<b>WEST</b>12345698765432"), "iban");
  EXPECT_EQ(Personal("ann&#64;bank.example"), "email");
  EXPECT_EQ(Personal("ann<span>@</span>bank.example"), "email");
  EXPECT_EQ(Personal("Ring 00442079460958."), "phone");
  EXPECT_EQ(Personal("0044 20 7946 0958"), "phone");
  EXPECT_EQ(Personal("0049 (89) 636-48018"), "phone");
  // Once, though both readings have it.
  EXPECT_EQ(Personal("<p>4111 1111 1111 1111</p>"), "card");
  EXPECT_EQ(Personal("a@b.example <b>c@d.example</b> e&#64;f.example"), "email email email");
}

TEST(AnswerEvasionTest, OtherNumbersAreNoPersonalData) {
  for (const char* fine : {"Pages 4111, 1112, 1113 and 1114.", "12345 6789", "Order 12345 6789 of 2026",
                           "0012345678901",
                           "In 2001, 2002, 2003, 2004.", "10,000, 20,000, 30,000, 40,000", "4,111,111,111,111,111",
                           "1 &lt; 2 and 3 &gt; 2", "00 44", "Version 4.1.1.1", "<b>35</b> items",
                           "GB82. West of 1234 others", "4111, 11111, 111, 1111"}) {
    EXPECT_EQ(Personal(fine), "") << fine;
  }
}

TEST(AnswerEvasionTest, CodesAreSeenAsTheyAreShown) {
  const auto kind = VerifierSpec::Kind::kTable;
  for (const char* shown : {"R54", "R**54**", "R 54", "R-54", "R<b>54</b>", "R&#53;4", "**R**54", "R. 54", "R\u201154",
                            "<i>R</i>-54", "R\u200B54", "R_54_"}) {
    EXPECT_THAT(JudgeEvasion(kind, std::string("The entry came back as ") + shown + ", which we know.").reason,
                HasSubstr("code R54 is not in the table")) << shown;
    EXPECT_FALSE(Passes(kind, std::string(shown))) << shown;
  }
  for (const char* fine : {"R01", "R**01**", "R 01", "R-01", "R<b>01</b>", "R&#48;1", "For 54 days", "4 or 54",
                           "part r 5",
                           "XR-54", "R-540", "The R is 5 of 4.", "<b>R01</b> means insufficient funds"}) {
    EXPECT_TRUE(Passes(kind, fine)) << fine << ": " << JudgeEvasion(kind, fine).reason;
  }
  EXPECT_THAT(JudgeEvasion(kind, "**R01** (account closed)").reason, HasSubstr("with another meaning"));
  EXPECT_THAT(JudgeEvasion(kind, "R-01 (account closed)").reason, HasSubstr("with another meaning"));
  const Verdict once = JudgeEvasion(kind, "It says <b>R54</b>.");
  EXPECT_EQ(once.findings.size(), 1U);
}

// Smaller readers.

TEST(AnswerEvasionTest, AnInstantBeforeTheEpochIsNoObservation) {
  for (const char* early : {"1700-01-01T00:00:00Z", "1969-12-31T23:59:59Z", "1678-01-01"}) {
    const auto observed = ObservedAt(boost::json::object{{"observed_at", early}}, 7);
    ASSERT_FALSE(observed) << early;
    EXPECT_THAT(observed.error().message(), HasSubstr("is before 1970")) << early;
  }
  EXPECT_EQ(*ObservedAt(boost::json::object{{"observed_at", "1970-01-01T00:00:00Z"}}, 7), 0);
  EXPECT_EQ(*ObservedAt(boost::json::object{}, 7), 7);
}

TEST(AnswerEvasionTest, BracketsInCommentsOfAPolicyAreNotCounted) {
  const std::string many(300, '[');
  const auto reads = [](const std::string& text) { return ParseYaml(text).has_value(); };
  EXPECT_TRUE(reads("a: 1\n# " + many + "\nb: 2\n"));
  EXPECT_TRUE(reads("a: 1  # " + many + "\nb: 2\n"));
  EXPECT_FALSE(reads("a: " + many + "\n"));
  EXPECT_FALSE(reads("a: x#" + many + "\nb: " + many));
  EXPECT_FALSE(reads("a: ['# ', " + many + "\n")) << "in a text it begins no comment";
  EXPECT_FALSE(reads("a: 1 #\r" + many + "\n")) << "the comment ends before";
  EXPECT_FALSE(reads("a: 1 #\u2028" + many + "\n"));
}

std::string RemoteCalls(int n, const std::string& finish) {
  std::string calls;
  for (int i = 0; i < n; ++i) {
    calls += fmt::format(R"({}{{"index": {}, "id": "c{}", "function": {{"name": "f", "arguments": "{{}}"}}}})",
                         i == 0 ? "" : ",", i, i);
  }
  return R"({"choices": [{"index": 0, "message": {"tool_calls": [)" + calls + R"(]}, "finish_reason": ")" + finish +
         "\"}]}";
}

TEST(AnswerEvasionTest, ARemoteServerMayMakeAsManyCallsAsTheMostAndNoneInAnOldFormAlone) {
  const auto whole = [](const std::string& body) {
    RemoteAnswer answer(1, 0);
    std::vector<api::Event> events;
    return answer.Whole(body, events);
  };
  EXPECT_TRUE(whole(RemoteCalls(1, "tool_calls")).ok());
  EXPECT_TRUE(whole(RemoteCalls(128, "tool_calls")).ok()) << whole(RemoteCalls(128, "tool_calls")).ToString();
  EXPECT_FALSE(whole(RemoteCalls(129, "tool_calls")).ok());
  EXPECT_FALSE(whole(RemoteCalls(1, "function_call")).ok());
  EXPECT_FALSE(whole(R"({"choices": [{"index": 0, "message": {"content": "x", "function_call": {"name": "f"}},
                        "finish_reason": "stop"}]})").ok());
  const auto both = [&](const std::string& old_form, const std::string& calls) {
    return whole(R"({"choices": [{"index": 0, "message": {"function_call": )" + old_form + R"(, "tool_calls": [)" +
                 calls + R"(]}, "finish_reason": "tool_calls"}]})").ok();
  };
  const std::string f = R"({"name": "f", "arguments": "{}"})", g = R"({"name": "g", "arguments": "{}"})";
  const auto call = [](const std::string& function) { return R"({"id": "c", "function": )" + function + "}"; };
  EXPECT_TRUE(both(f, call(f)));   // the same call, said twice
  EXPECT_FALSE(both(g, call(f)));
  EXPECT_FALSE(both(R"({"name": "f", "arguments": "{\"x\": 1}"})", call(f)));
  EXPECT_FALSE(both(R"({"name": "f"})", call(f)));
  EXPECT_FALSE(both(f, ""));
  EXPECT_FALSE(both(f, call(f) + ", " + call(g)));
  EXPECT_TRUE(whole(R"({"choices": [{"index": 0, "message": {"content": "x", "function_call": null},
                       "finish_reason": "stop"}]})").ok());
}

}  // namespace
}  // namespace surety::gateway
