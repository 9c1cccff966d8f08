#include "engine/forced_drafter.h"

#include <algorithm>
#include <memory>
#include <string>

namespace surety::engine {
namespace {

constexpr size_t kMostForcedBytes = 128;

int ForcedClass(size_t depth) {
  return static_cast<int>(std::min(depth, size_t{spec::AcceptanceTable::kClasses - 1}));
}

}  // namespace

void ForcedDrafter::Draft(std::span<const DraftWish> wishes, std::span<DraftProposal* const> proposals) {
  for (size_t i = 0; i < wishes.size(); ++i) {
    Sequence& sequence = *wishes[i].sequence;
    if (!sequence.shaped.constrained()) continue;
    auto& slot = sequence.drafters[static_cast<size_t>(method())];
    if (slot == nullptr) slot = std::make_unique<State>();
    State& state = *static_cast<State*>(slot.get());
    const auto wanted = static_cast<size_t>(std::min(wishes[i].max_depth, wishes[i].max_nodes));
    const size_t n_left = state.tokens.size() - state.n_right;
    if (state.n_right > 0 && n_left > 0 && (n_left >= wanted || !state.goes_on)) {
      // What was forced and has not come yet still is.
      state.tokens.erase(state.tokens.begin(), state.tokens.begin() + static_cast<int64_t>(state.n_right));
    } else {
      state.tokens.clear();
      const std::string bytes = sequence.shaped.ForcedBytes(kMostForcedBytes);
      if (bytes.size() >= 2) state.tokens = tokenizer_.Encode(bytes, false);
      state.goes_on = bytes.size() == kMostForcedBytes;
      if (state.goes_on && state.tokens.size() > 1) state.tokens.pop_back();  // cut off anywhere
    }
    state.n_right = 0;
    if (state.tokens.empty()) continue;
    const size_t most = std::min(state.tokens.size(), wanted);
    int node = 0;
    for (size_t depth = 0; depth < most && node != spec::DraftTree::kFull; ++depth) {
      node = proposals[i]->tree.Add(node, state.tokens[depth], by_depth_.Of(ForcedClass(depth)));
    }
    proposals[i]->is_blind = true;
  }
}

void ForcedDrafter::Observe(Sequence& sequence, int32_t token) {
  State* state = StateOf<State>(sequence.drafters, method());
  if (state == nullptr || state->n_right >= state->tokens.size()) return;
  const bool right = state->tokens[state->n_right] == token;
  by_depth_.Note(ForcedClass(state->n_right), right, spec::kSharedTrialWeight);
  state->n_right = right ? state->n_right + 1 : state->tokens.size();
}

}  // namespace surety::engine
