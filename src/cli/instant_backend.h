// A model that answers at once, on the caller's thread: what is measured behind it is the path without a model.
//
// Its answer quotes the sentences of the first passages that its instruction holds, each with its citation, so that
// verifiers of citations and numbers have work to do and pass it; without passages it is one plain sentence. It counts
// a token for every four bytes, and tokenizes nothing.
// Threads: any. Owns: nothing beyond its description. Errors: kUnimplemented for what a governed path does not ask for.
#pragma once

#include <memory>
#include <string>

#include "api/backend.h"

namespace surety::cli {

std::shared_ptr<api::Backend> MakeInstantBackend(const std::string& name);

// The answer to a context as context_builder.h makes it.
std::string InstantAnswer(const api::GenerationRequest& request);

}  // namespace surety::cli
