// The part of a governed request that a model answers.
#include <algorithm>
#include <limits>
#include <utility>

#include <boost/json.hpp>

#include "gateway/governed_task.h"
#include "gateway/policy_check.h"
#include "gateway/tools.h"

namespace surety::gateway {
namespace {

namespace json = boost::json;

constexpr int64_t kNanosPerMilli = 1'000'000;
enum : uint8_t { kSaltOfCaller = 1, kSaltOfSubject = 2, kSaltOfDecision = 3 };  // tags of a scope's salt
constexpr int kDefaultMinQuote = 12;
constexpr int kShadowPriority = 1000;  // after everybody who waits

FallbackSpec::Cause CauseOf(const Status& status) {
  switch (status.code()) {
    case StatusCode::kResourceExhausted:
    case StatusCode::kUnavailable: return FallbackSpec::Cause::kOverload;
    case StatusCode::kDeadlineExceeded: return FallbackSpec::Cause::kTimeout;
    default: return FallbackSpec::Cause::kError;
  }
}

bool EndsSentence(std::string_view text) { return text.find_first_of(".!?\n") != std::string_view::npos; }

int MinQuoteOf(const Policy& policy, const RouteSpec& route) {
  for (const std::string& name : route.verify) {
    const VerifierSpec& spec = policy.verifiers.at(name);
    if (spec.kind == VerifierSpec::Kind::kCitations) return spec.min_quote;
  }
  return kDefaultMinQuote;
}

}  // namespace

Status GovernedTask::CheckFields(const RouteSpec& route) const {
  const auto spec = policy().contexts.find(route.context);
  if (!Generates(route) || spec == policy().contexts.end() || !spec->second.force_citations) return OkStatus();
  using Kind = api::Constraint::Kind;
  const api::GenerationRequest& request = setup_.request;
  const bool offered = request.template_values.contains("tools");
  const bool tools = offered || request.tool_use.choice != api::ToolUse::Choice::kNone;
  const Kind kind = request.constraint.kind;
  if (!tools && kind == Kind::kNone) return OkStatus();
  const char* field = tools ? "tools" : kind == Kind::kGrammar ? "grammar" : "response_format";
  return InvalidArgumentError(std::string("'") + field + "' cannot be given here: route '" + route.name +
                              "' makes every sentence cite its source");
}

// What shares computed prompts within the partition. Injective, so that no caller's salt is another one's scope.
std::string GovernedTask::KvSalt(const RouteSpec& route) const {
  std::string salt;
  const std::string& asked = setup_.request.scope.salt;
  if (!partition_ || (route.cache.subject_bound && record_.subject.empty())) {
    AppendField(salt, kSaltOfDecision, setup_.decision);  // shared with nothing
    return salt;
  }
  if (!asked.empty()) AppendField(salt, kSaltOfCaller, asked);
  if (route.cache.subject_bound) AppendField(salt, kSaltOfSubject, record_.subject);
  return salt;
}

// The request as the model gets it: the built context, the route's limits, and a scope that shares nothing beyond the
// partition.
Status GovernedTask::PrepareGeneration(const RouteSpec& route) {
  api::Backend& backend = *setup_.runtime->models.at(route.model);
  auto generation = std::make_unique<Generation>();
  generation->model = route.model;
  api::GenerationRequest& request = generation->request;
  request = setup_.request;
  request.wants_progress = false;  // of this path's own making
  ContextRequest context;
  context.route = &route;
  const auto spec = policy().contexts.find(route.context);
  if (spec != policy().contexts.end()) context.spec = &spec->second;
  context.context_tokens = backend.description().context_tokens;
  context.repair = repair_;
  context.request = &setup_.request;
  const CountTokens count = [&](std::string_view text) {
    const auto tokens = backend.TokenizeText(text, false, false);
    return tokens ? static_cast<int>(tokens->size()) : static_cast<int>(text.size());
  };
  SURETY_ASSIGN_OR_RETURN(BuiltContext built, BuildContext(context, conversation_, *evidence_, count,
                                                           services_.personal));
  const bool plain = request.has_prompt && route.system.empty() && built.used.empty() && evidence_->tools.empty() &&
                     repair_.empty();
  if (!plain) {
    request.messages = std::move(built.messages);
    request.has_messages = true;
    request.has_prompt = false;
    request.prompt.clear();
  }
  if (context.spec != nullptr && context.spec->force_citations) {
    if (std::string grammar = CitationGrammar(built.used, MinQuoteOf(policy(), route)); !grammar.empty()) {
      request.constraint.kind = api::Constraint::Kind::kGrammar;
      request.constraint.grammar = std::move(grammar);
    }
  }
  if (record_.decision.attempts > 0) evidence_ = std::make_shared<Evidence>(*evidence_);  // a late verifier reads on
  evidence_->passages = std::move(built.used);  // what was not shown cannot be cited
  request.max_tokens = request.max_tokens > 0 ? std::min(request.max_tokens, route.max_output_tokens)
                                              : route.max_output_tokens;
  request.n_choices = 1;
  request.timeout_ms = std::max<int64_t>(Left() / kNanosPerMilli, 1);
  if (setup_.shadow) {
    request.scope = partition_->scope();
    request.scope.salt = "shadow\x1f" + setup_.shadow->decision;  // of nothing that was computed before
    request.priority += kShadowPriority;
  } else if (partition_) {
    request.scope = partition_->scope();
    request.scope.salt = KvSalt(route);
  } else {
    // A family of the subject's own, and in it shared with nothing.
    request.scope = {};
    request.scope.tenant = record_.tenant;
    request.scope.product = "no partition";
    request.scope.eligibility = record_.subject;
    request.scope.salt = KvSalt(route);
  }
  const std::lock_guard lock(generation_mutex_);
  generation_ = std::move(generation);
  return OkStatus();
}

void GovernedTask::Generate(const RouteSpec& route) {
  ForgetAnswer();
  if (const Status status = PrepareGeneration(route); !status.ok()) {
    const bool denied = status.code() == StatusCode::kPermissionDenied;
    if (denied) return Refuse(api::FinishReason::kError, status, api::Outcome::kRefused);
    return FallBack(FallbackSpec::Cause::kError, status);
  }
  record_.model = route.model;
  const api::ModelDescription& description = setup_.runtime->models.at(route.model)->description();
  record_.model_revision = description.digest;
  record_.seed = std::to_string(generation_->request.sampling.seed);
  record_.request = RequestToJson(generation_->request);
  record_.prompt_digest =
      DigestOf({json::serialize(generation_->request.messages) + generation_->request.prompt, {}, {}});
  ++record_.decision.attempts;
  stream_.reset();
  Spent(&StageTimes::context_ns);
  if (auto stream = StreamingSink::Open(route, signals_.risk, sink_); stream && !setup_.shadow) {
    stream_ = *std::move(stream);
    record_.decision.draft = true;
    record_.decision.outcome = api::Outcome::kStreamed;
    boost::json::object row{{"id", setup_.decision}, {"route", route.name}, {"tenant", record_.tenant},
                            {"policy_digest", record_.policy_digest}};
    if (auto written = services_.audit->Append("stream_begin", std::move(row)); !written) {
      stream_.reset();
      return Refuse(api::FinishReason::kError, UnavailableError("the audit log does not take rows"),
                    api::Outcome::kRefused);
    }
  }
  Spent(&StageTimes::audit_ns);
  EnterStage(api::Stage::kGenerating);
  record_.times.gather_ns += Now() - stage_ns_;
  stage_ns_ = Now();
  generation_->begun_ns = stage_ns_;
  api::Backend* backend = setup_.runtime->FindModel(route.model);
  // With the last event the backend's thread lets go of the task, and of the runtime that owns the backend: it would
  // else be the thread on which the backend ends.
  auto held = std::make_shared<std::shared_ptr<GovernedTask>>(shared_from_this());
  std::expected<api::RequestId, api::Refusal> id = 0;
  const bool begun = Keep([&] {
    if (services_.scopes != nullptr) {
      api::Scope noted = generation_->request.scope;
      if (!partition_) noted.salt.clear();  // its family: one for all its requests without a partition
      services_.scopes->Note(record_.tenant, record_.subject, noted);
    }
    id = backend->Submit(generation_->request, [held = std::move(held)](api::Event event) {
      if (event.finish == api::FinishReason::kNone) return (*held)->OnEvent(std::move(event));
      std::shared_ptr<GovernedTask> self = std::exchange(*held, nullptr);
      GovernedTask& task = *self;   // the governed backend holds it until it has ended
      task.OnEvent(std::move(event));
      if (!task.services_.post([self = std::move(self)] { self->OnGenerated(); })) task.OnGenerated();
    });
  });
  if (!begun) {
    stream_.reset();
    return RefuseErased();
  }
  if (!id) return FallBack(CauseOf(id.error().status), id.error().status);
  {
    const std::lock_guard lock(backend_mutex_);
    running_on_ = backend;
    running_id_ = *id;
  }
  if (cancelled_) backend->Cancel(*id);
}

// On the backend's thread: collects, and passes drafts on.
void GovernedTask::OnEvent(api::Event event) {
  const bool last = event.finish != api::FinishReason::kNone;
  {
    const std::lock_guard lock(generation_mutex_);
    Generation& generation = *generation_;
    generation.answer.text += event.text;
    for (const api::ToolCallDelta& delta : event.tool_calls) {
      const auto index = static_cast<size_t>(std::max(delta.index, 0));
      if (index >= generation.answer.calls.size()) generation.answer.calls.resize(index + 1);
      generation.answer.calls[index].name += delta.name;
      generation.answer.calls[index].arguments += delta.arguments;
    }
    if (stream_) {
      api::Event piece = event;
      piece.finish = api::FinishReason::kNone;
      piece.request = setup_.id;
      piece.error = OkStatus();
      piece.stop_text.clear();
      if (!generation.streamed) piece.decision = Note();
      const bool holds_text = !piece.text.empty() || !piece.tool_calls.empty();
      if (holds_text) {
        if (!std::exchange(generation.streamed, true)) record_.times.first_token_ns = Now() - start_ns_;
        if (record_.times.first_useful_ns == 0 && EndsSentence(piece.text)) {
          record_.times.first_useful_ns = Now() - start_ns_;
        }
        stream_->Pass(std::move(piece));
      }
    }
    if (last) generation.last = std::move(event);
  }
  if (!last) return;
  const std::lock_guard lock(backend_mutex_);
  running_on_ = nullptr;
}

void GovernedTask::Charge(const api::Usage& usage) {
  const auto spec = policy().models.find(generation_->model);
  if (spec != policy().models.end()) {
    const GenerationCost cost = CostOf(spec->second, usage.prompt_tokens, usage.cached_tokens, usage.output_tokens);
    record_.cost.prefill += cost.prefill;
    record_.cost.cached_prefill += cost.cached_prefill;
    record_.cost.decode += cost.decode;
    used_.money += cost.prefill + cost.cached_prefill + cost.decode;
  }
  used_.tokens += usage.prompt_tokens + usage.output_tokens;
  record_.usage.prompt_tokens += usage.prompt_tokens;
  record_.usage.cached_tokens += usage.cached_tokens;
  record_.usage.output_tokens += usage.output_tokens;
  record_.usage.draft_tokens += usage.draft_tokens;
  record_.usage.accepted_tokens += usage.accepted_tokens;
}

void GovernedTask::OnGenerated() {
  const api::Event& last = generation_->last;
  Charge(last.usage);
  record_.times.queue_ns += last.timings.queue_ns;
  record_.times.prefill_ns += last.timings.prefill_ns;
  record_.times.decode_ns += last.timings.decode_ns;
  stage_ns_ = Now();
  Spent(&StageTimes::model_ns);
  switch (last.finish) {
    case api::FinishReason::kStop:
    case api::FinishReason::kLength: return Verify();
    case api::FinishReason::kTimeout:
      return FallBack(FallbackSpec::Cause::kTimeout,
                      Status(StatusCode::kDeadlineExceeded, "the model did not answer in time"));
    case api::FinishReason::kCancelled:
      if (cancelled_) {
        return Refuse(api::FinishReason::kCancelled, CancelledError("the caller left"), api::Outcome::kRefused);
      }
      return FallBack(FallbackSpec::Cause::kOverload, UnavailableError("the model is going away"));
    default:
      return FallBack(CauseOf(last.error), last.error.ok() ? InternalError("the model failed") : last.error);
  }
}

}  // namespace surety::gateway
