#include "gateway/remote_backend.h"

#include <algorithm>
#include <atomic>
#include <condition_variable>
#include <map>
#include <mutex>
#include <optional>
#include <thread>

#include <openssl/rand.h>

#include "base/function_ref.h"
#include "base/hash.h"
#include "gateway/call_pool.h"
#include "gateway/event_stream.h"
#include "gateway/http_access.h"
#include "gateway/remote_answer.h"
#include "gateway/remote_error.h"
#include "gateway/remote_server.h"

namespace surety::gateway {
namespace {

namespace json = boost::json;

constexpr int64_t kMilli = 1'000'000;
constexpr int64_t kAfterDoneNs = 100 * kMilli;      // for the end of the body, so that the connection can be kept
constexpr int64_t kAfterFinishNs = 2000 * kMilli;   // for the usage behind the last choice's end
constexpr int kFailuresUntilStalled = 3, kMaxParallel = 4096;
constexpr size_t kMaxAnswerBytes = 256 << 20;

// One request on its way. Threads: `cancelled` any; the rest belongs to the pool's thread.
struct RemoteCall {
  api::RequestId id = 0;
  api::EventSink sink;
  RemoteBody body;
  int n_choices = 1;
  int64_t submitted_ns = 0, deadline_ns = 0;   // of the real monotonic clock
  bool own_limit = false;                      // the deadline is the request's timeout_ms
  std::atomic<bool> cancelled{false};
};

// Carries one call out and tells its sink.
class RemoteRun {
 public:
  RemoteRun(RemoteCall& call, const RemoteOptions& options, const RemoteServer& server, const Clock& clock)
      : call_(call), options_(options), server_(server), clock_(clock), secrets_(options.Secrets()) {}

  // `settle` hears the outcome before the first last event does, so that whoever acts on that finds it booked. Its
  // status is kCancelled where the caller has cancelled, and ok where the request's own time ran out.
  void Run(FunctionRef<void(const RemoteFailure&)> settle) {
    started_ns_ = last_byte_ns_ = Now();
    std::string text = json::serialize(call_.body.json);
    answer_.emplace(call_.n_choices, text.size(), &secrets_);
    RemoteFailure failure;
    if (!call_.cancelled) failure = Exchange(std::move(text));
    api::FinishReason otherwise = api::FinishReason::kError;
    const bool gave_up = call_.cancelled && (dropped_ || !finished());
    if (gave_up) {
      failure = {CancelledError("cancelled")};
      otherwise = api::FinishReason::kCancelled;
    } else if (failure.status.code() == StatusCode::kDeadlineExceeded && call_.own_limit) {
      failure = {};
      otherwise = api::FinishReason::kTimeout;
    }
    settle(failure);
    End(otherwise, failure.status.WithContext(options_.name));
  }

 private:
  static int64_t Now() { return Clock::Real().NowNanos(); }
  bool finished() const { return answer_->all_finished(); }

  RemoteFailure Exchange(std::string text) {
    HttpCall http = server_.MakeCall(call_.body.chat ? "/chat/completions" : "/completions", false, std::move(text));
    http.headers.emplace_back("Accept", "text/event-stream");
    http.deadline_ns = call_.deadline_ns;
    http.max_body_bytes = kMaxAnswerBytes;
    http.stop = [this] { return Stop(); };
    const auto on_head = [this](const HttpReply& head) {
      last_byte_ns_ = Now();
      const auto type = head.headers.find("content-type");
      streams_ = type == head.headers.end() || !type->second.starts_with("application/json");
    };
    const Result<HttpReply> reply = StreamHttp(http, [this](std::string_view piece) { return Take(piece); }, on_head);
    if (!broken_.ok()) return {broken_};
    if (reply && (reply->status < 200 || reply->status > 299)) return FailureOf(*reply, clock_.WallNanos(), secrets_);
    if (reply) AtEnd();
    if (!broken_.ok()) return {broken_};
    if (finished()) return {};  // complete, whatever became of the connection behind it
    if (!reply) return {Translated(reply.error())};
    return {UnavailableError("the answer broke off before its end")};
  }

