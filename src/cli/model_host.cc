#include "cli/model_host.h"

#include <algorithm>

#include <fmt/format.h>

#include "base/memory_info.h"
#include "cli/json_out.h"
#include "cli/models_store.h"
#include "cli/progress.h"
#include "engine/draft_model.h"
#include "engine/embedding_backend.h"
#include "engine/make_drafters.h"

namespace surety::cli {

int64_t ModelHost::KvBytesFor(const engine::LocalModel& model) const {
  if (options_.kv_memory_bytes > 0) return options_.kv_memory_bytes;
  const engine::EngineOptions& e = options_.backend.engine;
  const KvLayout layout = engine::LayoutWithDrafts(model, model.config().KvLayoutFor(e.kv_type, e.page_tokens),
                                                   e.speculation.max_draft_tokens > 0);
  const int64_t context = std::min(e.context_tokens, model.config().max_context);
  const int64_t one = (context + e.page_tokens - 1) / e.page_tokens * layout.PageStrideBytes();
  // Room for the prefix cache beside what runs.
  const int64_t wanted = one * (int64_t{e.max_sequences} + 4);
  const int64_t available = AvailableMemoryBytes();
  return available < 0 ? wanted : std::max(one, std::min(wanted, available / 4));
}

Status ModelHost::CheckBudget(int64_t needed, const std::string& name) const {
  int64_t used = 0;
  for (const auto& [other, bytes] : bytes_) used += bytes;
  if (options_.model_budget_bytes == 0 || used + needed <= options_.model_budget_bytes) return OkStatus();
  return ResourceExhaustedError(
      fmt::format("'{}' takes {} with its KV cache, but of the budget of {} the loaded models take {}; unload one",
                  name, HumanBytes(needed), HumanBytes(options_.model_budget_bytes), HumanBytes(used)));
}

Result<std::unique_ptr<api::Backend>> ModelHost::Open(OpenedModel opened, const std::string& name) {
  const engine::LocalModel* draft = opened.local->draft();
  const model::DraftHead* head = opened.local->head();
  const int64_t drafting = (draft == nullptr ? 0 : draft->model().weight_bytes()) +
                           (head == nullptr ? 0 : head->weight_bytes());
  const int64_t weights = opened.local->model().weight_bytes() + drafting;
  const std::string digest = KnownDigest(opened.path);
  if (opened.local->config().encoder) {
    SURETY_RETURN_IF_ERROR(CheckBudget(weights, name));
    SURETY_ASSIGN_OR_RETURN(auto backend, engine::MakeEmbeddingBackend(std::move(opened.local), name, digest));
    bytes_[name] = weights;
    return backend;
  }
  engine::BackendOptions options = options_.backend;
  options.name = name;
  options.digest = options.engine.model_digest = digest;
  options.engine.kv_budget_bytes = KvBytesFor(*opened.local);
  const engine::EngineOptions& e = options.engine;
  const int64_t draft_kv =
      draft == nullptr ? 0
                       : engine::DraftModel::PoolBytes(*opened.local, opened.local->config().KvLayoutFor(e.kv_type,
                                                                                                       e.page_tokens),
                                                       e.max_sequences, e.context_tokens);
  const int64_t needed = weights + options.engine.kv_budget_bytes + draft_kv;
  SURETY_RETURN_IF_ERROR(CheckBudget(needed, name));
  SURETY_ASSIGN_OR_RETURN(auto backend, engine::MakeLocalBackend(std::move(opened.local), options, &metrics_));
  bytes_[name] = needed;
  return backend;
}

Result<boost::json::object> ModelHost::Load(const std::string& model, const std::string& name,
                                            const DraftFlags& drafts) {
  const std::lock_guard lock(mutex_);
  ModelFlags flags;
  flags.model = model;
  flags.threads = options_.threads;
  SURETY_ASSIGN_OR_RETURN(OpenedModel opened, OpenModel(flags, drafts));
  const std::string served_as = name.empty() ? ModelNameOf(opened.path) : name;
  if (bytes_.contains(served_as)) {
    return Error(Status(StatusCode::kAlreadyExists, "a model '" + served_as + "' is loaded already"));
  }
  boost::json::object report = DescribeModel(opened);
  report["model"] = served_as;
  SURETY_ASSIGN_OR_RETURN(std::shared_ptr<api::Backend> backend, Open(std::move(opened), served_as));
  report["context_tokens"] = backend->description().context_tokens;
  report["memory_bytes"] = bytes_[served_as];
  if (const Status status = models_->Add(served_as, std::move(backend)); !status.ok()) {
    bytes_.erase(served_as);
    return Error(status);
  }
  return report;
}

Result<boost::json::object> ModelHost::Unload(const std::string& name) {
  const std::lock_guard lock(mutex_);
  SURETY_ASSIGN_OR_RETURN(std::shared_ptr<api::Backend> backend, models_->Remove(name));
  backend->Drain(options_.unload_limit_ms);
  const std::string served_as = backend->description().name;
  backend.reset();
  const int64_t freed = bytes_[served_as];
  bytes_.erase(served_as);
  ReturnFreedMemory();
  return boost::json::object{{"model", served_as}, {"memory_bytes", freed}};
}

void ModelHost::Drain(int64_t limit_ms) {
  for (const auto& model : models_->List()) {
    if (model.id == model.root) model.backend->Drain(limit_ms);
  }
}

}  // namespace surety::cli
