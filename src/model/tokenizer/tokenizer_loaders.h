// TokenizerSpec from what models carry.
// Errors: kNotFound or kInvalidArgument naming the key; kUnimplemented naming a model type, pre-tokenizer, normaliser
// or decoder that is not known here: nothing a file says is ignored in silence. Source: the GGUF specification's
// tokenizer.ggml.* keys; the tokenizer.json format of Hugging Face tokenizers.
#pragma once

#include <string_view>

#include "base/status.h"
#include "model/formats/gguf.h"
#include "model/tokenizer/tokenizer_spec.h"

namespace surety::model {

Result<TokenizerSpec> TokenizerSpecFromGguf(const GgufFile& file);

// The configs may be empty. They name the special tokens and whether BOS and EOS are added.
Result<TokenizerSpec> TokenizerSpecFromJson(std::string_view tokenizer_json, std::string_view tokenizer_config_json,
                                            std::string_view special_tokens_map_json);

}  // namespace surety::model
