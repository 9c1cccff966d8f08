#include "engine/local_backend.h"

#include <algorithm>
#include <atomic>
#include <condition_variable>
#include <mutex>
#include <span>
#include <thread>
#include <unordered_map>
#include <utility>
#include <vector>

#include "engine/admission.h"
#include "engine/model_description.h"
#include "engine/scheduler.h"
#include "engine/serving_metrics.h"
#include "engine/step_log.h"
#include "engine/text_front.h"

namespace surety::engine {
namespace {

struct Arrival {
  PreparedRequest prepared;
  api::EventSink sink;
  int64_t arrival_ns = 0;
};

struct OpenRequest {
  api::EventSink sink;
  int n_open = 0;
  bool started = false;
};

api::ModelDescription Describe(const LocalModel& model, const BackendOptions& options, const EngineOptions& in_force,
                               const Clock& clock) {
  api::ModelDescription description = DescribeLocalModel(model, options.name, options.digest, clock);
  description.context_tokens = in_force.context_tokens;
  description.generates = true;
  return description;
}

class LocalBackend final : public api::Backend {
 public:
  LocalBackend(std::unique_ptr<LocalModel> model, std::unique_ptr<Engine> engine, const BackendOptions& options,
               observe::Registry* metrics, Clock& clock)
      : model_(std::move(model)), engine_(std::move(engine)), options_(options), clock_(clock),
        description_(Describe(*model_, options, engine_->options(), clock)),
        admission_(AdmissionOptionsOf(options)),
        metrics_(metrics, options.name, engine_->options(), engine_->pages().n_pages()),
        progress_ns_(clock.NowNanos()) {
    for (const auto& [tenant, weight] : options.tenant_weights) engine_->scheduler().queue().SetWeight(tenant, weight);
    admission_.SetPlacesFree(engine_->options().max_sequences);
    thread_ = std::thread([this] { Loop(); });
  }

  ~LocalBackend() override {
    Drain(0);
    {
      const std::lock_guard lock(mutex_);
      stop_ = true;
    }
    wake_.notify_all();
    thread_.join();
  }

  const api::ModelDescription& description() const override { return description_; }

  api::Health health() const override {
    if (draining_.load(std::memory_order_relaxed)) return api::Health::kDraining;
    const bool has_work = busy_.load(std::memory_order_acquire);
    const int64_t since = clock_.NowNanos() - progress_ns_.load(std::memory_order_acquire);
    return has_work && since > options_.stall_ms * 1'000'000 ? api::Health::kStalled : api::Health::kReady;
  }

  std::expected<api::RequestId, api::Refusal> Submit(api::GenerationRequest request, api::EventSink sink) override;
  void Cancel(api::RequestId id) override {
    {
      const std::lock_guard lock(mutex_);
      cancels_.push_back(id);
    }
    wake_.notify_all();
  }