  // What a failed call means to who asked the model.
  Status Translated(const Status& status) const {
    switch (status.code()) {
      case StatusCode::kCancelled:
        return idle_ ? UnavailableError("no byte came for " + std::to_string(options_.idle_timeout_ns / kMilli) + " ms")
                     : status;
      case StatusCode::kInvalidArgument:
      case StatusCode::kResourceExhausted: return InternalError(status.message());
      default: return status;
    }
  }

  // Asked every 20 ms.
  bool Stop() {
    if (call_.cancelled) return true;
    const int64_t quiet_ns = Now() - last_byte_ns_;
    if (answer_->done() && quiet_ns > kAfterDoneNs) return true;
    if (finished() && quiet_ns > kAfterFinishNs) return true;
    idle_ = options_.idle_timeout_ns > 0 && quiet_ns > options_.idle_timeout_ns;
    return idle_;
  }

  bool Take(std::string_view piece) {
    if (call_.cancelled) return false;
    last_byte_ns_ = Now();
    if (first_byte_ns_ == 0) first_byte_ns_ = last_byte_ns_;
    if (!streams_) {
      whole_ += piece;
      return true;
    }
    const Status fed = stream_.Feed(piece, [this](std::string_view data) { return Chunk(data); });
    if (!fed.ok() && broken_.ok()) broken_ = InternalError(fed.message());
    return broken_.ok() && !call_.cancelled;
  }

  void AtEnd() {
    if (streams_) {
      stream_.End([this](std::string_view data) { return Chunk(data); });
      return;
    }
    std::vector<api::Event> events;
    broken_ = answer_->Whole(whole_, events);
    Give(events);
  }

  bool Chunk(std::string_view data) {
    if (answer_->done() || !broken_.ok()) return false;
    std::vector<api::Event> events;
    broken_ = answer_->Chunk(data, events);
    Give(events);
    return broken_.ok() && !call_.cancelled;
  }

  void Give(std::vector<api::Event>& events) {
    for (api::Event& event : events) {
      dropped_ = dropped_ || call_.cancelled;
      if (dropped_) return;
      last_text_ns_ = Now();
      event.request = call_.id;
      call_.sink(std::move(event));
    }
  }

  // The one last event of each choice: its own end where it has come, else `otherwise`.
  void End(api::FinishReason otherwise, const Status& error) {
    const int64_t now = Now();
    const int64_t first_ns = first_byte_ns_ == 0 ? now : first_byte_ns_;
    for (int i = 0; i < call_.n_choices; ++i) {
      const RemoteAnswer::Choice& choice = answer_->choice(i);
      api::Event event;
      event.request = call_.id;
      event.choice = i;
      const bool ended = choice.finish != api::FinishReason::kNone && broken_.ok() && !dropped_;
      event.finish = ended ? choice.finish : otherwise;
      if (ended) event.stop_text = choice.stop_text;
      if (!ended && otherwise == api::FinishReason::kError) event.error = error;
      if (first_byte_ns_ != 0) event.usage = answer_->UsageOf(i);  // what was refused cost nothing
      event.timings.queue_ns = started_ns_ - call_.submitted_ns;
      event.timings.prefill_ns = first_ns - started_ns_;
      event.timings.decode_ns = std::max<int64_t>(0, last_text_ns_ - first_ns);
      call_.sink(std::move(event));
    }
  }

  RemoteCall& call_;
  const RemoteOptions& options_;
  const RemoteServer& server_;
  const Clock& clock_;
  const std::vector<std::string> secrets_;
  std::optional<RemoteAnswer> answer_;
  EventStream stream_;
  std::string whole_;
  bool streams_ = true, idle_ = false;
  bool dropped_ = false;      // text that came after a Cancel, so no choice has a whole end
  Status broken_;
  int64_t started_ns_ = 0, last_byte_ns_ = 0, first_byte_ns_ = 0, last_text_ns_ = 0;
};

class RemoteBackend : public api::Backend {
 public:
  RemoteBackend(RemoteOptions options, const Clock& clock)
      : options_(std::move(options)), clock_(clock), server_(options_, clock_),
        pool_(options_.max_parallel, options_.max_parallel) {
    description_.name = options_.name;
    description_.architecture = "remote";
    description_.generates = options_.generates;
    description_.embeds = options_.embeds;
    kind_ = options_.kind;
    description_.context_tokens = options_.context_tokens;
    Probed(server_.Describe(options_.probe_timeout_ns, nullptr));
    prober_ = std::thread([this] { Probe(); });
  }

