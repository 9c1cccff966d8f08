// What is kept of sequences and read by the head. The trees: head_growth.cc.
#include "engine/head_drafter.h"

#include <algorithm>
#include <cstring>
#include <string>
#include <utility>

#include "base/check.h"
#include "engine/token_picker.h"

namespace surety::engine {
namespace {

// Asked in a smaller share of the steps than this, the head does not read prompts: probes do with a short context.
constexpr double kAskedOften = 0.1;
constexpr double kAskedWeight = 1.0 / 64;


}  // namespace

KvLayout HeadDrafter::LayoutWith(const LocalModel& target, const KvLayout& layout) {
  KvLayout result = layout;
  result.companion_bytes = HeadCache::CompanionBytes(target.head()->recipe(), layout);
  return result;
}

HeadDrafter::HeadDrafter(LocalModel& target, kv::PagePool& pool, int max_sequences, int context_tokens)
    : target_(target), pool_(pool), cache_(target.head()->recipe(), pool), context_tokens_(context_tokens),
      max_rows_(kMaxReadRows + max_sequences), max_logit_rows_(max_sequences + kMaxFrontier),
      state_floats_(static_cast<size_t>(target.head()->recipe().feature_dim())),
      vocab_(static_cast<size_t>(target.head()->recipe().draft_vocab_size)),
      sampler_(target.tokenizer().vocab_size()), end_ids_(EndIds(target.tokenizer())),
      target_logits_(static_cast<size_t>(target.tokenizer().vocab_size())),
      shared_({0.1, 0.2, 0.3, 0.42, 0.55, 0.68, 0.8, 0.92}),
      shared_by_depth_({0.6, 0.55, 0.5, 0.5, 0.5, 0.5, 0.5, 0.5}) {
  model::DraftHead* head = target.head();
  if (head->recipe().method == model::HeadMethod::kMedusa) {
    medusa_ = static_cast<model::MedusaHead*>(head);
  } else {
    eagle_ = static_cast<model::EagleHead*>(head);
  }
}

Result<std::unique_ptr<HeadDrafter>> HeadDrafter::Make(LocalModel& target, kv::PagePool& pool, int max_sequences,
                                                       int context_tokens) {
  auto made = std::unique_ptr<HeadDrafter>(new HeadDrafter(target, pool, max_sequences, context_tokens));
  SURETY_RETURN_IF_ERROR(target.head()->Reserve(made->max_rows_, context_tokens));
  const size_t logits_bytes = static_cast<size_t>(made->max_logit_rows_) * made->vocab_ * sizeof(float);
  auto logits = AlignedBuffer::TryAllocate(logits_bytes);
  if (!logits) return Error(logits.error().WithContext("the draft head's logits"));
  made->logits_ = *std::move(logits);
  const auto max_rows = static_cast<size_t>(made->max_rows_);
  const int own = made->eagle_ != nullptr ? made->eagle_->state_dim(true) : 0;
  made->states_.reserve(max_rows * std::max(made->state_floats_, static_cast<size_t>(own)));
  made->ids_.reserve(max_rows);
  made->positions_.reserve(max_rows);
  return made;
}

HeadState& HeadDrafter::StateFor(Sequence& sequence) {
  auto& slot = sequence.drafters[static_cast<size_t>(method())];
  if (slot == nullptr) slot = std::make_unique<HeadState>(state_floats_, shared_, shared_by_depth_);
  return *static_cast<HeadState*>(slot.get());
}

double HeadDrafter::MeanAcceptance(const Sequence& sequence, int depth, int rank) const {
  if (medusa_ != nullptr && depth >= medusa_->n_heads()) return 0;
  const HeadState* state = StateOf<HeadState>(sequence.drafters, method());
  return (state != nullptr ? state->own_by_depth : shared_by_depth_).Of(rank, DepthClass(depth));
}

// What has not been kept cannot be read any more; what is kept is read when a draft is wanted.
int HeadDrafter::CoveredTokens(const Sequence& sequence) const {
  const HeadState* state = StateOf<HeadState>(sequence.drafters, method());
  return sequence.n_tokens() - (state == nullptr ? 0 : state->kept.size());
}

void HeadDrafter::Observe(Sequence& sequence, int32_t token) {
  HeadState* state = StateOf<HeadState>(sequence.drafters, method());
  if (state != nullptr) state->Score(token, shared_, shared_by_depth_);
}

void HeadState::Trim(int n_left) {
  first_kept += std::max(0, kept.size() - n_left);
  kept.Trim(n_left);
}

void HeadDrafter::Drop(Sequence& sequence) {
  HeadState* state = StateOf<HeadState>(sequence.drafters, method());
  if (state == nullptr) return;
  state->kept.Wipe();
  state->at = -1;
}

// The states that pages have, for who finds them: at each page's end, and where the sequence has come to.
void HeadDrafter::KeepInPages(const CommittedRows& step, ConstMatrixF taps) {
  const auto pages = step.sequence->pages.pages();
  const int n = static_cast<int>(step.rows.size());
  for (int i = 0; i < n; ++i) {
    const int position = step.first_position + i;
    const bool ends_page = (position + 1) % pool_.layout().page_tokens == 0;
    if (ends_page || i == n - 1) cache_.KeepState(pages, position, taps.Row(step.rows[static_cast<size_t>(i)]));
  }
}

// Takes the step's states behind those that are kept. Where they do not follow them (a prefix was found, a choice
// forked, a preempted one starts again) it begins anew, with the state before them if a page has it. Of a long piece of
// a prompt no more is kept at a time than the head reads at once; where it does not read, the last ones alone.
void HeadDrafter::KeepStates(const CommittedRows& step, ConstMatrixF taps, bool is_read) {
  HeadState& state = StateFor(*step.sequence);
  const Sequence& sequence = *step.sequence;
  if (sequence.pages.zero_on_release() || sequence.state->forgotten) state.kept.MarkZeroOnRelease();
  const int n = static_cast<int>(step.rows.size());
  const int most = medusa_ != nullptr ? 1 : is_read ? n : kRareKept;
  const int first = std::max(0, n - most);
  if (first > 0 || state.kept.empty() || step.first_position != state.end()) {
    state.kept.Clear();
    state.first_kept = step.first_position + first;
    const float* before =
        eagle_ != nullptr && first == 0 ? cache_.StateAt(sequence.pages.pages(), step.first_position - 1) : nullptr;
    if (before != nullptr) {
      state.kept.Append(before);
      --state.first_kept;
    }
  }
  for (int i = first; i < n; ++i) {
    if (medusa_ != nullptr) {  // in place of the one before
      state.first_kept += state.kept.size();
      state.kept.Clear();
    }
    state.kept.Append(taps.Row(step.rows[static_cast<size_t>(i)]));
    if (is_read && state.kept.size() >= kMaxReadRows) {
      Read(sequence, state, state.end());
      state.Trim(1);
    }
  }
}

void HeadDrafter::AfterStep(std::span<const CommittedRows> steps, ConstMatrixF taps) {
  SURETY_CHECK(taps.cols == static_cast<int64_t>(state_floats_));
  asked_share_ += kAskedWeight * ((was_asked_ ? 1.0 : 0.0) - asked_share_);
  was_asked_ = false;
  for (const CommittedRows& step : steps) {
    if (step.rows.empty()) continue;
    // Before the pages: what they have of the position before this step may be overwritten by it.
    const bool drafts = step.sequence->state->request().speculate;
    const bool is_read = eagle_ != nullptr && asked_share_ >= kAskedOften;
    if (drafts) KeepStates(step, taps, is_read);
    if (eagle_ != nullptr) KeepInPages(step, taps);
    if (!drafts) continue;
    HeadState& state = StateFor(*step.sequence);
    if (is_read && state.kept.size() > kMaxKept) {
      Read(*step.sequence, state, state.end());
      state.Trim(1);
    } else if (!is_read && state.kept.size() > 2 * kRareKept) {  // twice, so as not to move them at each step
      state.Trim(kRareKept);
    }
  }
}

// The first slot whose state is kept and which is not there yet.
int HeadDrafter::FirstUnread(const Sequence& sequence, const HeadState& state) const {
  const auto pages = sequence.pages.pages();
  int slot = state.first_kept + 1;
  const int end = state.end() + 1;
  while (slot < end && cache_.Covers(pages, slot)) ++slot;
  return slot;
}

void HeadDrafter::ClearRows() {
  ids_.clear();
  positions_.clear();
  logit_rows_.clear();
  rows_.clear();
  copies_.clear();
  states_.clear();
}

void HeadDrafter::AddRow(int32_t token, const float* state, size_t n_floats) {
  ids_.push_back(token);
  states_.insert(states_.end(), state, state + n_floats);
}

// Rows of slots [first_slot, end_slot), whose states are kept.
void HeadDrafter::AddSequence(const Sequence& sequence, const HeadState& state, int first_slot, int end_slot,
                              bool wants_logits) {
  const auto pages = sequence.pages.pages();
  rows_.push_back({static_cast<int>(ids_.size()), end_slot - first_slot, first_slot, pages,
                   cache_.FirstCovered(pages, first_slot)});
  for (int slot = first_slot; slot < end_slot; ++slot) {
    AddRow(sequence.tokens[static_cast<size_t>(slot)], state.kept.Row(slot - 1 - state.first_kept), state_floats_);
    positions_.push_back(slot);
  }
  if (wants_logits) logit_rows_.push_back(static_cast<int32_t>(ids_.size()) - 1);
}

void HeadDrafter::RunHead(bool own) {
  const auto n_rows = static_cast<int64_t>(ids_.size());
  SURETY_CHECK(n_rows <= max_rows_ && static_cast<int>(logit_rows_.size()) <= max_logit_rows_);
  eagle_->Forward({ids_, positions_, rows_, logit_rows_, copies_},
                  ConstMatrixF(states_.data(), n_rows, eagle_->state_dim(own)), own, cache_.view(),
                  MatrixF(logits_.as<float>(), static_cast<int64_t>(logit_rows_.size()),
                          static_cast<int64_t>(vocab_)));
}

// Reads what is kept up to end_slot and nothing else. Slots in pages that the sequence does not have yet wait.
void HeadDrafter::Read(const Sequence& sequence, const HeadState& state, int end_slot) {
  const auto pages = sequence.pages.pages();
  int slot = FirstUnread(sequence, state);
  const int end = std::min({end_slot, state.end() + 1, sequence.n_tokens(),
                            sequence.pages.capacity_tokens(), context_tokens_});
  while (slot < end) {
    const int until = std::min(end, slot + kMaxReadRows);
    ClearRows();
    AddSequence(sequence, state, slot, until, false);
    RunHead(false);
    cache_.NoteWritten(pages, slot, until);
    slot = until;
  }
}

}  // namespace surety::engine
