// A backend that governs: every request passes the policy, whatever stands behind it. To the HTTP server it is a
// backend like any other; there is no way around it to the models that it holds.
//
// Threads: any. Owns: its workers and tasks; shares models, cache, audit log, review store and ledger with who made it.
// Errors: Submit refuses what the path cannot honour, naming the field: raw token ids, several choices, logprobs (they
// would tell of text that is not released), what finds no room, and everything while draining. No decision is made
// about these, so they have no id and no audit row. What the policy denies is decided, and has its row.
// Invariants: (1) api::Backend's. (2) A request keeps the policy with which it began; Use takes effect with the next.
#pragma once

#include <atomic>
#include <map>
#include <memory>
#include <mutex>
#include <condition_variable>
#include <string>

#include "api/backend.h"
#include "gateway/governed_task.h"

namespace surety::gateway {

class GovernedBackend final : public api::Backend {
 public:
  struct Options {
    std::string name;                      // as requests name it
    int n_workers = 8;
    size_t max_waiting = 4096;             // for a worker to begin them
    size_t max_open = 16'384;              // begun or waiting, until their last event
    const Clock* clock = nullptr;
    std::shared_ptr<ResponseCache> cache;
    std::shared_ptr<AuditLog> audit;
    std::shared_ptr<ReviewStore> review;
    std::shared_ptr<Ledger> ledger;
    std::shared_ptr<PayloadVault> vault;     // null: no texts in the log
    std::shared_ptr<SubjectScopes> scopes;
    PersonalDataFinder personal;
  };
  // `runtime`: has at least one model. kInvalidArgument otherwise.
  static Result<std::shared_ptr<GovernedBackend>> Make(Options options, std::shared_ptr<const PolicyRuntime> runtime);
  ~GovernedBackend() override;

  // From the next request on. Budgets keep what was spent.
  void Use(std::shared_ptr<const PolicyRuntime> runtime);
  std::shared_ptr<const PolicyRuntime> runtime() const;
  // What budgets of money have spent, for a later process (Quota::Save, Quota::Restore).
  boost::json::object SavedBudgets() const;
  Status RestoreBudgets(const boost::json::object& saved);

  // Answers found in a partition that was not asked: must be 0. None of them was released.
  int64_t cross_partition_hits() const;
  // Requests that have ended less the rows of decisions that are on disk: must be 0.
  int64_t decisions_without_row() const;

  const api::ModelDescription& description() const override { return description_; }
  api::Health health() const override;
  std::expected<api::RequestId, api::Refusal> Submit(api::GenerationRequest request, api::EventSink sink) override;
  void Cancel(api::RequestId id) override;
  Result<std::vector<api::TokenId>> Tokenize(const api::GenerationRequest& request) const override;
  Result<std::vector<api::TokenId>> TokenizeText(std::string_view text, bool add_special,
                                                 bool parse_special) const override;
  Result<std::string> RenderTemplate(const api::GenerationRequest& request) const override;
  Result<std::string> Detokenize(std::span<const api::TokenId> tokens) const override;
  std::string TokenBytes(api::TokenId token) const override;
  Result<std::vector<api::EmbeddingResult>> Embed(std::span<const std::string> texts) override;
  Result<std::vector<api::EmbeddingResult>> EmbedTokens(std::span<const std::vector<api::TokenId>> sequences) override;
  Result<api::ForgetReceipt> Forget(const api::Scope& scope, api::ForgetExtent extent) override;
  void Drain(int64_t limit_ms) override;
  boost::json::object DebugState() const override;
  boost::json::array RecentSteps(int n) const override;

 private:
  GovernedBackend(Options options, std::shared_ptr<const PolicyRuntime> runtime);
  bool StartShadow(std::shared_ptr<const PolicyRuntime> runtime, api::GenerationRequest request, CacheShadow shadow);

  Options options_;
  api::ModelDescription description_;
  std::shared_ptr<api::Backend> primary_;  // describes and tokenizes: the first local model, else the first
  GovernanceServices services_;
  mutable std::mutex mutex_;
  std::condition_variable ended_;
  std::shared_ptr<const PolicyRuntime> runtime_;
  std::shared_ptr<Quota> quota_;
  std::map<api::RequestId, std::shared_ptr<GovernedTask>> tasks_;
  api::RequestId next_id_ = 1;
  bool draining_ = false;
  bool shadow_runs_ = false;
  std::atomic<int64_t> cross_partition_hits_ = 0;
  std::atomic<int64_t> decision_rows_ = 0, n_ended_ = 0;   // counted apart, so that a way without a row shows
  std::atomic<int> searches_here_ = 0;
  std::unique_ptr<ProgressTicker> ticker_;
  std::unique_ptr<WorkerPool> searchers_;
  std::unique_ptr<WorkerPool> workers_;    // last: its tasks use the rest
};

// "dec_" and 26 characters that grow with time.
std::string NewDecisionId(int64_t wall_ns);

}  // namespace surety::gateway
