// Bytes as the JSON files of a Hugging Face folder: configuration, generation defaults, pooling, chat template.
#include <cstddef>
#include <cstdint>
#include <string_view>

#include "base/check.h"
#include "model/formats/hf_config.h"
#include "model/formats/hf_template.h"
#include "model/formats/json_fields.h"

namespace surety::model {
namespace {

void OneInput(std::string_view text) {
  if (const auto found = ChatTemplateOfJson(text, "fuzz.json"); !found) SURETY_CHECK(!found.error().message().empty());
  const auto json = ParseJsonObject(text, "'fuzz.json'");
  if (!json) return;
  (void)GenerationDefaultsFromHf(*json, "fuzz.json");
  (void)PoolingFromHf(*json, "fuzz.json");
  const auto hf = ConfigFromHf(*json, "fuzz.json");
  if (!hf) {
    SURETY_CHECK(!hf.error().message().empty());
    return;
  }
  const ModelConfig& config = hf->config;
  SURETY_CHECK(config.Validate().ok());
  if (config.rope.dim > 4096) return;
  SURETY_CHECK(config.rope.InverseFrequencies().size() == static_cast<size_t>(config.rope.dim / 2));
  (void)config.rope.Magnitude();
}

}  // namespace
}  // namespace surety::model

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  surety::model::OneInput(std::string_view(reinterpret_cast<const char*>(data), size));
  return 0;
}