  Result<std::vector<api::TokenId>> Tokenize(const api::GenerationRequest& request) const override {
    return engine_->Tokenize(request);
  }
  Result<std::vector<api::TokenId>> TokenizeText(std::string_view text, bool add_special,
                                                 bool parse_special) const override {
    SURETY_RETURN_IF_ERROR(CheckUtf8(text, "the text"));
    return model_->tokenizer().Encode(text, parse_special, {.add_special = add_special});
  }
  Result<std::string> RenderTemplate(const api::GenerationRequest& request) const override {
    return RenderMessages(*model_, request, clock_.WallNanos() / 1'000'000'000);
  }
  Result<std::string> Detokenize(std::span<const api::TokenId> tokens) const override {
    return DetokenizeAll(model_->tokenizer(), tokens);
  }
  std::string TokenBytes(api::TokenId token) const override {
    if (token < 0 || token >= model_->tokenizer().vocab_size()) return "";
    return std::string(model_->tokenizer().TokenBytes(token));
  }

  Result<std::vector<api::EmbeddingResult>> Embed(std::span<const std::string>) override { return NoEmbeddings(); }
  Result<std::vector<api::EmbeddingResult>> EmbedTokens(std::span<const std::vector<api::TokenId>>) override {
    return NoEmbeddings();
  }

  Result<api::ForgetReceipt> Forget(const api::Scope& scope, api::ForgetExtent extent) override;
  void Drain(int64_t limit_ms) override;
  boost::json::object DebugState() const override;
  boost::json::array RecentSteps(int n) const override;
  Status Audit(bool free_pages_are_zero);

 private:
  static AdmissionOptions AdmissionOptionsOf(const BackendOptions& options) {
    AdmissionOptions result;
    result.max_waiting = options.max_waiting;
    result.max_waiting_per_tenant =
        options.max_waiting_per_tenant > 0 ? options.max_waiting_per_tenant : options.max_waiting;
    result.max_queue_wait_ns = options.max_queue_wait_ms * 1'000'000;
    return result;
  }
  std::unexpected<Status> NoEmbeddings() const {
    return Error(UnimplementedError("'" + description_.name + "' generates text; load an encoder for embeddings"));
  }
  // Runs `fn` on the engine thread, between two steps, and waits for it.
  void OnEngineThread(std::function<void()> fn);
  void Loop();
  bool TakeMail();
  void Dispatch(std::vector<api::Event>& events);
  void Publish();

  std::unique_ptr<LocalModel> model_;
  std::unique_ptr<Engine> engine_;
  BackendOptions options_;
  Clock& clock_;
  api::ModelDescription description_;
  Admission admission_;
  std::mutex metrics_mutex_;   // refusals come from any thread
  ServingMetrics metrics_;
  std::unordered_map<api::RequestId, OpenRequest> open_;   // the engine thread's

  mutable std::mutex mutex_;   // guards the mail
  std::condition_variable wake_, quiet_;
  std::vector<Arrival> arrivals_;
  std::vector<api::RequestId> cancels_;
  std::vector<std::function<void()>> calls_;
  bool stop_ = false, stopped_ = false, is_quiet_ = true;

  std::atomic<bool> draining_{false}, busy_{false};
  std::atomic<int64_t> progress_ns_;
  std::thread thread_;
};

std::expected<api::RequestId, api::Refusal> LocalBackend::Submit(api::GenerationRequest request, api::EventSink sink) {
  const auto refuse = [this](api::Refusal refusal) {
    const std::lock_guard lock(metrics_mutex_);
    metrics_.Refused(refusal.status.code());
    return std::unexpected(std::move(refusal));
  };
  if (request.scope.tenant.empty()) request.scope.tenant = options_.default_tenant;
  const std::string tenant = request.scope.tenant;
  const int64_t timeout_ms = request.timeout_ms;
  auto prepared = engine_->Prepare(std::move(request));
  if (!prepared) return refuse({prepared.error(), "", 0});
  const api::RequestId id = prepared->id;
  if (auto refusal = admission_.Enter(id, tenant, timeout_ms)) return refuse(std::move(*refusal));
  {
    const std::lock_guard lock(mutex_);
    is_quiet_ = false;
    arrivals_.push_back({*std::move(prepared), std::move(sink), clock_.NowNanos()});
  }
  wake_.notify_all();
  return id;
}

bool LocalBackend::TakeMail() {
  std::vector<Arrival> arrivals;
  std::vector<api::RequestId> cancels;
  std::vector<std::function<void()>> calls;
  bool stopping = false;
  {
    std::unique_lock lock(mutex_);
    const auto has_mail = [this] { return stop_ || !arrivals_.empty() || !cancels_.empty() || !calls_.empty(); };
    if (engine_->idle()) {
      busy_.store(false, std::memory_order_release);
      if (!has_mail()) {
        is_quiet_ = true;
        quiet_.notify_all();
        wake_.wait(lock, has_mail);
      }
      progress_ns_.store(clock_.NowNanos(), std::memory_order_release);
    }
    busy_.store(true, std::memory_order_release);
    arrivals.swap(arrivals_);
    cancels.swap(cancels_);
    calls.swap(calls_);
    stopping = stop_;
    if (stop_ && arrivals.empty() && calls.empty() && engine_->idle()) {
      stopped_ = true;
      quiet_.notify_all();
      return false;
    }
  }
  for (Arrival& arrival : arrivals) {
    const api::RequestId id = arrival.prepared.id;
    {
      const std::lock_guard lock(metrics_mutex_);
      metrics_.Arrived(id, arrival.arrival_ns, arrival.prepared.request);
    }
    open_[id] = {std::move(arrival.sink), arrival.prepared.request.n_choices, false};
    engine_->Submit(std::move(arrival.prepared), arrival.arrival_ns);
  }
  for (const api::RequestId id : cancels) engine_->Cancel(id);
  if (stopping) {  // one that was let in just before the drain ends like the others
    for (const auto& [id, open] : open_) engine_->Cancel(id);
  }
  for (const auto& call : calls) call();
  return true;
}

void LocalBackend::Loop() {
  std::vector<api::Event> events;
  while (TakeMail()) {
    events.clear();
    const Status status = engine_->Step(events);
    (void)status;  // a step's failure reaches its requests as events
    Publish();
    Dispatch(events);
    const std::lock_guard lock(metrics_mutex_);
    metrics_.SetWaiting(admission_.n_waiting());  // without those that ended before they were taken up
  }
}

// What the last step changed, for admission, health and metrics.
void LocalBackend::Publish() {
  const int64_t now = clock_.NowNanos();
  for (const api::RequestId id : engine_->started()) {
    admission_.Started(id, now);
    if (const auto it = open_.find(id); it != open_.end()) it->second.started = true;
  }
  const int running = static_cast<int>(engine_->scheduler().running().size());
  admission_.SetPlacesFree(engine_->options().max_sequences - running);
  admission_.SetExpectedInterval(engine_->scheduler().ExpectedServiceNs() / engine_->options().max_sequences);
  progress_ns_.store(now, std::memory_order_release);
  const std::lock_guard lock(metrics_mutex_);
  const kv::PagePool& pages = engine_->pages();
  metrics_.AfterStep(*engine_, admission_.n_waiting(), static_cast<double>(pages.n_used()) / pages.n_pages());
}

void LocalBackend::Dispatch(std::vector<api::Event>& events) {
  const int64_t now = clock_.NowNanos();
  for (api::Event& event : events) {
    const auto it = open_.find(event.request);
    if (it == open_.end()) continue;
    {
      const std::lock_guard lock(metrics_mutex_);
      metrics_.OnEvent(event, now);
    }
    const bool ends = event.finish != api::FinishReason::kNone && --it->second.n_open == 0;
    if (!ends) {
      it->second.sink(std::move(event));
      continue;
    }
    const OpenRequest last = std::move(it->second);
    open_.erase(it);
    if (!last.started) admission_.Left(event.request);
    last.sink(std::move(event));
  }
}

void LocalBackend::OnEngineThread(std::function<void()> fn) {
  std::mutex done_mutex;
  std::condition_variable done_wake;
  bool done = false;
  {
    const std::lock_guard lock(mutex_);
    if (stopped_) return;
    is_quiet_ = false;
    calls_.push_back([&] {
      fn();
      const std::lock_guard done_lock(done_mutex);
      done = true;
      done_wake.notify_all();
    });
  }
  wake_.notify_all();
  std::unique_lock lock(done_mutex);
  done_wake.wait(lock, [&] { return done; });
}

Result<api::ForgetReceipt> LocalBackend::Forget(const api::Scope& asked, api::ForgetExtent extent) {
  api::Scope scope = asked;
  if (scope.tenant.empty()) scope.tenant = options_.default_tenant;
  Result<kv::ForgetReceipt> receipt = Error(UnavailableError("the model has been unloaded"));
  OnEngineThread([&] { receipt = engine_->ForgetScope(scope, extent); });
  if (!receipt) return Error(receipt.error());
  return api::ForgetReceipt{receipt->pages, receipt->bytes, receipt->pages_in_use};
}

void LocalBackend::Drain(int64_t limit_ms) {
  admission_.Drain();
  draining_.store(true, std::memory_order_relaxed);
  std::unique_lock lock(mutex_);
  const auto is_quiet = [this] { return is_quiet_ || stopped_; };
  if (quiet_.wait_for(lock, std::chrono::milliseconds(limit_ms), is_quiet)) return;
  lock.unlock();
  OnEngineThread([this] {
    for (const auto& [id, open] : open_) engine_->Cancel(id);
  });
  lock.lock();
  quiet_.wait(lock, is_quiet);
}

boost::json::object LocalBackend::DebugState() const {
  boost::json::object state;
  auto* self = const_cast<LocalBackend*>(this);  // it only looks, on the thread that may
  self->OnEngineThread([&] {
    const EngineCounters& c = engine_->counters();
    const kv::PagePool& pages = self->engine_->pages();
    state["model"] = description_.name;
    state["health"] = api::NameOf(health());
    state["requests_open"] = open_.size();
    state["requests_waiting"] = admission_.n_waiting();
    state["predicted_wait_seconds"] = static_cast<double>(admission_.PredictedWaitNs()) * 1e-9;
    state["sequences_running"] = engine_->scheduler().running().size();
    state["pages"] = pages.n_pages();
    state["pages_free"] = pages.n_free();
    const kv::PrefixCacheStats& cache = self->engine_->cache().stats();
    state["cache_pages"] = self->engine_->cache().n_pages();
    state["cache_query_tokens"] = cache.query_tokens;
    state["cache_hit_tokens"] = cache.hit_tokens;
    state["cache_evicted_pages"] = cache.evicted_pages;
    state["cache_restored_pages"] = cache.restored_pages;
    state["steps"] = c.n_steps;
    state["prompt_tokens_cached"] = c.prompt_tokens_cached;
    state["prompt_tokens_computed"] = c.prompt_tokens_computed;
    state["rows_recomputed"] = c.rows_recomputed;
    state["output_tokens"] = c.output_tokens;
    if (!description_.draft_model.empty()) state["draft_model"] = description_.draft_model;
    if (const model::DraftHead* head = self->model_->head(); head != nullptr) {
      state["draft_head"] = head->recipe().Describe();
      if (self->model_->head_acceptance() >= 0) state["draft_head_acceptance"] = self->model_->head_acceptance();
    }
    state["draft_tokens"] = self->engine_->speculation().draft_tokens();
    state["accepted_tokens"] = self->engine_->speculation().accepted_tokens();
    const spec::AcceptanceMonitor& monitor = self->engine_->speculation_monitor();
    state["drafts_checked"] = monitor.n_trials();
    state["draft_bias"] = monitor.bias();
    state["draft_alarm"] = monitor.alarm();
    state["preemptions"] = c.preemptions;
    state["pages_swapped"] = c.pages_swapped;
    state["pages_left_to_recompute"] = c.pages_left_to_recompute;
  });
  return state;
}

boost::json::array LocalBackend::RecentSteps(int n) const {
  std::vector<StepRecord> records;
  auto* self = const_cast<LocalBackend*>(this);  // it only looks, on the thread that may
  self->OnEngineThread([&] { records = engine_->step_log().Last(n); });
  boost::json::array steps;
  for (const StepRecord& record : records) steps.push_back(ToJson(record));
  return steps;
}

Status LocalBackend::Audit(bool free_pages_are_zero) {
  Status status = UnavailableError("the model has been unloaded");
  OnEngineThread([&] {
    status = engine_->cache().Audit();
    kv::PagePool& pages = engine_->pages();
    const int cached = engine_->cache().n_pages();
    if (status.ok() && engine_->idle() && pages.n_used() != cached) {
      status = InternalError("nothing runs, but of " + std::to_string(pages.n_used()) + " pages in use only " +
                             std::to_string(cached) + " are the cache's");
    }
    for (int32_t page = 0; status.ok() && free_pages_are_zero && page < pages.n_pages(); ++page) {
      if (pages.RefCount(page) > 0) continue;
      const std::span<const std::byte> bytes = pages.Bytes(page);
      if (std::all_of(bytes.begin(), bytes.end(), [](std::byte b) { return b == std::byte{0}; })) continue;
      status = InternalError("page " + std::to_string(page) + " is free and holds what somebody left in it");
    }
  });
  return status;
}

}  // namespace

Status AuditLocalBackend(api::Backend& backend, bool free_pages_are_zero) {
  auto* local = dynamic_cast<LocalBackend*>(&backend);
  if (local == nullptr) return InvalidArgumentError("no backend of a model in this process");
  return local->Audit(free_pages_are_zero);
}

Status BackendOptions::Validate() const {
  if (name.empty()) return InvalidArgumentError("a served model needs a name");
  if (max_waiting < 1) {
    return InvalidArgumentError("max_waiting is " + std::to_string(max_waiting) + ", but must be positive");
  }
  if (max_waiting_per_tenant < 0) {
    return InvalidArgumentError("max_waiting_per_tenant is " + std::to_string(max_waiting_per_tenant) +
                                ", but must be 0 (max_waiting) or positive");
  }
  if (max_queue_wait_ms < 0 || max_queue_wait_ms > 86'400'000) {
    return InvalidArgumentError("max_queue_wait_ms is " + std::to_string(max_queue_wait_ms) +
                                ", but must be from 0 (any) to 86400000");
  }
  if (stall_ms < 1 || stall_ms > 86'400'000) {
    return InvalidArgumentError("stall_ms is " + std::to_string(stall_ms) + ", but must be from 1 to 86400000");
  }
  for (const auto& [tenant, weight] : tenant_weights) {
    if (weight > 0 && weight <= 1e6) continue;
    return InvalidArgumentError("the weight of tenant '" + tenant + "' must be above 0 and at most 1000000");
  }
  return engine.Validate();
}

Result<std::unique_ptr<api::Backend>> MakeLocalBackend(std::unique_ptr<LocalModel> model, const BackendOptions& options,
                                                       observe::Registry* metrics, Clock& clock) {
  SURETY_RETURN_IF_ERROR(options.Validate());
  SURETY_ASSIGN_OR_RETURN(auto engine, Engine::Make(*model, options.engine, clock));
  return std::make_unique<LocalBackend>(std::move(model), std::move(engine), options, metrics, clock);
}

}  // namespace surety::engine
