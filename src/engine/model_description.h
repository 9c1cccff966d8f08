// What the API says of a local model. Threads: any.
#pragma once

#include <string>

#include "api/backend.h"
#include "base/clock.h"
#include "engine/local_model.h"

namespace surety::engine {

// The last part of a path, without ".gguf": what reports and the API call a model.
std::string ModelNameOf(const std::string& path);

// All but context_tokens, generates and embeds, which depend on how it is served.
api::ModelDescription DescribeLocalModel(const LocalModel& model, const std::string& name, const std::string& digest,
                                         const Clock& clock);

// The text of token ids; invalid UTF-8 becomes U+FFFD. kOutOfRange naming the first id outside the vocabulary.
Result<std::string> DetokenizeAll(const model::Tokenizer& tokenizer, std::span<const api::TokenId> tokens);

}  // namespace surety::engine
