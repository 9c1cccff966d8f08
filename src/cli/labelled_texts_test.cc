#include "cli/labelled_texts.h"

#include <cmath>
#include <filesystem>
#include <functional>
#include <set>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "base/thread_pool.h"
#include "cli/csv_table.h"
#include "gateway/intent_training.h"
#include "gateway/text_folding.h"

namespace surety::cli {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;

std::vector<std::vector<std::string>> CsvFields(std::string_view text) {
  const auto rows = ParseCsv(text, "t.csv");
  EXPECT_TRUE(rows.has_value()) << rows.error().message();
  std::vector<std::vector<std::string>> out;
  for (const CsvRow& row : *rows) out.push_back(row.fields);
  return out;
}

std::string CsvFault(std::string_view text) {
  const auto rows = ParseCsv(text, "t.csv");
  return rows ? "" : rows.error().message();
}

TEST(CsvTableTest, QuotedFieldsHoldCommasLineBreaksAndQuotes) {
  EXPECT_THAT(CsvFields("a,b\n1,2\n"), ElementsAre(ElementsAre("a", "b"), ElementsAre("1", "2")));
  EXPECT_THAT(CsvFields("\xEF\xBB\xBF" "a,b\r\n1,2"), ElementsAre(ElementsAre("a", "b"), ElementsAre("1", "2")));
  EXPECT_THAT(CsvFields("\"x, \"\"y\"\"\nz\",b\n\n,\n"),
              ElementsAre(ElementsAre("x, \"y\"\nz", "b"), ElementsAre("", "")));
  EXPECT_THAT(CsvFields("\"\"\n\"a\r\nb\"\n"), ElementsAre(ElementsAre(""), ElementsAre("a\r\nb")));
  EXPECT_THAT(CsvFields("a\rb,c\r\n"), ElementsAre(ElementsAre("a\rb", "c")));
  EXPECT_THAT(CsvFields(""), ElementsAre());
  const auto rows = ParseCsv("h\n\"a\nb\n\"\n\nlast\n", "t.csv");
  EXPECT_EQ((*rows)[1].line, 2);
  EXPECT_EQ((*rows)[2].line, 6);
}

TEST(CsvTableTest, MistakesNameTheLine) {
  EXPECT_THAT(CsvFault("a\nb\n\"c\nd\n"), HasSubstr("t.csv:3: the quote that opens here is never closed"));
  EXPECT_THAT(CsvFault("a\n\"b\"c\n"), HasSubstr("t.csv:2: text behind a closing quote"));
  EXPECT_THAT(CsvFault("a\nb\"c\n"), HasSubstr("t.csv:2: a quote inside a field without quotes"));
  EXPECT_THAT(CsvFault("a,b\n1\n"), HasSubstr("t.csv:2: 1 fields; the first row has 2"));
}

TEST(LabelledTextsTest, ColumnsAreFoundByNameInCsvAndJsonl) {
  const auto csv = ParseLabelledTexts("id,category,text\n7,cards,\"Where is\nit?\"\n", "t.csv", {});
  ASSERT_TRUE(csv.has_value());
  EXPECT_EQ((*csv)[0].text, "Where is\nit?");
  EXPECT_EQ((*csv)[0].label, "cards");
  const auto jsonl = ParseLabelledTexts("{\"q\": \"Where?\", \"intent\": \"cards\"}\n\n", "t.jsonl", {"q", "intent"});
  ASSERT_TRUE(jsonl.has_value());
  EXPECT_EQ((*jsonl)[0].text, "Where?");
  const auto fault = [](const char* text, const char* path) {
    return ParseLabelledTexts(text, path, {}).error().message();
  };
  EXPECT_EQ(fault("text,label\n", "t.csv"),
            "t.csv:1: no column \"category\" (--label-column); the header has text, label");
  EXPECT_EQ(fault("text,category\n \t,x\n", "t.csv"), "t.csv:2: no text");
  EXPECT_EQ(fault("text,category\nx,\n", "t.csv"), "t.csv:2: no label");
  EXPECT_EQ(fault("text,category\n", "t.csv"), "t.csv: no row in it");
  EXPECT_EQ(fault("", "t.csv"), "t.csv: no header");
  EXPECT_EQ(fault("{\"text\": \"a\", \"category\": \"b\"}\n{\"text\": 1}\n", "t.jsonl"),
            "t.jsonl:2: no text under \"text\"");
  EXPECT_EQ(fault("[]", "t.jsonl"), "t.jsonl:1: the line is no JSON object");
}

TEST(LabelledTextsTest, TheDigestSeesWhereTextsAndLabelsEnd) {
  const std::set<std::string> digests = {DigestOfTexts({{"ab", "c", 1}}), DigestOfTexts({{"a", "bc", 1}}),
                                         DigestOfTexts({{"ab", "c", 1}, {"", "", 2}}), DigestOfTexts({})};
  EXPECT_EQ(digests.size(), 4U);
  EXPECT_EQ(DigestOfTexts({{"ab", "c", 1}}), DigestOfTexts({{"ab", "c", 9}}));
}

// Not an embedding model: words and pairs of words, hashed to places of a vector.
std::vector<float> HashedWords(const std::string& text, size_t dimension) {
  std::vector<float> x(dimension);
  std::string before, word;
  for (const char c : gateway::FoldText(text + " ", gateway::Folding::kPhrase).text) {
    if (c != ' ') {
      word += c;
      continue;
    }
    for (const std::string& feature : {word, before + " " + word}) {
      uint64_t hash = 14695981039346656037ULL;   // FNV-1a
      for (const char f : feature) hash = (hash ^ static_cast<uint8_t>(f)) * 1099511628211ULL;
      x[hash % dimension] += 1;
    }
    before = std::exchange(word, "");
  }
  double squares = 0;
  for (const float value : x) squares += static_cast<double>(value) * value;
  for (float& value : x) value = static_cast<float>(value / std::sqrt(std::max(squares, 1e-12)));
  return x;
}

TEST(LabelledTextsTest, Banking77IsReadWholeAndAPartOfItLearned) {
  const std::string path = SURETY_SHARED_DATA "/intents/banking77_train.csv";
  if (!std::filesystem::exists(path)) GTEST_SKIP() << path << " is not there";
  const auto rows = ReadLabelledTexts(FileSystem::Real(), path, {});
  ASSERT_TRUE(rows.has_value()) << rows.error().message();
  EXPECT_EQ(rows->size(), 10003U);
  std::set<std::string> labels;
  for (const LabelledText& row : *rows) labels.insert(row.label);
  EXPECT_EQ(labels.size(), 77U);

  gateway::LabelledVectors data;
  data.dimension = 256;
  data.names.assign(labels.begin(), std::next(labels.begin(), 6));
  std::map<int, int> count;
  for (const LabelledText& row : *rows) {
    const auto label = static_cast<int>(std::ranges::find(data.names, row.label) - data.names.begin());
    if (label == data.n_classes() || count[label]++ == 40) {
      count[label] -= label == data.n_classes() ? 0 : 1;
      continue;
    }
    const std::vector<float> x = HashedWords(row.text, 256);
    data.vectors.insert(data.vectors.end(), x.begin(), x.end());
    data.groups.push_back(static_cast<int>(data.labels.size()));
    data.labels.push_back(label);
  }
  gateway::TrainingOptions options;
  options.folds = 3;
  options.c_grid = {10};
  SerialExecutor serial;
  const auto go_on = [](const gateway::TrainingProgress&) { return true; };
  const auto result = gateway::TrainIntents(data, options, serial, go_on);
  ASSERT_TRUE(result.has_value()) << result.error().message();
  EXPECT_GT(gateway::Evaluate(result->outer.predictions, 6).accuracy.value, 0.6) << "chance is 0.17";
}

}  // namespace
}  // namespace surety::cli
