// Terms, chunks, instants and front matter.
#include "gateway/document_text.h"

#include <cstdlib>
#include <ctime>
#include <fstream>
#include <limits>
#include <sstream>

#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "base/random.h"
#include "gateway/testing/document_fixture.h"

namespace surety::gateway {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;

TEST(DocumentTermsTest, WordsNumbersAndScripts) {
  EXPECT_THAT(DocumentTerms("The creditor's NOTICES; policies/fees"), ElementsAre("the", "creditor", "notice", "policy",
                                                                                  "fee"));
  EXPECT_THAT(DocumentTerms("See 1002.9(a)(2), 12,500.00."), ElementsAre("see", "1002", "1002.9", "9", "a", "2", "12",
                                                                         "500", "12,500.00", "00"));
  EXPECT_THAT(DocumentTerms("Caf\u00E9 Cafe\u0301 CAFE"), ElementsAre("cafe", "cafe", "cafe"));
  EXPECT_THAT(DocumentTerms("stra\u00DFe STRASSE \uFB01ne"), ElementsAre("strasse", "strasse", "fine"));
  EXPECT_THAT(DocumentTerms("\u624B\u7EED\u8D39"), ElementsAre("\u624B", "\u7EED", "\u8D39"));
  EXPECT_THAT(DocumentTerms("so\u00ADft zero\u200Bwidth"), ElementsAre("soft", "zerowidth"));
  EXPECT_THAT(DocumentTerms("glass bus fees series yes"), ElementsAre("glass", "bus", "fee", "sery", "yes"));
  EXPECT_THAT(DocumentTerms("a\xFF\xC3(b"), ElementsAre("a", "b"));
  EXPECT_THAT(DocumentTerms(" -\"'*():^ \n"), IsEmpty());
  EXPECT_THAT(DocumentTerms(""), IsEmpty());
  for (const std::string& term : DocumentTerms(std::string(100, 'x') + " " + std::string(63, 'y') + "\u00E9\u0436" +
                                               std::string(1000, '7'))) {
    EXPECT_LE(term.size(), 64);
    EXPECT_EQ(FindNoText(term), term.npos);
  }
}

// Each term a copy of all before it would take hours.
TEST(DocumentTermsTest, ANumberWithoutEndTakesNoTime) {
  std::string text;
  for (int i = 0; i < 1'000'000; ++i) text += "12.";
  EXPECT_GE(DocumentTerms(text).size(), 1'000'000);
}

class ChunkDice {
 public:
  explicit ChunkDice(uint64_t seed) : seed_(seed) {}
  size_t Below(size_t n) { return RandomBits({.seed = seed_, .position = n_++, .purpose = RandomPurpose::kTest}) % n; }

