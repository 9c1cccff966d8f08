// A GGUF file's metadata as a ModelConfig.
// Errors: kNotFound and kInvalidArgument name the key; kUnimplemented names an unknown architecture (and lists the
// known ones) or a variation that this build does not compute.
// Source: key names of the GGUF specification; where GGUF says less than the model's own configuration (Gemma's
// attention scale, its alternation of windows) the rules of llama.cpp's loader, which files are made for.
#pragma once

#include "base/status.h"
#include "model/config.h"
#include "model/formats/gguf.h"
#include "model/model_source.h"

namespace surety::model {

Result<ModelConfig> ConfigFromGguf(const GgufFile& file);

// general.sampling.*, and the ids that end an answer.
Result<GenerationDefaults> GenerationDefaultsFromGguf(const GgufFile& file);

}  // namespace surety::model
