// One sequence's drafts by looking up: how its text, or another text of its scope, went on when the same tokens came
// last. Costs about a microsecond a token and no step of any model.
//
// Proposals are scored against the tokens that come whether or not they were verified in a step, so what a draft is
// worth is known without paying for probes.
//
// Threads: one. Owns: the sequence's index and its proposal. Borrows: the shared table.
// Source: prompt lookup decoding (Saxena 2023); the score by match length after SuffixDecoding (Oliaro et al. 2024).
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "spec/acceptance.h"
#include "spec/draft_tree.h"
#include "spec/match_index.h"

namespace surety::spec {

class LookupDraft {
 public:
  static constexpr int kMaxProposal = DraftTree::kMaxNodes - 1;
  static constexpr int kMaxAlternatives = RankedAcceptance::kRanks - 1;

  // What a new sequence believes before anything was tried.
  static RankedAcceptance Prior();

  explicit LookupDraft(RankedAcceptance& shared) : shared_(shared), own_(shared) {}

  // A text of its own that is there already, the prompt last: not scored.
  void Read(std::span<const int32_t> tokens);
  // A token that came.
  void Observe(int32_t token);
  // What is expected next, most certain first in time; valid until the next call. `elsewhere`: other texts that may be
  // looked into, or null.
  std::span<const int32_t> Propose(const MatchIndex* elsewhere);
  struct TreeLimits {
    int max_nodes = kMaxProposal, max_depth = kMaxProposal, max_branches = 1;
  };
  // The same with a branch for each way in which other places went on, where no long match says which is right. `tree`
  // has its root alone.
  void ProposeTree(const MatchIndex* elsewhere, const TreeLimits& limits, DraftTree& tree);
  // Gives up the proposal, which may be from a text that has been forgotten since.
  void DropProposal();
  // Of the last proposal's token at `depth` (0: the first): how probably it is right if those before it are.
  double Acceptance(int depth) const { return own_.Of(0, ClassOf(match_length_ + depth)); }

  // Where the proposal or one of its alternatives was found: not in this sequence's own texts.
  bool from_elsewhere() const { return from_elsewhere_ || others_from_elsewhere_; }

  static int ClassOf(int match_length);

 private:
  // Another way on, at the place of the proposal's next token.
  struct Alternative {
    int32_t token = -1;
    int match_length = 0;
    const MatchIndex* source = nullptr;
    int next = 0;  // the token's place there
  };
  void Take(const MatchIndex& source, const MatchIndex::Match& match);
  void FindAlternatives(const MatchIndex& source);
  void AddAlternative(const Alternative& alternative, const TreeLimits& limits, DraftTree& tree) const;

  RankedAcceptance& shared_;
  RankedAcceptance own_;
  MatchIndex index_;
  std::vector<int32_t> proposal_;
  size_t cursor_ = 0;       // tokens of the proposal that came true
  bool from_elsewhere_ = false, others_from_elsewhere_ = false;
  int match_length_ = 0;    // tokens before the cursor that agree
  std::array<Alternative, kMaxAlternatives> alternatives_;  // of the last tree; the longer match first
  size_t n_alternatives_ = 0;
};

}  // namespace surety::spec
