// A trained classifier of texts by what they are about, as `surety train-router` writes it: a linear layer over unit
// vectors of one embedding model, and a temperature that makes its probabilities mean what they say.
//
// The file is one JSON object, strict: unknown and missing keys are errors. Numbers of the layer are little-endian
// float32 in hexadecimal digits, bound by their SHA-256. It also holds a text and its vector, so that a classifier is
// never used with another embedding model than its own. The form is docs/train_router.md.
// Threads: immutable once read. Errors: kNotFound; kDataLoss, with path and place, for a file that is none or that was
// changed; Classify: kInvalidArgument for a vector of another size or with numbers that are not finite.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include <boost/json/object.hpp>

#include "base/file.h"
#include "base/status.h"

namespace surety::gateway {

inline constexpr std::string_view kClassifierFormat = "surety-intent-classifier";
inline constexpr int kClassifierVersion = 1;
inline constexpr size_t kMaxClassifierLabels = 4096;
inline constexpr int kMaxClassifierDimension = 16384;
inline constexpr int64_t kMaxClassifierBytes = 64 << 20;

struct Intent {
  int label = 0;                    // of `labels`
  double confidence = 0;            // its probability
  std::vector<double> probabilities;
};

struct IntentClassifier {
  std::vector<std::string> labels;  // sorted, each once; none is empty, "none" or "abstained"
  std::vector<int64_t> label_rows;  // that each was learned from
  int dimension = 0;
  std::vector<float> weights;       // labels x (dimension + 1), the last of each row the bias
  double temperature = 1;           // logits are divided by it
  double l2 = 0;
  std::string embedding_model, embedding_digest;   // SHA-256, hex; empty: not known
  std::string probe_text;
  std::vector<float> probe_vector;  // of probe_text, by that model
  int64_t training_rows = 0;
  std::string training_digest;      // SHA-256 of texts and labels, hex
  uint64_t seed = 0;
  boost::json::object evaluation;   // for people; not read by the program

  Result<Intent> Classify(std::span<const float> vector) const;
  // OK where `vector`, made of probe_text, is what this classifier was trained on.
  Status CheckProbe(std::span<const float> vector) const;
  // What every classifier must hold, whether read or made; kInvalidArgument.
  Status Validate() const;
};

boost::json::object ToJson(const IntentClassifier& classifier);
Result<IntentClassifier> ParseIntentClassifier(std::string_view text, const std::string& path);
Result<IntentClassifier> ReadIntentClassifier(FileSystem& files, const std::string& path);

}  // namespace surety::gateway