 private:
  uint64_t seed_, n_ = 0;
};

std::string JoinedChunks(const std::vector<std::string>& chunks) {
  std::string out;
  for (const std::string& chunk : chunks) out += chunk;
  return out;
}

TEST(DocumentChunksTest, ChunksCoverAnyTextInOrderAndCutNoCharacter) {
  static constexpr std::string_view kPieces[] = {"a", "word ", ". ", ".", "\n", "\n\n", "\r\n\r\n", "\u00E9", "\u20AC",
                                                 "\U0001F4B3", "# Head\n", "- point\n", "? ", "\u3002", "\t", "No. 5 ",
                                                 "(a) ", "e.g. ", "\"", "Z"};
  for (uint64_t seed = 0; seed < 400; ++seed) {
    ChunkDice dice(seed);
    std::string text;
    for (size_t n = dice.Below(120); n > 0; --n) text += kPieces[dice.Below(std::size(kPieces))];
    const size_t most = seed % 5 == 0 ? dice.Below(8) : 4 + dice.Below(90);
    const auto chunks = ChunksOf(text, most);
    EXPECT_EQ(JoinedChunks(chunks), text) << seed;
    for (const std::string& chunk : chunks) {
      EXPECT_FALSE(chunk.empty());
      EXPECT_LE(chunk.size(), std::max<size_t>(most, 4)) << seed;
      EXPECT_EQ(FindNoText(chunk), chunk.npos) << seed;
    }
  }
  // Bytes of any kind are covered too.
  for (uint64_t seed = 0; seed < 200; ++seed) {
    ChunkDice dice(1000 + seed);
    std::string text;
    for (size_t n = dice.Below(300); n > 0; --n) text += static_cast<char>(dice.Below(256));
    EXPECT_EQ(JoinedChunks(ChunksOf(text, 1 + dice.Below(40))), text) << seed;
  }
  EXPECT_TRUE(ChunksOf("", 100).empty());
}

// Texts made of sentences that are known: a chunk ends where one of them does, unless it alone is too long.
TEST(DocumentChunksTest, NoSentenceIsCutThatFits) {
  static constexpr std::string_view kSentences[] = {
      "The fee is 25 dollars.", "Is it due at once?", "See Art. 5 of the rules, e.g. No. 7.",
      "Mr. J. Smith of the U.S. paid 3.50 today!",
      "He said (in part) \"it is not due.\"", "A creditor shall notify an applicant of action taken within 30 days."};
  for (uint64_t seed = 0; seed < 300; ++seed) {
    ChunkDice dice(seed);
    std::string text;
    std::vector<size_t> ends;
    const size_t most = 72 + dice.Below(200);
    for (size_t n = 1 + dice.Below(40); n > 0; --n) {
      text += kSentences[dice.Below(std::size(kSentences))];
      text += dice.Below(4) == 0 ? "\n\n" : dice.Below(3) == 0 ? "\n" : " ";
      ends.push_back(text.size());
    }
    size_t at = 0;
    for (const std::string& chunk : ChunksOf(text, most)) {
      at += chunk.size();
      EXPECT_TRUE(std::ranges::binary_search(ends, at)) << seed << ": ..." << text.substr(0, at);
    }
  }
}

TEST(DocumentChunksTest, ParagraphsStayWholeAndHeadingsStayWithWhatFollows) {
  const std::string first = "First paragraph of it. It has two sentences.\n\n", second = "Second one.\n\n";
  const std::string third = "# Fees\n\nThe fee is 25 dollars, always.";
  EXPECT_THAT(ChunksOf(first + second + third, first.size() + second.size() + 9), ElementsAre(first + second, third));
  EXPECT_THAT(ChunksOf(first + second + third, 1000), ElementsAre(first + second + third));
  const std::string list = "Fees are:\n- ten for a card\n- twenty for a loan\n- thirty for both of them\n";
  EXPECT_THAT(ChunksOf(list, 45), ElementsAre("Fees are:\n- ten for a card\n", "- twenty for a loan\n",
                                              "- thirty for both of them\n"));
}

TEST(DocumentInstantTest, InstantsAgreeWithTheCalendarOfTheSystem) {
  ChunkDice dice(11);
  for (int i = 0; i < 2000; ++i) {
    const auto seconds = static_cast<time_t>(dice.Below(8'000'000'000)) - 2'000'000'000;
    const int64_t ns = seconds * 1'000'000'000LL;
    tm parts{};
    ASSERT_NE(gmtime_r(&seconds, &parts), nullptr);
    const std::string text = fmt::format("{:04}-{:02}-{:02}T{:02}:{:02}:{:02}", parts.tm_year + 1900, parts.tm_mon + 1,
                                         parts.tm_mday, parts.tm_hour, parts.tm_min, parts.tm_sec);
    EXPECT_EQ(ParseDocumentInstant(text + "Z").value(), ns);
    EXPECT_EQ(ParseDocumentInstant(text + ".000000001+01:30").value(), ns + 1 - 5'400'000'000'000);
    EXPECT_EQ(ParseDocumentInstant(text + "-05:00").value(), ns + 18'000'000'000'000);
    EXPECT_EQ(ParseDocumentInstant(DocumentInstantText(ns + i)).value(), ns + i);
  }
  EXPECT_EQ(ParseDocumentInstant("1970-01-02").value(), 86'400'000'000'000);
  EXPECT_EQ(DocumentInstantText(86'400'000'000'000), "1970-01-02");
  for (const char* wrong : {"", "2026", "2026-1-1", "2026-02-29", "2026-13-01", "2026-11-15T00:00:00",
                            "2026-11-15 00:00",
                            "2026-11-15T24:00:00Z", "2026-11-15T00:00:60Z", "2026-11-15T00:00:00.Z", "1677-01-01",
                            "2262-01-01", "2026-11-15T00:00:00.1234567890Z", "2026-11-15T00:00:00+5", "2026-11-15Zx",
                            "+2026-11-15", "2026-11-15T00:00Z "}) {
    EXPECT_FALSE(ParseDocumentInstant(wrong)) << wrong;
  }
}

constexpr std::string_view kFrontMatter =
    "---\n"
    "id: reg-b-1002.9     # a comment\n"
    "version: 2026.10\n"
    "title: \"Notifications: what and when\"\n"
    "permissions: [cases, claims]\n"
    "regions:\n"
    "  - US-NY\n"
    "  - US-CA\n"
    "products: card\n"
    "languages: [en]\n"
    "effective_from: 2026-11-15T00:00:00-05:00\n"
    "effective_to: 2027-01-01\n"
    "tenant: north\n"
    "---\n"
    "\n"
    "# Heading\n"
    "Text --- with marks.\n"
    "---\n";

TEST(DocumentParseTest, AllFields) {
  for (const bool windows : {false, true}) {
    std::string text = windows ? "\xEF\xBB\xBF" : "";
    for (const char c : kFrontMatter) text += windows && c == '\n' ? "\r\n" : std::string(1, c);
    const auto document = ParseDocument(text, "a.md");
    ASSERT_TRUE(document) << document.error().ToString();
    EXPECT_EQ(document->id, "reg-b-1002.9");
    EXPECT_EQ(document->version, "2026.10");
    EXPECT_EQ(document->title, "Notifications: what and when");
    EXPECT_THAT(document->permissions, ElementsAre("cases", "claims"));
    EXPECT_THAT(document->regions, ElementsAre("US-NY", "US-CA"));
    EXPECT_THAT(document->products, ElementsAre("card"));
    EXPECT_THAT(document->languages, ElementsAre("en"));
    EXPECT_EQ(DocumentInstantText(document->validity.from_ns), "2026-11-15T05:00:00Z");
    EXPECT_EQ(DocumentInstantText(document->validity.to_ns), "2027-01-01");
    EXPECT_EQ(document->tenant, "north");
    EXPECT_EQ(document->source, "a.md");
    EXPECT_EQ(document->text, windows ? "# Heading\r\nText --- with marks.\r\n---\r\n"
                                      : "# Heading\nText --- with marks.\n---\n");
  }
  const auto least = ParseDocument("---\nid: a\nversion: 1\npermissions: public\n---\n## The title #\nx", "a.md");
  ASSERT_TRUE(least);
  EXPECT_EQ(least->title, "The title");
  EXPECT_EQ(least->validity, Validity());
}

TEST(DocumentParseTest, MistakesAreNamedWithFileLineAndWhatWouldBeRight) {
  const auto reason = [](const std::string& front) {
    const auto document = ParseDocument(front, "dir/a.md");
    EXPECT_FALSE(document) << front;
    if (!document) {
      EXPECT_EQ(document.error().code(), StatusCode::kInvalidArgument);
    }
    return document ? "" : document.error().message();
  };
  const std::string head = "---\nid: a\nversion: 1\npermissions: [public]\n", tail = "---\ntext\n";
  EXPECT_EQ(reason(head + "permision: [x]\n" + tail),
            "dir/a.md, line 5: unknown key 'permision'; did you mean permissions?");
  EXPECT_THAT(reason(head + "xyzzy: 1\n" + tail), HasSubstr("known are id, version"));
  EXPECT_THAT(reason("---\nid: a\nversion: 1\n" + tail), HasSubstr("no 'permissions'"));
  EXPECT_THAT(reason("---\nid: a\nversion: 1\npermissions: []\n" + tail), HasSubstr("line 4: permissions"));
  EXPECT_THAT(reason("---\nid: a\nversion: 1\npermissions:\n" + tail), HasSubstr("line 4: permissions"));
  EXPECT_THAT(reason("---\nid: a\nversion: 1\npermissions: a, b\n" + tail), HasSubstr("write [a, b]"));
  EXPECT_THAT(reason(head + "regions: []\n" + tail), HasSubstr("leave the line out for all"));
  EXPECT_THAT(reason(head + "tenant:\n" + tail), HasSubstr("line 5: tenant"));
  EXPECT_THAT(reason(head + "id: b\n" + tail), HasSubstr("line 5: id is given twice"));
  EXPECT_THAT(reason("---\nid: a b\nversion: 1\npermissions: [public]\n" + tail), HasSubstr("such as 'a-b'"));
  EXPECT_THAT(reason(head + "effective_from: tomorrow\n" + tail), HasSubstr("line 5: effective_from: 'tomorrow'"));
  EXPECT_THAT(reason(head + "effective_from: 2026-01-02\neffective_to: 2026-01-02\n" + tail), HasSubstr("not after"));
  EXPECT_THAT(reason(head + "regions: [[a]]\n" + tail), HasSubstr("regions"));
  EXPECT_THAT(reason(head + "title: {a: b}\n" + tail), HasSubstr("title"));
  EXPECT_THAT(reason(head + "title: !!binary aGk=\n" + tail), HasSubstr("title"));
  EXPECT_THAT(reason(head + "title: [unclosed\n" + tail), HasSubstr("dir/a.md, line"));
  EXPECT_THAT(reason("no front matter"), HasSubstr("line 1: no front matter"));
  EXPECT_THAT(reason(""), HasSubstr("no front matter"));
  EXPECT_THAT(reason("---\nid: a\n"), HasSubstr("does not end"));
  EXPECT_THAT(reason("---\n---\ntext"), HasSubstr("id, version and permissions"));
  EXPECT_THAT(reason("---\n- a\n---\ntext"), HasSubstr("id, version and permissions"));
  EXPECT_THAT(reason(head + "---\n \n"), HasSubstr("no text"));
  EXPECT_THAT(reason(head + "---\na\nb\xFF"), HasSubstr("line 7: a byte that is no UTF-8"));
  EXPECT_THAT(reason(head + "---\n" + std::string("a\0b", 3)), HasSubstr("NUL"));
}

TEST(DocumentParseTest, NoBytesBringItDown) {
  for (const std::string& front : {std::string(200'000, '['), std::string(200'000, '{'), std::string("a: &x [*x]\n"),
                                   std::string("? "), std::string("%YAML 9.9\n"), std::string("a: !<tag> b\n"),
                                   std::string(3000, '-') + " a"}) {
    EXPECT_FALSE(ParseDocument("---\n" + front + "\n---\ntext", "a.md"));
  }
  for (uint64_t seed = 0; seed < 3000; ++seed) {
    ChunkDice dice(seed);
    std::string text(kFrontMatter);
    for (size_t n = 1 + dice.Below(4); n > 0; --n) {
      const size_t at = dice.Below(text.size());
      switch (dice.Below(3)) {
        case 0: text[at] = static_cast<char>(dice.Below(256)); break;
        case 1: text.erase(at, 1 + dice.Below(8)); break;
        default: text.insert(at, std::string(1 + dice.Below(3), ":-[]{}&*!|>'\"%@`#,? \n"[dice.Below(21)])); break;
      }
    }
    const auto document = ParseDocument(text, "a.md");
    if (!document) continue;
    EXPECT_FALSE(document->permissions.empty()) << text;
    EXPECT_TRUE(CheckCitable("id", document->id).ok()) << text;
  }
}

// One section of a regulation's XML file: its heading and its text, a paragraph a line.
std::string PlainText(std::string xml) {
  std::string out;
  for (size_t at = 0; at < xml.size();) {
    if (xml[at] == '<') {
      const size_t end = std::min(xml.find('>', at), xml.size() - 1);
      if (xml.compare(at, 10, "</content>") == 0 || xml.compare(at, 10, "</subject>") == 0) out += "\n\n";
      at = end + 1;
    } else {
      const bool space = xml[at] == ' ' || xml[at] == '\n';
      if (!space || (!out.empty() && out.back() != ' ' && out.back() != '\n')) out += space ? ' ' : xml[at];
      ++at;
    }
  }
  return out;
}

std::string Between(const std::string& text, const std::string& begin, const std::string& end, size_t& at) {
  const size_t from = text.find(begin, at);
  if (from == text.npos) return "";
  const size_t to = text.find(end, from);
  at = to == text.npos ? text.size() : to;
  return text.substr(from + begin.size(), at - from - begin.size());
}

void AddRegulation(std::vector<Document>& documents, const std::string& path, const std::string& letter,
                   const std::string& next) {
  std::ifstream file(path, std::ios::binary);
  const std::string xml((std::istreambuf_iterator<char>(file)), std::istreambuf_iterator<char>());
  size_t at = 0;
  const std::string effective = Between(xml, "<effectiveDate>", "</effectiveDate>", at);
  for (at = xml.find("<section label="); at < xml.size();) {
    const std::string section = Between(xml, "<section label=\"", "</section>", at);
    if (section.empty()) break;
    std::string label = section.substr(0, section.find('"'));
    std::ranges::replace(label, '-', '.');
    Document document = PublicDocument("reg-" + letter + "-" + label, PlainText("<" + section));
    document.title = document.text.substr(0, document.text.find('\n'));
    document.version = effective;
    document.validity.from_ns = ParseDocumentInstant(effective).value_or(0);
    if (!next.empty()) document.validity.to_ns = *ParseDocumentInstant(next);
    documents.push_back(std::move(document));
  }
}

TEST(DocumentRegulationsTest, AQuestionFindsTheSectionOfItsTime) {
  const std::string folder = SURETY_SHARED_DATA "/regulations/";
  if (!std::filesystem::exists(folder + "reg_b_2017-20417_20220101.xml")) {
    GTEST_SKIP() << "no " << folder << ": the regulations' texts are not on this machine";
  }
  std::vector<Document> documents;
  AddRegulation(documents, folder + "reg_b_2011-31714.xml", "b", "2016-07-11");
  AddRegulation(documents, folder + "reg_b_2016-16301.xml", "b", "2018-01-01");
  AddRegulation(documents, folder + "reg_b_2017-20417_20180101.xml", "b", "2022-01-01");
  AddRegulation(documents, folder + "reg_b_2017-20417_20220101.xml", "b", "");
  AddRegulation(documents, folder + "reg_e_2011-31725.xml", "e", "2013-03-26");
  AddRegulation(documents, folder + "reg_e_2013-06861.xml", "e", "");
  ASSERT_GT(documents.size(), 100);
  DocumentFolder place;
  auto store = place.Index();
  const auto added = store->AddAll(documents, {}, {});
  ASSERT_TRUE(added) << added.error().ToString();
  const std::pair<const char*, const char*> questions[] = {
      {"What must a notice of adverse action say to the applicant, and when must it be given?", "reg-b-1002.9"},
      {"What statement of specific reasons do we owe an applicant after adverse action?", "reg-b-1002.9"},
      {"How many business days do we have to investigate an error on a consumer's account?", "reg-e-1005.11"},
      {"Limits on a consumer's liability for unauthorized transfers", "reg-e-1005.6"}};
  const std::pair<const char*, const char*> times[] = {{"2017-12-31T23:59:59.999999999Z", "2016-07-11"},
                                                       {"2018-01-01", "2018-01-01"}, {"2024-01-01", "2022-01-01"}};
  for (const auto& [question, section] : questions) {
    for (const auto& [instant, version] : times) {
      ReadRights rights;
      rights.as_of_ns = *ParseDocumentInstant(instant);
      const auto passages = Found(*store, rights, question, {}, 5);
      ASSERT_EQ(passages.size(), 5);
      EXPECT_EQ(passages[0].document, section) << question << "\n" << passages[0].text;
      for (const Passage& passage : passages) {
        const bool of_b = passage.document.starts_with("reg-b");
        EXPECT_EQ(passage.version, of_b ? version : "2013-03-26") << instant;
      }
    }
  }
}

}  // namespace
}  // namespace surety::gateway
