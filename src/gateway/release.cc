#include "gateway/release.h"

#include <span>
#include <utility>

#include "base/check.h"
#include "base/hash.h"
#include "gateway/partition.h"

namespace surety::gateway {
namespace {

Status NotReleased(std::string why) { return {StatusCode::kPermissionDenied, std::move(why)}; }

}  // namespace

ReleaseToken::ReleaseToken(ReleaseToken&& other) noexcept
    : decision_(std::move(other.decision_)),
      digest_(std::move(other.digest_)),
      spent_(std::exchange(other.spent_, true)) {}

Result<ReleaseToken> ReleaseToken::ForJudgement(const RouteSpec& route, const Policy& policy,
                                                const std::string& decision, const AnswerText& answer,
                                                const Judgement& judgement) {
  if (!route.release.review.empty()) {
    return Error(NotReleased("route '" + route.name + "' is released by a person"));
  }
  if (judgement.action != Judgement::Action::kRelease) {
    return Error(NotReleased("verifier '" + judgement.verifier + "' kept the answer back: " + judgement.reason));
  }
  if (judgement.verdicts.size() != route.verify.size()) {
    return Error(NotReleased("route '" + route.name + "' has " + std::to_string(route.verify.size()) +
                             " verifiers, but " + std::to_string(judgement.verdicts.size()) + " verdicts came"));
  }
  for (size_t i = 0; i < route.verify.size(); ++i) {
    const Verdict& verdict = judgement.verdicts[i];
    if (verdict.verifier != route.verify[i]) {
      return Error(NotReleased("the verdict of '" + route.verify[i] + "' is missing"));
    }
    const auto spec = policy.verifiers.find(verdict.verifier);
    const bool open = verdict.outcome == Verdict::Outcome::kError && spec != policy.verifiers.end() &&
                      spec->second.open_on_error;
    if (verdict.outcome != Verdict::Outcome::kPass && !open) {
      return Error(NotReleased("verifier '" + verdict.verifier + "' did not pass the answer"));
    }
  }
  return ReleaseToken(decision, DigestOf(answer));
}

ReleaseToken ReleaseToken::ForApproval(const std::string& decision, std::string approved_digest) {
  SURETY_CHECK(!approved_digest.empty());
  return ReleaseToken(decision, std::move(approved_digest));
}

ReleaseToken ReleaseToken::ForTemplate(const std::string& decision, const AnswerText& answer) {
  return ReleaseToken(decision, DigestOf(answer));
}

ReleaseToken ReleaseToken::ForCacheHit(const std::string& decision, std::string stored_digest) {
  SURETY_CHECK(!stored_digest.empty());
  return ReleaseToken(decision, std::move(stored_digest));
}

std::string DigestOf(const AnswerText& answer) {
  std::string bytes;
  AppendField(bytes, 1, answer.text);
  AppendField(bytes, 2, answer.reasoning);
  for (const AnswerText::Call& call : answer.calls) {
    AppendField(bytes, 3, call.name);
    AppendField(bytes, 4, call.arguments);
  }
  return HexOf(Sha256Of(std::as_bytes(std::span(bytes))));
}

CallerSink::CallerSink(std::string decision, api::EventSink sink)
    : decision_(std::move(decision)), sink_(std::move(sink)) {}

Status CallerSink::Release(ReleaseToken&& token, const AnswerText& answer, api::Event last) {
  const ReleaseToken used = std::move(token);  // whatever follows, it is spent
  const std::lock_guard lock(mutex_);
  if (ended_) return NotReleased("decision '" + decision_ + "' has ended");
  if (used.spent_) return NotReleased("the release token was used before");
  if (used.decision_ != decision_) return NotReleased("the release token is for decision '" + used.decision_ + "'");
  if (used.digest_ != DigestOf(answer)) return NotReleased("the release token is for another text");
  SURETY_CHECK(last.finish == api::FinishReason::kStop || last.finish == api::FinishReason::kLength);
  ended_ = true;
  last.text = answer.text;
  last.tokens.clear();
  last.logprobs.clear();
  last.tool_calls.clear();
  for (size_t i = 0; i < answer.calls.size(); ++i) {
    last.tool_calls.push_back({static_cast<int>(i), answer.calls[i].name, answer.calls[i].arguments});
  }
  sink_(std::move(last));
  return OkStatus();
}

bool CallerSink::Progress(api::RequestId request, const api::Decision& now) {
  api::Decision shown;
  shown.id = now.id;
  shown.route = now.route;
  shown.policy_version = now.policy_version;
  shown.stage = now.stage;
  shown.slo = now.slo;
  api::Event event;
  event.request = request;
  event.progress = true;
  event.decision = std::make_shared<const api::Decision>(std::move(shown));
  const std::lock_guard lock(mutex_);
  if (begun_ || ended_) return false;
  sink_(std::move(event));
  return true;
}

void CallerSink::Refuse(api::Event last) {
  const std::lock_guard lock(mutex_);
  if (ended_) return;
  SURETY_CHECK(last.finish != api::FinishReason::kNone);
  ended_ = true;
  last.text.clear();
  last.tokens.clear();
  last.logprobs.clear();
  last.prompt_logprobs.clear();
  last.tool_calls.clear();
  last.stop_text.clear();
  sink_(std::move(last));
}

Result<std::string> OpenApproved(ReleaseToken&& token, const std::string& decision, std::string text) {
  const ReleaseToken used = std::move(token);
  if (used.spent_) return Error(NotReleased("the release token was used before"));
  if (used.decision_ != decision)
    return Error(NotReleased("the release token is for decision '" + used.decision_ + "'"));
  if (used.digest_ != HexOf(Sha256Of(std::as_bytes(std::span(text))))) {
    return Error(NotReleased("the text of decision '" + decision + "' is not the one that was approved"));
  }
  return text;
}

Result<StreamingSink> StreamingSink::Open(const RouteSpec& route, Level risk, CallerSink& sink) {
  if (route.release.mode != ReleaseSpec::Mode::kStream) {
    return Error(NotReleased("route '" + route.name + "' holds its answers"));
  }
  if (route.release.audience != ReleaseSpec::Audience::kInternal) {
    return Error(NotReleased("route '" + route.name + "' answers customers, so nothing leaves before it is verified"));
  }
  if (risk == Level::kHigh) return Error(NotReleased("an answer of high risk is never streamed"));
  if (!route.release.review.empty()) {
    return Error(NotReleased("route '" + route.name + "' is released by a person"));
  }
  return StreamingSink(sink);
}

void StreamingSink::Pass(api::Event event) {
  SURETY_CHECK(event.finish == api::FinishReason::kNone);
  const std::lock_guard lock(sink_->mutex_);
  sink_->begun_ = true;
  if (!sink_->ended_) sink_->sink_(std::move(event));
}

void StreamingSink::End(api::Event last) {
  SURETY_CHECK(last.finish != api::FinishReason::kNone);
  const std::lock_guard lock(sink_->mutex_);
  if (std::exchange(sink_->ended_, true)) return;
  sink_->sink_(std::move(last));
}

}  // namespace surety::gateway
