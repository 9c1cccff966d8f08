#include "engine/speculator.h"

#include <algorithm>
#include <string>

#include "spec/draft_policy.h"

namespace surety::engine {
namespace {

// Drafts that hold less often than this in sum are not worth a row anywhere.
constexpr double kLeastProbability = 0.02;

}  // namespace

Status SpeculationOptions::Validate() const {
  if (max_draft_tokens < 0 || max_draft_tokens > spec::LookupDraft::kMaxProposal) {
    return InvalidArgumentError("max_draft_tokens is " + std::to_string(max_draft_tokens) + ", but must be from 0 to " +
                                std::to_string(spec::LookupDraft::kMaxProposal));
  }
  if (max_draft_rows < 0 || max_draft_rows > 1024) {
    return InvalidArgumentError("max_draft_rows is " + std::to_string(max_draft_rows) + ", but must be from 0 to 1024");
  }
  if (store.tokens_per_scope < 0 || store.max_scopes < 0) {
    return InvalidArgumentError("the store of earlier answers cannot hold a negative number of tokens or scopes");
  }
  return OkStatus();
}

bool Speculator::MayDraft(const Sequence& sequence) const {
  return !sequence.prefilling() && sequence.tokens_left() > 1 && sequence.state->request().speculate;
}

void Speculator::Plan(std::span<Sequence* const> running, kv::PrefixCache& cache, int64_t now_ns) {
  if (!options_.enabled()) return;
  acceptance_.resize(std::max(acceptance_.size(), running.size()));
  std::vector<spec::DraftOffer> offers;
  std::vector<std::pair<Sequence*, std::span<const int32_t>>> drafts;
  int n_decoding = 0;
  for (Sequence* sequence : running) {
    sequence->draft.clear();
    if (sequence->prefilling()) continue;
    ++n_decoding;
    if (!MayDraft(*sequence)) continue;
    if (sequence->lookup == nullptr) {
      sequence->lookup = std::make_unique<spec::LookupDraft>(shared_);
      sequence->lookup->Read(sequence->state->prepared.prediction);
      sequence->lookup->Read(sequence->tokens);
    }
    const spec::MatchIndex* store = nullptr;
    if (const auto& scope = sequence->state->prepared.scope; scope.has_value() && options_.store.tokens_per_scope > 0) {
      store = store_.Find(*scope, sequence->tokens, now_ns, cache.PolicyOf(scope->family()).ttl_ns);
    }
    std::span<const int32_t> draft = sequence->lookup->Propose(store);
    const int most = std::min({options_.max_draft_tokens, options_.max_draft_rows, sequence->tokens_left() - 1});
    draft = draft.first(std::min(draft.size(), static_cast<size_t>(most)));
    std::vector<double>& acceptance = acceptance_[drafts.size()];
    acceptance.clear();
    double all = 1;
    for (size_t i = 0; i < draft.size() && all > kLeastProbability; ++i) {
      acceptance.push_back(sequence->lookup->Acceptance(static_cast<int>(i)));
      all *= acceptance.back();
    }
    if (acceptance.empty()) continue;
    offers.push_back({acceptance, 0});
    drafts.emplace_back(sequence, draft);
  }
  if (offers.empty()) return;
  spec::ChooseDrafts(offers, n_decoding, n_decoding, options_.max_draft_rows,
                     [this](int rows) { return cost_.Of(rows); });
  for (size_t i = 0; i < offers.size(); ++i) {
    const auto chosen = drafts[i].second.first(static_cast<size_t>(offers[i].n_chosen));
    drafts[i].first->draft.assign(chosen.begin(), chosen.end());
  }
}

void Speculator::Observe(Sequence& sequence, int32_t token) {
  if (sequence.lookup != nullptr) sequence.lookup->Observe(token);
}

void Speculator::NoteVerified(Sequence& sequence, int n_drafted, int n_kept) {
  ++counters_.passes;
  if (n_drafted == 0) return;
  sequence.n_drafted += n_drafted;
  sequence.n_accepted += n_kept;
  ++counters_.n_drafts;
  counters_.draft_tokens += n_drafted;
  counters_.accepted_tokens += n_kept;
  n_kept_in_step_ += n_kept;
  for (int i = 0; i < n_drafted; ++i) {
    const auto at = static_cast<size_t>(std::min(i, SpeculationCounters::kPositions - 1));
    ++counters_.drafted_at[at];
    if (i < n_kept) ++counters_.accepted_at[at];
  }
}

void Speculator::NoteStep(int n_rows, int n_sequences, int64_t nanos) {
  cost_.Observe(n_rows, nanos);
  if (n_rows > n_sequences && n_sequences > 0) {
    // In plain steps of these sequences a token takes the step's time over their number.
    const double plain = cost_.Of(n_sequences);
    counters_.saved_ns += plain * n_kept_in_step_ / n_sequences - (static_cast<double>(nanos) - plain);
  }
  n_kept_in_step_ = 0;
}

void Speculator::Keep(const Sequence& sequence, kv::PrefixCache& cache, int64_t now_ns) {
  const auto& scope = sequence.state->prepared.scope;
  if (!options_.enabled() || !scope.has_value() || sequence.n_output() < 4) return;
  if (sequence.cursor.has_value() && cache.Forgotten(*sequence.cursor)) return;
  const kv::ScopePolicy& policy = cache.PolicyOf(scope->family());
  if (policy.zero_on_release) return;  // such a scope leaves nothing behind
  store_.Add(*scope, std::span(sequence.tokens).subspan(static_cast<size_t>(sequence.n_prompt)), now_ns, policy.ttl_ns);
}

}  // namespace surety::engine