  ~RemoteBackend() override {
    Drain(0);
    {
      const std::lock_guard lock(mutex_);
      ending_ = true;
    }
    changed_.notify_all();
    prober_.join();
  }

  const api::ModelDescription& description() const override { return *shown_.load(); }

  api::Health health() const override {
    const std::lock_guard lock(mutex_);
    if (draining_) return n_running_ == 0 ? api::Health::kStopped : api::Health::kDraining;
    if (n_failures_ >= kFailuresUntilStalled) return api::Health::kStalled;
    return reached_ ? api::Health::kReady : api::Health::kStarting;
  }

  std::expected<api::RequestId, api::Refusal> Submit(api::GenerationRequest request, api::EventSink sink) override {
    const int64_t now = Clock::Real().NowNanos();
    if (!options_.generates) return Refused(UnimplementedError(options_.name + " makes embeddings, no text"), 0);
    RemoteDialect dialect;
    dialect.kind = kind_;
    dialect.model = options_.model;
    dialect.max_completion_tokens = options_.max_completion_tokens;
    if (options_.pass_scope) dialect.salt = DerivedSalt(options_.salt_secret, request.scope);
    auto mapped = MapRemoteRequest(request, dialect);
    if (!mapped && dialect.kind == RemoteKind::kUnknown) {  // it may well understand it
      return Refused(UnavailableError(options_.name + " has not answered yet, so what it understands is not known"), 1);
    }
    if (!mapped) return std::unexpected(mapped.error());
    auto call = std::make_shared<RemoteCall>();
    call->sink = std::move(sink);
    call->body = *std::move(mapped);
    call->n_choices = request.n_choices;
    call->submitted_ns = now;
    call->own_limit = request.timeout_ms > 0 && request.timeout_ms < options_.timeout_ns / kMilli;
    call->deadline_ns = now + (call->own_limit ? request.timeout_ms * kMilli : options_.timeout_ns);
    const std::lock_guard lock(mutex_);
    if (draining_) return Refused(UnavailableError(options_.name + " is being shut down"), 0);
    if (!no_model_.ok()) return Refused(no_model_, 0);
    if (const int64_t left_ns = quiet_until_ns_ - now; left_ns > 0) {
      return Refused(quiet_status_.WithContext(options_.name + " asked to be left alone for a while"),
                     static_cast<double>(left_ns) * 1e-9);
    }
    call->id = next_id_;
    if (static_cast<int>(calls_.size()) >= options_.max_parallel || !pool_.Run([this, call] { Carry(*call); })) {
      return Refused(ResourceExhaustedError(options_.name + " already has " + std::to_string(calls_.size()) +
                                            " requests under way"), 1);
    }
    ++next_id_;
    ++n_running_;
    calls_.emplace(call->id, call);
    return call->id;
  }

  void Cancel(api::RequestId id) override {
    const std::lock_guard lock(mutex_);
    if (const auto found = calls_.find(id); found != calls_.end()) found->second->cancelled = true;
  }

  Result<std::vector<api::TokenId>> Tokenize(const api::GenerationRequest& request) const override {
    return server_.Tokenize(kind_, request);
  }
  Result<std::vector<api::TokenId>> TokenizeText(std::string_view text, bool add_special,
                                                 bool parse_special) const override {
    return server_.TokenizeText(kind_, text, add_special, parse_special);
  }
  Result<std::string> RenderTemplate(const api::GenerationRequest& request) const override {
    return server_.RenderTemplate(kind_, request);
  }
  Result<std::string> Detokenize(std::span<const api::TokenId> tokens) const override {
    return server_.Detokenize(kind_, tokens);
  }
  std::string TokenBytes(api::TokenId) const override { return {}; }

  Result<std::vector<api::EmbeddingResult>> Embed(std::span<const std::string> texts) override {
    if (!options_.embeds) return Error(UnimplementedError(options_.name + " makes no embeddings"));
    return server_.Embed(texts);
  }
  Result<std::vector<api::EmbeddingResult>> EmbedTokens(std::span<const std::vector<api::TokenId>>) override {
    return Error(UnimplementedError("ids of tokens mean something else on a remote server; give texts"));
  }

