#include "gateway/code_table.h"

#include <array>
#include <filesystem>
#include <fstream>
#include <limits>
#include <set>
#include <string>

#include <boost/json/parse.hpp>
#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "gateway/verifier.h"

namespace surety::gateway {
namespace {

using ::testing::HasSubstr;

const std::string kTableFolder = std::string(SURETY_TESTDATA) + "/../policies";
constexpr char kNachaTable[] = "tables/nacha_return_codes.json";

int64_t TableDay(std::string_view text) {
  const auto day = ParseDay(text);
  EXPECT_TRUE(day.has_value());
  return *day;
}

TEST(CodeTableTest, NachaCodesHaveTheirGaps) {
  const auto table = CodeTable::Read(kTableFolder + "/" + kNachaTable);
  ASSERT_TRUE(table.has_value()) << table.error().ToString();
  EXPECT_FALSE(table->source().empty());
  const std::set<int> gaps = {48, 49, 54, 55, 56, 57, 58, 59, 60, 63, 64, 65, 66, 78, 79};
  for (int i = 0; i < 100; ++i) {
    const bool exists = i >= 1 && i <= 85 && !gaps.contains(i);
    EXPECT_EQ(table->Knows(fmt::format("R{:02}", i)), exists) << i;
  }
  // R11 got another meaning.
  EXPECT_EQ(table->Find("R11", TableDay("2020-04-01") - 1)->titles[0], "check truncation");
  EXPECT_EQ(table->Find("R11", TableDay("2020-04-01"))->titles[0], "not in accordance with the authorisation");
  EXPECT_EQ(table->ValidityAt(TableDay("2026-11-30")).from_ns, TableDay("2020-04-01"));
  EXPECT_EQ(table->Find("R01", TableDay("2019-01-01") - 1), nullptr) << "the table does not vouch for it";
  EXPECT_EQ(table->Find("R01", TableDay("2019-01-01"))->fields.at("return_window"), "2 banking days");
}

// Section 4.1 of the design, row by row, written down here a second time. Window "": none is given. Unconfirmed: what
// the design marks with '?'.
struct DesignRow {
  std::vector<int> codes;
  const char* window;
  bool unconfirmed = false;
};

const std::vector<DesignRow>& DesignRows() {
  static const auto* rows = new std::vector<DesignRow>{
      {{1, 2, 3, 4, 8, 9}, "2 banking days"},
      {{5, 7, 10, 11}, "60 calendar days"},
      {{6}, "", true},
      {{12, 14, 15, 16, 17, 20, 21, 22, 24}, "2 banking days"},
      {{13, 18, 19, 25, 26, 27, 28}, "next file delivery"},
      {{23}, "on receipt of the refusal"},
      {{29}, "2 banking days"},
      {{30, 32, 34, 35, 36}, "", true},
      {{31}, "by agreement (CCD, CTX)", true},
      {{33}, "60 calendar days"},
      {{37, 38}, "60 calendar days after settlement"},
      {{39}, "", true},
      {{40, 41, 42, 43, 44, 45, 46, 47}, "", true},
      {{50}, ""},
      {{51, 52, 53}, "60 calendar days"},
      {{61, 62, 67, 68, 69, 70}, "", true},
      {{71, 72, 73, 74, 75, 76, 77}, "", true},
      {{80, 81, 82, 83, 84, 85}, "", true}};
  return *rows;
}

TEST(CodeTableTest, NachaCodesAreTheDesignsRowByRow) {
  const auto table = CodeTable::Read(kTableFolder + "/" + kNachaTable);
  ASSERT_TRUE(table.has_value()) << table.error().ToString();
  const int64_t today = TableDay("2026-11-30");
  std::set<std::string> designed;
  for (const DesignRow& row : DesignRows()) {
    for (const int number : row.codes) {
      const std::string code = fmt::format("R{:02}", number);
      EXPECT_TRUE(designed.insert(code).second) << code;
      const CodeEntry* entry = table->Find(code, today);
      ASSERT_NE(entry, nullptr) << code;
      const auto window = entry->fields.find("return_window");
      EXPECT_EQ(window == entry->fields.end() ? "" : window->second, row.window) << code;
      EXPECT_EQ(!entry->unconfirmed.empty(), row.unconfirmed) << code;
      // Only these two may be presented again.
      EXPECT_EQ(entry->fields.contains("re_presentable"), number == 1 || number == 9) << code;
    }
  }
  for (const CodeEntry& entry : table->entries()) EXPECT_TRUE(designed.contains(entry.code)) << entry.code;
  EXPECT_EQ(designed.size(), 70U);   // R01 to R85 without the fifteen gaps
  const CodeEntry* corrected = table->Find("R11", today);
  EXPECT_EQ(corrected->titles[0], "not in accordance with the authorisation");
  EXPECT_THAT(corrected->fields.at("corrected_entry"), HasSubstr("60 calendar days"));
  EXPECT_THAT(corrected->fields.at("corrected_entry"), HasSubstr("without a new authorisation"));
}

TEST(CodeTableTest, RefusesWhatIsNotATable) {
  const std::string head = R"({"name":"t","version":"1","source":"s","checked_on":"2026-11-30","pattern":"R\\d\\d",)";
  const auto error = [&head](const std::string& codes) {
    const auto table = CodeTable::Parse(head + R"("codes":)" + codes + "}", "t.json");
    return table ? std::string() : table.error().message();
  };
  EXPECT_EQ(error(R"([{"code":"R01","titles":["a"]}])"), "");
  EXPECT_THAT(error("[]"), HasSubstr("table 't.json': 'codes' must be a list"));
  EXPECT_THAT(error(R"([{"code":"R1","titles":["a"]}])"), HasSubstr("code R1: is not of the pattern"));
  EXPECT_THAT(error(R"([{"code":"R01","titles":[]}])"), HasSubstr("code R01: 'titles'"));
  EXPECT_THAT(error(R"([{"code":"R01","title":["a"]}])"), HasSubstr("did you mean 'titles'"));
  EXPECT_THAT(error(R"([{"code":"R01","titles":["a"],"effective_from":"2026-13-01"}])"), HasSubstr("is no day"));
  EXPECT_THAT(error(R"([{"code":"R01","titles":["a"],"effective_from":"2026-02-01","effective_to":"2026-02-01"}])"),
              HasSubstr("must be before"));
  EXPECT_THAT(error(R"([{"code":"R01","titles":["a"],"effective_to":"2026-02-02"},)"
                    R"({"code":"R01","titles":["a"],"effective_from":"2026-02-01"}])"),
              HasSubstr("twice for the same time"));
  EXPECT_EQ(error(R"([{"code":"R01","titles":["a"],"effective_to":"2026-02-01"},)"
                  R"({"code":"R01","titles":["a"],"effective_from":"2026-02-01"}])"), "");
  EXPECT_THAT(CodeTable::Parse(R"({"name":"t"})", "t.json").error().message(), HasSubstr("'version' must be a text"));
  EXPECT_EQ(CodeTable::Read("/nowhere/t.json").error().code(), StatusCode::kNotFound);
}

class TableVerifierTest : public ::testing::Test {
 protected:
  TableVerifierTest() {
    VerifierSpec spec;
    spec.name = "codes";
    spec.kind = VerifierSpec::Kind::kTable;
    spec.table = kNachaTable;
    auto made = MakeVerifier(spec, kTableFolder, Clock::Real());
    EXPECT_TRUE(made.has_value()) << made.error().ToString();
    verifier_ = *std::move(made);
    evidence_.as_of_ns = TableDay("2026-11-30");
  }
  // The first fault; empty: passed.
  std::string Fault(const std::string& text) {
    AnswerText answer;
    answer.text = text;
    const Verdict verdict = verifier_->Check(answer, evidence_, 0);
    if (verdict.findings.empty()) return "";
    const std::string found = text.substr(verdict.findings[0].offset, verdict.findings[0].length);
    return found + ": " + verdict.findings[0].what;
  }
  std::unique_ptr<Verifier> verifier_;
  Evidence evidence_;
};

TEST_F(TableVerifierTest, CodesThatDoNotExistAreFaults) {
  EXPECT_EQ(Fault("The entry came back with R01 or R53, **R02**."), "");
  EXPECT_THAT(Fault("It says R54."), HasSubstr("R54: code R54 is not in the table"));
  EXPECT_THAT(Fault("It says r54."), HasSubstr("is not in the table"));
  EXPECT_THAT(Fault("It says \uFF3254."), HasSubstr("is not in the table"));
  EXPECT_EQ(Fault("Model R540, XR54 and R5 are no codes."), "");
  AnswerText answer;
  answer.calls = {{"note", R"({"code":"\u005254"})"}};
  EXPECT_EQ(verifier_->Check(answer, evidence_, 0).outcome, Verdict::Outcome::kFail);
}

TEST_F(TableVerifierTest, StatedTitlesAreTheTables) {
  for (const char* text : {"R01 (insufficient funds)", "R01: Insufficient  Funds", "R01 - not sufficient funds",
                           "R01 means insufficient funds", "insufficient funds (R01)", "**R02**: account closed",
                           "Account closed (return code R02)", "R11: not in accordance with the authorisation",
                           "R01, R02 and R09", "R01 is common", "R01 - R04", "code R03 stands for \"no account\"",
                           "R24 (duplicate) and R04 (invalid account number)"}) {
    EXPECT_EQ(Fault(text), "") << text;
  }
  for (const char* text : {"R01 (account closed)", "R01: the account was blocked", "R01 account closed",
                           "R01 means nothing", "account closed (R01)", "R01, account closed", "R01 is account closed",
                           "R11 (check truncation)",
                           "R02 - ac\u00ADcount frozen", "R01 \u2013 stop payment", "R67 (duplicate)"}) {
    EXPECT_THAT(Fault(text), HasSubstr("another meaning")) << text;
  }
  evidence_.as_of_ns = TableDay("2019-01-01");
  EXPECT_EQ(Fault("R11 (check truncation)"), "");
  EXPECT_THAT(Fault("R11: not in accordance with the authorisation"), HasSubstr("another meaning"));
}

TEST_F(TableVerifierTest, CodesAreThoseOfTheTools) {
  ToolResult tool;
  tool.tool = "rail";
  tool.value = boost::json::parse(R"({"return":{"code":"R01"},"note":"not R09, as was thought"})");
  evidence_.tools = {tool};
  EXPECT_EQ(Fault("It is R01."), "");
  EXPECT_THAT(Fault("It is R02."), HasSubstr("not the one that the tools gave (R01)"));
  EXPECT_THAT(Fault("It is R09."), HasSubstr("not the one"));
  evidence_.tools[0].status = UnavailableError("late");
  EXPECT_EQ(Fault("It is R02."), "");
}

TEST_F(TableVerifierTest, UnconfirmedCodesAreForAPerson) {
  for (const DesignRow& row : DesignRows()) {
    for (const int number : row.codes) {
      const std::string code = fmt::format("R{:02}", number);
      evidence_.tools.clear();
      EXPECT_EQ(Fault("It came back with " + code + ".").ends_with("a person decides"), row.unconfirmed) << code;
      // The tools' code counts whether the answer names it or not.
      ToolResult tool;
      tool.tool = "rail";
      tool.value = {{"code", code}};
      evidence_.tools = {tool};
      EXPECT_EQ(Fault("It came back.").ends_with("a person decides"), row.unconfirmed) << code;
    }
  }
}

constexpr std::string_view kReasonsTable = R"({"name": "reasons", "version": "1", "source": "the test",
  "checked_on": "2026-11-30", "pattern": "A[0-9]", "effective_from": "2026-01-01", "codes": [
  {"code": "A1", "titles": ["Income insufficient", "income insufficient for amount of credit requested"]},
  {"code": "A2", "titles": ["Length of employment"]},
  {"code": "A3", "titles": ["Delinquent past or present credit obligations"]},
  {"code": "A4", "titles": ["Credit obligations"], "effective_to": "2026-06-01"},
  {"code": "A4", "titles": ["Excessive obligations in relation to income"], "effective_from": "2026-06-01"}]})";

