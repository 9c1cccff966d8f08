#include "engine/scheduler.h"

#include <algorithm>
#include <optional>
#include <tuple>
#include <utility>

namespace surety::engine {
namespace {

// Before there is any prediction, a prompt chunk beside running streams has at most this many rows.
constexpr int kUncalibratedRows = 32;

auto OrderOf(const Sequence& s) { return std::make_tuple(s.state->urgency, s.state->id(), s.choice); }

int PriorityOf(const Sequence& s) { return s.state->request().priority; }

bool Contains(const std::vector<Sequence*>& list, const Sequence* sequence) {
  return std::find(list.begin(), list.end(), sequence) != list.end();
}

}  // namespace

void Scheduler::InsertRunning(Sequence* sequence) {
  const auto place = std::upper_bound(running_.begin(), running_.end(), sequence, [](const auto* a, const auto* b) {
    return OrderOf(*a) < OrderOf(*b);
  });
  running_.insert(place, sequence);
}

void Scheduler::EnqueueFork(Sequence* sequence) {
  if (static_cast<int>(running_.size()) < options_.max_sequences) {
    InsertRunning(sequence);
    return;
  }
  source_.Detach(*sequence, RecomputeNs(*sequence));
  queue_.Push(sequence);
}

void Scheduler::Remove(Sequence* sequence, int n_output) {
  queue_.Remove(sequence);
  std::erase(running_, sequence);
  std::erase(planned_, sequence);
  if (n_output > 0) mean_output_ += (n_output - mean_output_) / 16;
}

int Scheduler::PagesOf(int64_t n_tokens) const {
  const int64_t page = pool_.layout().page_tokens;
  return static_cast<int>((n_tokens + page - 1) / page);
}

// What the tokens of its last, partial page add to a step that also computes its next token.
int64_t Scheduler::RecomputeNs(const Sequence& sequence) const {
  const int tail = sequence.n_computed % pool_.layout().page_tokens;
  const double position = sequence.n_computed;
  return cost_.Predict({tail + 1, (tail + 1) * position}) - cost_.Predict({1, position});
}

int64_t Scheduler::ExpectedServiceNs() const {
  if (running_.empty() || !cost_.calibrated()) return 0;
  StepWork decode;
  double steps = 0, prefill_ns = 0;
  for (const Sequence* s : running_) {
    decode.rows += 1;
    decode.attended += s->n_tokens();
    steps += s->n_output() + PredictedGrowth(*s);
    const int n = std::max(1, s->n_prompt - s->n_cached);
    prefill_ns += static_cast<double>(cost_.Predict({n, 0.5 * n * n}));
  }
  const double n_running = static_cast<double>(running_.size());
  // While one prompt is read the others wait for it.
  return static_cast<int64_t>(steps / n_running * static_cast<double>(cost_.Predict(decode)) + prefill_ns);
}

double Scheduler::PredictedGrowth(const Sequence& sequence) const {
  const double left = std::max(mean_output_ - sequence.n_output(), 0.25 * mean_output_);
  return std::min(left, static_cast<double>(sequence.tokens_left()));
}

bool Scheduler::Fits(const Sequence& next) const {
  // Pages the cache could give up include those that the newcomer would find in it.
  int64_t needed = PagesOf(next.n_tokens() + static_cast<int64_t>(PredictedGrowth(next)));
  for (const Sequence* s : running_) {
    const int held = static_cast<int>(s->pages.pages().size());
    needed += std::max(0, PagesOf(s->n_tokens() + static_cast<int64_t>(PredictedGrowth(*s))) - held);
  }
  return needed <= int64_t{pool_.n_free()} + source_.n_evictable();
}

bool Scheduler::MakeRoomFor(const Sequence& next, int64_t now_ns) {
  while (static_cast<int>(running_.size()) >= options_.max_sequences || !Fits(next)) {
    if (running_.empty()) return true;  // alone it always fits: the pool holds a whole context
    // Both less important and less urgent: were one enough, two could take each other's place for ever.
    const auto least = std::find_if(running_.rbegin(), running_.rend(), [&](const Sequence* s) {
      return PriorityOf(*s) > PriorityOf(next) && OrderOf(*s) > OrderOf(next);
    });
    if (least == running_.rend()) return false;
    Preempt(**least, now_ns);
  }
  return true;
}

void Scheduler::Admit(int64_t now_ns) {
  while (Sequence* next = queue_.Front()) {
    if (!MakeRoomFor(*next, now_ns)) return;
    next = queue_.Front();  // one that lost its place may be first now
    source_.Attach(*next);
    if (!ExtendPages(*next, next->n_tokens(), now_ns)) {
      source_.Detach(*next, RecomputeNs(*next));
      return;
    }
    queue_.Pop(next);
    // Charged when it gets its place, so that a tenant cannot take all places at once; settled when it ends.
    const double rows = next->rows_left() + PredictedGrowth(*next);
    queue_.Charge(next->state->tenant(), rows);
    next->state->charged += rows;
    if (next->preempted) {
      next->preempted = false;
      if (next->started) {  // else it has been waiting all the time
        (next->n_output() == 0 ? next->preempted_prefill_ns : next->preempted_decode_ns) +=
            now_ns - next->preempted_since_ns;
      }
    }
    InsertRunning(next);
  }
}

Sequence* Scheduler::Victim(const Sequence& asker) const {
  for (auto it = running_.rbegin(); it != running_.rend(); ++it) {
    if (OrderOf(**it) <= OrderOf(asker)) return nullptr;
    if (!Contains(planned_, *it)) return *it;
  }
  return nullptr;
}

void Scheduler::Preempt(Sequence& victim, int64_t now_ns) {
  source_.Detach(victim, RecomputeNs(victim));
  victim.draft.Clear();
  std::erase(running_, &victim);
  victim.preempted = true;
  victim.preempted_since_ns = now_ns;
  ++n_preemptions_;
  queue_.Push(&victim);
}

bool Scheduler::ExtendPages(Sequence& sequence, int n_tokens, int64_t now_ns) {
  while (!sequence.pages.Extend(n_tokens)) {
    const int missing = PagesOf(n_tokens) - static_cast<int>(sequence.pages.pages().size()) - pool_.n_free();
    if (source_.Evict(missing, false) > 0) continue;
    if (Sequence* victim = Victim(sequence)) {
      Preempt(*victim, now_ns);
      continue;
    }
    const bool first = running_.empty() || running_.front() == &sequence;
    if (!first || source_.Evict(missing, true) == 0) return false;
  }
  return true;
}

// The rows of a draft tree behind its first branch, and what they read of the paths that they leave.
void Scheduler::AppendBranches(Sequence& sequence, SequenceStep& step, StepPlan& plan) const {
  const SequenceDraft& draft = sequence.draft;
  const int root = sequence.n_tokens() - 1;  // its position
  step.first_branch = static_cast<int>(plan.branches.size());
  for (int n = 1; n <= draft.n_nodes(); ++n) {
    const int position = root + draft.tree.depth(n);
    if (draft.tree.BeginsBranch(n)) {
      const kv::BranchTable& table = draft.branches[static_cast<size_t>(step.n_branches++)];
      plan.branches.push_back({0, position, table.pages()});
      if (const int n_copied = position - table.first_copied(); n_copied > 0) {
        const auto beside = draft.PagesOf(draft.tree.parent(n), sequence.pages.pages());
        plan.kv_copies.push_back({beside, table.pages(), table.first_copied(), n_copied});
      }
    }
    if (step.n_branches == 0) continue;
    ++plan.branches.back().n_rows;
    ++step.n_branch_rows;
  }
}

// `n_rows` of the sequence's tokens, and its draft behind them.
void Scheduler::Append(Sequence& sequence, int n_rows, StepPlan& plan) {
  SequenceStep step;
  step.request = sequence.state->id();
  step.choice = sequence.choice;
  step.first_row = plan.n_rows();
  step.n_drafted = sequence.draft.n_nodes();
  step.first_position = sequence.n_computed;
  step.page_table = sequence.pages.pages();
  step.decodes = !sequence.prefilling();
  const bool reaches_end = n_rows == sequence.rows_left();
  if (sequence.state->request().n_prompt_logprobs >= 0 && sequence.n_computed < sequence.n_prompt) {
    step.n_logits = n_rows;
  } else {
    step.n_logits = reaches_end ? 1 + step.n_drafted : 0;
  }
  const auto first = sequence.tokens.begin() + sequence.n_computed;
  plan.token_ids.insert(plan.token_ids.end(), first, first + n_rows);
  plan.work.rows += n_rows;
  plan.work.attended += static_cast<double>(n_rows) * step.first_position + 0.5 * n_rows * (n_rows + 1.0);
  const spec::DraftTree& tree = sequence.draft.tree;
  for (int n = 1; n <= step.n_drafted; ++n) {
    plan.token_ids.push_back(tree.token(n));
    plan.work.rows += 1;
    plan.work.attended += sequence.n_tokens() + tree.depth(n);
  }
  AppendBranches(sequence, step, plan);
  n_rows += step.n_drafted;
  step.n_rows = n_rows;
  plan.n_logit_rows += step.n_logits;
  plan.n_decodes += step.decodes ? 1 : 0;
  plan.n_decode_rows += step.decodes ? n_rows : 0;
  plan.sequences.push_back(step);
  planned_.push_back(&sequence);
}

int Scheduler::SparePages(int wanted) {
  const int n_running = static_cast<int>(running_.size());
  const int missing = wanted + n_running - pool_.n_free();
  if (missing > 0 && source_.n_evictable() > 0) {
    source_.Evict(std::min(missing, source_.n_evictable()), false);  // may free fewer: quotas hold
  }
  return std::clamp(pool_.n_free() - n_running, 0, wanted);
}

int Scheduler::ExtendForDraft(Sequence& sequence, int n_tokens) {
  const int missing = PagesOf(n_tokens) - static_cast<int>(sequence.pages.pages().size());
  if (missing > 0 && missing + static_cast<int>(running_.size()) <= pool_.n_free() + source_.n_evictable() &&
      SparePages(missing) == missing) {
    sequence.pages.Extend(n_tokens);
  }
  return sequence.pages.capacity_tokens();
}

// A draft that finds neither rows nor pages is cut.
void Scheduler::CutDraft(Sequence& sequence, const StepPlan& plan) {
  SequenceDraft& draft = sequence.draft;
  if (draft.empty()) return;
  const int rows = options_.max_rows - plan.n_rows() - static_cast<int>(running_.size());
  const int depth = ExtendForDraft(sequence, sequence.n_tokens() + draft.max_depth()) - sequence.n_tokens();
  draft.Cut(std::max(0, rows), std::max(0, depth));
  MakeBranches(sequence);
}

// Pages for the branches of a draft, as long as there are some to spare.
void Scheduler::MakeBranches(Sequence& sequence) {
  SequenceDraft& draft = sequence.draft;
  for (int n = 1; n <= draft.n_nodes(); ++n) {
    if (!draft.tree.BeginsBranch(n)) continue;
    int last = n;
    while (last < draft.n_nodes() && !draft.tree.BeginsBranch(last + 1)) ++last;
    const int first_position = sequence.n_tokens() - 1 + draft.tree.depth(n);
    const int n_tokens = sequence.n_tokens() + draft.tree.depth(last);
    const int n_pages = kv::BranchTable::PagesFor(pool_.layout(), first_position, n_tokens);
    std::optional<kv::BranchTable> table;
    if (SparePages(n_pages) == n_pages) {
      const auto beside = draft.PagesOf(draft.tree.parent(n), sequence.pages.pages());
      table = kv::BranchTable::Make(pool_, beside, first_position, n_tokens, sequence.pages.zero_on_release());
    }
    if (!table.has_value()) {
      std::vector<kv::BranchTable> made = std::exchange(draft.branches, {});
      draft.Cut(n - 1, draft.max_depth());
      draft.branches = std::move(made);
      return;
    }
    draft.branches.push_back(*std::move(table));
  }
}

void Scheduler::PlanDecodes(StepPlan& plan, int64_t now_ns) {
  const std::vector<Sequence*> running = running_;  // preemption takes from the end
  for (Sequence* sequence : running) {
    if (sequence->preempted || sequence->prefilling()) continue;
    if (ExtendPages(*sequence, sequence->n_tokens(), now_ns)) {
      CutDraft(*sequence, plan);
      Append(*sequence, 1, plan);
    } else {
      Preempt(*sequence, now_ns);
    }
  }
}

// A choice whose next page another one of this plan is about to compute does not compute it a second time.
bool Scheduler::WaitsForPrefix(Sequence& sequence) const {
  const size_t page = static_cast<size_t>(pool_.layout().page_tokens);
  const size_t computed = static_cast<size_t>(sequence.n_computed);
  const size_t next = (computed / page + 1) * page;  // the end of its next whole page
  if (next >= sequence.tokens.size() || sequence.state->request().n_prompt_logprobs >= 0) return false;
  return std::any_of(planned_.begin(), planned_.end(), [&](const Sequence* other) {
    return other->prefilling() && other->tokens.size() >= next &&
           other->n_computed >= static_cast<int>(computed / page * page) &&
           source_.SharesPrefixes(*other, sequence) &&
           std::equal(sequence.tokens.begin(), sequence.tokens.begin() + static_cast<int64_t>(next),
                      other->tokens.begin());
  });
}

void Scheduler::PlanPrompts(StepPlan& plan, int64_t now_ns) {
  const bool streams_run = plan.n_decodes > 0;
  int64_t target = options_.itl_target_ns;
  if (target == 0) target = static_cast<int64_t>(options_.itl_stretch * static_cast<double>(cost_.Predict(plan.work)));
  int at_least = options_.min_chunk_rows;
  int prompt_logit_rows = options_.max_prompt_logit_rows;
  const std::vector<Sequence*> running = running_;
  for (Sequence* sequence : running) {
    if (sequence->preempted || !sequence->prefilling()) continue;
    if (WaitsForPrefix(*sequence)) continue;
    source_.AttachMore(*sequence);
    if (!ExtendPages(*sequence, sequence->n_tokens(), now_ns)) continue;
    int most = std::min(options_.max_rows - plan.n_rows(), sequence->rows_left());
    if (sequence->state->request().n_prompt_logprobs >= 0) most = std::min(most, prompt_logit_rows);
    if (streams_run) {
      most = cost_.calibrated()
                 ? cost_.RowsWithin(plan.work, sequence->n_computed, std::min(at_least, most), most, target)
                 : std::min(most, kUncalibratedRows - plan.n_rows());
    }
    if (most <= 0) continue;
    Append(*sequence, most, plan);
    if (plan.sequences.back().n_logits > 1) prompt_logit_rows -= plan.sequences.back().n_logits;
    at_least = std::max(0, at_least - most);
  }
}

void Scheduler::Plan(StepPlan& plan, int64_t now_ns) {
  plan.Clear();
  planned_.clear();
  Admit(now_ns);
  PlanDecodes(plan, now_ns);
  PlanPrompts(plan, now_ns);
  plan.predicted_ns = cost_.Predict(plan.work);
}

}  // namespace surety::engine
