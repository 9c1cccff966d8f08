// Values below zero, and words that multiply: what an answer says of them against what its evidence says.
#include <string>

#include <boost/json.hpp>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "gateway/text_numbers.h"
#include "gateway/verifier.h"

namespace surety::gateway {
namespace {

Verdict::Outcome JudgeNumbers(const std::string& tool_value, const std::string& answer) {
  VerifierSpec spec;
  spec.name = "numbers";
  spec.kind = VerifierSpec::Kind::kNumbers;
  const auto verifier = MakeVerifier(spec, "", Clock::Real());
  Evidence evidence;
  ToolResult result;
  result.tool = "account";
  result.value = boost::json::parse(tool_value);
  evidence.tools.push_back(result);
  return (*verifier)->Check({answer, "", {}}, evidence, 0).outcome;
}

constexpr auto kBorneOut = Verdict::Outcome::kPass;
constexpr auto kUngrounded = Verdict::Outcome::kFail;

TEST(NumberSignTest, AnAmountBelowZeroIsNotTheAmountAboveIt) {
  const std::string below = R"({"balance": -500, "currency": "USD"})", above = R"({"balance": 500, "currency": "USD"})";
  for (const char* answer :
       {"Your balance is $500.00.", "You have 500 dollars.", "You can spend USD 500 today.",
        "You are not overdrawn: your balance is $500.", "You owe nothing. Your balance is $500.",
        "We charged you a fee. Your balance is $500."}) {
    EXPECT_EQ(JudgeNumbers(below, answer), kUngrounded) << answer;
    EXPECT_EQ(JudgeNumbers(above, answer), kBorneOut) << answer;
  }
  for (const char* answer :
       {"Your balance is -$500.00.", "Your balance is $-500.", "Your balance is minus 500 dollars.",
        "Your balance is negative $500.", "Your balance: \u2212$500", "It is (-500 USD)."}) {
    EXPECT_EQ(JudgeNumbers(below, answer), kBorneOut) << answer;
    EXPECT_EQ(JudgeNumbers(above, answer), kUngrounded) << answer;
  }
  // Said in words, the amount itself has no sign: it may be either.
  for (const char* answer : {"You are overdrawn by $500.", "You owe us $500.", "Your account is $500 in the red.",
                             "You were charged $500."}) {
    EXPECT_EQ(JudgeNumbers(below, answer), kBorneOut) << answer;
    EXPECT_EQ(JudgeNumbers(above, answer), kBorneOut) << answer;
  }
}

TEST(NumberSignTest, AHyphenIsNoMinus) {
  const std::string value = R"({"from": 5, "to": 10, "days": 30, "code": "R-500"})";
  for (const char* answer : {"It takes 5-10 days.", "A 30-day limit.", "Days 5 - 10.", "- 5 days\n- 10 days",
                             "within 5\u201310 days", "\u20225 days\n\u202210 days"}) {
    EXPECT_EQ(JudgeNumbers(value, answer), kBorneOut) << answer;
  }
  EXPECT_EQ(JudgeNumbers(R"({"change": -5})", "It fell: -5%."), kBorneOut);
  EXPECT_EQ(JudgeNumbers(R"({"change": -5})", "It rose by 5%."), kUngrounded);
  EXPECT_EQ(JudgeNumbers(R"({"change": -0.05})", "It fell: -5%."), kBorneOut);
  EXPECT_EQ(JudgeNumbers(R"({"change": "-5.00"})", "Change: -5"), kBorneOut);
  EXPECT_EQ(JudgeNumbers(R"({"zero": -0.0})", "It is 0."), kBorneOut);
}

TEST(NumberSignTest, WordsThatMultiplyAreRead) {
  const std::string five = R"({"limit": 5})";
  const std::pair<const char*, const char*> cases[] = {
      {"$5 grand", "5000"}, {"$5 K", "5000"}, {"$5 mil", "5000000"}, {"$5 lakh", "500000"}, {"$5 M", "5000000"},
      {"5 grand", "5000"}, {"\u20B95 crore", "50000000"}, {"5 hundred dollars", "500"}, {"$5bn", "5000000000"},
      {"5 hundred thousand dollars", "500000"}, {"$5 thousands", "5000"}, {"5 million", "5000000"},
      {"$5 trillion", "5000000000000"}, {"5 m euros", "5000000"}, {"$5mil", "5000000"}, {"$5lakh", "500000"}};
  for (const auto& [text, value] : cases) {
    EXPECT_EQ(JudgeNumbers(five, std::string("The limit is ") + text + "."), kUngrounded) << text;
    EXPECT_EQ(JudgeNumbers(R"({"limit": )" + std::string(value) + "}", std::string("The limit is ") + text + "."),
              kBorneOut) << text;
  }
  for (const char* text : {"5 m", "5 b", "5 kilometres", "5 millimetres", "5 billings", "5 t", "5 mm"}) {
    EXPECT_EQ(JudgeNumbers(five, std::string("It is ") + text + " away."), kBorneOut) << text;
  }
}

TEST(NumberSignTest, NumbersAreReadAsTheyAreShown) {
  const std::string value = R"({"a": 1, "b": 2})";
  EXPECT_EQ(JudgeNumbers(value, "It is 1 and 2."), kBorneOut);
  EXPECT_EQ(JudgeNumbers(value, "It is 1<b>2</b>."), kUngrounded);   // shown as 12
  EXPECT_EQ(JudgeNumbers(value, "It is 1&#50;."), kUngrounded);
  EXPECT_EQ(JudgeNumbers(R"({"a": 12})", "It is <b>12</b>."), kBorneOut);
}

}  // namespace
}  // namespace surety::gateway
