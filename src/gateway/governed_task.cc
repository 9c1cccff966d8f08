#include "gateway/governed_task.h"

#include <algorithm>
#include <span>
#include <utility>

#include "base/hash.h"
#include "gateway/tools.h"

namespace surety::gateway {
namespace {

constexpr int kMaxRoutes = 8;  // fallbacks of fallbacks; the check proves that there is no cycle

std::string TextDigest(std::string_view text) { return HexOf(Sha256Of(std::as_bytes(std::span(text)))); }

bool AppliesTo(const FallbackSpec& fallback, FallbackSpec::Cause cause) {
  return fallback.on.empty() || std::ranges::find(fallback.on, cause) != fallback.on.end();
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

}  // namespace

GovernedTask::GovernedTask(Setup setup)
    : setup_(std::move(setup)), services_(*setup_.services), sink_(setup_.decision, setup_.sink) {
  start_ns_ = Now();
  record_.time_ns = services_.clock->WallNanos();
  record_.decision.id = setup_.decision;
  record_.decision.policy_version = policy().version;
  record_.policy_id = policy().id;
  record_.policy_digest = policy().digest;
  record_.subject = setup_.request.caller.subject;
  evidence_ = std::make_shared<Evidence>();
}

void GovernedTask::Start() {
  stage_ns_ = Now();
  record_.times.queue_ns = stage_ns_ - start_ns_;
  Decide();
}

int64_t GovernedTask::Left() const { return route_->deadline_ns - (Now() - route_begun_ns_); }

bool GovernedTask::Stopped() {
  if (cancelled_) {
    Refuse(api::FinishReason::kCancelled, CancelledError("the caller left"), api::Outcome::kRefused);
    return true;
  }
  if (route_ != nullptr && Left() <= 0) {
    FallBack(FallbackSpec::Cause::kTimeout,
             Status(StatusCode::kDeadlineExceeded, "route '" + route_->name + "' did not answer in time"));
    return true;
  }
  return false;
}

// Who asks, in canonical form. A dimension that comes from a tool is asked for first.
Status GovernedTask::ReadIdentity() {
  SURETY_ASSIGN_OR_RETURN(as_of_ns_, AsOf(policy(), setup_.request.caller, record_.time_ns));
  evidence_->as_of_ns = as_of_ns_;
  evidence_->validity = policy().validity;
  const api::Caller& caller = setup_.request.caller;
  SURETY_ASSIGN_OR_RETURN(circumstances_, ReadCircumstances(policy(), caller, as_of_ns_, nullptr, nullptr));
  record_.tenant = circumstances_.text[static_cast<size_t>(Dimension::kTenant)].value_or("");
  signals_ = setup_.runtime->signals->Read(conversation_.question, conversation_.all_text, caller);
  for (const auto& [name, value] : signals_.values) {
    record_.signals[name] = value.label;
    if (value.confidence < 1) record_.confidence[name] = value.confidence;
  }
  record_.signals["risk"] = NameOf(signals_.risk);
  record_.signals["complexity"] = NameOf(signals_.complexity);

  std::vector<std::string> asked;
  for (const DimensionSource& source : policy().identity) {
    const bool known = std::ranges::find(asked, source.name) != asked.end();
    if (source.from == DimensionSource::From::kTool && !known) asked.push_back(source.name);
  }
  std::vector<ToolResult> results;
  if (!asked.empty()) {
    const auto deadline = Now() + policy().routes.back().deadline_ns;
    results = setup_.runtime->tools->Gather(asked, ArgumentsFor(asked), deadline);
  }
  SURETY_ASSIGN_OR_RETURN(circumstances_, ReadCircumstances(policy(), caller, as_of_ns_, &signals_, &results));
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
  evidence_->facts = DimensionTexts(circumstances_);
  for (const auto& [name, value] : signals_.values) evidence_->facts[name] = value.label;
  const RouteSpec& route = ChooseRoute(Facts());
  if (!ReserveQuota(route)) return;
  RunRoute(route);
}

// The worst case of the route and its fallbacks, once for the whole request.
bool GovernedTask::ReserveQuota(const RouteSpec& route) {
  record_.decision.route = route.name;
  const int input = static_cast<int>(std::min<size_t>(conversation_.all_text.size(), 1 << 24));  // a token is >= 1 byte
  const int asked = setup_.request.max_tokens;
  const int output = asked > 0 ? std::min(asked, route.max_output_tokens) : route.max_output_tokens;
  auto reserved = setup_.quota->Reserve({record_.tenant, record_.subject, route.name, route.model},
                                        WorstCase(policy(), route, input, output));
  if (reserved) {
    reservation_ = *std::move(reserved);
    return true;
  }
  for (const FallbackSpec& fallback : route.fallback) {
    const RouteSpec* other = policy().FindRoute(fallback.to);
    const bool free = other != nullptr && other->answer != RouteSpec::Answer::kModel;
    if (!free || !AppliesTo(fallback, FallbackSpec::Cause::kBudget)) continue;
    record_.attempts.push_back(route.name + "::budget");
    RunRoute(*other);
    return false;
  }
  record_.decision.retry_after_s = reserved.error().retry_after_s;
  Refuse(api::FinishReason::kError, reserved.error().status, api::Outcome::kRefused);
  return false;
}

void GovernedTask::RunRoute(const RouteSpec& route) {
  route_ = &route;
  route_begun_ns_ = Now();
  record_.decision.route = route.name;
  routes_taken_.push_back(route.name);
  repair_.clear();
  basis_.reset();
  if (Stopped()) return;
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

std::string GovernedTask::FillTemplate(std::string_view text) const {
  std::string out;
  for (size_t at = 0; at < text.size();) {
    const size_t open = text.find('{', at);
    const size_t close = open == std::string_view::npos ? open : text.find('}', open);
    if (close == std::string_view::npos) {
      out += text.substr(at);
      break;
    }
    out += text.substr(at, open - at);
    const auto fact = evidence_->facts.find(std::string(text.substr(open + 1, close - open - 1)));
    out += fact == evidence_->facts.end() ? std::string(text.substr(open, close + 1 - open)) : fact->second;
    at = close + 1;
  }
  return out;
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
  record_.model = "template:" + spec->name + "@" + spec->version;
  AnswerText answer;
  answer.text = FillTemplate(text->second);
  record_.decision.outcome = api::Outcome::kTemplate;
  record_.times.gather_ns += Now() - stage_ns_;
  stage_ns_ = Now();
  ReleaseToken token = ReleaseToken::ForTemplate(setup_.decision, answer);
  Release(std::move(token), std::move(answer), api::FinishReason::kStop);
}

// The first fallback for the cause that was not taken yet; without one, the caller is told why. A stream that has begun
// cannot begin again.
void GovernedTask::FallBack(FallbackSpec::Cause cause, Status why) {
  record_.attempts.push_back(route_->name + ":" + record_.model + ":" + std::string(NameOfCause(cause)));
  const bool streamed = generation_ != nullptr && generation_->streamed;
  if (streamed) return EndStream(api::FinishReason::kError, std::move(why));
  if (!cancelled_ && static_cast<int>(routes_taken_.size()) < kMaxRoutes) {
    for (const FallbackSpec& fallback : route_->fallback) {
      const RouteSpec* next = policy().FindRoute(fallback.to);
      const bool again = std::ranges::find(routes_taken_, fallback.to) != routes_taken_.end();
      if (next == nullptr || again || !AppliesTo(fallback, cause)) continue;
      generation_.reset();
      stream_.reset();
      return RunRoute(*next);
    }
  }
  Refuse(api::FinishReason::kError, std::move(why), api::Outcome::kRefused);
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
