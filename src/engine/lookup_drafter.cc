#include "engine/lookup_drafter.h"

#include <memory>

namespace surety::engine {

spec::LookupDraft& LookupDrafter::LookupOf(Sequence& sequence) {
  auto& state = sequence.drafters[static_cast<size_t>(method())];
  if (state == nullptr) {
    auto made = std::make_unique<State>(shared_);
    made->lookup.Read(sequence.state->prepared.prediction);
    made->lookup.Read(sequence.tokens);
    state = std::move(made);
  }
  return static_cast<State*>(state.get())->lookup;
}

void LookupDrafter::Draft(std::span<const DraftWish> wishes, std::span<DraftProposal* const> proposals) {
  for (size_t i = 0; i < wishes.size(); ++i) {
    const DraftWish& wish = wishes[i];
    Sequence& sequence = *wish.sequence;
    const spec::MatchIndex* store = nullptr;
    // Under rejection an earlier answer with the same seed would not be independent of the numbers that verify it.
    const bool may_store = options_.tokens_per_scope > 0 && !wish.by_rejection;
    if (const auto& scope = sequence.state->prepared.scope; scope.has_value() && may_store) {
      store = store_.Find(*scope, sequence.tokens, now_ns_, cache_->PolicyOf(scope->family()).ttl_ns);
    }
    spec::LookupDraft& lookup = LookupOf(sequence);
    lookup.ProposeTree(store, {wish.max_nodes, wish.max_depth, wish.max_branches}, proposals[i]->tree);
    proposals[i]->is_blind = !lookup.from_elsewhere();
  }
}

void LookupDrafter::Observe(Sequence& sequence, int32_t token) {
  if (State* state = StateOf<State>(sequence.drafters, method())) state->lookup.Observe(token);
}

}  // namespace surety::engine
