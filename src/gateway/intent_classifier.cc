#include "gateway/intent_classifier.h"

#include <algorithm>
#include <bit>
#include <cmath>
#include <cstring>
#include <optional>
#include <utility>

#include <boost/json.hpp>
#include <fmt/format.h>

#include "base/hash.h"
#include "base/nearest_name.h"

namespace surety::gateway {
namespace {

namespace json = boost::json;

constexpr double kProbeCosine = 0.999;   // instruction sets and number formats differ less than this

std::string HexOfFloats(std::span<const float> values) {
  std::vector<uint8_t> bytes;
  for (const float value : values) {
    const auto bits = std::bit_cast<uint32_t>(value);
    for (int shift = 0; shift < 32; shift += 8) bytes.push_back(static_cast<uint8_t>(bits >> shift));
  }
  return HexOf(bytes);
}

std::optional<std::vector<float>> FloatsOfHex(std::string_view text) {
  if (text.size() % 8 != 0) return std::nullopt;
  std::vector<float> values;
  for (size_t at = 0; at < text.size(); at += 8) {
    uint32_t bits = 0;
    for (size_t byte = 0; byte < 4; ++byte) {
      const int high = HexDigitValue(text[at + 2 * byte]), low = HexDigitValue(text[at + 2 * byte + 1]);
      if (high < 0 || low < 0) return std::nullopt;
      bits |= static_cast<uint32_t>(high * 16 + low) << (8 * byte);
    }
    values.push_back(std::bit_cast<float>(bits));
  }
  return values;
}

std::string DigestOfFloats(std::span<const float> values) {
  const std::string text = HexOfFloats(values);
  return HexOf(Sha256Of(std::as_bytes(std::span(text))));
}

bool IsHexDigest(std::string_view text) {
  return text.size() == 64 && std::ranges::all_of(text, [](char c) { return HexDigitValue(c) >= 0; });
}

bool HasClassifierFormat(const json::object& object) {
  const json::value* format = object.if_contains("format");
  return format != nullptr && format->is_string() && std::string_view(format->as_string()) == kClassifierFormat;
}

// Fields of one object: each is taken once, and what is left over is an error.
class ClassifierFields {
 public:
  ClassifierFields(const json::object& object, std::string where, Status& status)
      : object_(object), where_(std::move(where)), status_(status) {}

  std::string Text(const char* key) {
    const json::value* value = Take(key);
    if (value == nullptr) return {};
    if (value->is_string()) return std::string(value->as_string());
    Fail(fmt::format("\"{}\" must be a text", key));
    return {};
  }
  double Number(const char* key) {
    const json::value* value = Take(key);
    if (value == nullptr) return 0;
    if (value->is_number()) return value->to_number<double>();
    Fail(fmt::format("\"{}\" must be a number", key));
    return 0;
  }
  uint64_t Whole(const char* key) {
    const json::value* value = Take(key);
    if (value == nullptr) return 0;
    if (value->is_uint64()) return value->as_uint64();
    if (value->is_int64() && value->as_int64() >= 0) return static_cast<uint64_t>(value->as_int64());
    Fail(fmt::format("\"{}\" must be a whole number, 0 or more", key));
    return 0;
  }
  std::vector<float> Floats(const char* key) {
    auto values = FloatsOfHex(Text(key));
    if (!values) Fail(fmt::format("\"{}\" must be float32 numbers of 8 hexadecimal digits each", key));
    return values.value_or(std::vector<float>());
  }
  const json::object& Object(const char* key) {
    static const json::object kNothing;
    const json::value* value = Take(key);
    if (value == nullptr) return kNothing;
    if (value->is_object()) return value->as_object();
    Fail(fmt::format("\"{}\" must be an object", key));
    return kNothing;
  }
  const json::array& Array(const char* key) {
    static const json::array kNothing;
    const json::value* value = Take(key);
    if (value == nullptr) return kNothing;
    if (value->is_array()) return value->as_array();
    Fail(fmt::format("\"{}\" must be a list", key));
    return kNothing;
  }
  void End() {
    for (const auto& [key, value] : object_) {
      const std::string name(key);
      if (std::ranges::find(known_, name) != known_.end()) continue;
      const std::string nearest = NearestName(name, known_);
      Fail(fmt::format("unknown key \"{}\"{}", name, nearest.empty() ? "" : "; did you mean \"" + nearest + "\"?"));
    }
  }
  void Fail(const std::string& what) {
    if (status_.ok()) status_ = DataLossError(fmt::format("{}: {}", where_, what));
  }

 private:
  const json::value* Take(const char* key) {
    known_.emplace_back(key);
    const json::value* value = object_.if_contains(key);
    if (value == nullptr) Fail(fmt::format("\"{}\" is missing", key));
    return value;
  }

