// Bytes as a classifier's file: an error that names the file, or a classifier that is written and read back the same
// and gives probabilities for every vector.
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <string_view>

#include <boost/json/serialize.hpp>

#include "base/check.h"
#include "gateway/intent_classifier.h"

namespace surety::gateway {
namespace {

void OneClassifier(std::string_view text) {
  const auto read = ParseIntentClassifier(text, "fuzz");
  if (!read) {
    SURETY_CHECK(read.error().message().starts_with("fuzz: "));
    return;
  }
  const auto again = ParseIntentClassifier(boost::json::serialize(ToJson(*read)), "again");
  SURETY_CHECK(again && again->labels == read->labels && again->weights == read->weights);
  const std::vector<float> vector(static_cast<size_t>(read->dimension), 0.05F);
  const auto intent = read->Classify(vector);
  SURETY_CHECK(intent.has_value());
  double sum = 0;
  for (const double p : intent->probabilities) sum += p;
  SURETY_CHECK(std::abs(sum - 1) < 1e-9);
}

}  // namespace
}  // namespace surety::gateway

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  surety::gateway::OneClassifier(std::string_view(reinterpret_cast<const char*>(data), size));
  return 0;
}
