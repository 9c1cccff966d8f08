#include "train/transcript.h"

#include <algorithm>
#include <string>

#include <gtest/gtest.h>

#include "model/tokenizer/testing/small_tokenizers.h"

namespace surety::train {
namespace {

using model::TextSegment;

// The bytes of an answer's tokens that are there, without control tokens.
std::string BytesOfAnswer(const model::Tokenizer& tokenizer, const Sample& sample, size_t answer) {
  std::string out;
  const auto [begin, end] = sample.answers[answer];
  for (int32_t i = begin; i < end && i < static_cast<int32_t>(sample.tokens.size()); ++i) {
    out += tokenizer.TokenBytes(sample.tokens[static_cast<size_t>(i)]);
  }
  return out;
}

const std::vector<TextSegment> kTranscriptSegments = {
    {"<|im_start|>", true}, {"ab ba", false}, {"</s><|im_start|>", true}, {"ab b", false},  {"</s>", true},
    {"<|im_start|>", true}, {"a", false},     {"</s>", true},             {"<|im_start|>", true},
    {"ba ab", false},       {"</s>", true}};
const std::vector<TranscriptTurn> kTranscriptTurns = {
    {"ab ba", false}, {"ab b", true}, {"a", false}, {"\nba ab ", true}};

TEST(TranscriptTest, TurnsAreFoundWithAndWithoutASpaceBefore) {
  for (const auto& tokenizer : model::SmallTokenizers()) {
    if (tokenizer->spec().kind == model::TokenizerKind::kWordPiece) continue;  // gives no text back
    int64_t n_lost = 0;
    const auto sample =
        TranscriptSample(*tokenizer, kTranscriptSegments, kTranscriptTurns, [] { return false; }, n_lost);
    ASSERT_TRUE(sample);
    EXPECT_EQ(n_lost, 0);
    ASSERT_EQ(sample->answers.size(), 2u);
    const std::string contents[] = {"ab b", "ba ab"};
    for (size_t answer = 0; answer < 2; ++answer) {
      std::string bytes = BytesOfAnswer(*tokenizer, *sample, answer);
      if (bytes.starts_with(' ')) bytes.erase(0, 1);
      EXPECT_EQ(bytes, contents[answer]);
    }
    // Its end is learned, and nothing is behind it.
    EXPECT_EQ(sample->answers[1].second, static_cast<int32_t>(sample->tokens.size()) + 1);
    const auto whole = tokenizer->Encode(kTranscriptSegments, {});
    ASSERT_EQ(whole.size(), sample->tokens.size() + 1);
    EXPECT_TRUE(std::equal(sample->tokens.begin(), sample->tokens.end(), whole.begin()));
  }
}

TEST(TranscriptTest, TurnsThatTheTemplateDropsAreCounted) {
  const auto tokenizers = model::SmallTokenizers();
  const std::vector<TranscriptTurn> turns = {{"ab ba", false}, {"bbbb", true}, {"a", false}, {"ba ab", true}};
  int64_t n_lost = 0;
  const auto sample = TranscriptSample(*tokenizers[0], kTranscriptSegments, turns, [] { return false; }, n_lost);
  ASSERT_TRUE(sample);
  EXPECT_EQ(n_lost, 1);
  ASSERT_EQ(sample->answers.size(), 1u);
  EXPECT_EQ(BytesOfAnswer(*tokenizers[0], *sample, 0), "ba ab");
  const auto stopped = TranscriptSample(*tokenizers[0], kTranscriptSegments, turns, [] { return true; }, n_lost);
  ASSERT_FALSE(stopped);
  EXPECT_EQ(stopped.error().code(), StatusCode::kCancelled);
}

}  // namespace
}  // namespace surety::train
