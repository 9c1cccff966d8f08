#include "spec/rejection.h"

#include <algorithm>

#include "base/check.h"
#include "base/random.h"

namespace surety::spec {
namespace {

RandomKey StreamOf(const RejectionKey& key, RandomPurpose purpose) {
  return {.seed = key.seed, .position = key.position, .purpose = purpose, .lane = key.lane};
}

}  // namespace

double DraftUniform(const RejectionKey& key, int node, int draw) {
  SURETY_CHECK(node >= 0 && draw >= 0 && draw < DraftTree::kMaxNodes);
  return RandomUniform(StreamOf(key, RandomPurpose::kDraft), static_cast<uint32_t>(node * DraftTree::kMaxNodes + draw));
}

double AcceptUniform(const RejectionKey& key, int trial) {
  return RandomUniform(StreamOf(key, RandomPurpose::kAccept), static_cast<uint32_t>(trial));
}

double ResidualUniform(const RejectionKey& key) { return RandomUniform(StreamOf(key, RandomPurpose::kResidual)); }

double BonusUniform(const RejectionKey& key) { return RandomUniform(StreamOf(key, RandomPurpose::kBonus)); }

void DraftIndependent(Law q, const RejectionKey& key, int node, std::span<int32_t> out) {
  for (size_t i = 0; i < out.size(); ++i) out[i] = DrawFrom(q, DraftUniform(key, node, static_cast<int>(i)));
}

int DraftWithoutReplacement(Law q, const RejectionKey& key, int node, std::span<int32_t> out) {
  for (size_t i = 0; i < out.size(); ++i) {
    const auto is_left = [&](const std::pair<int32_t, double>& entry) {
      return entry.second > 0 && std::find(out.begin(), out.begin() + static_cast<std::ptrdiff_t>(i), entry.first) ==
                                     out.begin() + static_cast<std::ptrdiff_t>(i);
    };
    double total = 0;  // summed, not 1 less what was drawn: of a peaked law the difference would be rounding alone
    for (const auto& entry : q) total += is_left(entry) ? entry.second : 0.0;
    if (!(total > 0)) return static_cast<int>(i);
    const double point = total * DraftUniform(key, node, static_cast<int>(i));
    double cumulative = 0;
    int32_t drawn = -1;
    for (const auto& entry : q) {
      if (!is_left(entry)) continue;
      drawn = entry.first;
      cumulative += entry.second;
      if (point < cumulative) break;
    }
    out[i] = drawn;
  }
  return static_cast<int>(out.size());
}

int ChildTrials(const DraftTree& tree, int node, std::span<Trial> out) {
  int n = 0;
  for (const int child : tree.children(node)) out[static_cast<size_t>(n++)] = {tree.token(child), child};
  return n;
}

Remainder::Remainder(int vocab_size)
    : remaining_(static_cast<size_t>(vocab_size)), q_of_(static_cast<size_t>(vocab_size)) {
  taken_.reserve(DraftTree::kMaxNodes);
}

void Remainder::Begin(Law p, ProposalKind kind, Law q) {
  SURETY_CHECK(p.size() <= remaining_.size());
  law_ = p;
  mass_ = 1;
  kind_ = kind;
  q_ = q;
  q_mass_ = 1;
  taken_.clear();
}

bool Remainder::IsTaken(int32_t token) const { return std::find(taken_.begin(), taken_.end(), token) != taken_.end(); }

TrialOdds Remainder::OddsOf(int32_t token) const {
  TrialOdds odds = {.target = ProbabilityOf(law_, token) / mass_};
  if (kind_ == ProposalKind::kOneHot) return odds;
  odds.draft = IsTaken(token) ? 0.0 : ProbabilityOf(q_, token) / q_mass_;
  SURETY_CHECK_MSG(odds.draft > 0, "a draft token that its own law cannot give");
  return odds;
}

// Keeps of each entry what left_of(token, normalised probability) says. Where that is nothing of any (r and q agree but
// for rounding, and the rejection was rounding too) the law stays as it is.
template <typename LeftOf>
void Remainder::Keep(LeftOf left_of) {
  size_t n = 0;
  double mass = 0;
  for (size_t i = 0; i < law_.size(); ++i) {
    const auto [token, value] = law_[i];  // a copy: from the second time on the list is read and written in place
    const double left = left_of(token, value / mass_);
    if (!(left > 0)) continue;
    mass += left;
    remaining_[n++] = {token, left};
  }
  if (n == 0) return;
  law_ = Law(remaining_).first(n);
  mass_ = mass;
}

void Remainder::Reject(int32_t token) {
  if (kind_ == ProposalKind::kOneHot) {
    Keep([token](int32_t id, double r) { return id == token ? 0.0 : r; });
    return;
  }
  const auto slot = [this](int32_t id) -> double& {
    SURETY_CHECK(static_cast<size_t>(id) < q_of_.size());
    return q_of_[static_cast<size_t>(id)];
  };
  for (const auto& [id, probability] : q_) slot(id) = probability;
  for (const int32_t id : taken_) slot(id) = 0;
  Keep([&](int32_t id, double r) { return r - slot(id) / q_mass_; });
  if (kind_ == ProposalKind::kWithoutReplacement) {
    taken_.push_back(token);
    slot(token) = 0;
    q_mass_ = 0;
    for (const auto& entry : q_) q_mass_ += slot(entry.first);
  }
  for (const auto& entry : q_) slot(entry.first) = 0;
}

Outcome RejectionVerifier::VerifyNode(const NodeLaws& laws, const RejectionKey& key) {
  const auto& [kind, q, trials] = laws.proposal;
  if (trials.empty()) return {.token = DrawFrom(laws.p, BonusUniform(key))};
  remainder_.Begin(laws.p, kind, q);
  for (size_t i = 0; i < trials.size(); ++i) {
    const Trial& trial = trials[i];
    if (Accepts(remainder_.OddsOf(trial.token), AcceptUniform(key, static_cast<int>(i)))) {
      return {trial.node, trial.token};
    }
    remainder_.Reject(trial.token);
  }
  return {.token = DrawFrom(remainder_.law(), ResidualUniform(key))};
}

int RejectionVerifier::Walk(RejectionKey key, FunctionRef<NodeLaws(int node)> laws_of,
                            FunctionRef<bool(int32_t token, int node)> emit) {
  int node = 0;
  for (;; ++key.position) {
    const Outcome outcome = VerifyNode(laws_of(node), key);
    const bool go_on = emit(outcome.token, outcome.node);
    if (outcome.node < 0) return node;
    SURETY_CHECK(outcome.node > node);  // children come after their parents, so the walk ends
    node = outcome.node;
    if (!go_on) return node;
  }
}

}  // namespace surety::spec
