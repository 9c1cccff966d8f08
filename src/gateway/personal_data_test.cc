#include "gateway/personal_data.h"

#include <random>
#include <string>
#include <utility>
#include <vector>

#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "gateway/verifier.h"

namespace surety::gateway {
namespace {

std::vector<std::string> DataIn(std::string_view text, const std::vector<PersonalKind>& kinds = {}) {
  std::vector<std::string> found;
  for (const PersonalItem& item : FindPersonalData(text, kinds)) {
    EXPECT_LE(item.offset + item.length, text.size());
    found.push_back(std::string(NameOf(item.kind)) + (item.shape ? "?" : "") + (item.detail.empty() ? "" : " ") +
                    item.detail);
  }
  return found;
}

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;

// By the table of doubled digits, from the left: written otherwise than the code.
bool LuhnByTable(const std::string& digits) {
  static constexpr int kDoubled[] = {0, 2, 4, 6, 8, 1, 3, 5, 7, 9};
  int sum = 0;
  for (size_t i = 0; i < digits.size(); ++i) {
    const int d = digits[i] - '0';
    sum += (digits.size() - i) % 2 == 0 ? kDoubled[d] : d;
  }
  return sum % 10 == 0;
}

TEST(PersonalDataTest, PublishedTestCardsAreFound) {
  const std::pair<const char*, const char*> cards[] = {
      {"4111111111111111", "visa"}, {"4222222222222", "visa"}, {"5555555555554444", "mastercard"},
      {"5105105105105100", "mastercard"}, {"2223003122003222", "mastercard"}, {"2720990000000007", "mastercard"},
      {"378282246310005", "amex"}, {"371449635398431", "amex"}, {"6011111111111117", "discover"},
      {"30569309025904", "diners"}, {"38520000023237", "diners"}, {"3530111333300000", "jcb"},
      {"6200000000000005", "unionpay"}, {"6759649826438453", "maestro"}, {"4000000000000000006", "visa"}};
  for (const auto& [digits, brand] : cards) {
    std::string number = digits;
    if (!LuhnByTable(number)) {   // keep the range, correct the last digit
      for (char c = '0'; c <= '9' && !LuhnByTable(number); ++c) number.back() = c;
    }
    std::string spaced, dashed, hidden;
    for (size_t i = 0; i < number.size(); ++i) {
      if (i > 0 && i % 4 == 0) spaced += ' ', dashed += '-';
      spaced += number[i], dashed += number[i];
      hidden += std::string(1, number[i]) + "\u200B";
    }
    for (const std::string& form : {number, spaced, dashed, hidden}) {
      EXPECT_THAT(DataIn("Card " + form + ".", {PersonalKind::kCard}), ElementsAre(std::string("card ") + brand))
          << form;
    }
  }
}

TEST(PersonalDataTest, LuhnAgreesWithAnotherImplementation) {
  std::mt19937_64 random(3);
  int valid = 0;
  for (int i = 0; i < 20'000; ++i) {
    std::string digits;
    for (size_t n = 13 + random() % 7; n > 0; --n) digits += static_cast<char>('0' + random() % 10);
    ASSERT_EQ(PassesLuhn(digits), LuhnByTable(digits)) << digits;
    valid += LuhnByTable(digits) ? 1 : 0;
  }
  EXPECT_NEAR(valid, 2000, 300);
}

TEST(PersonalDataTest, MastercardsSecondSeriesHasItsExactBorders) {
  for (int first = 2200; first <= 2740; ++first) {
    const std::string digits = std::to_string(first) + "000000000000";
    const bool mastercard = first >= 2221 && first <= 2720;
    ASSERT_EQ(CardBrand(digits) == "mastercard", mastercard) << first;
  }
  EXPECT_EQ(CardBrand("222100000000000"), "");    // 15 digits
}

TEST(PersonalDataTest, AShapeWithoutAValidSumIsReportedAsOne) {
  EXPECT_THAT(DataIn("4111 1111 1111 1112"), ElementsAre("card? visa"));
  EXPECT_THAT(DataIn("5555555555554445"), ElementsAre("card? mastercard"));
  EXPECT_THAT(DataIn("order 1234567890123456"), IsEmpty());               // no brand's range
  EXPECT_THAT(DataIn("4111 1111 1111 111"), IsEmpty());                   // 15 digits are no Visa's
  EXPECT_THAT(DataIn("41111111111111111111"), IsEmpty());                 // 20 digits
}

TEST(PersonalDataTest, SocialSecurityNumbersFollowTheRules) {
  for (int area = 0; area < 1000; ++area) {
    const bool valid = area != 0 && area != 666 && area < 900;
    ASSERT_EQ(DataIn(fmt::format("{:03}-12-3456", area), {PersonalKind::kSsn}).size(), valid ? 1u : 0u) << area;
  }
  for (int group = 0; group < 100; ++group) {
    ASSERT_EQ(IsSocialSecurityNumber(fmt::format("123{:02}4567", group)), group != 0) << group;
    const bool itin = (group >= 50 && group <= 65) || (group >= 70 && group <= 88) || (group >= 90 && group <= 92) ||
                      group >= 94;
    ASSERT_EQ(IsItin(fmt::format("912{:02}4567", group)), itin) << group;
  }
  EXPECT_FALSE(IsSocialSecurityNumber("123450000"));
  // Real areas that truncated block lists drop, and two that were printed in advertisements.
  for (const char* ssn : {"123-45-6789", "078-05-1120", "219-09-9999", "001-01-0001", "899-99-9999", "111-11-1111"}) {
    EXPECT_THAT(DataIn(ssn, {PersonalKind::kSsn}), ElementsAre("ssn")) << ssn;
  }
  EXPECT_THAT(DataIn("SSN: 123456789", {PersonalKind::kSsn}), ElementsAre("ssn"));
  EXPECT_THAT(DataIn("social security number 123 45 6789", {PersonalKind::kSsn}), ElementsAre("ssn"));
  EXPECT_THAT(DataIn("order 123456789", {PersonalKind::kSsn}), IsEmpty());
  EXPECT_THAT(DataIn("912-71-4567"), ElementsAre("itin"));
}

TEST(PersonalDataTest, PublishedIbansAreFoundAndOneWrongDigitIsNot) {
  for (std::string iban : {"DE89370400440532013000", "GB29NWBK60161331926819", "FR1420041010050500013M02606",
                           "NO9386011117947", "MT84MALT011000012345MTLCAST001S", "CH9300762011623852957",
                           "NL91ABNA0417164300", "BE68539007547034", "SA0380000000608010167519",
                           "BR1800360305000010009795493C1",
                           "LC55HEMM000100010012001200023015", "SE4550000000058398257466"}) {
    std::string spaced;
    for (size_t i = 0; i < iban.size(); ++i) spaced += (i > 0 && i % 4 == 0 ? " " : "") + std::string(1, iban[i]);
    for (const std::string& form : {iban, spaced}) {
      const auto found = DataIn("Account " + form + ", please", {PersonalKind::kIban});
      ASSERT_EQ(found.size(), 1u) << form;
    }
    iban.back() = iban.back() == '0' ? '1' : '0';
    EXPECT_THAT(DataIn(iban, {PersonalKind::kIban}), IsEmpty()) << iban;
  }
  EXPECT_THAT(DataIn("DE8937040044053201300", {PersonalKind::kIban}), IsEmpty());
}

TEST(PersonalDataTest, AddressesAndTelephones) {
  for (const char* text : {"mail a.b+c@example.com now", "x@sub.example.co.uk", "j\u00F6rg@b\u00FCcher.example",
                           "joe [at] example [dot] org", "<joe@example.org>", "j\u200Boe@exam\u00ADple.org"}) {
    EXPECT_THAT(DataIn(text, {PersonalKind::kEmail}), ElementsAre("email")) << text;
  }
  for (const char* text : {"a @ b", "user@localhost", "see @handle", "3@2026.1"}) {
    EXPECT_THAT(DataIn(text, {PersonalKind::kEmail}), IsEmpty()) << text;
  }
  for (const char* text : {"+49 30 123456", "+1 (212) 555-0123", "(212) 555-0123", "212-555-0123", "1.212.555.0123",
                           "call 2125550123", "+442071838750"}) {
    EXPECT_THAT(DataIn(text, {PersonalKind::kPhone}), ElementsAre("phone")) << text;
  }
  for (const char* text : {"1-800-555-0123", "+1 888 555 0123", "112-555-0123", "211-555-0123", "2125550123",
                           "2026-11-30", "$1,234,567.00", "212-055-0123", "+5"}) {
    EXPECT_THAT(DataIn(text, {PersonalKind::kPhone}), IsEmpty()) << text;
  }
}

// Every form of a number or an address, wherever it stands in a text: none is passed over where the patterns are not
// asked.
TEST(PersonalDataTest, EveryFormIsFoundWhereverItStands) {
  std::vector<std::string> phones, emails;
  for (const char* before : {"", "1", "1 ", "1-", "1."}) {
    for (const char* area : {"(212)", "(212) ", "(212)-", "(212). ", "212 ", "212-", "212."}) {
      for (const char* exchange : {"555 ", "555-", "555."}) phones.push_back(fmt::format("{}{}{}0123", before, area,
                                                                                         exchange));
    }
  }
  for (const char* phone : {"call 2125550123", "fax: 12125550123", "0044 20 7946 0958", "00 (44) 20 7946 0958",
                            "phone 00442079460958", "+442079460958", "+ (49) 30-123456", "+49.30.123456"}) {
    phones.emplace_back(phone);
  }
  for (const char* at : {"@", "[at]", " [at] ", "(at)", " ( at ) ", " [at ] "}) {
    for (const char* dot : {".", "[dot]", " (dot) ", " [ dot ]"}) {
      for (const char* host : {"example", "ex-ample", "b\u00FCcher", "a.b", "2026-01"}) {
        emails.push_back(fmt::format("joe{}{}{}org", at, host, dot));
      }
    }
  }
  const std::vector<std::pair<std::string, std::string>> around = {
      {"", ""}, {"See [fees:1@2026-01] (here), 3 ", " and 5."}, {"12 + ", "\n(4)"}, {"x@y, ", " at 7"}};
  for (const auto& [begin, end] : around) {
    for (const std::string& phone : phones) {
      EXPECT_THAT(DataIn(begin + phone + end, {PersonalKind::kPhone}), ElementsAre("phone")) << begin + phone + end;
    }
    for (const std::string& email : emails) {
      EXPECT_THAT(DataIn(begin + email + end, {PersonalKind::kEmail}), ElementsAre("email")) << begin + email + end;
    }
    for (const char* iban : {"GB82WEST12345698765432", "GB82 WEST 1234 5698 7654 32", "gb82-west-1234-5698-7654-32"}) {
      EXPECT_THAT(DataIn(begin + iban + end, {PersonalKind::kIban}), ElementsAre("iban gb")) << begin + iban + end;
    }
    EXPECT_THAT(DataIn(begin + "nothing of the kind" + end), IsEmpty());
  }
}

TEST(PersonalDataTest, RoutingNumbersNeedTheirWordAndSum) {
  // Published numbers of Federal Reserve Banks and of the Treasury.
  for (const char* number : {"021000021", "011000015", "061000146", "121000374", "051000033"}) {
    EXPECT_TRUE(IsRoutingNumber(number)) << number;
    EXPECT_THAT(DataIn(fmt::format("routing number {}", number), {PersonalKind::kRouting}), ElementsAre("routing"));
    EXPECT_THAT(DataIn(number, {PersonalKind::kRouting}), IsEmpty());
    for (size_t i = 0; i < 9; ++i) {   // the sum sees every single wrong digit
      std::string wrong = number;
      wrong[i] = wrong[i] == '9' ? '0' : static_cast<char>(wrong[i] + 1);
      EXPECT_FALSE(IsRoutingNumber(wrong)) << wrong;
    }
  }
  EXPECT_FALSE(IsRoutingNumber("000000000"));
}

TEST(PiiVerifierTest, ChecksEveryFieldAndNeverRepeatsTheValue) {
  VerifierSpec spec;
  spec.name = "pii";
  spec.kind = VerifierSpec::Kind::kPii;
  const auto verifier = MakeVerifier(spec, ".", Clock::Real());
  ASSERT_TRUE(verifier.has_value());
  AnswerText answer;
  answer.calls = {{"send", R"({"a":"4111 1111","b":"1111 1111"})"}};
  Verdict verdict = (*verifier)->Check(answer, Evidence(), 0);
  EXPECT_EQ(verdict.outcome, Verdict::Outcome::kFail);   // split over two values
  answer = {};
  answer.reasoning = R"(\u0034111111111111111)";
  verdict = (*verifier)->Check(answer, Evidence(), 0);
  ASSERT_EQ(verdict.findings.size(), 1u);
  EXPECT_EQ(verdict.findings[0].offset, 0u);
  EXPECT_EQ(verdict.findings[0].length, answer.reasoning.size());
  EXPECT_EQ(verdict.findings[0].what.find("4111"), std::string::npos);
  answer = {};
  answer.text = "Nothing here but the year 2026 and $35.00.";
  EXPECT_EQ((*verifier)->Check(answer, Evidence(), 0).outcome, Verdict::Outcome::kPass);
}

TEST(PiiVerifierTest, ACitationOfTheEvidenceIsNoAddress) {
  VerifierSpec spec;
  spec.name = "pii";
  spec.kind = VerifierSpec::Kind::kPii;
  spec.kinds = {"email"};
  const auto verifier = MakeVerifier(spec, ".", Clock::Real());
  Evidence evidence;
  evidence.passages.resize(1);
  evidence.passages[0].document = "terms", evidence.passages[0].chunk = "two";
  evidence.passages[0].version = "v1.final";
  AnswerText answer;
  answer.text = R"(See [terms:two@v1.final "whatever it says"].)";
  EXPECT_EQ((*verifier)->Check(answer, evidence, 0).outcome, Verdict::Outcome::kPass);
  EXPECT_EQ((*verifier)->Check(answer, Evidence(), 0).outcome, Verdict::Outcome::kFail);
}

TEST(PiiVerifierTest, AnUnknownKindIsRefusedWithTheNearest) {
  VerifierSpec spec;
  spec.name = "pii";
  spec.kind = VerifierSpec::Kind::kPii;
  spec.kinds = {"cards"};
  const auto verifier = MakeVerifier(spec, ".", Clock::Real());
  ASSERT_FALSE(verifier.has_value());
  EXPECT_THAT(verifier.error().message(), HasSubstr("did you mean 'card'"));
}

}  // namespace
}  // namespace surety::gateway
