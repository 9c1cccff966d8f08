#include "gateway/intent_training.h"

#include <algorithm>
#include <cmath>
#include <map>
#include <numeric>
#include <set>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "base/random.h"
#include "base/thread_pool.h"

namespace surety::gateway {
namespace {

double TrainingDraw(uint64_t seed, uint64_t at) { return RandomUniform({.seed = seed, .position = at}); }

double TrainingNormal(uint64_t seed, uint64_t at) {
  const double angle = 6.283185307179586 * TrainingDraw(seed, 2 * at + 1);
  return std::sqrt(-2 * std::log(TrainingDraw(seed, 2 * at))) * std::cos(angle);
}

// `per_class` unit vectors around each of `k` axes; `noise` 0: on them. Every row is a group of its own.
LabelledVectors Clusters(int k, int per_class, int d, double noise, uint64_t seed) {
  LabelledVectors data;
  data.dimension = d;
  uint64_t at = 0;
  for (int i = 0; i < k * per_class; ++i) {
    const int label = i % k;
    std::vector<double> x(static_cast<size_t>(d));
    double squares = 0;
    for (int j = 0; j < d; ++j) x[j] = (j == label ? 1.0 : 0.0) + noise * TrainingNormal(seed, at++);
    for (const double value : x) squares += value * value;
    for (const double value : x) data.vectors.push_back(static_cast<float>(value / std::sqrt(squares)));
    data.labels.push_back(label);
    data.groups.push_back(i);
  }
  for (int c = 0; c < k; ++c) data.names.push_back(std::string("label ") + static_cast<char>('a' + c));
  return data;
}

std::vector<int> AllRows(const LabelledVectors& data) {
  std::vector<int> rows(data.labels.size());
  std::iota(rows.begin(), rows.end(), 0);
  return rows;
}

const auto TrainingGoOn = [](const TrainingProgress&) { return true; };

TEST(IntentTrainingTest, FoldsHoldEachLabelInEqualPartsAndNeverSplitAGroup) {
  for (uint64_t seed = 1; seed <= 20; ++seed) {
    LabelledVectors data = Clusters(5, 23, 6, 0.1, seed);
    for (size_t i = 0; i + 5 < data.groups.size(); i += 35) data.groups[i + 5] = data.groups[i];   // of one label
    const std::vector<int> folds = StratifiedFolds(data, AllRows(data), 4, seed);
    std::map<int, std::set<int>> folds_of_group;
    std::map<std::pair<int, int>, std::set<int>> groups_in;
    for (size_t i = 0; i < folds.size(); ++i) {
      ASSERT_TRUE(0 <= folds[i] && folds[i] < 4);
      folds_of_group[data.groups[i]].insert(folds[i]);
      groups_in[{data.labels[i], folds[i]}].insert(data.groups[i]);
    }
    for (const auto& [group, in] : folds_of_group) EXPECT_EQ(in.size(), 1U);
    for (int label = 0; label < 5; ++label) {
      size_t least = 1000, most = 0;
      for (int fold = 0; fold < 4; ++fold) {
        least = std::min(least, groups_in[{label, fold}].size());
        most = std::max(most, groups_in[{label, fold}].size());
      }
      EXPECT_LE(most - least, 1U);
    }
    EXPECT_EQ(folds, StratifiedFolds(data, AllRows(data), 4, seed));
    EXPECT_NE(folds, StratifiedFolds(data, AllRows(data), 4, seed + 100));
  }
}

TEST(IntentTrainingTest, TheBestTemperatureUndoesAScale) {
  // Labels drawn from softmax(z): for logits s z the best temperature is about s, and beats all others of a grid.
  const int n = 4000, k = 3;
  std::vector<double> z(n * k);
  std::vector<int> labels(n);
  for (int i = 0; i < n; ++i) {
    double sum = 0, part = 0;
    for (int c = 0; c < k; ++c) sum += std::exp(z[i * k + c] = 2 * TrainingNormal(5, static_cast<uint64_t>(i * k + c)));
    const double u = TrainingDraw(6, static_cast<uint64_t>(i)) * sum;
    for (int c = 0; c < k; ++c) {
      part += std::exp(z[i * k + c]);
      if (u >= part) labels[i] = std::min(c + 1, k - 1);
    }
  }
  const auto loss = [&](const std::vector<double>& logits, double t) {
    double total = 0;
    for (int i = 0; i < n; ++i) {
      double sum = 0;
      for (int c = 0; c < k; ++c) sum += std::exp(logits[i * k + c] / t);
      total += std::log(sum) - logits[i * k + labels[i]] / t;
    }
    return total;
  };
  for (const double s : {0.25, 1.0, 7.0}) {
    std::vector<double> scaled = z;
    for (double& value : scaled) value *= s;
    const double t = BestTemperature(scaled, labels, k);
    EXPECT_NEAR(t / s, 1, 0.08);
    for (double other = 0.1; other < 20; other *= 1.05) EXPECT_LE(loss(scaled, t), loss(scaled, other) + 1e-9);
  }
}

TEST(IntentTrainingTest, LearnsWhatIsThereAndFindsNothingWhereNothingIs) {
  SerialExecutor serial;
  TrainingOptions options;
  options.c_grid = {1, 10, 100};
  const LabelledVectors clear = Clusters(4, 30, 8, 0.15, 3);
  const auto learned = TrainIntents(clear, options, serial, TrainingGoOn);
  ASSERT_TRUE(learned.has_value());
  EXPECT_GT(Evaluate(learned->outer.predictions, 4).accuracy.value, 0.95);

  // Labels without any relation to the vectors: what is reported must be chance, 1/4, although a weak penalty knows
  // most of its own rows by heart.
  LabelledVectors random;
  double mean = 0;
  for (uint64_t seed = 1; seed <= 4; ++seed) {
    random = Clusters(4, 60, 200, 10, seed);
    for (size_t i = 0; i < 240; ++i) random.labels[i] = static_cast<int>(4 * TrainingDraw(90 + seed, i));
    const auto guessed = TrainIntents(random, options, serial, TrainingGoOn);
    ASSERT_TRUE(guessed.has_value());
    mean += Evaluate(guessed->outer.predictions, 4).accuracy.value / 4;
  }
  EXPECT_NEAR(mean, 0.25, 3 * std::sqrt(0.25 * 0.75 / 960));
  options.c_grid = {1000};
  const auto by_heart = FitLayer(random, AllRows(random), options, serial, TrainingGoOn);
  ASSERT_TRUE(by_heart.has_value());
  const IntentClassifier classifier = ClassifierOf(random, *by_heart);
  int right = 0;
  for (size_t i = 0; i < random.labels.size(); ++i) {
    right += classifier.Classify(std::span(random.vectors).subspan(i * 200, 200))->label == random.labels[i];
  }
  EXPECT_GT(right, 200) << "the control: of 240 rows that it has seen";
}

TEST(IntentTrainingTest, EqualTextsDoNotLeakIntoTheMeasurement) {
  // Each row twice, labels random. Split between folds the copy would be known: accuracy far above chance.
  LabelledVectors data = Clusters(4, 40, 300, 10, 8);
  for (size_t i = 0; i < data.labels.size(); ++i) data.labels[i] = static_cast<int>(TrainingDraw(9, i) * 4);
  const size_t n = data.labels.size();
  const std::vector<float> vectors = data.vectors;
  data.vectors.insert(data.vectors.end(), vectors.begin(), vectors.end());
  for (size_t i = 0; i < n; ++i) {
    data.labels.push_back(data.labels[i]);
    data.groups.push_back(data.groups[i]);
  }
  SerialExecutor serial;
  TrainingOptions options;
  options.c_grid = {1000};
  const auto grouped = TrainIntents(data, options, serial, TrainingGoOn);
  ASSERT_TRUE(grouped.has_value());
  EXPECT_LT(Evaluate(grouped->outer.predictions, 4).accuracy.value, 0.4);
  std::iota(data.groups.begin(), data.groups.end(), 0);   // the control: not known to be the same
  const auto leaked = TrainIntents(data, options, serial, TrainingGoOn);
  ASSERT_TRUE(leaked.has_value());
  EXPECT_GT(Evaluate(leaked->outer.predictions, 4).accuracy.value, 0.6);
}

TEST(IntentTrainingTest, SameBitsWithAnyNumberOfWorkersAndOtherFoldsWithAnotherSeed) {
  const LabelledVectors data = Clusters(3, 25, 5, 0.6, 12);
  TrainingOptions options;
  options.c_grid = {1, 10};
  const auto two = MakeThreadPool({.n_workers = 2, .pin = false, .spin_nanos = 0});
  SerialExecutor serial;
  const auto a = TrainIntents(data, options, serial, TrainingGoOn), b = TrainIntents(data, options, *two, TrainingGoOn);
  ASSERT_TRUE(a && b);
  EXPECT_EQ(a->layer.parameters, b->layer.parameters);
  EXPECT_EQ(a->layer.temperature, b->layer.temperature);
  for (size_t i = 0; i < data.labels.size(); ++i) {
    EXPECT_EQ(a->outer.predictions[i].confidence, b->outer.predictions[i].confidence);
  }
  options.seed = 2;
  const auto c = TrainIntents(data, options, serial, TrainingGoOn);
  ASSERT_TRUE(c.has_value());
  EXPECT_NE(a->outer.folds, c->outer.folds);
}

TEST(IntentTrainingTest, FewTextsOfALabelAreNamedAndCancelEnds) {
  LabelledVectors data = Clusters(3, 4, 4, 0.1, 1);
  SerialExecutor serial;
  const auto few = TrainIntents(data, {}, serial, TrainingGoOn);
  ASSERT_FALSE(few);
  EXPECT_THAT(few.error().message(), testing::HasSubstr("\"label a\" has 4 different texts; 5 folds need 5"));
  TrainingOptions options;
  options.folds = 2;
  options.c_grid = {1};
  EXPECT_TRUE(TrainIntents(data, options, serial, TrainingGoOn));
  int calls = 0;
  const auto stopped = TrainIntents(data, options, serial, [&](const TrainingProgress& p) {
    EXPECT_LE(p.fits_done, p.fits);
    return ++calls < 9;
  });
  ASSERT_FALSE(stopped);
  EXPECT_EQ(stopped.error().code(), StatusCode::kCancelled);
  EXPECT_EQ(calls, 9);
}

}  // namespace
}  // namespace surety::gateway