  const json::object& object_;
  std::string where_;
  Status& status_;
  std::vector<std::string> known_;
};

void ReadClassifierLabels(const json::array& array, const std::string& path, Status& status, IntentClassifier& out) {
  for (size_t i = 0; i < array.size() && status.ok(); ++i) {
    const std::string where = fmt::format("{}: label {}", path, i + 1);
    if (!array[i].is_object()) {
      status = DataLossError(where + " is no object");
      return;
    }
    ClassifierFields fields(array[i].as_object(), where, status);
    out.labels.push_back(fields.Text("label"));
    out.label_rows.push_back(static_cast<int64_t>(std::min<uint64_t>(fields.Whole("rows"), INT64_MAX)));
    const std::vector<float> row = fields.Floats("weights");
    if (row.size() != static_cast<size_t>(out.dimension) + 1) {
      fields.Fail(fmt::format("\"weights\" holds {} numbers, not {}", row.size(), out.dimension + 1));
    }
    fields.End();
    out.weights.insert(out.weights.end(), row.begin(), row.end());
  }
}

double CosineOf(std::span<const float> a, std::span<const float> b) {
  double ab = 0, aa = 0, bb = 0;
  for (size_t i = 0; i < a.size(); ++i) {
    ab += static_cast<double>(a[i]) * b[i];
    aa += static_cast<double>(a[i]) * a[i];
    bb += static_cast<double>(b[i]) * b[i];
  }
  return aa > 0 && bb > 0 ? ab / std::sqrt(aa * bb) : 0.0;
}

bool AllFinite(std::span<const float> values) {
  return std::ranges::all_of(values, [](float x) { return std::isfinite(x); });
}

}  // namespace

Result<Intent> IntentClassifier::Classify(std::span<const float> vector) const {
  if (vector.size() != static_cast<size_t>(dimension)) {
    return Error(InvalidArgumentError(fmt::format("a vector of {} numbers for a classifier of {}; it belongs to the "
                                                  "embedding model {}", vector.size(), dimension, embedding_model)));
  }
  if (!AllFinite(vector)) return Error(InvalidArgumentError("the vector has a number that is not finite"));
  Intent out;
  for (size_t c = 0; c < labels.size(); ++c) {
    const float* row = weights.data() + c * (vector.size() + 1);
    double logit = row[vector.size()];
    for (size_t j = 0; j < vector.size(); ++j) logit += static_cast<double>(row[j]) * vector[j];
    out.probabilities.push_back(logit / temperature);
  }
  const auto top = std::ranges::max_element(out.probabilities);
  out.label = static_cast<int>(top - out.probabilities.begin());
  const double highest = *top;
  double sum = 0;
  for (double& p : out.probabilities) sum += p = std::exp(p - highest);
  for (double& p : out.probabilities) p /= sum;
  out.confidence = out.probabilities[static_cast<size_t>(out.label)];
  return out;
}

Status IntentClassifier::CheckProbe(std::span<const float> vector) const {
  if (vector.size() != probe_vector.size()) {
    return InvalidArgumentError(fmt::format("it was trained on vectors of {} ({} numbers); the embedding model here "
                                            "makes {}", embedding_model, dimension, vector.size()));
  }
  const double cosine = CosineOf(vector, probe_vector);
  if (cosine >= kProbeCosine) return OkStatus();
  return InvalidArgumentError(fmt::format("it was trained on vectors of {}; the embedding model here makes other ones "
                                          "(cosine {:.4f} for the same text)", embedding_model, cosine));
}

Status IntentClassifier::Validate() const {
  if (labels.size() < 2 || labels.size() > kMaxClassifierLabels) {
    return InvalidArgumentError(fmt::format("{} labels; 2 to {} are possible", labels.size(), kMaxClassifierLabels));
  }
  for (size_t i = 0; i < labels.size(); ++i) {
    if (labels[i].empty() || labels[i] == "none" || labels[i] == "abstained") {
      return InvalidArgumentError(fmt::format("\"{}\" can not be a label: it has a meaning of its own", labels[i]));
    }
    if (i > 0 && labels[i] <= labels[i - 1]) {
      return InvalidArgumentError(fmt::format("label \"{}\" stands twice or is not in order", labels[i]));
    }
  }
  if (dimension < 1 || dimension > kMaxClassifierDimension) {
    return InvalidArgumentError(fmt::format("a dimension of {}; 1 to {} are possible", dimension,
                                            kMaxClassifierDimension));
  }
  if (weights.size() != labels.size() * (static_cast<size_t>(dimension) + 1) || label_rows.size() != labels.size()) {
    return InvalidArgumentError("the weights do not fit labels and dimension");
  }
  if (!AllFinite(weights)) return InvalidArgumentError("a weight is not finite");
  if (!(temperature >= 1e-3 && temperature <= 1e3)) {
    return InvalidArgumentError(fmt::format("a temperature of {}; 0.001 to 1000 are possible", temperature));
  }
  if (probe_vector.size() != static_cast<size_t>(dimension) || !AllFinite(probe_vector)) {
    return InvalidArgumentError("the vector of the probe text does not fit the dimension");
  }
  if (!embedding_digest.empty() && !IsHexDigest(embedding_digest)) {
    return InvalidArgumentError("the embedding model's digest is no SHA-256");
  }
  if (!IsHexDigest(training_digest)) return InvalidArgumentError("the training texts' digest is no SHA-256");
  return OkStatus();
}

json::object ToJson(const IntentClassifier& classifier) {
  json::array labels;
  const size_t width = static_cast<size_t>(classifier.dimension) + 1;
  for (size_t c = 0; c < classifier.labels.size(); ++c) {
    labels.push_back(json::object{{"label", classifier.labels[c]},
                                  {"rows", classifier.label_rows[c]},
                                  {"weights", HexOfFloats(std::span(classifier.weights).subspan(c * width, width))}});
  }
  return {{"format", kClassifierFormat},
          {"version", kClassifierVersion},
          {"embedding", json::object{{"model", classifier.embedding_model},
                                     {"sha256", classifier.embedding_digest},
                                     {"dimension", classifier.dimension},
                                     {"probe_text", classifier.probe_text},
                                     {"probe_vector", HexOfFloats(classifier.probe_vector)}}},
          {"training", json::object{{"rows", classifier.training_rows},
                                    {"sha256", classifier.training_digest},
                                    {"seed", classifier.seed},
                                    {"l2", classifier.l2}}},
          {"evaluation", classifier.evaluation},
          {"temperature", classifier.temperature},
          {"weights_sha256", DigestOfFloats(classifier.weights)},
          {"labels", std::move(labels)}};
}

Result<IntentClassifier> ParseIntentClassifier(std::string_view text, const std::string& path) {
  boost::system::error_code error;
  const json::value value = json::parse(text, error, {}, {.max_depth = 16});
  if (error) return Error(DataLossError(fmt::format("{}: no JSON: {}", path, error.message())));
  if (!value.is_object() || !HasClassifierFormat(value.as_object())) {
    return Error(DataLossError(fmt::format("{}: no classifier of surety train-router: \"format\" must be \"{}\"", path,
                                           kClassifierFormat)));
  }
  Status status;
  IntentClassifier out;
  ClassifierFields fields(value.as_object(), path, status);
  fields.Text("format");
  if (const uint64_t version = fields.Whole("version"); status.ok() && version != kClassifierVersion) {
    return Error(UnimplementedError(fmt::format("{}: version {}; this program reads {}", path, version,
                                                kClassifierVersion)));
  }
  ClassifierFields embedding(fields.Object("embedding"), path + ": embedding", status);
  out.embedding_model = embedding.Text("model");
  out.embedding_digest = embedding.Text("sha256");
  out.dimension = static_cast<int>(std::min<uint64_t>(embedding.Whole("dimension"), kMaxClassifierDimension + 1));
  out.probe_text = embedding.Text("probe_text");
  out.probe_vector = embedding.Floats("probe_vector");
  embedding.End();
  ClassifierFields training(fields.Object("training"), path + ": training", status);
  out.training_rows = static_cast<int64_t>(std::min<uint64_t>(training.Whole("rows"), INT64_MAX));
  out.training_digest = training.Text("sha256");
  out.seed = training.Whole("seed");
  out.l2 = training.Number("l2");
  training.End();
  out.evaluation = fields.Object("evaluation");
  out.temperature = fields.Number("temperature");
  const std::string digest = fields.Text("weights_sha256");
  ReadClassifierLabels(fields.Array("labels"), path, status, out);
  fields.End();
  if (!status.ok()) return Error(std::move(status));
  if (const Status valid = out.Validate(); !valid.ok()) {
    return Error(DataLossError(fmt::format("{}: {}", path, valid.message())));
  }
  if (digest != DigestOfFloats(out.weights)) {
    return Error(DataLossError(path + ": the weights are not those that were written (weights_sha256)"));
  }
  return out;
}

Result<IntentClassifier> ReadIntentClassifier(FileSystem& files, const std::string& path) {
  SURETY_ASSIGN_OR_RETURN(const std::string text, files.ReadAll(path, kMaxClassifierBytes));
  return ParseIntentClassifier(text, path);
}

}  // namespace surety::gateway
