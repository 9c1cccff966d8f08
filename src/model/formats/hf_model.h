// A Hugging Face model folder (config.json, safetensors in one file or in shards) as a ModelSource.
#pragma once

#include <memory>
#include <string>

#include "base/file.h"
#include "model/model_source.h"

namespace surety::model {

// `weights` names the file in the folder to read tensors from, a .safetensors file or a *.safetensors.index.json; empty
// looks for the usual names. `path` is what the ModelSource is called in messages.
// The FileSystem must outlive the model: tokenizer files are read when asked for.
// Errors: as hf_config.h and safetensors.h state them, and ValidateTensors's; kNotFound if the folder lacks a file.
Result<std::unique_ptr<ModelSource>> OpenHfModel(FileSystem& files, const std::string& path, const std::string& folder,
                                                 const std::string& weights);

}  // namespace surety::model
