#include "gateway/governed_backend.h"

#include <algorithm>
#include <array>
#include <chrono>
#include <tuple>
#include <utility>

#include "base/check.h"
#include "base/secure_random.h"

namespace surety::gateway {
namespace {

constexpr int kSearchThreads = 4;

std::unexpected<api::Refusal> Refused(Status status, std::string param) {
  return std::unexpected(api::Refusal{std::move(status), std::move(param), 0, nullptr});
}

// What a path that looks at whole texts cannot honour is refused, never dropped.
std::optional<api::Refusal> Unsupported(const api::GenerationRequest& request) {
  const auto no = [](const char* param, const char* why) {
    return api::Refusal{UnimplementedError(why), param, 0, nullptr};
  };
  if (request.has_tokens) return no("tokens", "a governed model takes messages or a text, not token ids");
  if (request.n_choices != 1) return no("n_choices", "a governed model gives one answer: 'n' must be 1");
  if (request.n_logprobs >= 0) return no("n_logprobs", "a governed model gives no logprobs");
  if (request.n_prompt_logprobs >= 0) return no("n_prompt_logprobs", "a governed model gives no logprobs");
  return std::nullopt;
}

// Wherever it stands in the file.
bool SameBudget(const BudgetSpec& a, const BudgetSpec& b) {
  const auto fields = [](const BudgetSpec& spec) {
    return std::tie(spec.scope, spec.only, spec.max_budget, spec.budget_duration_ns, spec.calendar_month,
                    spec.rpm_limit, spec.tpm_limit, spec.max_parallel_requests, spec.shadow);
  };
  return fields(a) == fields(b);
}

std::shared_ptr<api::Backend> PrimaryOf(const PolicyRuntime& runtime) {
  for (const auto& [name, spec] : runtime.policy->models) {
    if (spec.engine == ModelSpec::Engine::kLocal) return runtime.models.at(name);
  }
  return runtime.models.empty() ? nullptr : runtime.models.begin()->second;
}

}  // namespace

std::string NewDecisionId(int64_t wall_ns) {
  static constexpr std::string_view kDigits = "0123456789abcdefghjkmnpqrstvwxyz";
  std::array<unsigned char, 10> random = {};
  SURETY_CHECK(SecureRandom(random));
  std::string id;
  id.reserve(30);
  id = "dec_";
  const auto millis = static_cast<uint64_t>(wall_ns / 1'000'000);
  for (int shift = 45; shift >= 0; shift -= 5) id += kDigits[(millis >> shift) & 31];
  uint32_t bits = 0;
  int n_bits = 0;
  for (const unsigned char byte : random) {
    bits = bits << 8 | byte;
    for (n_bits += 8; n_bits >= 5; n_bits -= 5) id += kDigits[(bits >> (n_bits - 5)) & 31];
  }
  return id;
}

Result<std::shared_ptr<GovernedBackend>> GovernedBackend::Make(Options options,
                                                               std::shared_ptr<const PolicyRuntime> runtime) {
  if (PrimaryOf(*runtime) == nullptr) {
    return Error(InvalidArgumentError("policy '" + runtime->policy->id + "' names no model"));
  }
  return std::shared_ptr<GovernedBackend>(new GovernedBackend(std::move(options), std::move(runtime)));
}

GovernedBackend::GovernedBackend(Options options, std::shared_ptr<const PolicyRuntime> runtime)
    : options_(std::move(options)), primary_(PrimaryOf(*runtime)), runtime_(std::move(runtime)) {
  description_ = primary_->description();
  description_.name = options_.name;
  description_.governed = true;
  quota_ = Quota::Make(runtime_->policy->budgets, *options_.clock);
  workers_ = std::make_unique<WorkerPool>(options_.n_workers, options_.max_waiting);
  services_.clock = options_.clock;
  ticker_ = std::make_unique<ProgressTicker>(*options_.clock);
  services_.ticker = ticker_.get();
  searchers_ = std::make_unique<WorkerPool>(kSearchThreads, options_.max_waiting);
  services_.post = [this](Task step) { return workers_->Continue(std::move(step)); };
  services_.post_search = searchers_->AsPostTask();
  services_.searches_here = &searches_here_;
  services_.max_searches_here = options_.n_workers / 4;
  services_.cache = options_.cache.get();
  services_.audit = options_.audit.get();
  services_.review = options_.review.get();
  services_.ledger = options_.ledger.get();
  services_.vault = options_.vault.get();
  services_.scopes = options_.scopes.get();
  services_.personal = options_.personal;
  services_.cross_partition_hits = &cross_partition_hits_;
  services_.decision_rows = &decision_rows_;
  services_.start_shadow = [this](auto policy, api::GenerationRequest request, CacheShadow shadow) {
    return StartShadow(std::move(policy), std::move(request), std::move(shadow));
  };
}

GovernedBackend::~GovernedBackend() {
  Drain(0);
  workers_.reset();
}

void GovernedBackend::Use(std::shared_ptr<const PolicyRuntime> runtime) {
  options_.ledger->UsePolicy(*runtime->policy);
  const std::lock_guard lock(mutex_);
  if (!std::ranges::equal(runtime->policy->budgets, runtime_->policy->budgets, SameBudget)) {
    std::shared_ptr<Quota> quota = Quota::Make(runtime->policy->budgets, *options_.clock);
    // What is spent stays spent; windows that the new policy does not know are dropped.
    const Status restored = quota->Restore(quota_->Save());
    (void)restored.ok();
    quota_ = std::move(quota);
  }
  runtime_ = std::move(runtime);
}

boost::json::object GovernedBackend::SavedBudgets() const {
  const std::lock_guard lock(mutex_);
  return quota_->Save();
}

Status GovernedBackend::RestoreBudgets(const boost::json::object& saved) {
  const std::lock_guard lock(mutex_);
  return quota_->Restore(saved);
}

std::shared_ptr<const PolicyRuntime> GovernedBackend::runtime() const {
  const std::lock_guard lock(mutex_);
  return runtime_;
}

api::Health GovernedBackend::health() const {
  if (options_.audit->failed()) return api::Health::kStalled;
  api::Health worst = api::Health::kReady;
  const auto held = runtime();  // a reload may come in between
  for (const auto& [name, model] : held->models) worst = std::max(worst, model->health());
  return worst;
}

std::expected<api::RequestId, api::Refusal> GovernedBackend::Submit(api::GenerationRequest request,
                                                                    api::EventSink sink) {
  if (auto refusal = Unsupported(request)) return std::unexpected(*std::move(refusal));
  GovernedTask::Setup setup;
  setup.services = &services_;
  setup.request = std::move(request);
  setup.sink = std::move(sink);
  setup.decision = NewDecisionId(options_.clock->WallNanos());
  std::shared_ptr<GovernedTask> task;
  api::RequestId id = 0;
  {
    const std::lock_guard lock(mutex_);
    if (draining_) return Refused(UnavailableError("the server is shutting down"), "");
    if (tasks_.size() >= options_.max_open) {
      const Status full = ResourceExhaustedError("too many governed requests are open");
      return std::unexpected(api::Refusal{full, "", 1, nullptr});
    }
    id = next_id_++;
    setup.id = id;
    setup.runtime = runtime_;
    setup.quota = quota_;
    setup.ended = [this, id] {
      ++n_ended_;
      const std::lock_guard ended_lock(mutex_);
      tasks_.erase(id);
      ended_.notify_all();
    };
    task = std::make_shared<GovernedTask>(std::move(setup));
    tasks_[id] = task;
  }
  if (workers_->Post([task] { task->Start(); })) return id;
  const std::lock_guard lock(mutex_);
  tasks_.erase(id);
  ended_.notify_all();
  api::Refusal refusal{ResourceExhaustedError("too many governed requests wait"), "", 1, nullptr};
  return std::unexpected(std::move(refusal));
}

// One at a time, so that they take no more than one place of those who wait.
bool GovernedBackend::StartShadow(std::shared_ptr<const PolicyRuntime> runtime, api::GenerationRequest request,
                                  CacheShadow shadow) {
  GovernedTask::Setup setup;
  setup.services = &services_;
  setup.request = std::move(request);
  setup.sink = [](api::Event) {};
  setup.decision = shadow.decision;
  setup.shadow = std::move(shadow);
  setup.runtime = std::move(runtime);
  std::shared_ptr<GovernedTask> task;
  api::RequestId id = 0;
  const auto end = [this](api::RequestId ended) {
    const std::lock_guard lock(mutex_);
    tasks_.erase(ended);
    shadow_runs_ = false;
    ended_.notify_all();
  };
  {
    const std::lock_guard lock(mutex_);
    if (draining_ || shadow_runs_) return false;
    shadow_runs_ = true;
    id = next_id_++;
    setup.id = id;
    setup.quota = quota_;
    setup.ended = [end, id] { end(id); };
    task = std::make_shared<GovernedTask>(std::move(setup));
    tasks_[id] = task;
  }
  if (workers_->Post([task] { task->Start(); })) return true;
  end(id);
  return false;
}

int64_t GovernedBackend::decisions_without_row() const {
  const int64_t ended = n_ended_;  // first: each has counted its row before
  return std::max<int64_t>(ended - decision_rows_, 0);
}

int64_t GovernedBackend::cross_partition_hits() const {
  return cross_partition_hits_ + options_.cache->counters().cross_partition_hits;
}

void GovernedBackend::Cancel(api::RequestId id) {
  std::shared_ptr<GovernedTask> task;
  {
    const std::lock_guard lock(mutex_);
    const auto found = tasks_.find(id);
    if (found == tasks_.end()) return;
    task = found->second;
  }
  task->Cancel();
}

Result<std::vector<api::TokenId>> GovernedBackend::Tokenize(const api::GenerationRequest& request) const {
  return primary_->Tokenize(request);
}

Result<std::vector<api::TokenId>> GovernedBackend::TokenizeText(std::string_view text, bool add_special,
                                                                bool parse_special) const {
  return primary_->TokenizeText(text, add_special, parse_special);
}

Result<std::string> GovernedBackend::RenderTemplate(const api::GenerationRequest& request) const {
  return primary_->RenderTemplate(request);
}

Result<std::string> GovernedBackend::Detokenize(std::span<const api::TokenId> tokens) const {
  return primary_->Detokenize(tokens);
}

std::string GovernedBackend::TokenBytes(api::TokenId token) const { return primary_->TokenBytes(token); }

Result<std::vector<api::EmbeddingResult>> GovernedBackend::Embed(std::span<const std::string> texts) {
  return primary_->Embed(texts);
}

Result<std::vector<api::EmbeddingResult>> GovernedBackend::EmbedTokens(
    std::span<const std::vector<api::TokenId>> sequences) {
  return primary_->EmbedTokens(sequences);
}

Result<api::ForgetReceipt> GovernedBackend::Forget(const api::Scope& scope, api::ForgetExtent extent) {
  api::ForgetReceipt sum;
  const auto held = runtime();
  for (const auto& [name, model] : held->models) {
    auto receipt = model->Forget(scope, extent);
    if (!receipt && receipt.error().code() == StatusCode::kUnimplemented) continue;  // keeps nothing of its own
    if (!receipt) return Error(receipt.error().WithContext("model '" + name + "'"));
    sum.pages += receipt->pages;
    sum.bytes += receipt->bytes;
    sum.pages_in_use += receipt->pages_in_use;
  }
  return sum;
}

void GovernedBackend::Drain(int64_t limit_ms) {
  std::unique_lock lock(mutex_);
  draining_ = true;
  if (ended_.wait_for(lock, std::chrono::milliseconds(limit_ms), [this] { return tasks_.empty(); })) return;
  std::vector<std::shared_ptr<GovernedTask>> running;
  for (const auto& [id, task] : tasks_) running.push_back(task);
  lock.unlock();
  for (const auto& task : running) task->Cancel();
  running.clear();
  lock.lock();
  ended_.wait(lock, [this] { return tasks_.empty(); });
}

boost::json::object GovernedBackend::DebugState() const {
  const auto now = runtime();
  boost::json::object out{{"model", options_.name},
                          {"policy", now->policy->id},
                          {"policy_version", now->policy->version},
                          {"policy_digest", now->policy->digest},
                          {"cache_entries", options_.cache->n_entries()},
                          {"cache_bytes", options_.cache->bytes()},
                          {"cross_partition_hits", cross_partition_hits()},
                          {"decisions_without_row", decisions_without_row()},
                          {"audit_rows", options_.audit->n_rows()},
                          {"audit_failed", options_.audit->failed()}};
  boost::json::array models;
  for (const auto& [name, model] : now->models) models.push_back(model->DebugState());
  out["models"] = std::move(models);
  const std::lock_guard lock(mutex_);
  out["running"] = tasks_.size();
  out["budgets"] = quota_->State();
  return out;
}

boost::json::array GovernedBackend::RecentSteps(int n) const { return primary_->RecentSteps(n); }

}  // namespace surety::gateway
