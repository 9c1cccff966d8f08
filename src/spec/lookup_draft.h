// One sequence's drafts by looking up: how its text, or another text of its scope, went on when the same tokens came
// last. Costs about a microsecond a token and no step of any model.
//
// Proposals are scored against the tokens that come whether or not they were verified in a step, so what a draft is
// worth is known without paying for probes.
//
// Threads: one. Owns: the sequence's index and its proposal. Borrows: the shared table.
// Source: prompt lookup decoding (Saxena 2023); the score by match length after SuffixDecoding (Oliaro et al. 2024).
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "spec/acceptance.h"
#include "spec/match_index.h"

namespace surety::spec {

class LookupDraft {
 public:
  static constexpr int kMaxProposal = 64;

  // What a new sequence believes before anything was tried.
  static AcceptanceTable Prior();

  explicit LookupDraft(AcceptanceTable& shared) : shared_(shared), own_(shared) {}

  // A text of its own that is there already, the prompt last: not scored.
  void Read(std::span<const int32_t> tokens);
  // A token that came.
  void Observe(int32_t token);
  // What is expected next, most certain first in time; valid until the next call. `elsewhere`: other texts that may be
  // looked into, or null.
  std::span<const int32_t> Propose(const MatchIndex* elsewhere);
  // Gives up the proposal, which may be from a text that has been forgotten since.
  void DropProposal();
  // Of the last proposal's token at `depth` (0: the first): how probably it is right if those before it are.
  double Acceptance(int depth) const { return own_.Of(ClassOf(match_length_ + depth)); }

  // Where the proposal was found: not in this sequence's own texts.
  bool from_elsewhere() const { return from_elsewhere_; }

  static int ClassOf(int match_length);

 private:
  void Take(const MatchIndex& source, const MatchIndex::Match& match);

  AcceptanceTable& shared_;
  AcceptanceTable own_;
  MatchIndex index_;
  std::vector<int32_t> proposal_;
  size_t cursor_ = 0;       // tokens of the proposal that came true
  bool from_elsewhere_ = false;
  int match_length_ = 0;    // tokens before the cursor that agree
};

}  // namespace surety::spec
