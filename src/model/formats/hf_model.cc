#include "model/formats/hf_model.h"

#include <algorithm>
#include <set>

#include "base/hash.h"
#include "model/formats/common_config.h"
#include "model/formats/hf_config.h"
#include "model/formats/hf_names.h"
#include "model/formats/hf_template.h"
#include "model/formats/json_fields.h"
#include "model/formats/safetensors.h"
#include "model/formats/source_base.h"
#include "model/tokenizer/tokenizer_loaders.h"
#include "model/validate_tensors.h"

namespace surety::model {
namespace {

constexpr int64_t kMaxConfigBytes = int64_t{4} << 20;
constexpr int64_t kMaxIndexBytes = int64_t{64} << 20;
constexpr int64_t kMaxTokenizerBytes = int64_t{256} << 20;
constexpr std::string_view kIndexSuffix = ".safetensors.index.json";

// Files beside the weights that decide what the model says; part of the digest.
constexpr const char* kConfigFiles[] = {
    "1_Pooling/config.json", "chat_template.jinja", "chat_template.json",      "config.json",
    "generation_config.json", "modules.json",       "special_tokens_map.json", "tokenizer.json",
    "tokenizer_config.json"};

// A name that stays inside its folder.
bool IsPlainName(std::string_view name) {
  return !name.empty() && name.find('/') == std::string_view::npos && name.find('\\') == std::string_view::npos &&
         name.find('\0') == std::string_view::npos && name != "." && name != "..";
}

class HfModel final : public SourceBase {
 public:
  HfModel(FileSystem& files, const std::string& path, std::string folder)
      : SourceBase(path), files_(files), folder_(std::move(folder)) {}

  Status Init(std::string weights) {
    SURETY_ASSIGN_OR_RETURN(const auto json, ReadJsonObject(files_, In("config.json"), kMaxConfigBytes));
    SURETY_ASSIGN_OR_RETURN(HfConfig hf, ConfigFromHf(json, In("config.json")));
    config_ = std::move(hf.config);
    if (config_.encoder) SURETY_RETURN_IF_ERROR(ReadPooling());
    SURETY_RETURN_IF_ERROR(ReadGenerationConfig(hf));
    SURETY_ASSIGN_OR_RETURN(chat_template_, ChatTemplateOfFolder(files_, folder_));
    if (weights.empty()) {
      SURETY_ASSIGN_OR_RETURN(weights, FindWeights());
    }
    SURETY_RETURN_IF_ERROR(weights.ends_with(kIndexSuffix) ? OpenShards(weights) : OpenFile(weights));
    SURETY_RETURN_IF_ERROR(MapTensors(hf.tied));
    return ValidateTensors(*this);
  }

  std::string_view format() const override { return "safetensors"; }

  Result<TokenizerSpec> LoadTokenizer() const override {
    SURETY_ASSIGN_OR_RETURN(const std::string json, files_.ReadAll(In("tokenizer.json"), kMaxTokenizerBytes));
    SURETY_ASSIGN_OR_RETURN(const std::string config, ReadIfThere("tokenizer_config.json"));
    SURETY_ASSIGN_OR_RETURN(const std::string special, ReadIfThere("special_tokens_map.json"));
    return TokenizerSpecFromJson(json, config, special);
  }

  int64_t file_bytes() const override {
    int64_t bytes = 0;
    for (const auto& file : weight_files_) bytes += static_cast<int64_t>(file->map().bytes().size());
    return bytes;
  }

  // SHA-256 of the lines "<name> <sha-256 of the file>\n", sorted by name.
  Result<std::string> Digest() const override {
    std::set<std::string> lines;
    for (size_t i = 0; i < weight_files_.size(); ++i) {
      lines.insert(weight_names_[i] + " " + HexOf(Sha256Of(weight_files_[i]->map().bytes())) + "\n");
    }
    for (const char* name : kConfigFiles) {
      if (!files_.Exists(In(name))) continue;
      SURETY_ASSIGN_OR_RETURN(const auto map, files_.Map(In(name)));
      lines.insert(std::string(name) + " " + HexOf(Sha256Of(map->bytes())) + "\n");
    }
    Sha256 hash;
    for (const std::string& line : lines) hash.Update(std::as_bytes(std::span(line)));
    return HexOf(hash.Finish());
  }

