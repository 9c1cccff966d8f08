#include "gateway/policy_runtime.h"

#include <filesystem>

namespace surety::gateway {

api::Backend* PolicyRuntime::FindModel(const std::string& name) const {
  const auto found = models.find(name);
  return found == models.end() ? nullptr : found->second.get();
}

std::string DirectoryOf(const Policy& policy) {
  const std::filesystem::path parent = std::filesystem::path(policy.path).parent_path();
  return parent.empty() ? "." : parent.string();
}

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
    auto store = DocumentStore::Open(path.string(), true);
    if (!store) return Error(store.error().WithContext("retriever '" + name + "'"));
    runtime->stores[name] = *std::move(store);
  }
  runtime->policy = std::move(policy);
  return std::shared_ptr<const PolicyRuntime>(std::move(runtime));
}

}  // namespace surety::gateway
