#include "engine/scheduler.h"

#include <algorithm>

namespace surety::engine {

void Scheduler::Remove(const Sequence* sequence) {
  std::erase(waiting_, sequence);
  std::erase(running_, sequence);
  std::erase(planned_, sequence);
}

void Scheduler::Admit() {
  while (!waiting_.empty() && static_cast<int>(running_.size()) < max_sequences_) {
    Sequence* next = waiting_.front();
    // The last output token is never fed back, so its KV is not needed; a page more does no harm.
    if (!next->pages.Extend(next->n_prompt + next->max_tokens)) return;
    waiting_.pop_front();
    running_.push_back(next);
  }
}

void Scheduler::ReleaseWaitingPages() {
  for (Sequence* sequence : waiting_) {
    sequence->pages.Truncate(0);
    sequence->n_computed = sequence->n_cached = 0;
  }
}

void Scheduler::Append(Sequence& sequence, int n_rows, StepPlan& plan) {
  SequenceStep step;
  step.request = sequence.id;
  step.first_row = plan.n_rows();
  step.n_rows = n_rows;
  step.first_position = sequence.n_computed;
  step.page_table = sequence.pages.pages();
  step.wants_logits = n_rows == sequence.rows_left();
  const auto first = sequence.tokens.begin() + sequence.n_computed;
  plan.token_ids.insert(plan.token_ids.end(), first, first + n_rows);
  plan.n_logit_rows += step.wants_logits ? 1 : 0;
  plan.sequences.push_back(step);
  planned_.push_back(&sequence);
}

void Scheduler::Plan(StepPlan& plan) {
  plan.Clear();
  planned_.clear();
  Admit();
  for (Sequence* sequence : running_) {
    if (!sequence->prefilling()) Append(*sequence, 1, plan);
  }
  for (Sequence* sequence : running_) {
    const int budget = max_rows_ - plan.n_rows();
    if (budget <= 0) break;
    if (sequence->prefilling()) Append(*sequence, std::min(budget, sequence->rows_left()), plan);
  }
}

}  // namespace surety::engine