  void ReleaseAll() const override {
    for (const auto& file : weight_files_) file->map().Release(file->map().bytes());
  }
  void Release(const TensorView& tensor) const override {
    for (const auto& file : weight_files_) {
      const std::span<const std::byte> bytes = file->map().bytes();
      if (tensor.bytes.data() >= bytes.data() && tensor.bytes.data() < bytes.data() + bytes.size()) {
        file->map().Release(tensor.bytes);
      }
    }
  }

 private:
  std::string In(const std::string& name) const { return folder_ + "/" + name; }

  Result<std::string> ReadIfThere(const std::string& name) const {
    if (!files_.Exists(In(name))) return std::string();
    return files_.ReadAll(In(name), kMaxTokenizerBytes);
  }

  // The model's own index or file; else the only .safetensors file of the folder.
  Result<std::string> FindWeights() const {
    for (const char* name : {"model.safetensors.index.json", "model.safetensors"}) {
      if (files_.Exists(In(name))) return std::string(name);
    }
    SURETY_ASSIGN_OR_RETURN(const std::vector<std::string> names, files_.List(folder_));
    std::string found;
    bool pickled = false;
    for (const std::string& name : names) {
      pickled = pickled || name.ends_with(".bin") || name.ends_with(".pt") || name.ends_with(".pth");
      if (!name.ends_with(".safetensors")) continue;
      if (!found.empty()) {
        return Error(InvalidArgumentError("'" + folder_ + "': no model.safetensors.index.json, but more than one " +
                                          "file of weights ('" + found + "', '" + name + "'); name one"));
      }
      found = name;
    }
    if (!found.empty()) return found;
    return Error(NotFoundError("'" + folder_ + "': no model.safetensors and no model.safetensors.index.json" +
                               (pickled ? " (pickled weights such as .bin can run code and are never read)" : "")));
  }

  Status OpenFile(const std::string& name) {
    SURETY_ASSIGN_OR_RETURN(auto file, SafetensorsFile::Open(files_, In(name)));
    weight_files_.push_back(std::move(file));
    weight_names_.push_back(name);
    return OkStatus();
  }

  Status OpenShards(const std::string& index_name) {
    const std::string path = In(index_name);
    SURETY_ASSIGN_OR_RETURN(const auto json, ReadJsonObject(files_, path, kMaxIndexBytes));
    const JsonFields fields(json, "'" + path + "'");
    const boost::json::value* map = fields.Get("weight_map");
    if (map == nullptr || !map->is_object()) return NotFoundError(Quoted(path) + ": no object 'weight_map'");
    std::set<std::pair<std::string, std::string>> wanted;  // file, tensor
    for (const auto& [tensor, value] : map->get_object()) {
      const std::string file = value.is_string() ? std::string(value.get_string()) : "";
      if (!IsPlainName(file) || !file.ends_with(".safetensors")) {
        return InvalidArgumentError("'" + path + "': tensor '" + Printable(tensor) + "' is said to lie in '" +
                                    Printable(file) + "', which is no .safetensors file of this folder");
      }
      wanted.emplace(file, std::string(tensor));
    }
    for (const auto& [file, tensor] : wanted) {
      if (weight_names_.empty() || weight_names_.back() != file) SURETY_RETURN_IF_ERROR(OpenFile(file));
    }
    for (const auto& file : weight_files_) {
      const std::string& name = weight_names_[static_cast<size_t>(&file - weight_files_.data())];
      for (const TensorView& tensor : file->tensors()) wanted.erase({name, tensor.name});
      for (const SafetensorsFile::Unread& tensor : file->unread()) wanted.erase({name, tensor.name});
    }
    if (wanted.empty()) return OkStatus();
    return NotFoundError("'" + path + "': tensor '" + Printable(wanted.begin()->second) + "' is not in '" +
                         wanted.begin()->first + "', where the index says it is");
  }

