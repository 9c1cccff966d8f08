#include "train/trainer.h"

#include <algorithm>
#include <cmath>

#include <gtest/gtest.h>

#include "base/random.h"
#include "base/thread_pool.h"
#include "train/checkpoint.h"
#include "train/testing/plain_head.h"
#include "train/testing/temporary_folder.h"

namespace surety::train {
namespace {

constexpr int kVocab = 20, kPeriod = 7, kWidth = 16;
const HeadShape kTinyHead = {.d_model = kWidth, .n_heads = 2, .n_kv_heads = 1, .head_dim = 8, .d_ff = 24,
                             .draft_vocab = 12};

float TinyNumber(uint64_t a, uint64_t b) {
  const RandomKey key = {.seed = a, .position = b, .purpose = RandomPurpose::kTest};
  return static_cast<float>(2 * RandomUniform(key) - 1);
}

// A target whose texts repeat seven tokens, each text from another one on; it is sure of what comes next, and its
// hidden states say which token it has just read.
class TinyTarget {
 public:
  explicit TinyTarget(int n_texts) {
    for (int s = 0; s < n_texts; ++s) {
      Sample sample;
      const int length = 12 + s % 5;
      for (int i = 0; i < length; ++i) sample.tokens.push_back(TokenAt(s + i));
      sample.answers = {{3, length}};
      samples.push_back(std::move(sample));
    }
    for (int32_t i = 0; i < kTinyHead.draft_vocab; ++i) draft_ids.push_back(i + 3);
    shape = {.tap_width = 3 * kWidth, .n_top = 4, .digest = "tiny"};
  }

  static int32_t TokenAt(int i) { return 3 + i % kPeriod; }

  void WriteFeatures(const std::string& path) const {
    auto writer = FeatureWriter::Open(FileSystem::Real(), path, shape, samples);
    ASSERT_TRUE(writer) << writer.error().message();
    for (size_t s = writer->n_samples(); s < samples.size(); ++s) {
      for (const int32_t token : samples[s].tokens) {
        std::vector<float> taps;
        for (int c = 0; c < 3 * kWidth; ++c) taps.push_back(TinyNumber(100 + static_cast<uint64_t>(token), c));
        const int32_t next = TokenAt(token - 3 + 1);
        writer->AddRow(taps, next, {{next - 3, 8, 9, 10}, {0.97f, 0.01f, 0.01f, 0.01f}});
      }
      ASSERT_TRUE(writer->EndSample().ok());
    }
    ASSERT_TRUE(writer->Finish().ok());
  }

  Trainer::Data Data(const FeatureFile& features) const {
    Trainer::Data data;
    data.samples = &samples;
    data.features = &features;
    data.draft_ids = draft_ids;
    data.vocab_size = kVocab;
    data.embedding = [](int32_t token, float* out) {
      for (int c = 0; c < kWidth; ++c) out[c] = TinyNumber(static_cast<uint64_t>(token), static_cast<uint64_t>(c));
    };
    data.digest = "run";
    return data;
  }

  std::vector<Sample> samples;
  std::vector<int32_t> draft_ids;
  FeatureShape shape;
};

std::vector<float> TinyWeights() {
  const auto exact = RandomWeights(kTinyHead, 3);
  return {exact.begin(), exact.end()};
}

TrainOptions TinyOptions() {
  TrainOptions options;
  options.max_steps = 60;
  options.batch_tokens = 64;
  options.unroll = 4;
  options.learning_rate = 1e-2;
  options.holdout_share = 0.2;
  options.seed = 5;
  return options;
}

class TrainerTest : public testing::Test {
 protected:
  void SetUp() override {
    target_.WriteFeatures(folder_.Path("features.bin"));
    auto features = FeatureFile::Open(FileSystem::Real(), folder_.Path("features.bin"), target_.shape,
                                      target_.samples);
    ASSERT_TRUE(features) << features.error().message();
    features_ = std::make_unique<FeatureFile>(*std::move(features));
  }

