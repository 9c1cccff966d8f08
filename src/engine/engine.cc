#include "engine/engine.h"

#include <algorithm>
#include <atomic>
#include <string>
#include <unordered_map>
#include <utility>

#include "base/check.h"
#include "engine/committed_rows.h"
#include "engine/executor.h"
#include "engine/make_drafters.h"
#include "engine/model_costs.h"
#include "engine/page_keeper.h"
#include "engine/scheduler.h"
#include "engine/step_log.h"
#include "engine/text_front.h"
#include "engine/token_picker.h"

namespace surety::engine {
namespace {

constexpr int kLoggedSteps = 4096;

SchedulerOptions SchedulerOptionsOf(const EngineOptions& options) {
  SchedulerOptions result;
  result.max_sequences = options.max_sequences;
  result.max_rows = options.max_rows;
  result.min_chunk_rows = options.min_chunk_rows;
  result.max_prompt_logit_rows = options.max_prompt_logprob_rows;
  result.itl_target_ns = int64_t{options.itl_target_ms} * 1'000'000;
  result.itl_stretch = options.itl_stretch;
  return result;
}

Sha256Digest DigestOf(const LocalModel& model, const EngineOptions& options) {
  // The draft's keys and values lie beside the target's, so it is a part of what computed a page.
  std::string draft = model.draft() == nullptr ? std::string() : "\ndraft " + model.draft()->source().path();
  if (model.head() != nullptr) draft = "\nhead " + model.head()->recipe().path;
  const std::string text = options.model_digest.empty()
                               ? model.source().path() + "\n" + std::to_string(model.source().file_bytes()) + "\n" +
                                     model.config().architecture + "\n" + std::to_string(model.config().n_layers)
                               : options.model_digest;
  const std::string both = text + draft;
  return Sha256Of(std::as_bytes(std::span(both)));
}

void TakeText(ToolCallText piece, api::Event& event) {
  event.text += piece.text;
  event.tool_calls.insert(event.tool_calls.end(), std::make_move_iterator(piece.calls.begin()),
                          std::make_move_iterator(piece.calls.end()));
}

class EngineImpl final : public Engine {
 public:
  EngineImpl(LocalModel& model, const EngineOptions& options, Clock& clock, std::unique_ptr<kv::PagePool> pool,
             std::unique_ptr<StepExecutor> executor, std::unique_ptr<PageKeeper> keeper, kv::ScopeSecret secret,
             std::vector<std::unique_ptr<Drafter>> drafters)
      : model_(model), options_(options), clock_(clock), pool_(std::move(pool)), executor_(std::move(executor)),
        keeper_(std::move(keeper)), secret_(std::move(secret)), digest_(DigestOf(model, options)),
        speculator_(options.speculation, model.tokenizer(), std::move(drafters),
                    ContextShare(model.model(), pool_->layout())),
        scheduler_(SchedulerOptionsOf(options), *pool_, *keeper_, AttendedPerRow(model.model())),
        shapes_(model.tokenizer(), model.chat_template() != nullptr ? model.source().chat_template() : std::string()),
        picker_(model.executor(), model.tokenizer().vocab_size(), EndIds(model.tokenizer())) {
    plan_.Reserve(options.max_sequences, options.max_rows);
  }