  // Views under canonical names.
  Status MapTensors(bool tied) {
    std::vector<TensorView> tensors;
    for (const auto& file : weight_files_) {
      for (const TensorView& tensor : file->tensors()) {
        HfName name = CanonicalName(tensor.name, config_);
        if (name.kind == HfName::Kind::kIgnored || (tied && name.canonical == "output.weight")) continue;
        if (name.kind == HfName::Kind::kUnknown) return Unknown(*file, tensor.name);
        tensors.push_back(tensor);
        tensors.back().name = std::move(name.canonical);
      }
      for (const SafetensorsFile::Unread& tensor : file->unread()) {
        const HfName name = CanonicalName(tensor.name, config_);
        if (name.kind == HfName::Kind::kIgnored) continue;
        return UnimplementedError("'" + file->path() + "': tensor '" + Printable(tensor.name) +
                                  "' is empty or has type " + Printable(tensor.dtype) +
                                  "; F32, F16 and BF16 are supported");
      }
    }
    SURETY_RETURN_IF_ERROR(SetTensors(std::move(tensors)));
    if (tied || config_.encoder || Find("output.weight") != nullptr) return OkStatus();
    return NotFoundError("'" + path_ + "': tensor 'lm_head.weight' is missing, and config.json does not set " +
                         "tie_word_embeddings");
  }

  Status Unknown(const SafetensorsFile& file, const std::string& name) const {
    return UnimplementedError("'" + file.path() + "': tensor '" + Printable(name) + "' has no place in architecture '" +
                              config_.architecture + "'");
  }

  Status ReadGenerationConfig(const HfConfig& hf) {
    const std::string path = In("generation_config.json");
    if (files_.Exists(path)) {
      SURETY_ASSIGN_OR_RETURN(const auto json, ReadJsonObject(files_, path, kMaxConfigBytes));
      SURETY_ASSIGN_OR_RETURN(generation_defaults_, GenerationDefaultsFromHf(json, path));
    }
    if (generation_defaults_.eos_token_ids.empty()) generation_defaults_.eos_token_ids = hf.eos_token_ids;
    return CheckGenerationDefaults(generation_defaults_, config_.vocab_size, path_);
  }

  // modules.json lists the steps after the encoder: a pooling with its folder, perhaps a normalisation.
  Status ReadPooling() {
    std::string pooling_folder = "1_Pooling";
    if (files_.Exists(In("modules.json"))) {
      SURETY_ASSIGN_OR_RETURN(const std::string text, files_.ReadAll(In("modules.json"), kMaxConfigBytes));
      SURETY_ASSIGN_OR_RETURN(const auto json, ParseJson(text, Quoted(In("modules.json"))));
      if (!json.is_array()) return InvalidArgumentError(Quoted(In("modules.json")) + ": an array is needed");
      pooling_folder.clear();
      for (const boost::json::value& module : json.get_array()) {
        if (!module.is_object()) return InvalidArgumentError(Quoted(In("modules.json")) + ": an element is no object");
        const JsonFields fields(module.get_object(), Quoted(In("modules.json")));
        SURETY_ASSIGN_OR_RETURN(const std::string type, fields.String("type"));
        SURETY_ASSIGN_OR_RETURN(const std::string folder, fields.String("path", ""));
        if (type.ends_with(".Transformer")) continue;
        if (type.ends_with(".Normalize")) {
          config_.normalise_embedding = true;
        } else if (type.ends_with(".Pooling") && IsPlainName(folder)) {
          pooling_folder = folder;
        } else {
          return fields.Unimplemented("type", "unknown module '" + Printable(type) + "' in folder '" +
                                                  Printable(folder) + "'; known: Transformer, Pooling, Normalize");
        }
      }
    }
    if (pooling_folder.empty() || !files_.Exists(In(pooling_folder + "/config.json"))) return OkStatus();
    const std::string path = In(pooling_folder + "/config.json");
    SURETY_ASSIGN_OR_RETURN(const auto json, ReadJsonObject(files_, path, kMaxConfigBytes));
    SURETY_ASSIGN_OR_RETURN(config_.pooling, PoolingFromHf(json, path));
    return OkStatus();
  }

  FileSystem& files_;
  std::string folder_;
  std::vector<std::unique_ptr<SafetensorsFile>> weight_files_;
  std::vector<std::string> weight_names_;
};

}  // namespace

Result<std::unique_ptr<ModelSource>> OpenHfModel(FileSystem& files, const std::string& path, const std::string& folder,
                                                 const std::string& weights) {
  auto model = std::make_unique<HfModel>(files, path, folder);
  SURETY_RETURN_IF_ERROR(model->Init(weights));
  return model;
}

}  // namespace surety::model
