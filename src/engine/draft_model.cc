#include "engine/draft_model.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <optional>
#include <string>
#include <utility>

#include "base/clock.h"
#include "base/memory_info.h"
#include "engine/token_picker.h"

namespace surety::engine {
namespace {

// Classes of a drafted token by the draft's own probability of it.
constexpr double kSureness[] = {0.1, 0.2, 0.35, 0.5, 0.65, 0.8, 0.93};
constexpr double kLeastCommonShare = 0.2;

int ClassOfSureness(double probability) {
  int a_class = 0;
  while (a_class < 7 && probability > kSureness[a_class]) ++a_class;
  return a_class;
}

// The token's probability before temperature and cuts: how sure the draft is of it.
double Sureness(std::span<const float> logits, int32_t token) {
  const float top = *std::max_element(logits.begin(), logits.end());
  double sum = 0;
  for (const float logit : logits) {
    if (logit > top - 20) sum += std::exp(static_cast<double>(logit - top));
  }
  return std::exp(static_cast<double>(logits[static_cast<size_t>(token)] - top)) / sum;
}

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
  return (context + own.page_tokens - 1) / own.page_tokens * max_sequences * own.PageStrideBytes();
}

DraftModel::DraftModel(LocalModel& target, kv::PagePool& pool, int context_tokens)
    : draft_(*target.draft()), pool_(pool), context_tokens_(context_tokens), map_(*target.draft_vocabulary()),
      sampler_(target.tokenizer().vocab_size()),
      target_logits_(static_cast<size_t>(target.tokenizer().vocab_size())), end_ids_(EndIds(target.tokenizer())),
      shared_({0.1, 0.2, 0.3, 0.42, 0.55, 0.68, 0.8, 0.92}) {}

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
    const int64_t needed = PoolBytes(target, pool.layout(), max_sequences, context), available = AvailableMemoryBytes();
    if (available >= 0 && needed > available) {
      return Error(ResourceExhaustedError("the KV cache of the draft model '" + path + "' takes " +
                                          std::to_string(needed >> 20) + " MiB, but only " +
                                          std::to_string(available >> 20) +
                                          " MiB of memory are available; use a shorter context or fewer sequences"));
    }
    SURETY_ASSIGN_OR_RETURN(made->own_pool_, kv::PagePool::Make(layout, pages_of_one * max_sequences));
    view = made->own_pool_->view();
  }
  SURETY_ASSIGN_OR_RETURN(made->drafter_, spec::ModelDrafter::Make(draft.model(), view, max_sequences,
                                                                   kMaxRows + max_sequences, context));
  return made;
}

DraftState& DraftModel::StateOf(Sequence& sequence) {
  if (sequence.draft_state == nullptr) sequence.draft_state = std::make_unique<DraftState>(shared_, shared_mean_);
  Read(sequence, *sequence.draft_state);
  return *sequence.draft_state;
}

