#include "model/model_source.h"

#include <cstring>

#include "model/formats/gguf_model.h"

namespace surety::model {

Result<std::unique_ptr<ModelSource>> OpenModelSource(FileSystem& files, const std::string& path) {
  SURETY_ASSIGN_OR_RETURN(auto map, files.Map(path));
  const std::span<const std::byte> bytes = map->bytes();
  const bool is_gguf = bytes.size() >= 4 && std::memcmp(bytes.data(), "GGUF", 4) == 0;
  if (is_gguf || path.ends_with(".gguf")) return OpenGgufModel(std::move(map));
  return Error(InvalidArgumentError("'" + path + "' is neither a GGUF file nor a Hugging Face model folder"));
}

}  // namespace surety::model
