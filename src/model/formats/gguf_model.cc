#include "model/formats/gguf_model.h"

#include <algorithm>

#include "base/hash.h"
#include "model/formats/common_config.h"
#include "model/formats/gguf.h"
#include "model/formats/gguf_config.h"
#include "model/formats/source_base.h"
#include "model/tokenizer/tokenizer_loaders.h"
#include "model/validate_tensors.h"

namespace surety::model {
namespace {

class GgufModel final : public SourceBase {
 public:
  explicit GgufModel(std::unique_ptr<GgufFile> file) : SourceBase(file->path()), file_(std::move(file)) {}

  Status Init() {
    SURETY_ASSIGN_OR_RETURN(config_, ConfigFromGguf(*file_));
    SURETY_ASSIGN_OR_RETURN(generation_defaults_, GenerationDefaultsFromGguf(*file_));
    SURETY_RETURN_IF_ERROR(CheckGenerationDefaults(generation_defaults_, config_.vocab_size, path_));
    if (file_->Find("tokenizer.chat_template") != nullptr) {
      SURETY_ASSIGN_OR_RETURN(const std::string_view text, file_->String("tokenizer.chat_template"));
      chat_template_ = std::string(text);
    }
    SURETY_RETURN_IF_ERROR(SetTensors({file_->tensors().begin(), file_->tensors().end()}));
    return ValidateTensors(*this);
  }

  std::string_view format() const override { return "gguf"; }
  Result<TokenizerSpec> LoadTokenizer() const override { return TokenizerSpecFromGguf(*file_); }
  int64_t file_bytes() const override { return static_cast<int64_t>(file_->map().bytes().size()); }

  Result<std::string> Digest() const override {
    constexpr size_t kChunkBytes = size_t{16} << 20;
    Sha256 hash;
    const std::span<const std::byte> bytes = file_->map().bytes();
    for (size_t at = 0; at < bytes.size(); at += kChunkBytes) {
      hash.Update(bytes.subspan(at, std::min(kChunkBytes, bytes.size() - at)));
    }
    return HexOf(hash.Finish());
  }

  void Release(const TensorView& tensor) const override { file_->map().Release(tensor.bytes); }
  void ReleaseAll() const override { file_->map().Release(file_->map().bytes()); }

 private:
  std::unique_ptr<GgufFile> file_;
};

}  // namespace

Result<std::unique_ptr<ModelSource>> OpenGgufModel(std::unique_ptr<MappedFile> map) {
  SURETY_ASSIGN_OR_RETURN(auto file, GgufFile::FromMap(std::move(map)));
  auto model = std::make_unique<GgufModel>(std::move(file));
  SURETY_RETURN_IF_ERROR(model->Init());
  return model;
}

}  // namespace surety::model
