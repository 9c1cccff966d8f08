#include "gateway/policy_runtime.h"

#include <filesystem>

#include "gateway/document_index.h"

namespace surety::gateway {

api::Backend* PolicyRuntime::FindModel(const std::string& name) const {
  const auto found = models.find(name);
  return found == models.end() ? nullptr : found->second.get();
}

std::string DirectoryOf(const Policy& policy) {
  const std::filesystem::path parent = std::filesystem::path(policy.path).parent_path();
  return parent.empty() ? "." : parent.string();
}

namespace {

// Vectors of two models say nothing about each other, though they may have as many numbers.
Status SameEmbedder(const RetrieverSpec& spec, DocumentIndex& index, const std::string& served) {
  if (spec.by == RetrieverSpec::By::kText) return OkStatus();
  SURETY_ASSIGN_OR_RETURN(const DocumentIndexSummary summary, index.Summary());
  const std::string& made = summary.embedding_model;
  if (!made.empty() && made != served) {
    return FailedPreconditionError("'" + spec.index + "' has vectors of " + made + ", but " + served +
                                   " is served: serve with --embedding-model " + made + ", or add the documents again");
  }
  if (spec.embedding_model == served) return OkStatus();
  return FailedPreconditionError("embedding_model is " + spec.embedding_model + ", but " + served + " is served");
}

}  // namespace

Result<std::shared_ptr<const PolicyRuntime>> MakeRuntime(std::shared_ptr<const Policy> policy, RuntimeParts parts,
                                                         const Clock& clock) {
  auto runtime = std::make_shared<PolicyRuntime>();
  const std::string directory = DirectoryOf(*policy);
  runtime->embed = parts.embed;
  runtime->models = std::move(parts.models);
  for (const auto& [name, spec] : policy->models) {
    if (runtime->FindModel(name) == nullptr) {
      return Error(NotFoundError("policy '" + policy->id + "': model '" + name + "' (" + spec.weights +
                                 ") is not being served"));
    }
  }
  SURETY_ASSIGN_OR_RETURN(runtime->signals, SignalReader::Make(*policy, directory, parts.embed));
  SURETY_ASSIGN_OR_RETURN(runtime->verifiers, VerifierSet::Make(*policy, directory, clock));
  for (const auto& [name, spec] : policy->verifiers) {
    if (spec.kind != VerifierSpec::Kind::kTable) continue;
    auto table = CodeTable::Read((std::filesystem::path(directory) / spec.table).string());
    if (!table) return Error(table.error().WithContext("verifier '" + name + "'"));
    runtime->tables.emplace(name, *std::move(table));
  }
  SURETY_ASSIGN_OR_RETURN(runtime->tools, ToolRunner::Make(*policy, directory, clock));
  for (const auto& [name, spec] : policy->retrievers) {
    if (spec.by != RetrieverSpec::By::kText && !parts.embed) {
      return Error(NotFoundError("retriever '" + name + "' searches by vector, but no embedding model is served"));
    }
    const std::filesystem::path path = std::filesystem::path(directory) / spec.index;
    auto store = DocumentIndex::Open(path.string(), true);
    if (!store) return Error(store.error().WithContext("retriever '" + name + "'"));
    SURETY_RETURN_IF_ERROR(SameEmbedder(spec, **store, parts.embed_model).WithContext("retriever '" + name + "'"));
    runtime->stores[name] = *std::move(store);
  }
  runtime->policy = std::move(policy);
  return std::shared_ptr<const PolicyRuntime>(std::move(runtime));
}

}  // namespace surety::gateway
