// What a grammar leaves no choice about, as the tokenizer would write it: such tokens are free for the asking. Which
// ones the target takes to spell the text is up to it, so they hold often, not always.
//
// Threads: the engine thread. Borrows: the tokenizer.
#pragma once

#include <string_view>
#include <vector>

#include "engine/drafter.h"
#include "model/tokenizer/tokenizer.h"
#include "spec/acceptance.h"

namespace surety::engine {

class ForcedDrafter final : public Drafter {
 public:
  explicit ForcedDrafter(const model::Tokenizer& tokenizer) : tokenizer_(tokenizer) {}

  DraftMethod method() const override { return DraftMethod::kForced; }
  bool is_free() const override { return true; }
  void Draft(std::span<const DraftWish> wishes, std::span<DraftProposal* const> proposals) override;
  void Observe(Sequence& sequence, int32_t token) override;

 private:
  struct State final : DrafterState {
    std::vector<int32_t> tokens;
    size_t n_right = 0;    // of them, that have come
    bool goes_on = false;  // more is forced behind them
  };

  std::vector<int32_t> Spelt(std::string_view bytes, bool goes_on) const;

  const model::Tokenizer& tokenizer_;
  // By place in the draft: the last token may be a part of a longer one that goes on beyond what is forced.
  spec::AcceptanceTable by_depth_{{0.8, 0.8, 0.8, 0.8, 0.8, 0.8, 0.8, 0.8}};
};

}  // namespace surety::engine
