#include "engine/speculator.h"

#include <algorithm>
#include <string>
#include <utility>

#include "spec/draft_policy.h"

namespace surety::engine {
namespace {

// Drafts that hold less often than this in sum are not worth a row anywhere.
constexpr double kLeastProbability = 0.02;
// What looking up found is taken without asking a model if its first token holds at least this often.
constexpr double kLikely = 0.5;
// While a draft model does not pay, it is asked for one token this often, to see whether it has come to pay.
constexpr int kStepsBetweenProbes = 64;
constexpr int kMuchBehind = 64;
// Estimates are off by some per cent, so drafts must promise more than that.
constexpr double kWorthwhile = 1.03;
constexpr size_t kMostForcedBytes = 128;

}  // namespace

Status SpeculationOptions::Validate() const {
  if (max_draft_tokens < 0 || max_draft_tokens > spec::LookupDraft::kMaxProposal) {
    return InvalidArgumentError("max_draft_tokens is " + std::to_string(max_draft_tokens) + ", but must be from 0 to " +
                                std::to_string(spec::LookupDraft::kMaxProposal));
  }
  if (max_draft_rows < 0 || max_draft_rows > 1024) {
    return InvalidArgumentError("max_draft_rows is " + std::to_string(max_draft_rows) + ", but must be from 0 to 1024");
  }
  if (store.tokens_per_scope < 0 || store.max_scopes < 0) {
    return InvalidArgumentError("the store of earlier answers cannot hold a negative number of tokens or scopes");
  }
  return OkStatus();
}

Speculator::Speculator(const SpeculationOptions& options, const model::Tokenizer& tokenizer,
                       std::unique_ptr<DraftModel> model)
    : options_(options), tokenizer_(tokenizer), shared_(spec::LookupDraft::Prior()),
      forced_({0.8, 0.8, 0.8, 0.8, 0.8, 0.8, 0.8, 0.8}), store_(options.store), model_(std::move(model)) {}

// Under rejection the number of drafted tokens must not depend on which ones were drawn, or the result is biased.
bool Speculator::MustNotLookAtDrawn(const Sequence& sequence) {
  return sequence.state->request().verification == api::Verification::kRejection;
}

bool Speculator::MayDraft(const Sequence& sequence) const {
  return !sequence.prefilling() && sequence.tokens_left() > 1 && sequence.state->request().speculate;
}

std::span<const int32_t> Speculator::LookUp(Sequence& sequence, kv::PrefixCache& cache, int64_t now_ns) {
  if (sequence.lookup == nullptr) {
    sequence.lookup = std::make_unique<spec::LookupDraft>(shared_);
    sequence.lookup->Read(sequence.state->prepared.prediction);
    sequence.lookup->Read(sequence.tokens);
  }
  const spec::MatchIndex* store = nullptr;
  // Under rejection an earlier answer with the same seed would not be independent of the numbers that verify it.
  const bool may_store = options_.store.tokens_per_scope > 0 && !MustNotLookAtDrawn(sequence);
  if (const auto& scope = sequence.state->prepared.scope; scope.has_value() && may_store) {
    store = store_.Find(*scope, sequence.tokens, now_ns, cache.PolicyOf(scope->family()).ttl_ns);
  }
  const std::span<const int32_t> draft = sequence.lookup->Propose(store);
  return draft.first(std::min(draft.size(), static_cast<size_t>(MostFor(sequence))));
}

int Speculator::MostFor(const Sequence& sequence) const {
  return std::min({options_.max_draft_tokens, options_.max_draft_rows, sequence.tokens_left() - 1});
}

void Speculator::Offer(Sequence& sequence, DraftMethod method, std::span<const int32_t> draft,
                       FunctionRef<double(int depth)> acceptance) {
  if (draft.empty()) return;
  if (offered_.size() < n_offered_ + 1) offered_.emplace_back();
  Offered& offer = offered_[n_offered_];
  offer.sequence = &sequence;
  offer.method = method;
  offer.tokens.assign(draft.begin(), draft.end());
  offer.acceptance.clear();
  offer.expected = 0;
  double all = 1;
  for (size_t i = 0; i < draft.size() && all > kLeastProbability; ++i) {
    offer.acceptance.push_back(acceptance(static_cast<int>(i)));
    all *= offer.acceptance.back();
    offer.expected += all;
  }
  if (n_offered_ == 0 || offered_[n_offered_ - 1].sequence != &sequence) {
    ++n_offered_;
  } else if (offered_[n_offered_ - 1].expected < offer.expected) {
    std::swap(offered_[n_offered_ - 1], offer);
  }
}

// Where the text is forced, its tokens are free for the asking; which ones the target takes to spell it is up to it.
// The last one may be a part of a longer one that goes on beyond what is forced.
void Speculator::Force(Sequence& sequence) const {
  sequence.forced = {};
  if (!sequence.shaped.constrained()) return;
  const std::string bytes = sequence.shaped.ForcedBytes(kMostForcedBytes);
  if (bytes.size() < 2) return;
  sequence.forced.tokens = tokenizer_.Encode(bytes, false);
  if (sequence.forced.tokens.size() > static_cast<size_t>(MostFor(sequence))) {
    sequence.forced.tokens.resize(static_cast<size_t>(MostFor(sequence)));
  }
}

// How many tokens the draft model should make for each of `n_wishes` sequences whose drafts hold with mean probability
// `mean`: the number with the most tokens in the time of all its own steps and of the one that verifies.
int Speculator::BestDepth(int n_decoding, int n_wishes, double mean) const {
  const double own_step = model_->cost().Of(n_wishes);
  if (own_step <= 0) return 1;  // nothing is measured yet
  int best = 0;
  double best_rate = n_decoding / cost_.Of(n_decoding), tokens = n_decoding, all = 1;
  for (int depth = 1; depth <= options_.max_draft_tokens && n_wishes * depth <= options_.max_draft_rows; ++depth) {
    all *= mean;
    tokens += n_wishes * all;
    const double rate = tokens / (cost_.Of(n_decoding + n_wishes * depth) + depth * own_step);
    if (rate <= best_rate) continue;
    best_rate = rate;
    best = depth;
  }
  return best;
}

// Asks the draft model where looking up found nothing likely.
void Speculator::AskModel(int n_decoding, std::span<Sequence* const> asking, ExtendFn extend) {
  std::vector<DraftModel::Wish> wishes;
  double mean = 0;
  for (Sequence* sequence : asking) mean += model_->MeanAcceptance(*sequence) / static_cast<double>(asking.size());
  const int n_asking = static_cast<int>(asking.size());
  const bool always = options_.whatever_it_costs;
  int depth = always ? std::min(options_.max_draft_tokens, options_.max_draft_rows / n_asking)
                     : BestDepth(n_decoding, n_asking, mean);
  if (depth == 0) {
    if (++n_steps_unasked_ < kStepsBetweenProbes) return;
    depth = 1;
  }
  n_steps_unasked_ = 0;
  const double plain = cost_.Of(n_decoding);
  // A token in a plain step takes its share of the step's time; a drafted one a row of the draft's and one of this.
  const double row = model_->cost().Of(n_asking) / n_asking + cost_.Of(n_decoding + 1) - plain;
  const double least = std::clamp(0.8 * row / (plain / n_decoding), 0.02, 0.9);
  for (Sequence* sequence : asking) {
    const int behind = model_->Behind(*sequence);
    if (behind > kMuchBehind && !always) {  // worth reading only for an answer that is still long
      const double gain = plain / n_decoding * std::max(0.0, mean - least) * std::min(sequence->tokens_left(), 256);
      if (model_->cost().Of(1) > 0 && gain < model_->cost().Of(1) * 0.1 * behind) continue;
    }
    const bool blind = depth == 1 || always || MustNotLookAtDrawn(*sequence);
    int most = std::min(depth, MostFor(*sequence));
    most = std::min(most, extend(*sequence, sequence->n_tokens() + most) - sequence->n_tokens());
    if (most > 0) wishes.push_back({sequence, most, blind ? 0.0 : least});
  }
  const int64_t before = model_->spent_ns();
  model_->Draft(wishes);
  model_ns_in_step_ += model_->spent_ns() - before;
  for (const DraftModel::Wish& wish : wishes) {
    const DraftState* state = wish.sequence->draft_state.get();
    if (state == nullptr) continue;
    Offer(*wish.sequence, DraftMethod::kModel, state->proposal,
          [&](int i) {
            return MustNotLookAtDrawn(*wish.sequence) ? state->mean
                                                      : state->own.Of(state->classes[static_cast<size_t>(i)]);
          });
  }
}

void Speculator::Plan(std::span<Sequence* const> running, kv::PrefixCache& cache, int64_t now_ns, ExtendFn extend) {
  if (!enabled()) return;
  n_offered_ = 0;
  // What is left of a step that also read prompts, whose time says nothing of drafts.
  counters_.saved_ns -= static_cast<double>(std::exchange(model_ns_in_step_, 0));
  n_kept_in_step_ = 0;
  asking_.clear();
  // Beside prompts a drafted row costs what a prompt's does, and the time between two tokens is already stretched.
  const bool reads_prompts =
      std::any_of(running.begin(), running.end(), [](const Sequence* s) { return s->prefilling(); });
  int n_decoding = 0;
  for (Sequence* sequence : running) {
    sequence->draft.clear();
    if (sequence->prefilling()) continue;
    ++n_decoding;
    if (!MayDraft(*sequence) || (reads_prompts && !options_.whatever_it_costs)) continue;
    Force(*sequence);
    Offer(*sequence, DraftMethod::kForced, sequence->forced.tokens, [&](int i) { return forced_.Of(std::min(i, 7)); });
    if (options_.lookup) {
      const std::span<const int32_t> draft = LookUp(*sequence, cache, now_ns);
      const bool likely = !draft.empty() && sequence->lookup->Acceptance(0) >= kLikely;
      if (likely || model_ == nullptr) {
        Offer(*sequence, DraftMethod::kLookup, draft, [&](int i) { return sequence->lookup->Acceptance(i); });
        continue;
      }
    }
    if (model_ != nullptr && sequence->forced.tokens.empty()) asking_.push_back(sequence);
  }
  if (cost_.Of(1) <= 0 && !options_.whatever_it_costs) return;  // no step to compare with has run yet
  if (!asking_.empty()) AskModel(n_decoding, asking_, extend);
  if (n_offered_ == 0) return;
  offers_.clear();
  for (size_t i = 0; i < n_offered_; ++i) offers_.push_back({offered_[i].acceptance, 0});
  // Beyond the table's end all steps look equally long.
  const int most = std::min(options_.max_draft_rows, spec::VerifyCost::kMaxRows - n_decoding);
  spec::ChooseDrafts(offers_, n_decoding, n_decoding, most, [&](int rows) {
    if (options_.whatever_it_costs) return 1.0;
    return rows > n_decoding ? kWorthwhile * cost_.Of(rows) : cost_.Of(rows);
  });
  for (size_t i = 0; i < n_offered_; ++i) {
    const auto chosen = offered_[i].tokens.begin() + offers_[i].n_chosen;
    offered_[i].sequence->draft.assign(offered_[i].tokens.begin(), chosen);
    Sequence& sequence = *offered_[i].sequence;
    sequence.draft_method = offered_[i].method;
    // A draft model runs the same race; another request of the scope may have had the same seed.
    sequence.draft_is_blind =
        sequence.draft_method == DraftMethod::kForced ||
        (sequence.draft_method == DraftMethod::kLookup && !sequence.lookup->from_elsewhere());
  }
}

void Speculator::Observe(Sequence& sequence, int32_t token) {
  ForcedDraft& forced = sequence.forced;
  if (forced.n_right < forced.tokens.size()) {
    const bool right = forced.tokens[forced.n_right] == token;
    forced_.Note(std::min(static_cast<int>(forced.n_right), 7), right, spec::kSharedTrialWeight);
    forced.n_right = right ? forced.n_right + 1 : forced.tokens.size();
  }
  if (sequence.lookup != nullptr) sequence.lookup->Observe(token);
  if (model_ != nullptr) model_->Observe(sequence, token);
}

void Speculator::NoteDrafted(Sequence& sequence, int n_drafted) {
  ++counters_.passes;
  if (n_drafted == 0) return;
  sequence.n_drafted += n_drafted;
  SpeculationCounters::Method& method = counters_.methods[static_cast<size_t>(sequence.draft_method)];
  ++method.n_drafts;
  method.draft_tokens += n_drafted;
  for (int i = 0; i < n_drafted; ++i) ++method.drafted_at[SpeculationCounters::PositionOf(i)];
}

void Speculator::NoteAccepted(Sequence& sequence, int place) {
  ++sequence.n_accepted;
  ++n_kept_in_step_;
  SpeculationCounters::Method& method = counters_.methods[static_cast<size_t>(sequence.draft_method)];
  ++method.accepted_tokens;
  ++method.accepted_at[SpeculationCounters::PositionOf(place)];
}

void Speculator::NoteTrials(const Sequence& sequence, std::span<const std::pair<double, bool>> trials) {
  const api::GenerationRequest& request = sequence.state->request();
  const bool exact = request.verification != api::Verification::kLossyTypical;
  if (!exact || !sequence.draft_is_blind || !request.seed_is_secret) return;
  for (const auto& [probability, held] : trials) monitor_.Note(probability, held);
}

void Speculator::NoteStep(int n_rows, int n_sequences, int64_t nanos) {
  cost_.Observe(n_rows, nanos);
  if (n_rows > n_sequences && n_sequences > 0) {
    // In plain steps of these sequences a token takes the step's time over their number.
    const double plain = cost_.Of(n_sequences);
    counters_.saved_ns += plain * n_kept_in_step_ / n_sequences - (static_cast<double>(nanos) - plain);
  }
  counters_.saved_ns -= static_cast<double>(model_ns_in_step_);
  model_ns_in_step_ = 0;
  n_kept_in_step_ = 0;
}

void Speculator::Keep(const Sequence& sequence, kv::PrefixCache& cache, int64_t now_ns) {
  const auto& scope = sequence.state->prepared.scope;
  if (!options_.lookup || !enabled() || !scope.has_value() || sequence.n_output() < 4) return;
  if (sequence.state->forgotten) return;
  if (sequence.cursor.has_value() && cache.Forgotten(*sequence.cursor)) return;
  const kv::ScopePolicy& policy = cache.PolicyOf(scope->family());
  if (policy.zero_on_release) return;  // such a scope leaves nothing behind
  store_.Add(*scope, std::span(sequence.tokens).subspan(static_cast<size_t>(sequence.n_prompt)), now_ns, policy.ttl_ns);
}

}  // namespace surety::engine
