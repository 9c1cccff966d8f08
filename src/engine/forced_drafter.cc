#include "engine/forced_drafter.h"

#include <algorithm>
#include <memory>
#include <string>
#include <string_view>

namespace surety::engine {
namespace {

constexpr size_t kMostForcedBytes = 128;

int ForcedClass(size_t depth) {
  return static_cast<int>(std::min(depth, size_t{spec::AcceptanceTable::kClasses - 1}));
}

// The length of `text` without a character at its end that has not all its bytes.
size_t WholeCharacters(std::string_view text) {
  size_t lead = text.size();
  while (lead > 0 && text.size() - lead < 4) {
    const auto byte = static_cast<uint8_t>(text[--lead]);
    if ((byte & 0xC0) == 0x80) continue;
    const size_t length = byte < 0x80 ? 1 : byte < 0xE0 ? 2 : byte < 0xF0 ? 3 : 4;
    return text.size() - lead < length ? lead : text.size();
  }
  return text.size();
}

}  // namespace

// Tokens that write `bytes`; without the last one where they go on, since they are cut off anywhere. None where the
// tokenizer would not write them, as from the middle of a character on.
std::vector<int32_t> ForcedDrafter::Spelt(std::string_view bytes, bool goes_on) const {
  if (goes_on) bytes = bytes.substr(0, WholeCharacters(bytes));
  if (bytes.size() < 2) return {};
  std::vector<int32_t> tokens = tokenizer_.Encode(bytes, false, {.continues = true});
  std::string text;
  for (const int32_t token : tokens) text += tokenizer_.TokenBytes(token);
  if (text != bytes) return {};
  const auto drop = [&] {
    text.resize(text.size() - tokenizer_.TokenBytes(tokens.back()).size());
    tokens.pop_back();
  };
  if (goes_on && tokens.size() > 1) drop();
  while (WholeCharacters(text) < text.size()) drop();
  return tokens;
}

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
      const std::string bytes = sequence.shaped.ForcedBytes(kMostForcedBytes);
      state.goes_on = bytes.size() == kMostForcedBytes;
      std::vector<int32_t> tokens = Spelt(bytes, state.goes_on);
      if (tokens.empty() && state.n_right > 0) {  // within a character: what is left of the last window
        tokens.assign(state.tokens.begin() + static_cast<int64_t>(state.n_right), state.tokens.end());
      }
      state.tokens = std::move(tokens);
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