// Adverse action: of every set of reasons that the decision service gave, the one text that names it passes. The truth
// is the enumeration: sets are equal or not.
TEST(CompleteTableTest, OnlyTheReasonsThatWereGivenPassAndAllOfThem) {
  const std::string folder = ::testing::TempDir() + "surety-complete-table";
  std::filesystem::create_directories(folder);
  std::ofstream(folder + "/reasons.json") << kReasonsTable;
  VerifierSpec spec;
  spec.name = "reasons";
  spec.kind = VerifierSpec::Kind::kTable;
  spec.table = "reasons.json";
  spec.complete = true;
  const auto verifier = MakeVerifier(spec, folder, Clock::Real());
  ASSERT_TRUE(verifier.has_value()) << verifier.error().ToString();
  const std::array<std::array<const char*, 3>, 4> wordings{{
      {"income insufficient", "Income  insufficient for amount of credit requested", "A1"},
      {"Length of employment", "LENGTH OF\nEMPLOYMENT", "Reason A2"},
      {"delinquent past or present credit obligations", "Delinquent past or present credit obligations (A3)", "A3"},
      {"Excessive obligations in relation to income", "excessive\u00A0obligations in relation to income", "A4"}}};
  const auto outcome = [&](unsigned given, const std::string& text) {
    Evidence evidence;
    evidence.as_of_ns = TableDay("2026-11-30");
    boost::json::array codes;
    for (size_t i = 0; i < wordings.size(); ++i) {
      if ((given >> i & 1) != 0) codes.emplace_back(fmt::format("A{}", i + 1));
    }
    ToolResult result;
    result.tool = "decision";
    result.value = boost::json::object{{"reasons", std::move(codes)}};
    evidence.tools.push_back(std::move(result));
    AnswerText answer;
    answer.text = text;
    return (*verifier)->Check(answer, evidence, std::numeric_limits<int64_t>::max());
  };
  for (unsigned given = 0; given < 16; ++given) {
    for (unsigned said = 0; said < 16; ++said) {
      for (size_t way = 0; way < 3; ++way) {
        std::string text = "We cannot approve your application. Principal reasons:";
        for (size_t i = 0; i < wordings.size(); ++i) {
          if ((said >> i & 1) != 0) text += std::string(" ") + wordings[i][way] + ";";
        }
        const Verdict verdict = outcome(given, text);
        EXPECT_EQ(verdict.outcome == Verdict::Outcome::kPass, given == said && given != 0)
            << given << " given: " << text << "\n" << verdict.reason;
      }
    }
  }
  // A wording of another time, and a word that merely begins like one.
  EXPECT_EQ(outcome(8, "Reason: credit obligations.").outcome, Verdict::Outcome::kFail);
  EXPECT_EQ(outcome(2, "Reason: length of employments.").outcome, Verdict::Outcome::kFail);
  EXPECT_EQ(outcome(1, "Reason: <b>income</b> insufficient.").outcome, Verdict::Outcome::kPass);
  EXPECT_EQ(outcome(1, "Reason: income insufficient, &#108;ength of employment.").outcome, Verdict::Outcome::kFail);
  std::filesystem::remove_all(folder);
}

TEST_F(TableVerifierTest, TheVersionNamesTheTable) {
  EXPECT_THAT(verifier_->version(), ::testing::MatchesRegex("2:nacha_return_codes@2026-11.2:[0-9a-f]+"));
  VerifierSpec spec;
  spec.name = "codes";
  spec.kind = VerifierSpec::Kind::kTable;
  spec.table = "tables/none.json";
  const auto made = MakeVerifier(spec, kTableFolder, Clock::Real());
  ASSERT_FALSE(made.has_value());
  EXPECT_EQ(made.error().code(), StatusCode::kNotFound);
  EXPECT_THAT(made.error().message(), HasSubstr("verifier 'codes'"));
}

}  // namespace
}  // namespace surety::gateway
