#include "gateway/classifier_evaluation.h"

#include <cmath>

#include <gtest/gtest.h>

#include "base/random.h"

namespace surety::gateway {
namespace {

TEST(ClassifierEvaluationTest, WilsonIntervalsAreThosePublished) {
  // Brown, Cai, DasGupta (2001) and any table: 0 of 10, 8 of 10, 50 of 100.
  EXPECT_NEAR(ProportionOf(0, 10).low, 0, 1e-12);
  EXPECT_NEAR(ProportionOf(0, 10).high, 0.2775, 5e-5);
  EXPECT_NEAR(ProportionOf(8, 10).low, 0.4902, 5e-5);
  EXPECT_NEAR(ProportionOf(8, 10).high, 0.9433, 5e-5);
  EXPECT_NEAR(ProportionOf(50, 100).low, 0.4038, 5e-5);
  EXPECT_NEAR(ProportionOf(50, 100).high, 0.5962, 5e-5);
  EXPECT_EQ(ProportionOf(0, 0).high, 1);
}

TEST(ClassifierEvaluationTest, SixPredictionsByHand) {
  // Truth 0 0 0 1 1 2, predicted 0 0 1 1 1 0.
  const std::vector<Prediction> predictions = {{0, 0, 0.9, 0.9}, {0, 0, 0.5, 0.5}, {0, 1, 0.6, 0.3},
                                               {1, 1, 0.8, 0.8}, {1, 1, 1.0, 1.0}, {2, 0, 0.4, 0.1}};
  const Evaluation e = Evaluate(predictions, 4);
  EXPECT_EQ(e.accuracy.count, 4);
  EXPECT_EQ(e.accuracy.of, 6);
  EXPECT_EQ(e.confusion[0], (std::vector<int64_t>{2, 1, 0, 0}));
  EXPECT_EQ(e.confusion[2], (std::vector<int64_t>{1, 0, 0, 0}));
  // F1: 2*2/(3+3), 2*2/(2+3), 0; the fourth label never occurs.
  EXPECT_NEAR(e.macro_f1, (4.0 / 6 + 4.0 / 5 + 0) / 3, 1e-12);
  EXPECT_NEAR(e.log_loss, -(std::log(0.9) + std::log(0.5) + std::log(0.3) + std::log(0.8) + std::log(0.1)) / 6, 1e-12);
  // Each in a range of its own: 0.4 (6), 0.5 (7), 0.6 (9), 0.8 (12), 0.9 (13), 1.0 (14, the last).
  EXPECT_NEAR(e.calibration_error, (0.4 + 0.5 + 0.6 + 0.2 + 0.1 + 0.0) / 6, 1e-12);
  const AbstentionPoint at = AtThreshold(predictions, 0.6);
  EXPECT_EQ(at.coverage.count, 4);
  EXPECT_EQ(at.accuracy.count, 3);
}

TEST(ClassifierEvaluationTest, CalibratedConfidencesHaveASmallErrorAndOverconfidentOnesTheirExcess) {
  std::vector<Prediction> calibrated, overconfident;
  const int n = 20000;
  for (uint64_t i = 0; i < n; ++i) {
    const double confidence = 0.5 + 0.5 * RandomUniform({.seed = 1, .position = i});
    const bool right = RandomUniform({.seed = 2, .position = i}) < confidence;
    calibrated.push_back({0, right ? 0 : 1, confidence, 0.5});
    overconfident.push_back({0, right ? 0 : 1, 1.0, 0.5});
  }
  // A range of m rows is off by 0.4/sqrt(m) on average; 8 ranges.
  EXPECT_LT(Evaluate(calibrated, 2).calibration_error, 3 * 0.4 * std::sqrt(8.0 / n));
  EXPECT_NEAR(Evaluate(overconfident, 2).calibration_error, 0.25, 0.02);
}

TEST(ClassifierEvaluationTest, TheThresholdForATargetIsTheOneOfMostCoverage) {
  for (uint64_t seed = 1; seed <= 30; ++seed) {
    std::vector<Prediction> predictions;
    for (uint64_t i = 0; i < 60; ++i) {
      const double confidence = std::round(20 * RandomUniform({.seed = seed, .position = i})) / 20;   // with ties
      const bool right = RandomUniform({.seed = seed, .position = 1000 + i}) < 0.4 + 0.6 * confidence;
      predictions.push_back({0, right ? 0 : 1, confidence, 0.5});
    }
    for (const bool surely : {false, true}) {
      for (const double target : {0.5, 0.75, 0.9, 1.0}) {
        std::optional<AbstentionPoint> best;   // over every threshold that there is
        for (const Prediction& p : predictions) {
          const AbstentionPoint point = AtThreshold(predictions, p.confidence);
          if ((surely ? point.accuracy.low : point.accuracy.value) < target) continue;
          if (!best || point.coverage.count > best->coverage.count) best = point;
        }
        const auto found = ForTarget(predictions, target, surely);
        ASSERT_EQ(found.has_value(), best.has_value());
        if (!best) continue;
        EXPECT_EQ(found->threshold, best->threshold);
        EXPECT_EQ(found->coverage.count, best->coverage.count);
        EXPECT_EQ(found->accuracy.count, best->accuracy.count);
      }
    }
  }
}

}  // namespace
}  // namespace surety::gateway
