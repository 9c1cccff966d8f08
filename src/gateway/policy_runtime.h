// Everything that is made from one policy: its readers, verifiers, stores and models. A request keeps the runtime that
// it began with to its end; a reload makes a new one and swaps it in whole.
//
// Threads: immutable once made; what it holds may be used from any thread. Owns: its parts; shares the models.
// Errors: Make: as the parts' own Make functions, with the name of the part; kNotFound for a model that is not there.
#pragma once

#include <map>
#include <memory>
#include <string>

#include "api/backend.h"
#include "base/clock.h"
#include "gateway/code_table.h"
#include "gateway/document_store.h"
#include "gateway/policy.h"
#include "gateway/signals.h"
#include "gateway/tools.h"
#include "gateway/verifier.h"

namespace surety::gateway {

struct PolicyRuntime {
  std::shared_ptr<const Policy> policy;
  std::unique_ptr<SignalReader> signals;
  std::unique_ptr<VerifierSet> verifiers;
  std::unique_ptr<ToolRunner> tools;
  std::map<std::string, std::unique_ptr<DocumentStore>> stores;        // by retriever
  std::map<std::string, CodeTable> tables;                             // by the verifier that checks against it
  std::map<std::string, std::shared_ptr<api::Backend>> models;         // by the policy's name
  EmbedTexts embed;                                                    // empty: nothing embeds

  api::Backend* FindModel(const std::string& name) const;
};

struct RuntimeParts {
  std::map<std::string, std::shared_ptr<api::Backend>> models;
  EmbedTexts embed;
  std::string embed_model;    // its name
};
Result<std::shared_ptr<const PolicyRuntime>> MakeRuntime(std::shared_ptr<const Policy> policy, RuntimeParts parts,
                                                         const Clock& clock);

// Directory of a policy's file, for the files that it names.
std::string DirectoryOf(const Policy& policy);

}  // namespace surety::gateway
