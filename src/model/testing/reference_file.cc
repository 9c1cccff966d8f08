#include "model/testing/reference_file.h"

#include <cstring>
#include <fstream>
#include <iterator>

#include <boost/json.hpp>

namespace surety::model {

ReferenceFile ReadReferenceFile(const std::string& path) {
  ReferenceFile reference;
  std::ifstream file(path, std::ios::binary);
  const std::string bytes((std::istreambuf_iterator<char>(file)), std::istreambuf_iterator<char>());
  if (bytes.size() < 8) return reference;
  uint64_t header_bytes = 0;
  std::memcpy(&header_bytes, bytes.data(), 8);
  const boost::json::value header = boost::json::parse(std::string_view(bytes).substr(8, header_bytes));
  const char* data = bytes.data() + 8 + header_bytes;
  for (const auto& [name, entry] : header.as_object()) {
    if (name == "__metadata__") {
      for (const auto& [key, value] : entry.as_object()) {
        reference.metadata[std::string(key)] = std::string(value.as_string());
      }
      continue;
    }
    const auto begin = static_cast<size_t>(entry.at("data_offsets").at(0).as_int64());
    const auto end = static_cast<size_t>(entry.at("data_offsets").at(1).as_int64());
    if (entry.at("dtype") == "I32" && name == "input_ids") {
      reference.input_ids.resize((end - begin) / 4);
      std::memcpy(reference.input_ids.data(), data + begin, end - begin);
    } else if (entry.at("dtype") == "F32") {
      auto& values = reference.values[std::string(name)];
      values.resize((end - begin) / 4);
      std::memcpy(values.data(), data + begin, end - begin);
    }
  }
  return reference;
}

}  // namespace surety::model