  Result<api::ForgetReceipt> Forget(const api::Scope&, api::ForgetExtent) override {
    return Error(UnimplementedError(options_.name + " runs elsewhere; what it caches cannot be overwritten from here"));
  }

  void Drain(int64_t limit_ms) override {
    std::unique_lock lock(mutex_);
    draining_ = true;
    changed_.wait_for(lock, std::chrono::milliseconds(std::max<int64_t>(0, limit_ms)),
                      [this] { return n_running_ == 0; });
    for (const auto& [id, call] : calls_) call->cancelled = true;
    changed_.wait(lock, [this] { return n_running_ == 0; });
  }

  json::object DebugState() const override {
    const std::string_view health = api::NameOf(this->health());
    const std::lock_guard lock(mutex_);
    return {{"model", options_.name},
            {"health", health},
            {"kind", NameOf(kind_)},
            {"server", options_.base_url},
            {"requests_open", calls_.size()},
            {"requests_done", n_done_},
            {"requests_failed", n_failed_},
            {"failures_in_a_row", n_failures_},
            {"last_error", last_error_}};
  }
  json::array RecentSteps(int) const override { return {}; }

 private:
  static std::unexpected<api::Refusal> Refused(Status status, double retry_after_s) {
    api::Refusal refusal;
    refusal.status = std::move(status);
    refusal.retry_after_s = retry_after_s;
    return std::unexpected(std::move(refusal));
  }

  // Where only one at a time can run. Whoever was cancelled or is late goes on at once and finds that out.
  void AwaitTurn(const RemoteCall& call) {
    std::unique_lock lock(mutex_);
    const auto may_go = [&] {
      return kind_ != RemoteKind::kLlamaCppPython || n_carried_ == 0 || call.cancelled ||
             Clock::Real().NowNanos() >= call.deadline_ns;
    };
    while (!may_go()) changed_.wait_for(lock, std::chrono::milliseconds(20));
    ++n_carried_;
  }

  void Carry(RemoteCall& call) {
    AwaitTurn(call);
    RemoteRun(call, options_, server_, clock_).Run([&](const RemoteFailure& failure) { Settle(call, failure); });
    call.sink = nullptr;
    const std::lock_guard lock(mutex_);
    --n_running_;
    --n_carried_;
    changed_.notify_all();
  }

  void Settle(const RemoteCall& call, const RemoteFailure& failure) {
    const std::lock_guard lock(mutex_);
    ++n_done_;
    calls_.erase(call.id);
    if (failure.status.code() == StatusCode::kCancelled) return;
    Count(failure.status);
    if (failure.status.ok()) return;
    ++n_failed_;
    last_error_ = failure.status.ToString();
    if (failure.retry_after_s <= 0) return;
    quiet_until_ns_ = std::max(quiet_until_ns_, Clock::Real().NowNanos() + SecondsToNanos(failure.retry_after_s));
    quiet_status_ = failure.status;
  }

  // A request that the server finds wrong says that it is there. Needs the lock.
  void Count(const Status& status) {
    const StatusCode code = status.code();
    if (status.ok() || code == StatusCode::kInvalidArgument || code == StatusCode::kOutOfRange) {
      n_failures_ = 0;
      reached_ = true;
    } else {
      ++n_failures_;
    }
  }

  void Probed(const Result<RemoteModel>& model) {
    const std::lock_guard lock(mutex_);
    no_model_ = !model && model.error().code() == StatusCode::kNotFound ? model.error() : OkStatus();
    if (!model) {
      last_error_ = model.error().ToString();
      return;
    }
    if (!std::exchange(described_, true)) {
      described_as_ = description_;
      if (described_as_.context_tokens == 0) described_as_.context_tokens = model->context_tokens;
      described_as_.d_model = model->d_model;
      described_as_.created_unix_s = model->created_unix_s;
      shown_ = &described_as_;
    }
    if (options_.kind == RemoteKind::kUnknown) kind_ = model->kind;
    Count(OkStatus());
  }

