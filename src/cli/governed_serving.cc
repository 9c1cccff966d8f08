#include "cli/governed_serving.h"

#include <cmath>
#include <filesystem>

#include "base/clock.h"
#include "base/file.h"
#include "cli/models_store.h"
#include "gateway/remote_backend.h"

namespace surety::cli {

gateway::EmbedTexts EmbedWith(std::shared_ptr<api::Backend> backend) {
  return [backend = std::move(backend)](std::span<const std::string> texts) -> Result<std::vector<std::vector<float>>> {
    SURETY_ASSIGN_OR_RETURN(auto results, backend->Embed(texts));
    std::vector<std::vector<float>> vectors;
    for (api::EmbeddingResult& result : results) {
      double sum = 0;
      for (const float value : result.values) sum += double{value} * double{value};
      const auto scale = static_cast<float>(sum > 0 ? 1 / std::sqrt(sum) : 0);
      for (float& value : result.values) value *= scale;
      vectors.push_back(std::move(result.values));
    }
    return vectors;
  };
}

Result<std::shared_ptr<api::Backend>> GovernedServing::LoadModel(const gateway::ModelSpec& spec) {
  if (spec.engine == gateway::ModelSpec::Engine::kRemote) {
    const std::filesystem::path directory = std::filesystem::path(policy_).parent_path();
    SURETY_ASSIGN_OR_RETURN(auto options, gateway::RemoteOptionsOf(spec, directory.empty() ? "." : directory.string()));
    return gateway::MakeRemoteBackend(std::move(options));
  }
  const std::string context = "model '" + spec.name + "'";
  // Two names for the same weights share one engine.
  auto resolved = ResolveModel(spec.weights);
  if (!resolved) return Error(resolved.error().WithContext(context));
  std::error_code unknown;
  const std::string weights = std::filesystem::weakly_canonical(*resolved, unknown).string();
  if (const auto found = by_weights_.find(weights); found != by_weights_.end()) {
    const Loaded& loaded = found->second;
    if (loaded.draft_model == spec.draft_model && loaded.draft_head == spec.draft_head) return loaded.backend;
    return Error(FailedPreconditionError(
        context + ": '" + spec.weights + "' is loaded with another draft_model or draft_head. Models of the same "
        "weights share one engine, so give each the same; a change takes a new start of the server"));
  }
  auto drafts = speculation_.DraftsOf(spec.draft_model, spec.draft_head);
  if (!drafts) return Error(drafts.error().WithContext(context));
  auto report = host_->Load(spec.weights, "", *drafts);
  if (!report) return Error(report.error().WithContext(context));
  const std::string name((*report)["model"].as_string());
  loaded_.push_back(*std::move(report));
  SURETY_ASSIGN_OR_RETURN(const http::RegisteredModel model, inner_->Find(name));
  by_weights_[weights] = {spec.draft_model, spec.draft_head, model.backend};
  return model.backend;
}

Result<std::unique_ptr<GovernedServing>> GovernedServing::Open(Options options, observe::Registry& metrics) {
  auto serving = std::unique_ptr<GovernedServing>(new GovernedServing());
  serving->policy_ = options.policy;
  serving->speculation_ = options.speculation;
  serving->host_ = std::make_unique<ModelHost>(std::move(options.host), serving->inner_, metrics);
  gateway::Governance::Options governance;
  governance.policy_path = options.policy;
  governance.kept_kv = options.kept_kv;
  governance.load = [raw = serving.get()](const gateway::ModelSpec& spec) { return raw->LoadModel(spec); };
  if (options.embedder != nullptr) {
    governance.embed = EmbedWith(options.embedder);
    governance.embed_model = options.embedder->description().name;
  }
  governance.files = &FileSystem::Real();
  governance.clock = &Clock::Real();
  governance.metrics = &metrics;
  SURETY_ASSIGN_OR_RETURN(serving->governance_, gateway::Governance::Open(std::move(governance)));
  return serving;
}

void GovernedServing::Drain(int64_t limit_ms) {
  governance_->backend()->Drain(limit_ms);
  host_->Drain(limit_ms);
}

}  // namespace surety::cli
