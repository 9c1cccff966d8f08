// Which rows the next step computes.
//
// First come, first served. Running sequences with one row each come first; the rest of the row budget goes to prompts,
// in order of arrival, cut into chunks. A sequence is admitted when the pages for its whole length are free, so a
// running sequence never lacks one.
// Threads: the engine thread. Owns: nothing of the sequences.
// Invariants: (1) at most max_sequences run. (2) a plan has at most max_rows rows, but all decode rows (max_rows >=
// max_sequences is checked by EngineOptions). (3) a waiting sequence is admitted before any that came later.
#pragma once

#include <deque>
#include <vector>

#include "engine/sequence.h"
#include "engine/step_plan.h"

namespace surety::engine {

class Scheduler {
 public:
  Scheduler(int max_sequences, int max_rows) : max_sequences_(max_sequences), max_rows_(max_rows) {}

  void Enqueue(Sequence* sequence) { waiting_.push_back(sequence); }
  // Forgets a sequence, waiting or running.
  void Remove(const Sequence* sequence);
  // Admits what fits, then fills `plan` (cleared first).
  void Plan(StepPlan& plan);
  // Gives up the pages that waiting sequences brought along from a kept conversation, so that the first can be
  // admitted.
  void ReleaseWaitingPages();
  bool idle() const { return waiting_.empty() && running_.empty(); }
  // Sequences of the last plan, in its order.
  const std::vector<Sequence*>& planned() const { return planned_; }

 private:
  void Admit();
  void Append(Sequence& sequence, int n_rows, StepPlan& plan);

  int max_sequences_;
  int max_rows_;
  std::deque<Sequence*> waiting_;
  std::vector<Sequence*> running_;
  std::vector<Sequence*> planned_;
};

}  // namespace surety::engine
