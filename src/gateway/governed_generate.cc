// The part of a governed request that a model answers.
#include <algorithm>
#include <limits>
#include <utility>

#include <boost/json.hpp>

#include "gateway/governed_task.h"
#include "gateway/tools.h"

namespace surety::gateway {
namespace {

namespace json = boost::json;

constexpr int64_t kNanosPerMilli = 1'000'000;
constexpr int kDefaultMinQuote = 12;

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

// The request as the model gets it: the built context, the route's limits, and a scope that shares nothing beyond the
// partition.
Status GovernedTask::PrepareGeneration(const RouteSpec& route) {
  api::Backend& backend = *setup_.runtime->models.at(route.model);
  auto generation = std::make_unique<Generation>();
  generation->model = route.model;
  api::GenerationRequest& request = generation->request;
  request = setup_.request;
  ContextRequest context;
  context.route = &route;
  const auto spec = policy().contexts.find(route.context);
  if (spec != policy().contexts.end()) context.spec = &spec->second;
  context.context_tokens = backend.description().context_tokens;
  context.repair = repair_;
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
  const bool forced = context.spec != nullptr && context.spec->force_citations &&
                      request.constraint.kind == api::Constraint::Kind::kNone && !conversation_.has_tools;
  if (forced) {
    if (std::string grammar = CitationGrammar(built.used, MinQuoteOf(policy(), route)); !grammar.empty()) {
      request.constraint.kind = api::Constraint::Kind::kGrammar;
      request.constraint.grammar = std::move(grammar);
    }
  }
  evidence_->passages = std::move(built.used);  // what was not shown cannot be cited
  request.max_tokens = request.max_tokens > 0 ? std::min(request.max_tokens, route.max_output_tokens)
                                              : route.max_output_tokens;
  request.n_choices = 1;
  request.timeout_ms = std::max<int64_t>(Left() / kNanosPerMilli, 1);
  if (setup_.request.timeout_ms > 0) request.timeout_ms = std::min(request.timeout_ms, setup_.request.timeout_ms);
  const std::string salt = setup_.request.scope.salt;
  if (partition_) {
    request.scope = partition_->scope();
    request.scope.salt = salt;
    if (route.cache.subject_bound) request.scope.salt += "\x1f" + record_.subject;
  } else {
    request.scope = {};
    request.scope.salt = setup_.decision;  // shared with nothing
  }
  if (services_.scopes != nullptr) services_.scopes->Note(record_.tenant, record_.subject, request.scope);
  const std::lock_guard lock(generation_mutex_);
  generation_ = std::move(generation);
  return OkStatus();
}

void GovernedTask::Generate(const RouteSpec& route) {
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
  record_.prompt_digest = DigestOf({json::serialize(generation_->request.messages) + generation_->request.prompt, {}, {}});
  ++record_.decision.attempts;
  stream_.reset();
  if (auto stream = StreamingSink::Open(route, signals_.risk, sink_); stream) {
    stream_ = *std::move(stream);
    record_.decision.draft = true;
    boost::json::object row{{"id", setup_.decision}, {"route", route.name}, {"tenant", record_.tenant},
                            {"policy_digest", record_.policy_digest}};
    if (auto written = services_.audit->Append("stream_begin", std::move(row)); !written) {
      stream_.reset();
      return Refuse(api::FinishReason::kError, UnavailableError("the audit log does not take rows"),
                    api::Outcome::kRefused);
    }
  }
  record_.times.gather_ns += Now() - stage_ns_;
  stage_ns_ = Now();
  generation_->begun_ns = stage_ns_;
  api::Backend* backend = setup_.runtime->FindModel(route.model);
  const auto id = backend->Submit(generation_->request, [self = shared_from_this()](api::Event event) {
    self->OnEvent(std::move(event));
  });
  if (!id) return FallBack(CauseOf(id.error().status), id.error().status);
  {
    const std::lock_guard lock(backend_mutex_);
    running_on_ = backend;
    running_id_ = *id;
  }
  if (cancelled_) backend->Cancel(*id);
}

// On the backend's thread: collects, passes drafts on, and hands over with the last event.
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
  {
    const std::lock_guard lock(backend_mutex_);
    running_on_ = nullptr;
  }
  if (!services_.post([self = shared_from_this()] { self->OnGenerated(); })) OnGenerated();
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
