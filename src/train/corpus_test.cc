#include "train/corpus.h"

#include <filesystem>
#include <limits>

#include <gtest/gtest.h>

#include "train/features.h"
#include "train/head_shape.h"
#include "train/samples.h"
#include "train/testing/temporary_folder.h"

namespace surety::train {
namespace {

TEST(CorpusTest, AServedTextWithoutConsentIsRefused) {
  const std::string user = R"({"role": "user", "content": "q"})", answer = R"({"role": "assistant", "content": "a"})";
  const struct {
    std::string line;
    bool refused, answered;
  } cases[] = {
      {R"({"prompt": "x"})", false, false},
      {R"({"prompt": "x", "consent": false})", true, false},
      {R"({"messages": [)" + user + "]}", false, false},
      {R"({"messages": [)" + user + "," + answer + "]}", true, true},
      {R"({"messages": [)" + user + "," + answer + R"(], "consent": false})", true, true},
      {R"({"messages": [)" + user + "," + answer + R"(], "consent": true})", false, true},
      {R"({"messages": [)" + user + "," + answer + "," + user + "]}", true, false},
      {R"({"messages": [)" + user + "," + answer + "," + user + R"(], "consent": true})", false, false},
  };
  for (const auto& [line, refused, answered] : cases) {
    bool was_refused = false;
    const auto text = ParseCorpusLine(line, was_refused);
    ASSERT_TRUE(text) << line;
    EXPECT_EQ(was_refused, refused) << line;
    EXPECT_EQ(text->answered, answered) << line;
  }
}

TEST(CorpusTest, FaultsAreNamed) {
  const std::pair<const char*, const char*> cases[] = {
      {"{", "no JSON"},
      {"[]", "one JSON object"},
      {"{}", "either \"prompt\" or \"messages\""},
      {R"({"prompt": "x", "messages": []})", "either"},
      {R"({"prompt": 7})", "must be text"},
      {R"({"prompt": ""})", "not empty"},
      {R"({"messages": {}})", "must be a list"},
      {R"({"messages": []})", "not empty"},
      {R"({"messages": [3]})", "messages[0] must be an object"},
      {R"({"messages": [{"role": "user", "content": "a"}, {"role": "robot", "content": "b"}]})", "messages[1] needs a"},
      {R"({"messages": [{"role": "user", "content": null}]})", "\"content\" that is text"},
      {R"({"prompt": "x", "consent": false, "consent": true})", "\"consent\" stands twice"},
      {R"({"prompt": "x", "consent": false, "c\u006fnsent": true})", "\"consent\" stands twice"},
      {R"({"messages": [{"role": "assistant", "role": "user", "content": "a"}]})", "\"role\" stands twice"},
      {R"({"prompt": "x", "consent": "yes"})", "\"consent\" must be true or false"},
  };
  for (const auto& [line, words] : cases) {
    bool refused = false;
    const auto text = ParseCorpusLine(line, refused);
    ASSERT_FALSE(text) << line;
    EXPECT_NE(text.error().message().find(words), std::string::npos) << text.error().message();
  }
}

TEST(CorpusTest, LinesAreCountedAndErrorsSayWhere) {
  const TemporaryFolder folder;
  const std::string path = folder.Write("a.jsonl", "{\"prompt\": \"one\"}\n\n{\"messages\": [{\"role\": \"assistant\", "
                                                   "\"content\": \"x\"}]}\r\n{\"prompt\": \"two\"}");
  const auto corpus = ReadCorpus(FileSystem::Real(), {path}, /*strict=*/false);
  ASSERT_TRUE(corpus) << corpus.error().message();
  ASSERT_EQ(corpus->texts.size(), 2u);
  EXPECT_EQ(corpus->n_refused, 1);
  EXPECT_EQ(corpus->texts[1].where, path + ":4");
  const auto strict = ReadCorpus(FileSystem::Real(), {path}, /*strict=*/true);
  ASSERT_FALSE(strict);
  EXPECT_NE(strict.error().message().find(path + ":3: a served text without"), std::string::npos);
  const std::string bad = folder.Write("b.jsonl", "{\"prompt\": \"one\"}\n{\"prompt\": 1}\n");
  const auto wrong = ReadCorpus(FileSystem::Real(), {path, bad}, false);
  ASSERT_FALSE(wrong);
  EXPECT_EQ(wrong.error().message().find(bad + ":2: "), 0u) << wrong.error().message();
  EXPECT_FALSE(ReadCorpus(FileSystem::Real(), {folder.Write("c.jsonl", "\n")}, false));
  EXPECT_FALSE(ReadCorpus(FileSystem::Real(), {folder.Path("none.jsonl")}, false));
}

TEST(SampleFileTest, WhatComesAfterTheLastWholeLineIsDropped) {
  const TemporaryFolder folder;
  const std::string path = folder.Path("samples.jsonl");
  {
    auto file = SampleFile::Open(FileSystem::Real(), path, "run 1");
    ASSERT_TRUE(file);
    ASSERT_TRUE(file->Append({{1, 2, 3}, {{1, 4}}}).ok());
    ASSERT_TRUE(file->Append({{}, {}}).ok());
  }
  const std::string whole = *FileSystem::Real().ReadAll(path, 1 << 20);
  folder.Write("samples.jsonl", whole + "{\"tokens\": [1");
  auto file = SampleFile::Open(FileSystem::Real(), path, "run 1");
  ASSERT_TRUE(file) << file.error().message();
  ASSERT_EQ(file->samples().size(), 2u);
  EXPECT_EQ(file->samples()[0].answers[0], std::make_pair(1, 4));
  ASSERT_TRUE(file->Append({{7}, {}}).ok());
  EXPECT_EQ(*FileSystem::Real().ReadAll(path, 1 << 20), whole + "{\"tokens\":[7],\"answers\":[]}\n");
  folder.Write("samples.jsonl", whole + "{\"tokens\": [-1], \"answers\": []}\n");
  EXPECT_FALSE(SampleFile::Open(FileSystem::Real(), path, "run 1"));
}

TEST(SampleFileTest, TextsOfAnotherRunAreNotTakenOver) {
  const TemporaryFolder folder;
  const std::string path = folder.Path("samples.jsonl");
  {
    auto file = SampleFile::Open(FileSystem::Real(), path, "run 1");
    ASSERT_TRUE(file);
    ASSERT_TRUE(file->Append({{1, 2, 3}, {{1, 4}}}).ok());
  }
  const std::string before = *FileSystem::Real().ReadAll(path, 1 << 20);
  const auto other = SampleFile::Open(FileSystem::Real(), path, "run 2");
  ASSERT_FALSE(other);
  EXPECT_NE(other.error().message().find("of another run"), std::string::npos);
  EXPECT_EQ(*FileSystem::Real().ReadAll(path, 1 << 20), before);
  folder.Write("samples.jsonl", "{\"tokens\":[7],\"answers\":[]}\n");  // without a first line that says whose
  EXPECT_FALSE(SampleFile::Open(FileSystem::Real(), path, "run 1"));
  folder.Write("samples.jsonl", "{\"dig");
  const auto cut = SampleFile::Open(FileSystem::Real(), path, "run 1");
  ASSERT_TRUE(cut);
  EXPECT_TRUE(cut->samples().empty());
}

TEST(SampleFileTest, ASymbolicLinkIsNotFollowed) {
  const TemporaryFolder folder;
  const std::string kept = folder.Write("kept", "mine");
  std::filesystem::create_symlink(kept, folder.Path("samples.jsonl"));
  EXPECT_FALSE(SampleFile::Open(FileSystem::Real(), folder.Path("samples.jsonl"), "run 1"));
  EXPECT_EQ(*FileSystem::Real().ReadAll(kept, 100), "mine");
}

TEST(HeadShapeTest, TapLayersOfItsOwnChoiceRise) {
  EXPECT_FALSE(DefaultTapLayers(2));
  for (int n_layers = 3; n_layers < 100; ++n_layers) {
    const auto layers = DefaultTapLayers(n_layers);
    ASSERT_TRUE(layers);
    ASSERT_EQ(layers->size(), 3u);
    EXPECT_TRUE(0 <= (*layers)[0] && (*layers)[0] < (*layers)[1] && (*layers)[1] < (*layers)[2]);
    EXPECT_LT((*layers)[2], n_layers);
  }
  EXPECT_EQ(*DefaultTapLayers(30), (std::vector<int>{2, 15, 27}));
}

TEST(FeaturesTest, WhatIsNoNumberIsSeen) {
  const float infinity = std::numeric_limits<float>::infinity(), nan = std::numeric_limits<float>::quiet_NaN();
  EXPECT_TRUE(AreNumbers(std::vector<float>{1, -2, 0}));
  EXPECT_TRUE(AreNumbers(std::vector<float>{1, -infinity}));  // a token that the model rules out
  EXPECT_FALSE(AreNumbers(std::vector<float>{1, nan}));
  EXPECT_FALSE(AreNumbers(std::vector<float>{infinity, 1}));
  EXPECT_FALSE(AreNumbers(std::vector<float>{-infinity, -infinity}));
}

TEST(SampleTest, LearnsAfterAndTruncate) {
  Sample sample = {{1, 2, 3, 4, 5}, {{1, 2}, {3, 6}}};
  std::vector<bool> learns;
  for (int i = -1; i < 5; ++i) learns.push_back(sample.LearnsAfter(i));
  EXPECT_EQ(learns, (std::vector<bool>{false, true, false, true, true, true}));
  sample.Truncate(4);
  EXPECT_EQ(sample.answers[1], std::make_pair(3, 4));
  EXPECT_FALSE(sample.LearnsAfter(3));  // what came next is not known any more
  sample.Truncate(2);
  EXPECT_EQ(sample.answers.size(), 1u);
}

TEST(SampleTest, DraftVocabularyIsTheMostFrequentOfAnswers) {
  const std::vector<Sample> samples = {{{9, 9, 9, 4, 4, 6}, {{3, 6}}}, {{7, 7, 7, 7}, {{0, 4}}}};
  EXPECT_EQ(ChooseDraftVocabulary(samples, {0}, 12, 2, {}), (std::vector<int32_t>{4, 6}));
  EXPECT_EQ(ChooseDraftVocabulary(samples, {0}, 12, 3, {}), (std::vector<int32_t>{4, 6, 9}));
  EXPECT_EQ(ChooseDraftVocabulary(samples, {0}, 12, 5, {}), (std::vector<int32_t>{0, 1, 4, 6, 9}));
  EXPECT_EQ(ChooseDraftVocabulary(samples, {0, 1}, 12, 2, {11}), (std::vector<int32_t>{7, 11}));
  EXPECT_EQ(ChooseDraftVocabulary(samples, {0}, 12, 50, {}).size(), 12u);
}

}  // namespace
}  // namespace surety::train