  // Looks at a server that is not known or in trouble, so that it is noticed when it is back.
  void Probe() {
    std::unique_lock lock(mutex_);
    while (!ending_) {
      changed_.wait_for(lock, std::chrono::nanoseconds(options_.probe_interval_ns), [this] { return ending_; });
      if (ending_) return;
      // While something runs its outcome tells; and llama-cpp-python's server would end it for this.
      if (draining_ || n_running_ > 0 || (described_ && n_failures_ < kFailuresUntilStalled)) continue;
      lock.unlock();
      Probed(server_.Describe(options_.probe_timeout_ns, [this] {
        const std::lock_guard inner(mutex_);
        return ending_;
      }));
      lock.lock();
    }
  }

  const RemoteOptions options_;
  const Clock& clock_;
  const RemoteServer server_;
  api::ModelDescription description_, described_as_;   // before the server was first reached, and after
  std::atomic<const api::ModelDescription*> shown_{&description_};
  std::atomic<RemoteKind> kind_{RemoteKind::kUnknown};
  mutable std::mutex mutex_;
  std::condition_variable changed_;
  std::map<api::RequestId, std::shared_ptr<RemoteCall>> calls_;
  api::RequestId next_id_ = 1;
  bool draining_ = false, ending_ = false, described_ = false, reached_ = false;
  int n_failures_ = 0, n_running_ = 0, n_carried_ = 0;
  int64_t n_done_ = 0, n_failed_ = 0, quiet_until_ns_ = 0;
  Status quiet_status_, no_model_;
  std::string last_error_;
  CallPool pool_;          // its threads end before what they use
  std::thread prober_;
};

}  // namespace

Status RemoteOptions::Validate() const {
  const auto wrong = [this](std::string_view what) { return InvalidArgumentError(name + ": " + std::string(what)); };
  if (const auto address = ParseHttpAddress(base_url); !address) return address.error().WithContext("base_url");
  if (base_url.find('?') != std::string::npos) return wrong("base_url: a query cannot stand before the paths of calls");
  if (model.empty()) return wrong("model: the model's name on the server is missing");
  if (max_parallel < 1 || max_parallel > kMaxParallel) return wrong("max_parallel must be from 1 to 4096");
  if (timeout_ns <= 0 || idle_timeout_ns < 0 || probe_timeout_ns <= 0 || probe_interval_ns <= 0) {
    return wrong("limits of time must be positive");
  }
  const auto breaks = [](std::string_view text) { return text.find_first_of("\r\n") != std::string_view::npos; };
  if (breaks(api_key)) return wrong("api_key holds a line break");
  for (const auto& [header, value] : headers) {
    if (breaks(header) || breaks(value)) return wrong("header '" + header + "' holds a line break");
  }
  return OkStatus();
}

std::vector<std::string> RemoteOptions::Secrets() const {
  std::vector<std::string> secrets{api_key};
  for (const auto& [header, value] : headers) secrets.push_back(value);
  return secrets;
}

Result<RemoteOptions> RemoteOptionsOf(const ModelSpec& spec, const std::string& directory) {
  const auto of_model = [&](const Status& status) { return Error(status.WithContext("model '" + spec.name + "'")); };
  RemoteOptions options;
  options.name = spec.name;
  options.base_url = spec.api_base;
  options.model = spec.weights;
  if (!spec.api_key.empty()) {
    auto key = ReadSecret(spec.api_key, directory);
    if (!key) return of_model(key.error().WithContext("api_key"));
    options.api_key = *std::move(key);
  }
  auto credentials = ReadCredentials(spec.access, directory);
  if (!credentials) return of_model(credentials.error());
  options.tls = std::move(credentials->tls);
  options.headers = std::move(credentials->headers);
  if (spec.max_parallel_requests > 0) options.max_parallel = std::min(spec.max_parallel_requests, kMaxParallel);
  options.timeout_ns = spec.timeout_ns;
  return options;
}

Result<std::unique_ptr<api::Backend>> MakeRemoteBackend(RemoteOptions options, const Clock& clock) {
  SURETY_RETURN_IF_ERROR(options.Validate());
  if (options.salt_secret.empty()) {
    Sha256Digest secret;
    if (RAND_bytes(secret.data(), secret.size()) != 1) return Error(UnavailableError("no random numbers"));
    options.salt_secret = HexOf(secret);
  }
  return std::make_unique<RemoteBackend>(std::move(options), clock);
}

}  // namespace surety::gateway
