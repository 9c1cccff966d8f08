// Bytes as the files of a draft head: the first line is config.json, each further one a tensor: its name, its type, its
// sizes, and behind a colon its first elements where it holds integers of 64 bits. All else of a tensor is 0.
#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <sstream>
#include <string>
#include <string_view>

#include <boost/json.hpp>

#include "base/check.h"
#include "model/heads/draft_head.h"
#include "model/testing/memory_files.h"

namespace surety::model {
namespace {

constexpr int64_t kMaxFuzzBytes = 1 << 18;

int64_t ElementBytesOf(const std::string& dtype) {
  if (dtype == "I64") return 8;
  if (dtype == "U8" || dtype == "BOOL") return 1;
  return dtype == "F16" || dtype == "BF16" ? 2 : 4;
}

// The lines as a safetensors file.
std::string FileOf(std::istream& lines) {
  boost::json::object header;
  std::string data, line;
  while (std::getline(lines, line)) {
    const size_t colon = line.find(" : ");
    std::istringstream words(line.substr(0, colon));
    std::string name, dtype;
    words >> name >> dtype;
    boost::json::array shape;
    int64_t bytes = ElementBytesOf(dtype), size = 0;
    while (words >> size) {
      shape.push_back(size);
      bytes *= std::clamp<int64_t>(size, 0, kMaxFuzzBytes);
      bytes = std::min(bytes, kMaxFuzzBytes);
    }
    std::string values(static_cast<size_t>(bytes), '\0');
    std::istringstream numbers(colon == std::string::npos ? std::string() : line.substr(colon + 3));
    int64_t value = 0;
    for (size_t at = 0; dtype == "I64" && at + 8 <= values.size() && numbers >> value; at += 8) {
      std::memcpy(values.data() + at, &value, 8);
    }
    if (data.size() + values.size() > kMaxFuzzBytes) break;
    header[name] = boost::json::object{
        {"dtype", dtype}, {"shape", shape}, {"data_offsets", {data.size(), data.size() + values.size()}}};
    data += values;
  }
  const std::string text = boost::json::serialize(header);
  const uint64_t length = text.size();
  std::string file(8, '\0');
  std::memcpy(file.data(), &length, 8);
  return file + text + data;
}

void OneInput(std::string_view text) {
  std::istringstream lines{std::string(text)};
  MemoryFiles files;
  std::getline(lines, files.files["head/config.json"]);
  files.files["head/model.safetensors"] = FileOf(lines);
  const auto weights = HeadWeights::Open(files, "head");
  if (!weights) {
    SURETY_CHECK(!weights.error().message().empty());
    return;
  }
  ModelConfig target;
  target.d_model = 64;
  target.n_layers = 4;
  target.vocab_size = 256;
  const auto recipe = ReadHeadRecipe(**weights, target, {});
  if (!recipe) {
    SURETY_CHECK(!recipe.error().message().empty());
    return;
  }
  SURETY_CHECK(!recipe->Describe().empty());
  SURETY_CHECK(!recipe->taps.empty() && recipe->taps.size() <= 16);
  SURETY_CHECK(recipe->draft_vocab_size > 0 && recipe->draft_vocab_size <= recipe->vocab_size);
  if (recipe->method == HeadMethod::kMedusa) {
    SURETY_CHECK(recipe->n_medusa_heads > 0 && recipe->n_medusa_heads <= 16);
  } else {
    SURETY_CHECK(recipe->rope.InverseFrequencies().size() == static_cast<size_t>(recipe->rope.dim / 2));
    SURETY_CHECK(recipe->norm_eps > 0);
  }
  const auto ids = ReadTargetIds(**weights, *recipe);
  if (!ids) return;
  for (const int32_t id : *ids) SURETY_CHECK(id >= 0 && id < recipe->vocab_size);
}

}  // namespace
}  // namespace surety::model

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  surety::model::OneInput(std::string_view(reinterpret_cast<const char*>(data), size));
  return 0;
}
