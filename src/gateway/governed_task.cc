#include "gateway/governed_task.h"

#include <algorithm>
#include <cmath>
#include <span>
#include <utility>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "base/hash.h"
#include "gateway/policy_check.h"
#include "gateway/policy_form.h"
#include "gateway/tools.h"

namespace surety::gateway {
namespace {

constexpr int kMaxRoutes = 8;  // fallbacks of fallbacks; the check proves that there is no cycle
constexpr int64_t kNanosPerMillisecond = 1'000'000;

std::string TextDigest(std::string_view text) { return HexOf(Sha256Of(std::as_bytes(std::span(text)))); }

bool AppliesTo(const FallbackSpec& fallback, FallbackSpec::Cause cause) {
  return fallback.on.empty() || std::ranges::find(fallback.on, cause) != fallback.on.end();
}

// kFailedPrecondition naming a placeholder that has no value here: a caller is not shown its name instead.
Result<std::string> FillTemplate(std::string_view text, const std::map<std::string, std::string>& values) {
  std::string out;
  size_t at = 0;
  for (const std::string& name : PlaceholdersOf(text)) {
    const std::string mark = "{" + name + "}";
    const size_t open = text.find(mark, at);
    const auto value = values.find(name);
    if (value == values.end()) return Error(FailedPreconditionError("'" + mark + "' has no value in this request"));
    out.append(text.substr(at, open - at)).append(value->second);
    at = open + mark.size();
  }
  return out.append(text.substr(at));
}

std::string_view NameOfCause(FallbackSpec::Cause cause) {
  switch (cause) {
    case FallbackSpec::Cause::kTimeout: return "timeout";
    case FallbackSpec::Cause::kOverload: return "overload";
    case FallbackSpec::Cause::kError: return "error";
    case FallbackSpec::Cause::kVerifier: return "verifier";
    case FallbackSpec::Cause::kBudget: return "budget";
  }
  return "unknown";
}

std::vector<api::Objective> ObjectivesOf(const Policy& policy, const std::string& route) {
  std::vector<api::Objective> objectives;
  for (const SloSpec& slo : policy.slos) {
    if (slo.route != route) continue;
    for (const SloSpec::Objective& objective : slo.objectives) {
      if (objective.name != "ttfu" && objective.name != "total") continue;
      objectives.push_back({fmt::format("{}_p{:g}", objective.name, std::round(objective.quantile * 1e6) / 1e4),
                            objective.limit_ns});
    }
  }
  return objectives;
}

}  // namespace

GovernedTask::GovernedTask(Setup setup)
    : setup_(std::move(setup)), services_(*setup_.services), sink_(setup_.decision, setup_.sink) {
  start_ns_ = Now();
  if (setup_.request.timeout_ms > 0) {
    // No caller waits for longer than a year, and no sum overflows.
    const int64_t limit_ms = std::min<int64_t>(setup_.request.timeout_ms, 365LL * 86'400'000);
    caller_deadline_ns_ = start_ns_ + limit_ms * kNanosPerMillisecond;
  }
  record_.time_ns = services_.clock->WallNanos();
  record_.decision.id = setup_.decision;
  record_.decision.policy_version = policy().version;
  record_.policy_id = policy().id;
  record_.policy_digest = policy().digest;
  record_.subject = setup_.request.caller.subject;
  evidence_ = std::make_shared<Evidence>();
  if (services_.scopes != nullptr) running_ = services_.scopes->Arrive(record_.subject);
}

void GovernedTask::Start() {
  stage_ns_ = part_ns_ = Now();
  record_.times.queue_ns = stage_ns_ - start_ns_;
  Decide();
}

int64_t GovernedTask::Left() const {
  return std::min(route_begun_ns_ + route_->deadline_ns, caller_deadline_ns_) - Now();
}

bool GovernedTask::Stopped() {
  if (cancelled_) {
    Refuse(api::FinishReason::kCancelled, CancelledError("the caller left"), api::Outcome::kRefused);
    return true;
  }
  // A template, a refusal and a ticket take no time that could be saved.
  if (route_ != nullptr && Generates(*route_) && Left() <= 0) {
    FallBack(FallbackSpec::Cause::kTimeout,
             Status(StatusCode::kDeadlineExceeded, "route '" + route_->name + "' did not answer in time"));
    return true;
  }
  return false;
}

// Who asks, in canonical form. A dimension that comes from a tool is asked for first.
Status GovernedTask::ReadIdentity() {
  SURETY_ASSIGN_OR_RETURN(as_of_ns_, AsOf(policy(), setup_.request.caller, record_.time_ns));
  const api::Caller& caller = setup_.request.caller;
  SURETY_ASSIGN_OR_RETURN(circumstances_, ReadCircumstances(policy(), caller, as_of_ns_, nullptr, nullptr));
  record_.tenant = circumstances_.text[static_cast<size_t>(Dimension::kTenant)].value_or("");
  if (running_ != nullptr) services_.scopes->Identify(*running_, record_.tenant);
  signals_ = setup_.runtime->signals->Read(conversation_.question, conversation_.all_text, caller);
  for (const auto& [name, value] : signals_.values) {
    record_.signals[name] = value.label;
    if (value.confidence < 1) record_.confidence[name] = value.confidence;
  }
  record_.signals["risk"] = NameOf(signals_.risk);
  record_.signals["complexity"] = NameOf(signals_.complexity);

  std::vector<std::string> asked;
  bool more = false;   // dimensions that are known by now only
  for (const DimensionSource& source : policy().identity) {
    const bool known = std::ranges::find(asked, source.name) != asked.end();
    if (source.from == DimensionSource::From::kTool && !known) asked.push_back(source.name);
    more |= source.from == DimensionSource::From::kTool || source.from == DimensionSource::From::kSignal;
  }
  std::vector<ToolResult>& results = identity_tools_;
  if (!asked.empty()) {
    evidence_->facts = DimensionTexts(circumstances_);   // tools that tell more of the caller are asked with these
    const auto deadline = std::min(start_ns_ + policy().routes.back().deadline_ns, caller_deadline_ns_);
    results = setup_.runtime->tools->Gather(asked, ArgumentsFor(asked), deadline);
  }
  if (more) {
    SURETY_ASSIGN_OR_RETURN(circumstances_, ReadCircumstances(policy(), caller, as_of_ns_, &signals_, &results));
  }
  if (circumstances_.permissions) record_.permissions = *circumstances_.permissions;
  record_.tenant = circumstances_.text[static_cast<size_t>(Dimension::kTenant)].value_or("");
  return OkStatus();
}

RoutingFacts GovernedTask::Facts() const {
  RoutingFacts facts;
  facts.policy = &policy();
  facts.signals = &signals_;
  facts.dimensions = DimensionTexts(circumstances_);
  if (circumstances_.permissions) facts.permissions = *circumstances_.permissions;
  return facts;
}

void GovernedTask::Decide() {
  auto conversation = ReadConversation(setup_.request);
  if (!conversation) {
    return Refuse(api::FinishReason::kError, conversation.error(), api::Outcome::kRefused);
  }
  conversation_ = *std::move(conversation);
  record_.request_digest = TextDigest(conversation_.canonical + conversation_.question);
  if (const Status status = ReadIdentity(); !status.ok()) {
    return Refuse(api::FinishReason::kError, status, api::Outcome::kRefused);
  }
  if (!policy().validity.Contains(as_of_ns_)) {
    return Refuse(api::FinishReason::kError,
                  FailedPreconditionError("policy '" + policy().id + "' " + policy().version + " is not in force at " +
                                          UtcInstant(as_of_ns_)),
                  api::Outcome::kRefused);
  }
  if (auto partition = Partition::Make(circumstances_); partition) {
    partition_ = *std::move(partition);
    record_.partition_digest = partition_->Digest();
  } else {
    no_partition_ = partition.error().message();
  }
  if (setup_.shadow) {
    evidence_ = FreshEvidence();
    return ComputeShadow();
  }
  RunRoute(ChooseRoute(Facts()));
}

std::shared_ptr<Evidence> GovernedTask::FreshEvidence() const {
  auto evidence = std::make_shared<Evidence>();
  evidence->as_of_ns = as_of_ns_;
  evidence->validity = policy().validity;
  for (int i = 0; i < kDimensionCount; ++i) {
    const std::optional<std::string>& text = circumstances_.text[static_cast<size_t>(i)];
    if (!text) continue;
    const DimensionSource& source = policy().identity[static_cast<size_t>(i)];
    const bool words = source.from == DimensionSource::From::kSignal || source.from == DimensionSource::From::kMetadata;
    // Of words, only those that the policy itself lists are more than the caller's.
    (words && source.values.empty() ? evidence->signals : evidence->facts)
        .emplace(NameOf(static_cast<Dimension>(i)), *text);
  }
  for (const auto& [name, value] : signals_.values) evidence->signals[name] = value.label;
  return evidence;
}

// The worst case of the route and its fallbacks. A fallback that generates reserves anew, so that the budgets of its
// own route and model count too; what was used until then is settled first. The first route counts whatever it is.
bool GovernedTask::ReserveQuota(const RouteSpec& route) {
  if (routes_taken_.size() > 1 && !Generates(route)) return true;
  if (reservation_ != nullptr) reservation_->Settle(std::exchange(used_, {}));
  reservation_.reset();
  std::map<std::string, int> context_tokens;
  for (const auto& [name, model] : setup_.runtime->models) context_tokens[name] = model->description().context_tokens;
  const int asked = setup_.request.max_tokens;
  const int output = asked > 0 ? std::min(asked, route.max_output_tokens) : route.max_output_tokens;
  quota_subject_ = {record_.tenant, record_.subject, route.name, route.model};
  auto reserved = setup_.quota->Reserve(*quota_subject_, WorstCaseOf(policy(), route, context_tokens, output));
  NoteStanding();
  if (reserved) {
    reservation_ = *std::move(reserved);
    return true;
  }
  record_.decision.retry_after_s = reserved.error().retry_after_s;
  FallBack(FallbackSpec::Cause::kBudget, reserved.error().status);
  return false;
}

void GovernedTask::NoteStanding() {
  if (!quota_subject_) return;
  const Quota::Standing standing = setup_.quota->StandingOf(*quota_subject_);
  record_.decision.requests = standing.requests;
  record_.decision.tokens = standing.tokens;
}

void GovernedTask::ForgetAnswer() {
  record_.decision.verifier.clear();
  record_.decision.draft = false;
  record_.decision.outcome = api::Outcome::kNone;
  record_.model_revision.clear();
  record_.seed.clear();
  record_.request.clear();
  record_.prompt_digest.clear();
  record_.answer_digest.clear();
  record_.answer.clear();
  record_.verdicts.clear();
  record_.action.clear();
  record_.times.first_token_ns = record_.times.first_useful_ns = 0;
  released_ = {};
}

// With nothing of the route before: its passages and tools' results are no evidence here.
void GovernedTask::RunRoute(const RouteSpec& route) {
  route_ = &route;
  Spent(&StageTimes::decide_ns);
  route_begun_ns_ = routes_taken_.empty() ? start_ns_ : part_ns_;  // the queue's time is the first route's
  record_.decision.route = route.name;
  record_.decision.cache = api::Decision().cache;
  record_.decision.retry_after_s = 0;
  record_.model.clear();
  record_.passages.clear();
  record_.tool_digests.clear();
  record_.conflicts.clear();
  ForgetAnswer();
  routes_taken_.push_back(route.name);
  repair_.clear();
  basis_.reset();
  evidence_ = FreshEvidence();
  record_.decision.slo = ObjectivesOf(policy(), route.name);
  EnterStage(api::Stage::kGathering);
  if (Stopped()) return;
  if (const Status status = CheckFields(route); !status.ok()) {
    return Refuse(api::FinishReason::kError, status, api::Outcome::kRefused);
  }
  if (!ReserveQuota(route)) return;
  switch (route.answer) {
    case RouteSpec::Answer::kTemplate: return RunTemplate(route);
    case RouteSpec::Answer::kHuman: return SendToReview(ReviewQueueOf(route), "");
    case RouteSpec::Answer::kRefuse:
      return Refuse(api::FinishReason::kError,
                    Status(StatusCode::kPermissionDenied, "the policy refuses requests of route '" + route.name + "'"),
                    api::Outcome::kRefused);
    case RouteSpec::Answer::kModel:
    case RouteSpec::Answer::kTools:
      if (TryCache(route) || !Gather(route)) return;
      if (route.answer == RouteSpec::Answer::kTools) return SendToReview(ReviewQueueOf(route), "");
      return Generate(route);
  }
}

// What a placeholder may stand for, as the policy's reader has it; a name has no value where the request has none.
std::map<std::string, std::string> GovernedTask::TemplateValues(std::string_view text) const {
  std::map<std::string, std::string> values;
  if (text.find('{') == std::string_view::npos) return values;
  const auto declared = [&](std::string_view key) {
    return std::ranges::any_of(policy().signals, [&](const SignalSpec& signal) {
      return signal.by == SignalSpec::By::kMetadata && signal.key == key;
    }) || std::ranges::any_of(policy().identity, [&](const DimensionSource& source) {
      return source.from == DimensionSource::From::kMetadata && source.name == key;
    });
  };
  for (const auto& member : setup_.request.caller.metadata) {
    if (member.value().is_string() && declared(member.key())) values[member.key()] = member.value().get_string();
  }
  for (const auto& [name, value] : signals_.values) {
    if (value.label != kAbstained && value.label != "none") values[name] = value.label;
  }
  values["risk"] = NameOf(signals_.risk);
  values["complexity"] = NameOf(signals_.complexity);
  for (auto& [name, text] : DimensionTexts(circumstances_)) values[name] = text;
  const auto& held = circumstances_.permissions;
  if (held) values["permissions"] = fmt::format("{}", fmt::join(*held, " "));
  return values;
}

void GovernedTask::RunTemplate(const RouteSpec& route) {
  const auto found = policy().templates.find(route.template_name);
  const TemplateSpec* spec = found == policy().templates.end() ? nullptr : &found->second;
  if (spec == nullptr || !spec->validity.Contains(as_of_ns_)) {
    return FallBack(FallbackSpec::Cause::kError,
                    FailedPreconditionError("template '" + route.template_name + "' is not in force"));
  }
  const auto intent = signals_.values.find("intent");
  auto text = intent == signals_.values.end() ? spec->texts.end() : spec->texts.find(intent->second.label);
  if (text == spec->texts.end()) text = spec->texts.find("default");
  if (text == spec->texts.end()) {
    return FallBack(FallbackSpec::Cause::kError,
                    NotFoundError("template '" + route.template_name + "' has no text for this intent"));
  }
  AnswerText answer;
  auto filled = FillTemplate(text->second, TemplateValues(text->second));
  if (!filled) {
    return FallBack(FallbackSpec::Cause::kError, filled.error().WithContext("template '" + route.template_name + "'"));
  }
  answer.text = *std::move(filled);
  record_.model = "template:" + spec->name + "@" + spec->version;
  record_.decision.outcome = api::Outcome::kTemplate;
  record_.times.gather_ns += Now() - stage_ns_;
  stage_ns_ = Now();
  ReleaseToken token = ReleaseToken::ForTemplate(setup_.decision, answer);
  Release(std::move(token), std::move(answer), api::FinishReason::kStop);
}

// `surety check` proves it of a policy before it is taken; here it holds of what runs.
std::string GovernedTask::BrokenPromise(const RouteSpec& next) const {
  if (!Generates(next)) return {};  // a template, a person or a refusal keeps every promise
  for (const std::string& name : routes_taken_) {
    const RouteSpec& taken = *policy().FindRoute(name);
    for (const std::string& verifier : taken.verify) {
      if (std::ranges::find(next.verify, verifier) == next.verify.end()) return "verifier '" + verifier + "'";
    }
    if (!taken.release.review.empty() && next.release.review.empty()) return "the review";
    const bool streams = next.release.mode == ReleaseSpec::Mode::kStream;
    if (taken.release.mode == ReleaseSpec::Mode::kHeld && streams) return "holding the answer back";
    const auto first = policy().models.find(taken.model), second = policy().models.find(next.model);
    if (first == policy().models.end() || first->second.residency.empty() || second == policy().models.end()) continue;
    const auto& places = second->second.residency;
    const auto allowed = [&](const std::string& place) {
      return std::ranges::find(first->second.residency, place) != first->second.residency.end();
    };
    if (places.empty() || !std::ranges::all_of(places, allowed)) return "the residency";
  }
  return {};
}

// The first fallback for the cause that was not taken yet; without one, the caller is told why. A stream that has begun
// cannot begin again.
void GovernedTask::FallBack(FallbackSpec::Cause cause, Status why) {
  if (setup_.shadow) return EndShadow(nullptr);
  record_.attempts.push_back(route_->name + ":" + record_.model + ":" + std::string(NameOfCause(cause)));
  setback_ = why.ToString();
  const bool streamed = generation_ != nullptr && generation_->streamed;
  if (streamed) return EndStream(api::FinishReason::kError, std::move(why));
  if (!cancelled_ && static_cast<int>(routes_taken_.size()) < kMaxRoutes) {
    for (const FallbackSpec& fallback : route_->fallback) {
      const RouteSpec* next = policy().FindRoute(fallback.to);
      const bool again = std::ranges::find(routes_taken_, fallback.to) != routes_taken_.end();
      if (next == nullptr || again || !AppliesTo(fallback, cause)) continue;
      generation_.reset();
      stream_.reset();
      if (const std::string lost = BrokenPromise(*next); !lost.empty()) {
        record_.error = FailedPreconditionError("route '" + next->name + "' lacks " + lost + " of route '" +
                                                route_->name + "', so a person answers").ToString();
        return SendToReview(ReviewQueueOf(*route_), "");
      }
      return RunRoute(*next);
    }
  }
  Refuse(api::FinishReason::kError, std::move(why), api::Outcome::kRefused);
}

// Where the caller wants to know: told at once if progress has begun, else with the next tick. The first tick is due a
// quiet period after the submission, so that what is decided within it keeps its HTTP status.
void GovernedTask::EnterStage(api::Stage stage) {
  if (!setup_.request.wants_progress || services_.ticker == nullptr) return;
  std::optional<int64_t> watch_from;
  {
    const std::lock_guard lock(progress_mutex_);
    if (progress_.stage == stage && progress_.route == record_.decision.route) return;
    progress_ = record_.decision;
    progress_.stage = stage;
    progress_every_ns_ = route_->release.progress_ns;
    if (progress_due_ns_ == 0) {
      progress_due_ns_ = start_ns_ + progress_every_ns_;
      watch_from = progress_due_ns_;
    }
    if (progress_begun_) sink_.Progress(setup_.id, progress_);
  }
  if (!watch_from) return;
  services_.ticker->Watch(*watch_from, [weak = weak_from_this()]() -> std::optional<int64_t> {
    const auto self = weak.lock();
    return self == nullptr ? std::nullopt : self->TellProgress();
  });
}

std::optional<int64_t> GovernedTask::TellProgress() {
  const std::lock_guard lock(progress_mutex_);
  if (!sink_.Progress(setup_.id, progress_)) return std::nullopt;
  progress_begun_ = true;
  progress_due_ns_ += progress_every_ns_;
  const int64_t now_ns = Now();
  if (progress_due_ns_ <= now_ns) progress_due_ns_ = now_ns + progress_every_ns_;  // late: what was missed is left out
  return progress_due_ns_;
}

void GovernedTask::Cancel() {
  cancelled_ = true;
  api::Backend* backend = nullptr;
  api::RequestId id = 0;
  {
    const std::lock_guard lock(backend_mutex_);
    backend = running_on_;
    id = running_id_;
  }
  if (backend != nullptr) backend->Cancel(id);
}

}  // namespace surety::gateway
