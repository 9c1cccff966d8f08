// Which rows the next step computes.
//
// Choices wait in a fair queue (wait_queue.h). One is admitted when a place in the batch and pages for its tokens and
// for the growth predicted of all running ones are there; a more important one (lower priority number) may take the
// place of a less important and less urgent one. A plan has one row for each running choice past its prompt, then
// prompt chunks in order of urgency, as long as the step is predicted to end in time for the streams that run.
//
// When pages run out, kept prefixes go first, then the least urgent running choice is preempted: it keeps its place in
// the queue and its progress, and continues with the same tokens.
//
// Threads: the engine thread. Owns: nothing of the sequences.
// Invariants: (1) at most max_sequences run. (2) a plan has at most max_rows rows, among them every decode row whose
// page is there (max_rows >= max_sequences is checked by EngineOptions). (3) the most urgent running choice is never
// preempted for a less urgent one, so something always advances. (4) while streams run, prompts together get at least
// min_chunk_rows rows a step: a prompt of n rows at the head of the order is read within n / min_chunk_rows steps.
#pragma once

#include <vector>

#include "base/function_ref.h"
#include "engine/draft_pages.h"
#include "engine/sequence.h"
#include "engine/step_cost.h"
#include "engine/step_plan.h"
#include "engine/wait_queue.h"

namespace surety::engine {

struct SchedulerOptions {
  int max_sequences = 1;
  int max_rows = 512;
  int min_chunk_rows = 2;
  int max_prompt_logit_rows = 0;  // rows of a step whose logits may be wanted beside one a sequence
  // Time of a step while streams run: this, or if 0 itl_stretch times that of a step without prompts.
  int64_t itl_target_ns = 0;
  double itl_stretch = 1.7;
};

// Where pages come from and go to besides the pool's free list.
class PageSource {
 public:
  virtual ~PageSource() = default;
  // Pages of kept prefixes that Evict could free.
  virtual int n_evictable() const = 0;
  // Frees up to n of them; says how many. `last_resort`: also those that a quota protects.
  virtual int Evict(int n, bool last_resort) = 0;
  // Gives a choice that holds no pages what is kept of its tokens, and sets n_computed accordingly (at most
  // n_tokens - 1). May evict and allocate.
  virtual void Attach(Sequence& sequence) = 0;
  // The same for one that has pages, where another may have computed more of the same prefix meanwhile.
  virtual void AttachMore(Sequence& sequence) = 0;
  // Takes all pages of a choice that is preempted. What no prefix keeps, its last, partial page, is kept elsewhere
  // where that is cheaper than computing it again, which is predicted to take `recompute_ns` (0: not known).
  virtual void Detach(Sequence& sequence, int64_t recompute_ns) = 0;
  // Both would read and write the same prefix pages.
  virtual bool SharesPrefixes(const Sequence& a, const Sequence& b) const = 0;
};

class Scheduler final : public DraftPages {
 public:
  Scheduler(const SchedulerOptions& options, kv::PagePool& pool, PageSource& source, double attended_per_row)
      : options_(options), pool_(pool), source_(source), cost_(attended_per_row) {}

  void Enqueue(Sequence* sequence) { queue_.Push(sequence); }
  // A further choice of a running request, with pages: runs at once if there is a place, else waits without them.
  void EnqueueFork(Sequence* sequence);
  // Forgets a sequence, waiting or running. `n_output`: what it produced, for the prediction of others; -1: no sample.
  void Remove(Sequence* sequence, int n_output = -1);
  // Admits what fits, then fills `plan` (cleared first).
  void Plan(StepPlan& plan, int64_t now_ns);
  int ExtendForDraft(Sequence& sequence, int n_tokens) override;
  int SparePages(int wanted) override;
  // What the last plan took.
  void Observe(const StepPlan& plan, int64_t nanos) { cost_.Observe(plan.work, nanos); }

  bool idle() const { return queue_.empty() && running_.empty(); }
  // Sequences of the last plan, in its order.
  const std::vector<Sequence*>& planned() const { return planned_; }
  const std::vector<Sequence*>& running() const { return running_; }
  WaitQueue& queue() { return queue_; }
  const WaitQueue& queue() const { return queue_; }
  const StepCostModel& cost() const { return cost_; }
  int64_t n_preemptions() const { return n_preemptions_; }
  // How long what runs is expected to need on average, from its first prompt row to its last token; 0: not known.
  int64_t ExpectedServiceNs() const;

 private:
  void Admit(int64_t now_ns);
  bool MakeRoomFor(const Sequence& next, int64_t now_ns);
  bool Fits(const Sequence& next) const;
  bool ExtendPages(Sequence& sequence, int n_tokens, int64_t now_ns);
  Sequence* Victim(const Sequence& asker) const;
  void Preempt(Sequence& victim, int64_t now_ns);
  void InsertRunning(Sequence* sequence);
  void CutDraft(Sequence& sequence, const StepPlan& plan);
  void MakeBranches(Sequence& sequence);
  void AppendBranches(Sequence& sequence, SequenceStep& step, StepPlan& plan) const;
  void PlanDecodes(StepPlan& plan, int64_t now_ns);
  void PlanPrompts(StepPlan& plan, int64_t now_ns);
  bool WaitsForPrefix(Sequence& sequence) const;
  void Append(Sequence& sequence, int n_rows, StepPlan& plan);
  int PagesOf(int64_t n_tokens) const;
  int64_t RecomputeNs(const Sequence& sequence) const;
  double PredictedGrowth(const Sequence& sequence) const;

  SchedulerOptions options_;
  kv::PagePool& pool_;
  PageSource& source_;
  StepCostModel cost_;
  WaitQueue queue_;
  std::vector<Sequence*> running_;   // by urgency
  std::vector<Sequence*> planned_;
  double mean_output_ = 64;          // tokens an answer has, fading
  int64_t n_preemptions_ = 0;
};

}  // namespace surety::engine
