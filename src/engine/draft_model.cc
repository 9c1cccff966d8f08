#include "engine/draft_model.h"

#include <algorithm>
#include <optional>
#include <string>
#include <utility>

#include "base/clock.h"
#include "base/memory_info.h"
#include "engine/draft_growth.h"
#include "engine/token_picker.h"

namespace surety::engine {
namespace {

constexpr double kLeastCommonShare = 0.2;

KvLayout DraftLayout(const LocalModel& draft, const KvLayout& target) {
  return draft.config().KvLayoutFor(draft.config().KvLayoutFor(target.type, target.page_tokens).Validate().ok()
                                        ? target.type
                                        : KvType::kF16,
                                    target.page_tokens);
}

}  // namespace

KvLayout DraftModel::LayoutWith(const LocalModel& target, const KvLayout& layout) {
  KvLayout result = layout;
  if (target.draft_vocabulary()->identical()) {
    result.companion_bytes = DraftLayout(*target.draft(), layout).PageBytes();
  }
  return result;
}

int64_t DraftModel::PoolBytes(const LocalModel& target, const KvLayout& layout, int max_sequences,
                              int context_tokens) {
  if (target.draft_vocabulary()->identical()) return 0;
  const KvLayout own = DraftLayout(*target.draft(), layout);
  const int64_t context = std::min(context_tokens, target.draft()->config().max_context);
  const int64_t pages_of_one = (context + own.page_tokens - 1) / own.page_tokens;
  return (pages_of_one * max_sequences + kOwnBranchPages) * own.PageStrideBytes();
}

DraftModel::DraftModel(LocalModel& target, kv::PagePool& pool, int context_tokens)
    : draft_(*target.draft()), pool_(pool), context_tokens_(context_tokens), map_(*target.draft_vocabulary()),
      sampler_(target.tokenizer().vocab_size()),
      target_logits_(static_cast<size_t>(target.tokenizer().vocab_size())), end_ids_(EndIds(target.tokenizer())),
      shared_({0.1, 0.2, 0.3, 0.42, 0.55, 0.68, 0.8, 0.92}),
      shared_by_depth_({0.6, 0.6, 0.6, 0.6, 0.6, 0.6, 0.6, 0.6}) {}

Result<std::unique_ptr<DraftModel>> DraftModel::Make(LocalModel& target, kv::PagePool& pool, int max_sequences,
                                                     int context_tokens) {
  LocalModel& draft = *target.draft();
  const std::string path = draft.source().path();
  if (draft.config().encoder) {
    return Error(InvalidArgumentError("'" + path + "' is an encoder and cannot draft: a draft model writes text"));
  }
  const int context = std::min(context_tokens, draft.config().max_context);
  auto made = std::unique_ptr<DraftModel>(new DraftModel(target, pool, context));
  const int n_common = made->map_.n_common(), vocab = target.tokenizer().vocab_size();
  if (n_common < kLeastCommonShare * std::min(vocab, draft.tokenizer().vocab_size())) {
    return Error(InvalidArgumentError("'" + path + "' cannot draft for '" + target.source().path() + "': of " +
                                      std::to_string(vocab) + " tokens they have only " + std::to_string(n_common) +
                                      " in common"));
  }
  const KvLayout layout = DraftLayout(draft, pool.layout());
  PagedKvView view;
  if (made->map_.identical()) {
    view = pool.view().Companion(layout);
    made->notes_.resize(static_cast<size_t>(pool.n_pages()));
  } else {
    const int pages_of_one = (context + layout.page_tokens - 1) / layout.page_tokens;
    const int64_t needed = PoolBytes(target, pool.layout(), max_sequences, context);
    const int64_t available = AvailableMemoryBytes();
    if (available >= 0 && needed > available) {
      return Error(ResourceExhaustedError("the KV cache of the draft model '" + path + "' takes " +
                                          std::to_string(needed >> 20) + " MiB, but only " +
                                          std::to_string(available >> 20) +
                                          " MiB of memory are available; use a shorter context or fewer sequences"));
    }
    SURETY_ASSIGN_OR_RETURN(made->own_pool_,
                            kv::PagePool::Make(layout, pages_of_one * max_sequences + kOwnBranchPages));
    view = made->own_pool_->view();
  }
  SURETY_ASSIGN_OR_RETURN(made->drafter_,
                          spec::ModelDrafter::Make(draft.model(), view, max_sequences + kMaxFrontier,
                                                   kMaxRows + max_sequences, context));
  return made;
}

DraftModelState& DraftModel::StateFor(Sequence& sequence) {
  auto& slot = sequence.drafters[static_cast<size_t>(method())];
  if (slot == nullptr) slot = std::make_unique<State>(shared_, shared_by_depth_);
  State& state = *static_cast<State*>(slot.get());
  for (; state.n_taken < sequence.n_tokens(); ++state.n_taken) {
    map_.AppendDraftTokens(sequence.tokens[static_cast<size_t>(state.n_taken)], state.text);
  }
  return state;
}

std::span<const int32_t> DraftModel::TableOf(const Sequence& sequence, const State& state) const {
  return own_pool_ == nullptr ? sequence.pages.pages() : state.pages->pages();
}

// Tokens from the start whose keys and values the target's pages have, whoever computed them.
int DraftModel::FoundInPages(const Sequence& sequence) const {
  const int page_tokens = pool_.layout().page_tokens;
  int n = 0;
  for (const int32_t page : sequence.pages.pages()) {
    const PageNote& note = notes_[static_cast<size_t>(page)];
    const int here = note.serial == pool_.Serial(page) ? note.n_tokens : 0;
    n += here;
    if (here < page_tokens) break;
  }
  return n;
}

void DraftModel::NotePages(const Sequence& sequence, int n_tokens) {
  if (!map_.identical()) return;
  const int page_tokens = pool_.layout().page_tokens;
  for (const int32_t page : sequence.pages.pages()) {
    if (n_tokens <= 0) break;
    PageNote& note = notes_[static_cast<size_t>(page)];
    const int here = std::min(n_tokens, page_tokens);
    note = {pool_.Serial(page), note.serial == pool_.Serial(page) ? std::max(note.n_tokens, here) : here};
    n_tokens -= here;
  }
}

// The token that has just come was drafted, and its keys and values were written then; unless its page has been given
// up since, they are there.
void DraftModel::NoteDraftedToken(const Sequence& sequence, const State& state) {
  const int page_tokens = pool_.layout().page_tokens, at = sequence.n_tokens() - 1, index = at / page_tokens;
  if (static_cast<size_t>(index) >= sequence.pages.pages().size()) return;
  const int32_t page = sequence.pages.pages()[static_cast<size_t>(index)];
  for (const State::Written& written : state.written) {
    if (written.index != index || written.page != page || written.serial != pool_.Serial(page)) continue;
    notes_[static_cast<size_t>(page)] = {written.serial, at % page_tokens + 1};
  }
}

int DraftModel::CoveredTokens(const Sequence& sequence) const {
  if (map_.identical()) return FoundInPages(sequence);
  const State* state = StateOf<State>(sequence.drafters, method());
  if (state == nullptr) return 0;
  return state->n_taken - static_cast<int>(state->text.size()) + static_cast<int>(state->in_pages.size());
}

double DraftModel::MeanAcceptance(const Sequence& sequence, int depth, int rank) const {
  const State* state = StateOf<State>(sequence.drafters, method());
  return (state != nullptr ? state->own_by_depth : shared_by_depth_).Of(rank, DepthClass(depth));
}

// Pages for the draft's tokens; says no where there are none to spare.
bool DraftModel::PreparePages(const Sequence& sequence, State& state, int n_tokens) const {
  if (n_tokens > context_tokens_) return false;
  if (map_.identical()) {
    return n_tokens <= sequence.pages.capacity_tokens();  // the scheduler has seen to it
  }
  if (!state.pages.has_value()) {
    state.pages.emplace(*own_pool_);
    state.pages->MarkZeroOnRelease();
  }
  return state.pages->Extend(n_tokens);
}

void DraftModel::Observe(Sequence& sequence, int32_t token) {
  State* state = StateOf<State>(sequence.drafters, method());
  if (state == nullptr) return;
  const int node = state->Score(token, shared_, shared_by_depth_);
  if (map_.identical() && node > 0 && (state->in_own_pages >> node & 1) != 0) NoteDraftedToken(sequence, *state);
}

}  // namespace surety::engine