  std::unique_ptr<Trainer> Make(Executor& executor, TrainOptions options = TinyOptions(),
                                const std::string& digest = "run") {
    auto data = target_.Data(*features_);
    data.digest = digest;
    auto trainer = Trainer::Make(kTinyHead, options, std::move(data), TinyWeights(), executor);
    EXPECT_TRUE(trainer) << trainer.error().message();
    return *std::move(trainer);
  }

  static std::vector<float> WeightsOf(const Trainer& trainer) {
    return {trainer.weights().begin(), trainer.weights().end()};
  }

  TemporaryFolder folder_;
  TinyTarget target_{40};
  std::unique_ptr<FeatureFile> features_;
  SerialExecutor serial_;
};

TEST_F(TrainerTest, APeriodicTextBecomesPredictableAtEveryDepth) {
  TrainOptions options = TinyOptions();
  options.max_steps = 250;
  const auto trainer = Make(serial_, options);
  const Measurement before = trainer->Measure(0);
  while (trainer->step() < trainer->n_steps()) ASSERT_TRUE(trainer->Step().ok());
  const Measurement after = trainer->Measure(0);
  ASSERT_EQ(after.acceptance.size(), 4u);
  EXPECT_LT(before.acceptance[0], 0.5);
  EXPECT_GT(before.n_tried[0], 50);
  for (int k = 0; k < 4; ++k) {
    EXPECT_GT(after.acceptance[static_cast<size_t>(k)], 0.98) << k;
    // What is left of the loss is the target's own entropy: 0.97 and three times 0.01.
    EXPECT_NEAR(after.loss[static_cast<size_t>(k)], -0.97 * std::log(0.97) - 0.03 * std::log(0.01), 0.02) << k;
  }
  EXPECT_GT(after.TokensPerStep(), 4.8);
  EXPECT_LT(trainer->records().back().loss, 0.2 * trainer->records().front().loss);
}

TEST_F(TrainerTest, ATrainingThatWasInterruptedEndsInTheSameBits) {
  const auto whole = Make(serial_);
  while (whole->step() < whole->n_steps()) {
    if (whole->step() % 20 == 0) whole->Measure(100);
    ASSERT_TRUE(whole->Step().ok());
  }
  const std::string path = folder_.Path("checkpoint.bin");
  std::vector<std::unique_ptr<Executor>> pools;
  auto part = Make(serial_);
  for (const int stop : {1, 17, 40, 60}) {
    while (part->step() < stop) {
      if (part->step() % 20 == 0) part->Measure(100);
      ASSERT_TRUE(part->Step().ok());
    }
    ASSERT_TRUE(part->Save(path).ok());
    pools.push_back(MakeThreadPool({.n_workers = 1 + stop % 3, .pin = false}));
    part = Make(*pools.back());
    ASSERT_TRUE(part->Restore(FileSystem::Real(), path).ok());
    ASSERT_EQ(part->step(), stop);
  }
  EXPECT_EQ(WeightsOf(*part), WeightsOf(*whole));
  ASSERT_EQ(part->records().size(), whole->records().size());
  for (size_t i = 0; i < whole->records().size(); ++i) {
    ASSERT_EQ(part->records()[i].loss, whole->records()[i].loss);
    ASSERT_EQ(part->records()[i].gradient_norm, whole->records()[i].gradient_norm);
  }
  ASSERT_EQ(part->measurements().size(), whole->measurements().size());
  for (size_t i = 0; i < whole->measurements().size(); ++i) {
    EXPECT_EQ(part->measurements()[i].step, whole->measurements()[i].step);
    EXPECT_EQ(part->measurements()[i].loss, whole->measurements()[i].loss);
    EXPECT_EQ(part->measurements()[i].n_tried, whole->measurements()[i].n_tried);
  }
}

TEST_F(TrainerTest, WeightsDoNotDependOnTheNumberOfWorkers) {
  TrainOptions options = TinyOptions();
  options.max_steps = 12;
  std::vector<float> first;
  for (const int workers : {1, 2, 3}) {
    const auto pool = MakeThreadPool({.n_workers = workers, .pin = false});
    const auto trainer = Make(*pool, options);
    while (trainer->step() < trainer->n_steps()) ASSERT_TRUE(trainer->Step().ok());
    if (first.empty()) first = WeightsOf(*trainer);
    ASSERT_EQ(WeightsOf(*trainer), first);
  }
}

TEST_F(TrainerTest, CheckpointsOfAnotherRunAndDamagedOnesAreRefused) {
  const std::string path = folder_.Path("checkpoint.bin");
  const auto trainer = Make(serial_);
  ASSERT_TRUE(trainer->Step().ok());
  ASSERT_TRUE(trainer->Save(path).ok());
  EXPECT_EQ(Make(serial_, TinyOptions(), "other")->Restore(FileSystem::Real(), path).code(),
            StatusCode::kFailedPrecondition);
  std::string bytes = *FileSystem::Real().ReadAll(path, 1 << 26);
  for (const size_t at : {size_t{0}, size_t{40}, bytes.size() / 2, bytes.size() - 1}) {
    std::string bad = bytes;
    bad[at] = static_cast<char>(bad[at] ^ 1);
    folder_.Write("bad.bin", bad);
    EXPECT_EQ(Make(serial_)->Restore(FileSystem::Real(), folder_.Path("bad.bin")).code(), StatusCode::kDataLoss) << at;
  }
  for (const size_t n : {size_t{0}, size_t{10}, bytes.size() - 5}) {
    folder_.Write("bad.bin", bytes.substr(0, n));
    EXPECT_FALSE(Make(serial_)->Restore(FileSystem::Real(), folder_.Path("bad.bin")).ok()) << n;
  }
}

TEST_F(TrainerTest, HeldOutTextsAreNotLearned) {
  const Split split = SplitSamples(40, 0.2, 5);
  EXPECT_EQ(split.held_out.size(), 8u);
  std::vector<int32_t> all = split.held_out;
  all.insert(all.end(), split.learned.begin(), split.learned.end());
  std::sort(all.begin(), all.end());
  for (int32_t i = 0; i < 40; ++i) EXPECT_EQ(all[static_cast<size_t>(i)], i);
  EXPECT_NE(SplitSamples(40, 0.2, 6).held_out, split.held_out);
  EXPECT_EQ(SplitSamples(2, 0.001, 0).held_out.size(), 1u);
  EXPECT_EQ(SplitSamples(2, 0.999, 0).learned.size(), 1u);
}

TEST_F(TrainerTest, FeaturesOfAnInterruptedCollectionAreGoneOnWith) {
  const std::string path = folder_.Path("features.bin");
  const std::string whole = *FileSystem::Real().ReadAll(path, 1 << 26);
  for (const size_t n : {size_t{0}, size_t{50}, size_t{128}, whole.size() / 3, whole.size() - 1}) {
    folder_.Write("part.bin", whole.substr(0, n));
    target_.WriteFeatures(folder_.Path("part.bin"));
    EXPECT_EQ(*FileSystem::Real().ReadAll(folder_.Path("part.bin"), 1 << 26), whole) << n;
  }
  FeatureShape other = target_.shape;
  other.digest = "other";
  EXPECT_FALSE(FeatureFile::Open(FileSystem::Real(), path, other, target_.samples));
}

TEST(TopOfTest, TheLikeliestOfTheDraftVocabularyRenormalised) {
  const std::vector<float> logits = {9, 1, 3, 2, 3, 0};
  TopTokens top;
  TopOf(logits, std::vector<int32_t>{1, 2, 4, 5}, 3, top);
  EXPECT_EQ(top.ids, (std::vector<int32_t>{1, 2, 0}));
  const double sum = 2 * std::exp(3.0) + std::exp(1.0);
  EXPECT_NEAR(top.probabilities[0], std::exp(3.0) / sum, 1e-6);
  EXPECT_NEAR(top.probabilities[2], std::exp(1.0) / sum, 1e-6);
  TopOf(logits, std::vector<int32_t>{3}, 2, top);  // fewer than asked for
  EXPECT_EQ(top.probabilities, (std::vector<float>{1, 0}));
}

}  // namespace
}  // namespace surety::train
