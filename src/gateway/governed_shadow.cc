// Two watches over answers from the cache: that one is of the partition that asks, proved anew before it is released;
// and that it is still what a model makes, proved for some of them afterwards.
#include <cstring>
#include <span>
#include <utility>

#include "base/hash.h"
#include "gateway/governed_task.h"

namespace surety::gateway {
namespace {

std::string ShadowDigest(std::string_view text) { return HexOf(Sha256Of(std::as_bytes(std::span(text)))); }

// A share of decisions, by their ids, which are random.
bool IsDrawn(const std::string& decision, double share) {
  const Sha256Digest digest = Sha256Of(std::as_bytes(std::span(decision)));
  uint64_t drawn = 0;
  std::memcpy(&drawn, digest.data(), sizeof drawn);
  return static_cast<double>(drawn >> 11) * 0x1p-53 < share;
}

}  // namespace

// From what the caller proved, not from the partition that the look-up was given: a fault on the way from one to the
// other must not show one customer's answer to another.
bool GovernedTask::IsOfThisPartition(const CacheHit& hit) {
  const auto circumstances =
      ReadCircumstances(policy(), setup_.request.caller, as_of_ns_, &signals_, &identity_tools_);
  const auto partition = circumstances ? Partition::Make(*circumstances) : Error(circumstances.error());
  if (partition && partition->key() == hit.partition) return true;
  if (services_.cross_partition_hits != nullptr) ++*services_.cross_partition_hits;
  services_.cache->ForgetDecision(hit.answer.decision);
  boost::json::object row{{"id", setup_.decision},
                          {"first", hit.answer.decision},
                          {"route", route_->name},
                          {"asked", partition ? partition->Digest() : std::string()},
                          {"stored_sha256", ShadowDigest(hit.partition)}};
  const auto written = services_.audit->Append("cross_partition", std::move(row));
  (void)written.has_value();  // without a row it is refused and counted all the same
  return false;
}

std::string GovernedTask::CacheKeyDigest(const AnswerBasis& basis) const {
  return ShadowDigest(AnswerKey(*partition_, basis, conversation_.question));
}

// Only what a second computation must make again, byte by byte: the same request to an engine of our own, whose answers
// are a function of it. What a repair made, or a server elsewhere, is not.
void GovernedTask::PlanShadow(const RouteSpec& route, const CacheHit& hit) {
  const bool ours = policy().models.at(route.model).engine == ModelSpec::Engine::kLocal;
  if (!ours || hit.answer.attempts != 1 || routes_taken_.size() != 1 || !services_.start_shadow) return;
  if (!IsDrawn(setup_.decision, policy().state.cache_shadow)) return;
  shadow_due_ = CacheShadow{setup_.decision, hit.answer.decision, route.name, CacheKeyDigest(*basis_),
                            hit.answer.answer_digest};
}

void GovernedTask::StartShadow() {
  if (!shadow_due_) return;
  api::GenerationRequest request = setup_.request;
  request.wants_progress = false;
  if (services_.start_shadow(setup_.runtime, std::move(request), *shadow_due_)) return;
  services_.ledger->Record(ShadowOutcome{shadow_due_->route, ShadowOutcome::Result::kDropped, 0});
}

// Another day, other permissions or a changed store make it another question: then there is nothing to compare.
void GovernedTask::ComputeShadow() {
  route_ = policy().FindRoute(setup_.shadow->route);
  route_begun_ns_ = Now();
  record_.decision.route = route_->name;
  if (!partition_) return EndShadow(nullptr);
  basis_ = BasisOf(*route_);
  if (CacheKeyDigest(*basis_) != setup_.shadow->key) return EndShadow(nullptr);
  if (Gather(*route_)) Generate(*route_);
}

void GovernedTask::EndShadow(const AnswerText* answer) {
  if (std::exchange(release_done_, true)) return;
  const CacheShadow& shadow = *setup_.shadow;
  ShadowOutcome outcome{shadow.route, ShadowOutcome::Result::kDropped, record_.cost.total()};
  const bool comparable = answer != nullptr && (route_->retrieve.empty() ||
                                               basis_->retrieval_snapshot == evidence_->retrieval_snapshot);
  if (comparable) {
    const std::string digest = DigestOf(*answer);
    const bool same = digest == shadow.answer_digest;
    outcome.result = same ? ShadowOutcome::Result::kSame : ShadowOutcome::Result::kDifferent;
    if (!same) {
      services_.cache->ForgetDecision(shadow.first);
      boost::json::object row{{"id", shadow.decision},
                              {"first", shadow.first},
                              {"route", shadow.route},
                              {"tenant", record_.tenant},
                              {"model_revision", record_.model_revision},
                              {"released_digest", shadow.answer_digest},
                              {"computed_digest", digest}};
      services_.audit->AppendAsync("shadow", std::move(row), [](Result<AuditRow>) {});
    }
  }
  services_.ledger->Record(outcome);
  running_.reset();
  if (setup_.ended) std::exchange(setup_.ended, nullptr)();
}

}  // namespace surety::gateway
