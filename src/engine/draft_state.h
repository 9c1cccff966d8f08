// What a sequence's drafting by a model has come to (draft_model.h).
// Threads: the engine thread. Owns: the pages of a draft with a vocabulary of its own.
#pragma once

#include <cstdint>
#include <optional>
#include <string_view>
#include <vector>

#include "kv/page_pool.h"
#include "spec/acceptance.h"

namespace surety::engine {

// Who proposed a draft.
enum class DraftMethod : uint8_t { kLookup, kModel, kForced };
inline constexpr int kDraftMethods = 3;
inline std::string_view NameOf(DraftMethod method) {
  constexpr std::string_view kNames[kDraftMethods] = {"lookup", "model", "forced"};
  return kNames[static_cast<size_t>(method)];
}

// What a grammar leaves no choice about, as the tokenizer would write it.
struct ForcedDraft {
  std::vector<int32_t> tokens;
  size_t n_right = 0;  // of them, that have come
};

struct DraftState {
  DraftState(const spec::AcceptanceTable& shared, double shared_mean) : own(shared), mean(shared_mean) {}

  std::vector<int32_t> text;        // what the draft reads, in its vocabulary
  std::vector<int32_t> in_pages;    // another vocabulary's: tokens whose keys and values are in `pages`
  std::optional<kv::PageTable> pages;  // overwritten when they are given back, whatever the scope's policy
  // The target's pages that the last draft wrote behind the text, as they were then.
  struct Written {
    int index = 0;  // in the sequence's table
    int32_t page = -1;
    uint32_t serial = 0;
  };
  std::vector<Written> written;
  int n_taken = 0;                  // of the sequence's tokens, that are in `text`
  spec::AcceptanceTable own;        // by how sure the draft is
  double mean;                      // of all its tokens, given that those before held
  std::vector<int32_t> proposal;    // in the target's vocabulary, from the token that comes next
  std::vector<int> classes;         // of its tokens
  std::vector<std::vector<std::pair<int32_t, double>>> laws;  // that they were drawn from, where a rule asks for them
};

}  // namespace surety::engine
