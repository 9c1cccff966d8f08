// Golden references for tests: a safetensors file with `input_ids` and expected values, made by tools/goldens. Read
// here without the product's own reader, so that a fault there cannot hide.
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <vector>

namespace surety::model {

struct ReferenceFile {
  std::vector<int32_t> input_ids;
  std::map<std::string, std::vector<float>> values;  // every F32 tensor by name
  std::map<std::string, std::string> metadata;

  double Number(const std::string& key) const { return std::stod(metadata.at(key)); }
};

// Fails the running test and returns an empty file if it cannot be read.
ReferenceFile ReadReferenceFile(const std::string& path);

}  // namespace surety::model
