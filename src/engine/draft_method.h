// Who proposed a draft, and what a drafter keeps for a sequence.
// Threads: values. Owns: nothing.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <string_view>

namespace surety::engine {

// A drafter's name in metrics, and its place in Sequence::drafters.
enum class DraftMethod : uint8_t { kLookup, kModel, kForced, kEagle, kMedusa };
inline constexpr int kDraftMethods = 5;
inline std::string_view NameOf(DraftMethod method) {
  constexpr std::string_view kNames[kDraftMethods] = {"lookup", "model", "forced", "eagle", "medusa"};
  return kNames[static_cast<size_t>(method)];
}

// What a drafter keeps for a sequence; it goes with the sequence. Each drafter knows the type of its own.
struct DrafterState {
  virtual ~DrafterState() = default;
};

using DrafterStates = std::array<std::unique_ptr<DrafterState>, kDraftMethods>;

// The state of one method, or null.
template <typename State>
State* StateOf(const DrafterStates& states, DraftMethod method) {
  return static_cast<State*>(states[static_cast<size_t>(method)].get());
}

}  // namespace surety::engine
