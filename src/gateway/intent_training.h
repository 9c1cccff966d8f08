// Learning an intent classifier from labelled vectors, and finding out how good it is on rows that it has not seen.
//
// One fit: over an inner stratified cross-validation of its own rows the penalty with the lowest log loss (each at its
// best temperature) is chosen, the temperature is that of the same held-out logits, and the layer is fitted on all of
// its rows. The outer cross-validation repeats the whole fit without each fold, so nothing that is reported has seen
// the rows that it is reported on. Rows of one group (equal texts) stay in one fold.
// Vectors are fitted less their mean, which changes the way to the minimum but not the minimum, as biases are free.
// Threads: one caller; work is shared out over the executor. Deterministic: the same rows, options and seed give the
// same bits, whatever the number of workers.
// Errors: kInvalidArgument for too few rows of a label, naming it; kCancelled when `go_on` says no.
// Source: temperature scaling, Guo et al., "On calibration of modern neural networks", 2017.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "base/executor.h"
#include "base/function_ref.h"
#include "base/status.h"
#include "gateway/classifier_evaluation.h"
#include "gateway/intent_classifier.h"
#include "gateway/logistic_regression.h"

namespace surety::gateway {

struct LabelledVectors {
  int dimension = 0;
  std::vector<float> vectors;        // rows x dimension, unit
  std::vector<int> labels;           // of `names`
  std::vector<int> groups;           // equal texts have equal numbers
  std::vector<std::string> names;    // sorted

  int n_classes() const { return static_cast<int>(names.size()); }
  LogisticData Data() const { return {dimension, n_classes(), vectors, labels}; }
};

struct TrainingOptions {
  int folds = 5, inner_folds = 3;
  uint64_t seed = 1;
  // Penalties to choose from, strongest first, as scikit-learn's C = 1 / (l2 rows).
  std::vector<double> c_grid = {0.3, 1, 3, 10, 30, 100, 300};
  double choice_tolerance = 1e-4;   // of the fits that only choose a penalty
  MinimiseOptions minimise;         // of all others
};

// Fold of each of `rows`, 0 to folds - 1: each label's groups are dealt out in turn, in an order drawn from the seed.
std::vector<int> StratifiedFolds(const LabelledVectors& data, std::span<const int> rows, int folds, uint64_t seed);

// The t > 0 for which softmax(logits / t) has the lowest log loss. `logits`: labels.size() x n_classes.
double BestTemperature(std::span<const double> logits, std::span<const int> labels, int n_classes);

struct FittedLayer {
  std::vector<double> parameters;    // as logistic_regression.h lays them out
  int64_t stride = 0;
  double c = 0, l2 = 0, temperature = 1, inner_log_loss = 0;
  Minimum minimum;
};

// What a fit is doing; false ends it.
struct TrainingProgress {
  int fits_done = 0, fits = 0;       // at most; a choice may end early
};
using TrainingProgressFn = FunctionRef<bool(const TrainingProgress&)>;

struct CrossValidation {
  std::vector<int> folds;            // by row
  std::vector<Prediction> predictions;
  std::vector<double> c;             // that each fold chose
};

struct TrainingResult {
  FittedLayer layer;                 // from all rows
  CrossValidation outer;
};

// kInvalidArgument, naming the label, unless each has `folds` groups or more.
Status CheckLabelCounts(const LabelledVectors& data, int folds);
Result<FittedLayer> FitLayer(const LabelledVectors& data, std::span<const int> rows, const TrainingOptions& options,
                             Executor& executor, TrainingProgressFn progress);
Result<TrainingResult> TrainIntents(const LabelledVectors& data, const TrainingOptions& options, Executor& executor,
                                    TrainingProgressFn progress);
// Labels, layer and temperature of a classifier; the rest is the caller's.
IntentClassifier ClassifierOf(const LabelledVectors& data, const FittedLayer& layer);

}  // namespace surety::gateway
