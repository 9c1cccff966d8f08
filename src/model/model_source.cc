#include "model/model_source.h"

#include <cstring>

#include "model/formats/gguf_model.h"
#include "model/formats/hf_model.h"

namespace surety::model {

Result<std::unique_ptr<ModelSource>> OpenModelSource(FileSystem& files, const std::string& path) {
  if (files.IsDirectory(path)) {
    if (files.Exists(path + "/config.json")) return OpenHfModel(files, path, path, "");
    return Error(InvalidArgumentError("'" + path + "' is a folder without config.json: give a .gguf file or a Hugging "
                                      "Face model folder"));
  }
  if (path.ends_with(".safetensors") || path.ends_with(".safetensors.index.json")) {
    const size_t slash = path.rfind('/');
    const bool bare = slash == std::string::npos;
    if (!files.Exists(path)) return Error(NotFoundError("cannot open '" + path + "': no such file"));
    return OpenHfModel(files, path, bare ? "." : path.substr(0, slash), bare ? path : path.substr(slash + 1));
  }
  SURETY_ASSIGN_OR_RETURN(auto map, files.Map(path));
  const std::span<const std::byte> bytes = map->bytes();
  const bool is_gguf = bytes.size() >= 4 && std::memcmp(bytes.data(), "GGUF", 4) == 0;
  if (is_gguf || path.ends_with(".gguf")) return OpenGgufModel(std::move(map));
  return Error(InvalidArgumentError("'" + path + "' is neither a GGUF file (its first bytes are not 'GGUF') nor a "
                                    "safetensors file nor a Hugging Face model folder"));
}

}  // namespace surety::model
