// Checks that the readers of GGUF metadata and of config.json share.
#pragma once

#include <span>
#include <string>
#include <string_view>

#include "base/status.h"
#include "model/model_source.h"

namespace surety::model {

// kInvalidArgument unless 1 to 10,000: checked before anything is sized by the count.
Status CheckLayerCount(int n_layers, const std::string& path, const std::string& key);

// d_model / n_heads; kInvalidArgument if it does not divide.
Result<int> HeadDimOf(int d_model, int n_heads, const std::string& path);

// kUnimplemented, with the name as found under `key` and the known ones.
Status UnknownArchitecture(const std::string& path, std::string_view key, std::string_view found,
                           std::span<const std::string_view> known);

// kInvalidArgument for an id that ends answers but is no token of the vocabulary, or a sampling number out of range.
Status CheckGenerationDefaults(const GenerationDefaults& defaults, int vocab_size, const std::string& path);

}  // namespace surety::model