void DraftModel::Read(Sequence& sequence, DraftState& state) const {
  for (; state.n_taken < sequence.n_tokens(); ++state.n_taken) {
    map_.AppendDraftTokens(sequence.tokens[static_cast<size_t>(state.n_taken)], state.text);
  }
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
void DraftModel::NoteDraftedToken(const Sequence& sequence) {
  const int page_tokens = pool_.layout().page_tokens, at = sequence.n_tokens() - 1, index = at / page_tokens;
  if (static_cast<size_t>(index) >= sequence.pages.pages().size()) return;
  const int32_t page = sequence.pages.pages()[static_cast<size_t>(index)];
  for (const DraftState::Written& written : sequence.draft_state->written) {
    if (written.index != index || written.page != page || written.serial != pool_.Serial(page)) continue;
    notes_[static_cast<size_t>(page)] = {written.serial, at % page_tokens + 1};
  }
}

int DraftModel::Behind(const Sequence& sequence) const {
  if (map_.identical()) return sequence.n_tokens() - FoundInPages(sequence);
  const DraftState* state = sequence.draft_state.get();
  return state == nullptr ? sequence.n_tokens()
                          : sequence.n_tokens() - state->n_taken +
                                static_cast<int>(state->text.size()) - static_cast<int>(state->in_pages.size());
}

// Pages for the draft's tokens; says no where there are none to spare.
bool DraftModel::PreparePages(const Sequence& sequence, DraftState& state, int n_tokens) const {
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

int32_t DraftModel::Pick(const Wish& wish, DraftState& state, int depth, std::span<float> logits, double& holds) {
  map_.ScatterLogits(logits, target_logits_);
  if (!AllFinite(logits)) return -1;
  const Sequence& sequence = *wish.sequence;
  const float top = *std::max_element(target_logits_.begin(), target_logits_.end());
  if (!std::isfinite(top)) return -1;
  sampler_.Penalise(target_logits_, sequence.sampling, sequence.history, end_ids_);
  if (sequence.state->request().ignore_end_of_text) {
    for (const int32_t id : end_ids_) target_logits_[static_cast<size_t>(id)] = -std::numeric_limits<float>::infinity();
  }
  const auto position = static_cast<uint64_t>(sequence.n_tokens() + depth);
  const int32_t token = sampler_.Sample(target_logits_, sequence.sampling, position);
  const int a_class = ClassOfSureness(Sureness(target_logits_, token));
  holds *= state.own.Of(a_class);
  if (holds < wish.least) return -1;
  const int32_t own = map_.identical() ? token : map_.ToDraft(token);
  if (own < 0) return -1;
  if (sequence.state->request().verification == api::Verification::kRejection) {
    const auto law = sampler_.Distribution(target_logits_, sequence.sampling);
    state.laws.emplace_back(law.begin(), law.end());
  }
  state.proposal.push_back(token);
  state.classes.push_back(a_class);
  return own;
}

// Of a sequence: what the draft has to read and where it may write; nothing where there are no pages.
std::optional<spec::ModelDraftRequest> DraftModel::RequestFor(const Wish& wish) {
  Sequence& sequence = *wish.sequence;
  DraftState& state = StateOf(sequence);
  state.proposal.clear();
  state.classes.clear();
  state.laws.clear();
  const int n_text = static_cast<int>(state.text.size());
  int n_computed = 0;
  if (map_.identical()) {
    n_computed = FoundInPages(sequence);
  } else {
    const auto differs = std::mismatch(state.text.begin(), state.text.end(), state.in_pages.begin(),
                                       state.in_pages.end());
    n_computed = static_cast<int>(differs.first - state.text.begin());
  }
  if (n_text < 1 || !PreparePages(sequence, state, n_text + wish.n_most)) return std::nullopt;
  spec::ModelDraftRequest request;
  request.tokens = state.text;
  request.n_computed = std::min(n_computed, n_text - 1);
  request.page_table = map_.identical() ? sequence.pages.pages() : state.pages->pages();
  request.n_most = wish.n_most;
  return request;
}

void DraftModel::Draft(std::span<const Wish> wishes) {
  const int64_t start = Clock::Real().NowNanos();
  std::vector<spec::ModelDraftRequest> requests;
  std::vector<size_t> of;  // whose wish each request is
  int n_rows = 0;
  bool caught_up = false;
  for (size_t i = 0; i < wishes.size(); ++i) {
    auto request = RequestFor(wishes[i]);
    if (!request) continue;
    const int behind = static_cast<int>(request->tokens.size()) - request->n_computed;
    if (n_rows + behind <= drafter_->max_rows()) {
      n_rows += behind;
      requests.push_back(*std::move(request));
      of.push_back(i);
      continue;
    }
    // One of them reads a part, so that the others do not wait long; it drafts in a later step.
    const int part = std::min(behind - 1, kMaxRows);
    if (caught_up || part < 1) continue;
    caught_up = true;
    drafter_->CatchUp(*request, part);
    DraftState& state = *wishes[i].sequence->draft_state;
    if (!map_.identical()) state.in_pages.assign(state.text.begin(), state.text.begin() + request->n_computed);
    NotePages(*wishes[i].sequence, request->n_computed);
  }
  std::vector<double> holds(requests.size(), 1.0);
  drafter_->Draft(
      requests,
      [&](size_t r, int depth, std::span<float> logits) {
        const Wish& wish = wishes[of[r]];
        return Pick(wish, *wish.sequence->draft_state, depth, logits, holds[r]);
      },
      [&](int rows, int64_t nanos) { cost_.Observe(rows, nanos); });
  for (size_t r = 0; r < requests.size(); ++r) {
    Sequence& sequence = *wishes[of[r]].sequence;
    DraftState& state = *sequence.draft_state;
    const int n_text = static_cast<int>(state.text.size());
    if (map_.identical()) {
      NotePages(sequence, n_text);
      state.written.clear();
      const auto pages = sequence.pages.pages();
      for (int index = n_text / pool_.layout().page_tokens; static_cast<size_t>(index) < pages.size(); ++index) {
        const int32_t page = pages[static_cast<size_t>(index)];
        state.written.push_back({index, page, pool_.Serial(page)});
      }
      continue;
    }
    state.in_pages = state.text;
    const auto& draft = requests[r].draft;
    if (!draft.empty()) state.in_pages.insert(state.in_pages.end(), draft.begin(), draft.end() - 1);
  }
  spent_ns_ += Clock::Real().NowNanos() - start;
}

void DraftModel::Observe(Sequence& sequence, int32_t token) {
  DraftState* state = sequence.draft_state.get();
  if (state == nullptr || state->proposal.empty()) return;
  const bool right = state->proposal.front() == token;
  state->own.Note(state->classes.front(), right, spec::kOwnTrialWeight);
  shared_.Note(state->classes.front(), right, spec::kSharedTrialWeight);
  state->mean += spec::kOwnTrialWeight / 2 * ((right ? 1.0 : 0.0) - state->mean);
  shared_mean_ += spec::kSharedTrialWeight * ((right ? 1.0 : 0.0) - shared_mean_);
  if (right) {
    state->proposal.erase(state->proposal.begin());
    state->classes.erase(state->classes.begin());
    // Of all drafted tokens but the last one the keys and values are there.
    if (map_.identical() && !state->proposal.empty()) NoteDraftedToken(sequence);
  } else {
    state->proposal.clear();
    state->classes.clear();
  }
}

}  // namespace surety::engine
