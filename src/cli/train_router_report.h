// What surety train-router says at its end: figures for a terminal, and the same with all details as JSON.
//
// Threads: values. Errors: none.
#pragma once

#include <string>
#include <vector>

#include <boost/json/object.hpp>

#include "gateway/intent_training.h"

namespace surety::cli {

struct RouterFigures {
  std::vector<std::string> labels;
  std::vector<gateway::Prediction> predictions;   // each of a classifier that did not see its row
  std::vector<double> c_by_fold;
  double c = 0, temperature = 1;                  // of the classifier that is written
  bool converged = true;
  double target_accuracy = 0.95;
  int rows = 0, duplicate_texts = 0, conflicting_texts = 0, folds = 0;
  uint64_t seed = 0;
  double embed_seconds = 0, train_seconds = 0;
  std::vector<double> classify_ms;                // of single questions: embedding and classifying
};

// Accuracy, F1, calibration, abstention, confusion; the names are docs/train_router.md's.
boost::json::object RouterEvaluationJson(const RouterFigures& figures);
std::string RouterReportText(const RouterFigures& figures);
// Of sorted or unsorted values; 0 of none.
double QuantileOf(std::vector<double> values, double q);

}  // namespace surety::cli
