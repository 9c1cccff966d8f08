// A model as it lies on disk, whatever its format: configuration, tensors under canonical names, tokenizer data, chat
// template. Canonical names are GGUF's ("token_embd.weight", "blk.0.attn_q.weight", "output_norm.weight", ...); the
// Hugging Face loader translates.
// Owns: the maps behind the tensor views; views are valid while the ModelSource lives.
// Threads: immutable after opening.
#pragma once

#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>

#include "base/file.h"
#include "base/status.h"
#include "model/config.h"
#include "model/tokenizer/tokenizer_spec.h"
#include "tensor/view.h"

namespace surety::model {

// Defaults that the model's publisher recommends (generation_config.json; general.sampling.* in GGUF).
struct GenerationDefaults {
  std::optional<double> temperature, top_p, min_p, repetition_penalty;
  std::optional<int> top_k;
  std::vector<int32_t> eos_token_ids;
};

class ModelSource {
 public:
  virtual ~ModelSource() = default;
  virtual std::string_view format() const = 0;  // "gguf", "safetensors"
  virtual const std::string& path() const = 0;
  virtual const ModelConfig& config() const = 0;
  // All tensors under canonical names. A stacked expert tensor has shape {experts, outputs, inputs}.
  virtual std::span<const TensorView> tensors() const = 0;
  virtual const TensorView* Find(std::string_view canonical_name) const = 0;
  virtual Result<TokenizerSpec> LoadTokenizer() const = 0;
  virtual const std::string& chat_template() const = 0;  // empty if the model has none
  virtual const GenerationDefaults& generation_defaults() const = 0;
  virtual int64_t file_bytes() const = 0;
  // SHA-256 (hex) of the file, or of the sorted list of (name, digest) of a folder's weight files and configs. Slow.
  virtual Result<std::string> Digest() const = 0;
  // The tensor's bytes are not needed again soon.
  virtual void Release(const TensorView& tensor) const = 0;
  // Nor is anything else of the files, but for single rows.
  virtual void ReleaseAll() const = 0;
};

// A .gguf file, a .safetensors file beside its config.json, or a folder of Hugging Face form.
// Errors: as the formats state them; kUnimplemented names an unknown architecture and lists the known ones;
// kInvalidArgument for a file of neither form.
Result<std::unique_ptr<ModelSource>> OpenModelSource(FileSystem& files, const std::string& path);

}  // namespace surety::model