  Result<std::vector<api::TokenId>> Tokenize(const api::GenerationRequest& request) const override {
    return TokenizeRequest(model_, request, clock_.WallNanos() / 1'000'000'000);
  }

  Result<PreparedRequest> Prepare(api::GenerationRequest request) override;
  void Submit(PreparedRequest prepared, int64_t arrival_ns, uint64_t keep) override;

  void Cancel(api::RequestId id) override {
    if (requests_.contains(id)) cancelled_.push_back(id);
  }

  void Forget(uint64_t conversation) override { keeper_->Forget(conversation); }
  void AddDrafter(std::unique_ptr<Drafter> drafter) override { speculator_.Add(std::move(drafter)); }
  bool idle() const override { return scheduler_.idle() && cancelled_.empty(); }
  Status Step(std::vector<api::Event>& events) override;

  const EngineCounters& counters() const override { return counters_; }
  const SpeculationCounters& speculation() const override { return speculator_.counters(); }
  const spec::AcceptanceMonitor& speculation_monitor() const override { return speculator_.monitor(); }
  const Scheduler& scheduler() const override { return scheduler_; }
  Scheduler& scheduler() override { return scheduler_; }
  const StepPlan& last_plan() const override { return plan_; }
  const StepLog& step_log() const override { return log_; }
  Clock& clock() const override { return clock_; }
  const std::vector<api::RequestId>& started() const override { return started_; }
  const EngineOptions& options() const override { return options_; }
  int64_t kv_bytes() const override { return pool_->size_bytes(); }
  int64_t workspace_bytes() const override {
    return model_.model().workspace_bytes() + int64_t{options_.max_logit_rows()} * model_.config().vocab_size * 4;
  }
  kv::PagePool& pages() override { return *pool_; }
  kv::PrefixCache& cache() override { return keeper_->cache(); }
  Result<kv::ForgetReceipt> ForgetScope(const api::Scope& scope, api::ForgetExtent extent) override;

 private:
  Result<kv::ScopeKey> ScopeKeyOf(const api::Scope& scope) const;
  void EndAll(RequestState& state, api::FinishReason reason, const Status& error, std::vector<api::Event>& events);
  void EndExpired(int64_t now, std::vector<api::Event>& events);
  void NoteStart(Sequence& sequence, int64_t now);
  void CommitRows(Sequence& sequence, int n_rows);
  void TakePromptLogprobs(Sequence& sequence, const SequenceStep& step, int first_logit_row);
  std::span<float> LogitsOf(int row);
  void AddJobs(Sequence& sequence, int logit_row, int n_drafted);
  bool Commit(PickJob& job, int64_t now, std::vector<api::Event>& events);
  void TakeOverBranch(Sequence& sequence, const std::vector<int>& path);
  bool CommitToken(PickJob& job, size_t i, int64_t now, std::vector<api::Event>& events);
  void Finish(Sequence& sequence, api::FinishReason reason, api::Event event, std::vector<api::Event>& events);
  void Count(int64_t nanos);
  void Log(int64_t start, int64_t drafted, int64_t planned, int64_t computed, int64_t picked, int n_running);

  LocalModel& model_;
  EngineOptions options_;
  Clock& clock_;
  std::unique_ptr<kv::PagePool> pool_;  // outlives everything below that holds pages
  std::unique_ptr<StepExecutor> executor_;
  std::unique_ptr<PageKeeper> keeper_;
  kv::ScopeSecret secret_;
  Sha256Digest digest_;
  Speculator speculator_;       // with pages of a draft model's own, which requests hold
  std::unordered_map<api::RequestId, std::unique_ptr<RequestState>> requests_;
  Scheduler scheduler_;
  ShapeMaker shapes_;
  TokenPicker picker_;
  StepPlan plan_;
  StepLog log_{kLoggedSteps};
  std::vector<PickJob> jobs_;
  CommittedRowsList committed_;
  std::vector<std::vector<float>> fork_logits_;  // of the choices after the first, for their first token
  std::vector<api::RequestId> cancelled_, started_;
  std::atomic<api::RequestId> next_id_{1};
  int64_t next_deadline_ns_ = 0;                 // no request's deadline is earlier; 0: none has one
  EngineCounters counters_;
};

Result<PreparedRequest> EngineImpl::Prepare(api::GenerationRequest request) {
  const int vocab = model_.tokenizer().vocab_size();
  SURETY_RETURN_IF_ERROR(request.sampling.Validate(vocab));
  for (const api::TokenId id : request.stop_tokens) {
    if (id >= 0 && id < vocab) continue;
    return Error(WrongValue("stop_tokens", id, "from 0 to " + std::to_string(vocab - 1)));
  }
  if (request.n_choices < 1 || request.n_choices > options_.max_sequences) {
    return Error(WrongValue("n_choices", request.n_choices,
                       "from 1 to the " + std::to_string(options_.max_sequences) + " sequences that run together"));
  }
  if (request.n_prompt_logprobs >= 0 && options_.max_prompt_logprob_rows == 0) {
    return Error(InvalidArgumentError("n_prompt_logprobs is not available: max_prompt_logprob_rows is 0"));
  }
  if (request.max_tokens == 0 || request.max_tokens < -1) {
    return Error(WrongValue("max_tokens", request.max_tokens, "positive, or -1 for the rest of the context"));
  }
  SURETY_ASSIGN_OR_RETURN(auto prompt, Tokenize(request));
  if (prompt.empty()) return Error(InvalidArgumentError("the prompt has no tokens"));
  const int n_prompt = static_cast<int>(prompt.size());
  if (n_prompt >= options_.context_tokens) {
    return Error(Status(StatusCode::kOutOfRange,
                        "the prompt has " + std::to_string(n_prompt) + " tokens, but the context of " +
                            std::to_string(options_.context_tokens) + " must hold it and at least one more"));
  }
  PreparedRequest prepared;
  SURETY_ASSIGN_OR_RETURN(prepared.shape, shapes_.Make(request));
  if (prepared.shape != nullptr && prepared.shape->grammar != nullptr && request.ignore_end_of_text) {
    return Error(InvalidArgumentError("ignore_end_of_text and a constraint exclude each other: no text could end"));
  }
  if (!request.scope.tenant.empty()) {
    SURETY_ASSIGN_OR_RETURN(prepared.scope, ScopeKeyOf(request.scope));
  }
  if (!request.prediction.empty() && request.speculate) {
    prepared.prediction = model_.tokenizer().Encode(request.prediction, false, {.add_special = false});
    if (static_cast<int>(prepared.prediction.size()) > options_.context_tokens) {  // no answer is longer
      prepared.prediction.resize(static_cast<size_t>(options_.context_tokens));
    }
  }
  prepared.id = next_id_.fetch_add(1, std::memory_order_relaxed);
  const int room = options_.context_tokens - n_prompt;
  prepared.max_tokens = request.max_tokens < 0 ? room : std::min(request.max_tokens, room);
  prepared.request = std::move(request);
  prepared.prompt = std::move(prompt);
  return prepared;
}

Result<kv::ScopeKey> EngineImpl::ScopeKeyOf(const api::Scope& scope) const {
  if (scope.tenant.empty()) return Error(FailedPreconditionError("without a tenant nothing is shared"));
  kv::ScopeKeyBuilder builder(secret_);
  builder.Tenant(scope.tenant).Region(scope.region).Product(scope.product).PolicyVersion(scope.policy_version);
  builder.Language(scope.language).Eligibility(scope.eligibility).EffectiveDate(scope.effective_date);
  for (const std::string& permission : scope.permissions) builder.Permission(permission);
  if (!scope.salt.empty()) builder.Salt(scope.salt);
  builder.Model(digest_, pool_->layout());
  return builder.Build();
}

Result<kv::ForgetReceipt> EngineImpl::ForgetScope(const api::Scope& scope, api::ForgetExtent extent) {
  SURETY_ASSIGN_OR_RETURN(const kv::ScopeKey key, ScopeKeyOf(scope));
  kv::ScopeSet forgotten = scope.salt.empty() ? kv::ScopeSet(key.family()) : kv::ScopeSet(key);
  if (extent == api::ForgetExtent::kTenant) forgotten = kv::ScopeSet(key.tenant());
  kv::ForgetReceipt receipt = keeper_->cache().Forget(forgotten);
  receipt.bytes += speculator_.Forget(forgotten);
  for (const auto& [id, state] : requests_) {
    const auto& scope_key = state->prepared.scope;
    for (const auto& choice : state->choices) {
      if (choice == nullptr || !scope_key || !forgotten.Covers(*scope_key)) continue;
      state->forgotten = true;  // what it computes later, waiting or after a preemption, is not kept either
      keeper_->MarkIfForgotten(*choice);
      speculator_.Drop(*choice);
    }
  }
  return receipt;
}

void EngineImpl::Submit(PreparedRequest prepared, int64_t arrival_ns, uint64_t keep) {
  auto state = std::make_unique<RequestState>();
  RequestState& s = *state;
  s.prepared = std::move(prepared);
  s.conversation = keep;
  s.arrival_ns = arrival_ns;
  if (s.request().timeout_ms > 0) {
    s.deadline_ns = arrival_ns + s.request().timeout_ms * 1'000'000;
    next_deadline_ns_ = next_deadline_ns_ == 0 ? s.deadline_ns : std::min(next_deadline_ns_, s.deadline_ns);
  }
  const int n = s.n_prompt();
  const int64_t prefill_ns = scheduler_.cost().Predict({n, 0.5 * n * n});
  s.urgency = WaitQueue::Urgency(arrival_ns, prefill_ns, s.request().priority, s.deadline_ns);
  s.n_open = s.request().n_choices;
  s.choices.resize(static_cast<size_t>(s.n_open));
  s.choices[0] = std::make_unique<Sequence>(s, 0, s.prepared.prompt, model_.tokenizer(), *pool_);
  scheduler_.Enqueue(s.choices[0].get());
  requests_[s.id()] = std::move(state);
}

Status EngineImpl::Step(std::vector<api::Event>& events) {
  for (api::RequestId id : std::exchange(cancelled_, {})) {
    if (const auto it = requests_.find(id); it != requests_.end()) {
      EndAll(*it->second, api::FinishReason::kCancelled, OkStatus(), events);
    }
  }
  keeper_->Tidy();
  speculator_.Tidy(clock_.NowNanos());
  started_.clear();
  const int64_t start = clock_.NowNanos();
  EndExpired(start, events);
  speculator_.Plan(scheduler_.running(), keeper_->cache(), start, scheduler_);
  const int64_t drafted = clock_.NowNanos();
  scheduler_.Plan(plan_, start);
  if (plan_.empty()) return OkStatus();
  const int64_t plan_end = clock_.NowNanos();
  const int n_running = static_cast<int>(scheduler_.running().size());
  const std::vector<Sequence*> planned = scheduler_.planned();
  for (Sequence* sequence : planned) NoteStart(*sequence, start);
  if (const Status status = executor_->Run(plan_); !status.ok()) {
    std::vector<RequestState*> failed;
    for (Sequence* sequence : planned) failed.push_back(sequence->state);
    std::sort(failed.begin(), failed.end());
    failed.erase(std::unique(failed.begin(), failed.end()), failed.end());
    for (RequestState* state : failed) EndAll(*state, api::FinishReason::kError, status, events);
    return OkStatus();
  }
  const int64_t computed = clock_.NowNanos();
  jobs_.clear();
  fork_logits_.clear();
  committed_.Begin(speculator_.wants_taps());
  int logit_row = 0;
  for (size_t i = 0; i < planned.size(); ++i) {
    const SequenceStep& step = plan_.sequences[i];
    committed_.Note(*planned[i], step);
    CommitRows(*planned[i], step.n_rows - step.n_drafted);
    TakePromptLogprobs(*planned[i], step, logit_row);
    logit_row += step.n_logits;
    if (planned[i]->rows_left() == 0) AddJobs(*planned[i], logit_row - 1 - step.n_drafted, step.n_drafted);
  }
  picker_.Pick(jobs_);
  const int64_t now = clock_.NowNanos();
  scheduler_.Observe(plan_, now - drafted);
  Count(now - start);
  for (PickJob& job : jobs_) {
    const Sequence* sequence = job.sequence;
    if (Commit(job, now, events)) committed_.Drop(sequence);
  }
  speculator_.AfterStep(committed_.Final(), executor_->taps());
  if (plan_.n_rows() == plan_.n_decode_rows) speculator_.NoteStep(plan_.n_rows(), plan_.n_decodes, now - drafted);
  Log(start, drafted, plan_end, computed, now, n_running);
  return OkStatus();
}

void EngineImpl::NoteStart(Sequence& sequence, int64_t now) {
  if (sequence.started) return;
  sequence.started = true;
  started_.push_back(sequence.state->id());
  sequence.first_planned_ns = now;
  counters_.prefix_queries += sequence.n_prompt;
}

void EngineImpl::CommitRows(Sequence& sequence, int n_rows) {
  // KV beyond what this choice ever computed was found in the cache, at its start or later.
  const int found = std::max(0, sequence.n_computed - sequence.n_high_water);
  sequence.n_cached += found;
  counters_.prompt_tokens_cached += found;
  const int end = sequence.n_computed + n_rows;
  const int again = std::clamp(sequence.n_high_water - sequence.n_computed, 0, n_rows);
  counters_.rows_recomputed += again;
  const int first_new = sequence.n_computed + again;
  counters_.prompt_tokens_computed += std::max(0, std::min(end, sequence.n_prompt) - first_new);
  sequence.n_computed = end;
  sequence.n_high_water = std::max(sequence.n_high_water, end);
  keeper_->Publish(sequence);
}

void EngineImpl::TakePromptLogprobs(Sequence& sequence, const SequenceStep& step, int first_logit_row) {
  const int n_top = sequence.state->request().n_prompt_logprobs;
  if (n_top < 0 || step.first_position >= sequence.n_prompt) return;
  if (step.first_position == 0 && sequence.prompt_logprobs.empty()) {
    sequence.prompt_logprobs.push_back({sequence.tokens[0], 0.0f, {}});
  }
  const auto vocab = static_cast<size_t>(model_.tokenizer().vocab_size());
  for (int row = 0; row < step.n_logits; ++row) {
    const int next = step.first_position + step.n_rows - step.n_logits + row + 1;
    // After a preemption rows come a second time.
    if (next >= sequence.n_prompt || next != static_cast<int>(sequence.prompt_logprobs.size())) continue;
    const std::span<float> logits = executor_->LogitsOf(first_logit_row + row).first(vocab);
    sequence.prompt_status = AllFinite(logits) ? OkStatus() : NotFiniteError(next - 1);
    if (!sequence.prompt_status.ok()) return;
    sequence.prompt_logprobs.push_back(LogprobOf(logits, sequence.tokens[static_cast<size_t>(next)], n_top));
  }
}

// Rows that an embedding has beyond the vocabulary are padding: no text belongs to them.
std::span<float> EngineImpl::LogitsOf(int row) {
  return executor_->LogitsOf(row).first(static_cast<size_t>(model_.tokenizer().vocab_size()));
}

// The first token of all choices comes from the one row that ends the prompt.
void EngineImpl::AddJobs(Sequence& sequence, int logit_row, int n_drafted) {
  const std::span<float> logits = LogitsOf(logit_row);
  RequestState& state = *sequence.state;
  jobs_.emplace_back(&sequence, logits);
  for (int i = 1; i <= n_drafted; ++i) jobs_.back().more_logits.push_back(LogitsOf(logit_row + i));
  if (sequence.n_output() > 0) return;
  state.forked = true;
  fork_logits_.reserve(fork_logits_.size() + state.choices.size());  // spans of it are kept until the step is over
  for (size_t i = 1; i < state.choices.size(); ++i) {
    auto fork = std::make_unique<Sequence>(state, static_cast<int>(i), sequence.tokens, model_.tokenizer(), *pool_);
    fork->started = true;
    fork->n_cached = sequence.n_cached;
    fork->first_planned_ns = sequence.first_planned_ns;
    fork->prompt_logprobs = sequence.prompt_logprobs;
    fork->prompt_status = sequence.prompt_status;
    keeper_->Fork(sequence, *fork);
    fork->n_high_water = sequence.n_computed;
    fork_logits_.emplace_back(logits.begin(), logits.end());
    jobs_.emplace_back(fork.get(), fork_logits_.back());
    committed_.NoteFork(sequence, *fork);
    state.choices[i] = std::move(fork);
    scheduler_.EnqueueFork(state.choices[i].get());
  }
}

// Where the accepted nodes lie on a further branch of the tree, their keys and values are copied to the sequence's own
// pages: no page changes hands.
void EngineImpl::TakeOverBranch(Sequence& sequence, const std::vector<int>& path) {
  const SequenceDraft& draft = sequence.draft;
  const auto own = sequence.pages.pages();
  const auto leaves = std::find_if(path.begin(), path.end(),
                                   [&](int n) { return draft.PagesOf(n, own).data() != own.data(); });
  if (leaves == path.end()) return;
  const KvCopy copy = {draft.PagesOf(path.back(), own), own, sequence.n_tokens() - 1 + draft.tree.depth(*leaves),
                       static_cast<int>(path.end() - leaves)};
  executor_->CopyKv({&copy, 1});
}

// The tokens of a choice, and with each draft that held the KV that its row has written. What was drafted beyond is
// overwritten by the rows to come. True: the choice has ended and is gone.
bool EngineImpl::Commit(PickJob& job, int64_t now, std::vector<api::Event>& events) {
  Sequence& sequence = *job.sequence;
  speculator_.NoteDrafted(sequence);
  speculator_.NoteTrials(sequence, job.trials);
  TakeOverBranch(sequence, job.path);
  for (size_t i = 0; i < job.tokens.size(); ++i) {
    if (i > 0) {
      CommitRows(sequence, 1);
      committed_.NoteDrafted(sequence, job.path[i - 1]);
    }
    if (i < job.path.size()) speculator_.NoteAccepted(sequence, job.path[i]);
    if (CommitToken(job, i, now, events)) return true;
  }
  if (!job.status.ok()) {
    api::Event event;
    event.error = job.status;
    Finish(sequence, api::FinishReason::kError, std::move(event), events);
    return true;
  }
  sequence.draft.Clear();
  sequence.pages.Truncate(sequence.n_tokens());  // what drafts had taken
  return false;
}

// True: the choice has ended and is gone.
bool EngineImpl::CommitToken(PickJob& job, size_t i, int64_t now, std::vector<api::Event>& events) {
  Sequence& sequence = *job.sequence;
  const int32_t token = job.tokens[i];
  api::Event event;
  if (sequence.n_output() == 0) {
    sequence.first_token_ns = now;
    event.prompt_logprobs = std::move(sequence.prompt_logprobs);
  }
  sequence.last_token_ns = now;
  sequence.tokens.push_back(token);
  speculator_.Observe(sequence, token);
  ++counters_.output_tokens;
  event.tokens.push_back(token);
  if (sequence.state->request().n_logprobs >= 0) event.logprobs.push_back(std::move(job.logprobs[i]));
  api::FinishReason finish = api::FinishReason::kNone;
  if (picker_.Ends(sequence, token)) {
    finish = api::FinishReason::kStop;
  } else {
    const std::string_view marker = sequence.shaped.MarkerText(model_.tokenizer(), token);
    std::string piece = sequence.decoder.Push(token);
    piece += marker;
    TakeText(sequence.shaped.Push(sequence.stops.Push(piece)), event);
    if (sequence.stops.stopped()) {
      finish = api::FinishReason::kStop;
      event.stop_text = sequence.stops.stop_text();
    } else if (sequence.tokens_left() <= 0) {
      finish = api::FinishReason::kLength;
    }
  }
  if (finish != api::FinishReason::kNone) {
    Finish(sequence, finish, std::move(event), events);
    return true;
  }
  event.request = sequence.state->id();
  event.choice = sequence.choice;
  events.push_back(std::move(event));
  return false;
}

// Ends a choice: its last event, its KV kept or freed, the choice gone, and with the last one the request.
void EngineImpl::Finish(Sequence& sequence, api::FinishReason reason, api::Event event,
                        std::vector<api::Event>& events) {
  RequestState& state = *sequence.state;
  event.request = state.id();
  event.choice = sequence.choice;
  event.finish = reason;
  std::string rest = sequence.stops.Push(sequence.decoder.Finish());
  rest += sequence.stops.Flush();
  TakeText(sequence.shaped.Push(std::move(rest)), event);
  TakeText(sequence.shaped.Finish(), event);
  if (sequence.stops.stopped() && reason == api::FinishReason::kLength) {
    event.finish = api::FinishReason::kStop;
    event.stop_text = sequence.stops.stop_text();
  }
  event.usage = {state.n_prompt(), sequence.n_cached, sequence.n_output(), sequence.n_drafted, sequence.n_accepted};
  const int64_t now = clock_.NowNanos();
  const int64_t planned = sequence.started ? sequence.first_planned_ns : now;
  event.timings.queue_ns = planned - state.arrival_ns + sequence.preempted_prefill_ns + sequence.preempted_decode_ns +
                           (sequence.preempted && sequence.started ? now - sequence.preempted_since_ns : 0);
  if (sequence.first_token_ns > 0) {
    event.timings.prefill_ns = sequence.first_token_ns - planned - sequence.preempted_prefill_ns;
    event.timings.decode_ns = std::max<int64_t>(
        0, sequence.last_token_ns - sequence.first_token_ns - sequence.preempted_decode_ns);
  }
  events.push_back(std::move(event));
  const bool is_sample = reason == api::FinishReason::kStop || reason == api::FinishReason::kLength;
  if (is_sample) speculator_.Keep(sequence, keeper_->cache(), now);
  scheduler_.Remove(&sequence, is_sample ? sequence.n_output() : -1);
  state.used += sequence.n_output();
  if (sequence.choice == 0 && sequence.started) state.used += state.n_prompt() - sequence.n_cached;
  if (reason != api::FinishReason::kError) keeper_->Keep(sequence);
  state.choices[static_cast<size_t>(sequence.choice)].reset();
  if (--state.n_open > 0) return;
  // Settled: what was charged when its choices got their places against what they used.
  scheduler_.queue().Charge(state.tenant(), state.used - state.charged);
  requests_.erase(state.id());
}

void EngineImpl::EndAll(RequestState& state, api::FinishReason reason, const Status& error,
                        std::vector<api::Event>& events) {
  std::vector<Sequence*> open;
  for (size_t i = 0; i < state.choices.size(); ++i) {
    if (state.choices[i] != nullptr) {
      open.push_back(state.choices[i].get());
    } else if (!state.forked) {  // a choice that has not come into being yet ends all the same
      api::Event event;
      event.request = state.id();
      event.choice = static_cast<int>(i);
      event.finish = reason;
      event.error = error;
      event.usage.prompt_tokens = state.n_prompt();
      event.timings.queue_ns = clock_.NowNanos() - state.arrival_ns;
      events.push_back(std::move(event));
      --state.n_open;
    }
  }
  for (Sequence* sequence : open) {  // the last one takes `state` with it
    api::Event event;
    event.error = error;
    Finish(*sequence, reason, std::move(event), events);
  }
}

void EngineImpl::EndExpired(int64_t now, std::vector<api::Event>& events) {
  if (next_deadline_ns_ == 0 || now < next_deadline_ns_) return;
  next_deadline_ns_ = 0;
  std::vector<RequestState*> expired;
  for (const auto& [id, state] : requests_) {
    if (state->deadline_ns == 0) continue;
    if (state->deadline_ns <= now) {
      expired.push_back(state.get());
    } else {
      next_deadline_ns_ = next_deadline_ns_ == 0 ? state->deadline_ns : std::min(next_deadline_ns_, state->deadline_ns);
    }
  }
  for (RequestState* state : expired) EndAll(*state, api::FinishReason::kTimeout, OkStatus(), events);
}

// A step's time is split over its rows.
void EngineImpl::Count(int64_t nanos) {
  const int64_t decode_rows = plan_.n_decode_rows, prefill_rows = plan_.n_rows() - plan_.n_decode_rows;
  ++counters_.n_steps;
  counters_.prefill_rows += prefill_rows;
  counters_.decode_rows += decode_rows;
  counters_.decode_nanos += nanos * decode_rows / plan_.n_rows();
  counters_.prefill_nanos += nanos * prefill_rows / plan_.n_rows();
  counters_.preemptions = scheduler_.n_preemptions();
  counters_.pages_swapped = keeper_->n_swapped();
  counters_.pages_left_to_recompute = keeper_->n_left_to_recompute();
}

void EngineImpl::Log(int64_t start, int64_t drafted, int64_t planned, int64_t computed, int64_t picked, int n_running) {
  const int64_t end = clock_.NowNanos();
  StepRecord& record = log_.Next();
  record.start_unix_ns = clock_.WallNanos() - (end - start);
  record.predicted_ns = plan_.predicted_ns;
  record.draft_ns = drafted - start;
  record.plan_ns = planned - drafted;
  record.compute_ns = computed - planned;
  record.pick_ns = picked - computed;
  record.commit_ns = end - picked;
  record.decode_rows = plan_.n_decode_rows;
  record.draft_rows = 0;
  for (const SequenceStep& step : plan_.sequences) record.draft_rows += step.n_drafted;
  record.prefill_rows = plan_.n_rows() - plan_.n_decode_rows;
  record.prefills = static_cast<int>(plan_.sequences.size()) - plan_.n_decodes;
  record.attended = plan_.work.attended;
  record.running = n_running;
  record.waiting = scheduler_.queue().size();
  record.pages_free = pool_->n_free();
  record.preemptions = scheduler_.n_preemptions();
}

}  // namespace

Result<api::RequestId> Engine::Submit(const api::GenerationRequest& request, uint64_t keep) {
  SURETY_ASSIGN_OR_RETURN(PreparedRequest prepared, Prepare(request));
  const api::RequestId id = prepared.id;
  Submit(std::move(prepared), clock().NowNanos(), keep);
  return id;
}

Result<std::unique_ptr<Engine>> Engine::Make(LocalModel& model, const EngineOptions& options, Clock& clock) {
  SURETY_RETURN_IF_ERROR(options.Validate());
  if (model.config().encoder) {
    return Error(FailedPreconditionError("'" + model.source().path() + "' is an encoder (" +
                                         model.config().architecture + "): it makes embeddings, not text"));
  }
  EngineOptions in_force = options;
  in_force.context_tokens = std::min(options.context_tokens, model.config().max_context);
  in_force.max_prompt_logprob_rows = std::min(options.max_prompt_logprob_rows, options.max_rows);
  const bool drafts = options.speculation.max_draft_tokens > 0;
  const KvLayout layout =
      LayoutWithDrafts(model, model.config().KvLayoutFor(options.kv_type, options.page_tokens), drafts);
  SURETY_RETURN_IF_ERROR(layout.Validate());
  SURETY_ASSIGN_OR_RETURN(const int n_pages, PagesFor(in_force, layout));
  SURETY_ASSIGN_OR_RETURN(auto pool, kv::PagePool::Make(layout, n_pages));
  SURETY_RETURN_IF_ERROR(KeepHiddenStates(model, drafts));
  SURETY_RETURN_IF_ERROR(model.model().Reserve(options.max_rows, in_force.context_tokens));
  SURETY_ASSIGN_OR_RETURN(auto executor, MakeModelExecutor(model.model(), model.ops(), pool->view(),
                                                           in_force.max_logit_rows(), options.max_rows));
  SURETY_ASSIGN_OR_RETURN(auto drafters, MakeDrafters(model, *pool, options.max_sequences, in_force.context_tokens,
                                                      drafts));
  SURETY_ASSIGN_OR_RETURN(kv::ScopeSecret secret, kv::ScopeSecret::Random());
  PageKeeperOptions keeper_options;
  keeper_options.policy = options.cache_policy;
  keeper_options.host_bytes = options.host_cache_bytes;
  keeper_options.disk_folder = options.disk_cache_folder;
  keeper_options.disk_bytes = options.disk_cache_bytes;
  SURETY_ASSIGN_OR_RETURN(auto keeper, PageKeeper::Make(*pool, clock, keeper_options));
  return std::make_unique<EngineImpl>(model, in_force, clock, std::move(pool), std::move(executor), std::move(keeper),
                                      std::move(secret), std::move(drafters));
}

}  // namespace surety::engine
