// A .gguf file as a ModelSource.
#pragma once

#include <memory>

#include "base/file.h"
#include "model/model_source.h"

namespace surety::model {

// Errors: as gguf.h and gguf_config.h state them, and ValidateTensors's.
Result<std::unique_ptr<ModelSource>> OpenGgufModel(std::unique_ptr<MappedFile> map);

}  // namespace surety::model
