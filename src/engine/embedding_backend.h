// An encoder in this process as an api::Backend: embeddings only.
// Threads: as api::Backend; calls to Embed take turns. Owns: the model.
#pragma once

#include <memory>
#include <string>

#include "api/backend.h"
#include "base/clock.h"
#include "engine/local_model.h"

namespace surety::engine {

// kFailedPrecondition for a model that is no encoder; kResourceExhausted.
Result<std::unique_ptr<api::Backend>> MakeEmbeddingBackend(std::unique_ptr<LocalModel> model, const std::string& name,
                                                           const std::string& digest, Clock& clock = Clock::Real());

}  // namespace surety::engine
