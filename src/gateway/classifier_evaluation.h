// How good a classifier with a confidence is, from predictions on rows that it did not learn from.
//
// Accuracy has a Wilson 95 % interval. An abstention threshold t keeps the predictions whose confidence is t or more.
// The calibration error is the mean over 15 equal ranges of confidence, by rows, of |accuracy - mean confidence|.
// Threads: any; values. Errors: none. Precondition: labels are in range.
// Source: Wilson, JASA 22 (1927); Guo et al., "On calibration of modern neural networks", 2017, for the ranges.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <vector>

namespace surety::gateway {

struct Prediction {
  int truth = 0, predicted = 0;
  double confidence = 0;          // of `predicted`
  double truth_probability = 0;
};

struct Proportion {
  int64_t count = 0, of = 0;
  double value = 0, low = 0, high = 0;   // 0 of 0: 0, 0, 1
};
Proportion ProportionOf(int64_t count, int64_t of);

// What is kept at a threshold, and how much of it is right.
struct AbstentionPoint {
  double threshold = 0;
  Proportion coverage, accuracy;
};

struct Evaluation {
  Proportion accuracy;
  double macro_f1 = 0;                         // over labels that occur as truth or prediction
  double log_loss = 0;
  double calibration_error = 0;
  std::vector<std::vector<int64_t>> confusion; // [truth][predicted]
};

Evaluation Evaluate(std::span<const Prediction> predictions, int n_classes);
AbstentionPoint AtThreshold(std::span<const Prediction> predictions, double threshold);
// The lowest threshold whose accuracy (or, with `surely`, the low end of its interval) is the target or more; nullopt:
// none is.
std::optional<AbstentionPoint> ForTarget(std::span<const Prediction> predictions, double target, bool surely);

}  // namespace surety::gateway
