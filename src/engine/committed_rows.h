// Which rows of a step have become part of which sequence: what drafters that read the target's hidden states are told
// of it (drafter.h).
// Threads: the engine thread. Owns: its list, of the step at hand.
#pragma once

#include <span>
#include <vector>

#include "engine/drafter.h"
#include "engine/step_plan.h"

namespace surety::engine {

class CommittedRowsList {
 public:
  // A step begins. Nothing is noted if nobody wants it.
  void Begin(bool wanted) {
    wanted_ = wanted;
    list_.clear();
  }
  // The rows of a sequence's own, without those of its draft.
  void Note(Sequence& sequence, const SequenceStep& step);
  // A further choice has come into being with the keys and values of another one's prompt.
  void NoteFork(const Sequence& from, Sequence& to);
  // The sequence's last computed position is that of a node of its draft.
  void NoteDrafted(const Sequence& sequence, int node);
  // The sequence is gone.
  void Drop(const Sequence* sequence);
  // What there is to tell of: not of a further choice that found no place and gave its pages up at once.
  std::span<const CommittedRows> Final();

 private:
  CommittedRows* Find(const Sequence* sequence);

  bool wanted_ = false;
  std::vector<CommittedRows> list_;
};

}  // namespace surety::engine
