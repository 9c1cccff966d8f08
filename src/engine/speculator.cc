#include "engine/speculator.h"

#include <algorithm>
#include <string>
#include <utility>

#include "base/clock.h"
#include "engine/forced_drafter.h"

namespace surety::engine {
namespace {

// Drafts that hold less often than this in sum are not worth a row anywhere.
constexpr double kLeastProbability = 0.02;
// What looking up found is taken without asking a model if its first token holds at least this often.
constexpr double kLikely = 0.5;
// While a drafter that costs steps does not pay, it is asked for one token this often, to see whether it has come to.
constexpr int kStepsBetweenProbes = 64;
constexpr int kMuchBehind = 64;
// Estimates are off by some per cent, so drafts must promise more than that.
constexpr double kWorthwhile = 1.03;
// Candidates of a tree over what the step may verify: the policy chooses among them.
constexpr int kCandidatesPerRow = 3;
constexpr int kMostNodes = spec::DraftTree::kMaxNodes - 1;

bool ByRejection(const Sequence& sequence) {
  return sequence.state->request().verification == api::Verification::kRejection;
}

// Nodes that are accepted, on average. `keep`: those that are worth a look; none without its parent.
double ExpectedOf(const spec::DraftTree& tree, uint64_t* keep = nullptr) {
  std::array<double, spec::DraftTree::kMaxNodes> joint{1.0};
  uint64_t kept = 1;
  double sum = 0;
  for (int n = 1; n < tree.size(); ++n) {
    const double above = joint[static_cast<size_t>(tree.parent(n))];
    joint[static_cast<size_t>(n)] = above * tree.confidence(n);
    if ((kept >> tree.parent(n) & 1) == 0 || above <= kLeastProbability) continue;
    kept |= uint64_t{1} << n;
    sum += joint[static_cast<size_t>(n)];
  }
  if (keep != nullptr) *keep = kept;
  return sum;
}

// Of the nodes in `keep`, those that are reached most probably; none without its parent, which is never less probable
// and comes before it.
uint64_t LikeliestNodes(const spec::DraftTree& tree, uint64_t keep, int most) {
  std::array<double, spec::DraftTree::kMaxNodes> joint{1.0};
  std::vector<int> order;
  for (int n = 1; n < tree.size(); ++n) {
    joint[static_cast<size_t>(n)] = joint[static_cast<size_t>(tree.parent(n))] * tree.confidence(n);
    if ((keep >> n & 1) != 0) order.push_back(n);
  }
  if (static_cast<int>(order.size()) <= most) return keep;
  std::stable_sort(order.begin(), order.end(),
                   [&](int a, int b) { return joint[static_cast<size_t>(a)] > joint[static_cast<size_t>(b)]; });
  uint64_t likeliest = 1;
  for (int i = 0; i < most; ++i) likeliest |= uint64_t{1} << order[static_cast<size_t>(i)];
  return likeliest;
}

// What was proposed for a sequence takes up another drafter's proposal. Chosen nodes go into one tree; of others, whose
// rule is about one law at a node, the tree that promises more is left.
void Merge(const DraftProposal& proposal, DraftMethod method, SequenceDraft& draft) {
  if (proposal.empty()) return;
  using spec::ProposalKind;
  const bool can_join = proposal.kind == ProposalKind::kOneHot && draft.kind == ProposalKind::kOneHot;
  if (!can_join && !draft.empty() && ExpectedOf(draft.tree) >= ExpectedOf(proposal.tree)) return;
  if (!can_join) {
    draft.Clear(proposal.tree.token(0));
    draft.kind = proposal.kind;
    draft.laws = proposal.laws;
  }
  std::array<int, spec::DraftTree::kMaxNodes> place{};
  for (int n = 1; n < proposal.tree.size(); ++n) {
    const int parent = place[static_cast<size_t>(proposal.tree.parent(n))];
    const int n_before = draft.tree.size();
    const int node = parent < 0 ? -1 : draft.tree.Add(parent, proposal.tree.token(n), proposal.tree.confidence(n));
    place[static_cast<size_t>(n)] = node;
    if (node < n_before) continue;
    draft.methods[static_cast<size_t>(node)] = method;
    // What was drawn from a law holds as often as that law is like the target's, not as often as the target says.
    if (proposal.is_blind && proposal.kind == ProposalKind::kOneHot) draft.blind |= uint64_t{1} << node;
  }
}

}  // namespace

Status SpeculationOptions::Validate() const {
  if (max_draft_tokens < 0 || max_draft_tokens > kMostNodes) {
    return InvalidArgumentError("max_draft_tokens is " + std::to_string(max_draft_tokens) + ", but must be from 0 to " +
                                std::to_string(kMostNodes));
  }
  if (max_draft_rows < 0 || max_draft_rows > 1024) {
    return InvalidArgumentError("max_draft_rows is " + std::to_string(max_draft_rows) + ", but must be from 0 to 1024");
  }
  if (max_branches < 1 || max_branches > kMostNodes) {
    return InvalidArgumentError("max_branches is " + std::to_string(max_branches) +
                                ", but must be from 1 (chains) to " + std::to_string(kMostNodes));
  }
  if (store.tokens_per_scope < 0 || store.max_scopes < 0) {
    return InvalidArgumentError("the store of earlier answers cannot hold a negative number of tokens or scopes");
  }
  return OkStatus();
}

Speculator::Speculator(const SpeculationOptions& options, const model::Tokenizer& tokenizer,
                       std::vector<std::unique_ptr<Drafter>> drafters, double context_share)
    : options_(options), branch_cost_(context_share) {
  Add(std::make_unique<ForcedDrafter>(tokenizer));
  auto lookup = std::make_unique<LookupDrafter>(options.store);
  lookup_ = lookup.get();
  Add(std::move(lookup));
  for (auto& drafter : drafters) Add(std::move(drafter));
}

void Speculator::Add(std::unique_ptr<Drafter> drafter) {
  wants_taps_ |= drafter->wants_taps();
  drafters_.push_back(std::move(drafter));
  records_.emplace_back();
}

bool Speculator::MayDraft(const Sequence& sequence) const {
  return !sequence.prefilling() && sequence.tokens_left() > 1 && sequence.state->request().speculate;
}

int Speculator::MostFor(const Sequence& sequence) const {
  return std::min({options_.max_draft_tokens, options_.max_draft_rows, sequence.tokens_left() - 1});
}

Speculator::Offered& Speculator::AddOffer(Sequence& sequence) {
  if (n_offered_ == offered_.size()) {
    offered_.push_back(std::make_unique<Offered>());
    proposals_.push_back(std::make_unique<DraftProposal>());
  }
  Offered& offer = *offered_[n_offered_++];
  offer.sequence = &sequence;
  offer.draft.Clear(sequence.tokens.back());
  offer.expected = 0;
  offer.is_forced = false;
  offer.saw_noise = false;
  offer.is_walked = false;
  return offer;
}

// Asks for the sequences of these offers, and merges what comes.
void Speculator::Ask(Drafter& drafter, std::span<const size_t> offers, std::span<const DraftWish> wishes) {
  std::vector<DraftProposal*> proposals;
  for (size_t i = 0; i < wishes.size(); ++i) {
    proposals.push_back(proposals_[i].get());
    proposals.back()->Clear(wishes[i].sequence->tokens.back());
  }
  drafter.Draft(wishes, proposals);
  for (size_t i = 0; i < wishes.size(); ++i) {
    Offered& offer = *offered_[offers[i]];
    Merge(*proposals[i], drafter.method(), offer.draft);
    offer.is_forced |= drafter.method() == DraftMethod::kForced && !proposals[i]->empty();
    // By having been asked, not by what came of it, which may itself depend on the numbers.
    offer.saw_noise |= !drafter.is_free() && !wishes[i].by_rejection;
  }
}

void Speculator::AskFree(Drafter& drafter) {
  std::vector<size_t> offers;
  std::vector<DraftWish> wishes;
  for (size_t i = 0; i < n_offered_; ++i) {
    DraftWish& wish = wishes.emplace_back();
    wish.sequence = offered_[i]->sequence;
    wish.max_depth = MostFor(*wish.sequence);
    wish.max_nodes = std::min(options_.max_draft_rows, kMostNodes);
    wish.max_branches = options_.max_branches;
    wish.by_rejection = ByRejection(*wish.sequence);
    offers.push_back(i);
  }
  Ask(drafter, offers, wishes);
}

// How deep and how wide a drafter's trees should be for the sequences of these offers: the extent with the most tokens
// in the time of all its own steps and of the one that verifies. A width of w is reckoned as w chains that part at the
// root, which is the least that a tree of as many nodes is worth.
Speculator::Extent Speculator::BestExtent(const Drafter& drafter, int n_decoding,
                                          std::span<const size_t> asking) const {
  const int n_asking = static_cast<int>(asking.size());
  if (drafter.StepNanos(n_asking) <= 0) return {1, 1};  // nothing is measured yet
  const auto mean = [&](int depth, int rank) {
    double sum = 0;
    for (const size_t i : asking) sum += drafter.MeanAcceptance(*offered_[i]->sequence, depth, rank);
    return sum / n_asking;
  };
  double branch = 0;
  for (const size_t i : asking) branch += BranchNanos(*offered_[i]->sequence);
  Extent best;
  double best_rate = n_decoding / cost_.Of(n_decoding), first = 0;
  for (int width = 1; width <= std::min(options_.max_branches, spec::RankedAcceptance::kRanks); ++width) {
    first += mean(0, width - 1);
    double tokens = n_decoding, all = std::min(first, 1.0);
    for (int depth = 1; depth <= options_.max_draft_tokens; ++depth) {
      const int rows = n_asking * depth * width;
      if (rows > options_.max_draft_rows) break;
      if (depth > 1) all *= mean(depth - 1, 0);
      tokens += n_asking * all;
      const double time = cost_.Of(n_decoding + rows) + depth * drafter.StepNanos(n_asking * width) +
                          branch * (width - 1);
      if (tokens / time <= best_rate) continue;
      best_rate = tokens / time;
      best = {depth, width};
    }
  }
  return best;
}

// What a sequence is asked for; no depth where it is not worth asking, or has no pages.
DraftWish Speculator::WishFor(const Drafter& drafter, Sequence& sequence, const Extent& extent, int n_decoding,
                              int n_asking) {
  DraftWish wish;
  wish.sequence = &sequence;
  wish.by_rejection = ByRejection(sequence);
  const bool always = options_.whatever_it_costs;
  const double plain = cost_.Of(n_decoding);
  // A token in a plain step takes its share of the step's time; a drafted one a row of the draft's and one of this.
  const double row = drafter.StepNanos(n_asking) / n_asking + cost_.Of(n_decoding + 1) - plain;
  const double least = std::clamp(0.8 * row / (plain / n_decoding), 0.02, 0.9);
  const int behind = sequence.n_tokens() - drafter.CoveredTokens(sequence);
  if (behind > kMuchBehind && !always) {  // worth reading only for an answer that is still long
    const double mean = drafter.MeanAcceptance(sequence, 0, 0);
    const double gain = plain / n_decoding * std::max(0.0, mean - least) * std::min(sequence.tokens_left(), 256);
    if (drafter.StepNanos(1) > 0 && gain < drafter.StepNanos(1) * 0.1 * behind) return wish;
  }
  wish.floor = extent.depth == 1 || always || wish.by_rejection ? 0.0 : least;
  wish.max_depth = std::min(extent.depth, MostFor(sequence));
  wish.max_branches = extent.width;
  wish.max_nodes = std::min(wish.max_depth * extent.width, kMostNodes);
  if (extent.width > 1 && !wish.by_rejection) {
    wish.max_nodes = std::min(wish.max_nodes * kCandidatesPerRow, kMostNodes);
  }
  return wish;
}

// Asks a drafter that costs steps where nothing likely was found without.
void Speculator::AskCostly(size_t index, int n_decoding, DraftPages& pages) {
  Drafter& drafter = *drafters_[index];
  Record& record = records_[index];
  std::vector<size_t> asking;
  for (size_t i = 0; i < n_offered_; ++i) {
    const spec::DraftTree& tree = offered_[i]->draft.tree;
    bool is_likely = false;
    for (const int child : tree.children(0)) is_likely |= tree.confidence(child) >= kLikely;
    if (!offered_[i]->is_forced && !is_likely) asking.push_back(i);
  }
  if (asking.empty()) return;
  if (!options_.whatever_it_costs && record.ledger.Rests()) return;
  const int n_asking = static_cast<int>(asking.size());
  Extent extent;
  if (options_.whatever_it_costs) {
    const int rows = std::max(1, options_.max_draft_rows / n_asking);
    extent = {std::min(options_.max_draft_tokens, rows), std::min(options_.max_branches, rows)};
  } else {
    extent = BestExtent(drafter, n_decoding, asking);
  }
  if (extent.depth == 0) {
    if (++record.n_steps_unasked < kStepsBetweenProbes) return;
    extent = {1, 1};
  }
  record.n_steps_unasked = 0;
  std::vector<DraftWish> wishes;
  std::vector<size_t> offers;
  for (const size_t i : asking) {
    Sequence& sequence = *offered_[i]->sequence;
    DraftWish wish = WishFor(drafter, sequence, extent, n_decoding, n_asking);
    if (wish.max_depth < 1) continue;
    const int n_tokens = sequence.n_tokens();
    wish.max_depth = std::min(wish.max_depth, pages.ExtendForDraft(sequence, n_tokens + wish.max_depth) - n_tokens);
    if (wish.max_depth < 1) continue;
    wishes.push_back(wish);
    offers.push_back(i);
  }
  if (wishes.empty()) return;
  if (extent.width > 1) {  // a branch of usual length has a page or two
    const int each = 2 * (extent.width - 1), n_wishes = static_cast<int>(wishes.size());
    const int spare = pages.SparePages(each * n_wishes);
    for (DraftWish& wish : wishes) wish.max_pages = spare / n_wishes;
  }
  record.was_asked = true;
  const int64_t start = Clock::Real().NowNanos();
  Ask(drafter, offers, wishes);
  drafting_ns_in_step_ += Clock::Real().NowNanos() - start;
}

void Speculator::Plan(std::span<Sequence* const> running, kv::PrefixCache& cache, int64_t now_ns, DraftPages& pages) {
  if (!enabled()) return;
  n_offered_ = 0;
  // What is left of a step that also read prompts, whose time says nothing of drafts.
  counters_.saved_ns -= static_cast<double>(std::exchange(drafting_ns_in_step_, 0));
  n_kept_in_step_ = 0;
  branch_units_in_step_ = 0;
  for (Record& record : records_) record.was_asked = false;
  // Beside prompts a drafted row costs what a prompt's does, and the time between two tokens is already stretched.
  const bool reads_prompts =
      std::any_of(running.begin(), running.end(), [](const Sequence* s) { return s->prefilling(); });
  int n_decoding = 0;
  for (Sequence* sequence : running) {
    sequence->draft.Clear(sequence->tokens.back());
    if (sequence->prefilling()) continue;
    ++n_decoding;
    if (MayDraft(*sequence) && (!reads_prompts || options_.whatever_it_costs)) AddOffer(*sequence);
  }
  if (n_offered_ == 0) return;
  lookup_->BeginPlan(cache, now_ns);
  for (auto& drafter : drafters_) {
    if (drafter->is_free() && (drafter.get() != lookup_ || options_.lookup)) AskFree(*drafter);
  }
  if (cost_.Of(1) <= 0 && !options_.whatever_it_costs) return;  // no step to compare with has run yet
  for (size_t i = 0; i < drafters_.size(); ++i) {
    if (!drafters_[i]->is_free()) AskCostly(i, n_decoding, pages);
  }
  Choose(n_decoding);
}

// What is left of an offer: nodes in `keep`, arranged in preorder.
void Speculator::Arrange(Offered& offer, uint64_t keep) {
  SequenceDraft arranged;
  arranged.Take(offer.draft, keep, offer.draft.kind == spec::ProposalKind::kOneHot);
  offer.draft = std::move(arranged);
}

// Lets the policy choose among all that is offered.
void Speculator::Choose(int n_decoding) {
  for (size_t i = 0; i < n_offered_; ++i) {
    Offered& offer = *offered_[i];
    if (offer.saw_noise) offer.draft.blind = 0;
    uint64_t keep = 1;
    ExpectedOf(offer.draft.tree, &keep);
    Arrange(offer, keep);
  }
  do {
    ChooseAmongOffers(n_decoding);
  } while (DropForbidden());
  for (size_t i = 0; i < n_offered_; ++i) {
    if (offers_[i].n_chosen() > 0) offered_[i]->sequence->draft.Take(offered_[i]->draft, offers_[i].chosen, false);
  }
}

void Speculator::ChooseAmongOffers(int n_decoding) {
  offers_.clear();
  for (size_t i = 0; i < n_offered_; ++i) {
    spec::DraftOffer& choice = offers_.emplace_back();
    choice.tree = &offered_[i]->draft.tree;
    choice.max_branches = options_.max_branches;
    choice.branch_time = options_.whatever_it_costs ? 0 : BranchNanos(*offered_[i]->sequence);
  }
  // Beyond the table's end all steps look equally long.
  const int most = std::min(options_.max_draft_rows, spec::VerifyCost::kMaxRows - n_decoding);
  spec::ChooseDrafts(offers_, n_decoding, n_decoding, most, [&](int rows) {
    if (options_.whatever_it_costs) return 1.0;
    return rows > n_decoding ? kWorthwhile * cost_.Of(rows) : cost_.Of(rows);
  });
}

// Chosen tokens that a constraint forbids leave their rows to others. Drawn ones stay, with a probability of 0. Each
// walk of a grammar takes time while nothing else runs, so only offers are walked of which something would be verified,
// each once, and in a step few more nodes than there are rows to be had. True: some were walked, so there is to be
// chosen again.
bool Speculator::DropForbidden() {
  int n_walked = 0;
  const auto is_to_walk = [&](size_t i) {
    return offers_[i].n_chosen() > 0 && !offered_[i]->is_walked && offered_[i]->sequence->shaped.constrained() &&
           offered_[i]->draft.kind == spec::ProposalKind::kOneHot;
  };
  for (size_t i = 0; i < n_offered_; ++i) n_walked += is_to_walk(i) ? 1 : 0;
  const int walks = std::max(1, kCandidatesPerRow * options_.max_draft_rows / std::max(1, n_walked));
  for (size_t i = 0; i < n_offered_; ++i) {
    if (!is_to_walk(i)) continue;
    Offered& offer = *offered_[i];
    offer.is_walked = true;
    const uint64_t all = ~uint64_t{0} >> (spec::DraftTree::kMaxNodes - offer.draft.tree.size());
    Arrange(offer, offer.sequence->shaped.AllowedNodes(offer.draft.tree, LikeliestNodes(offer.draft.tree, all, walks)));
  }
  return n_walked > 0;
}

void Speculator::Observe(Sequence& sequence, int32_t token) {
  for (auto& drafter : drafters_) drafter->Observe(sequence, token);
}

void Speculator::NoteDrafted(Sequence& sequence) {
  ++counters_.passes;
  const SequenceDraft& draft = sequence.draft;
  sequence.n_drafted += draft.n_nodes();
  for (int n = 1; n <= draft.n_nodes(); ++n) {
    SpeculationCounters::Method& method =
        counters_.methods[static_cast<size_t>(draft.methods[static_cast<size_t>(n)])];
    method.n_drafts += n == 1 ? 1 : 0;
    ++method.draft_tokens;
    ++method.drafted_at[SpeculationCounters::PositionOf(draft.tree.depth(n) - 1)];
    ++method.drafted_rank[SpeculationCounters::RankOf(draft.RankOf(n))];
  }
  counters_.branches += static_cast<int64_t>(draft.branches.size());
  branch_units_in_step_ += static_cast<double>(draft.branches.size()) * branch_cost_.Unit(sequence.n_tokens());
}

void Speculator::NoteAccepted(Sequence& sequence, int node) {
  ++sequence.n_accepted;
  ++n_kept_in_step_;
  const SequenceDraft& draft = sequence.draft;
  auto& method = counters_.methods[static_cast<size_t>(draft.methods[static_cast<size_t>(node)])];
  ++method.accepted_tokens;
  ++method.accepted_at[SpeculationCounters::PositionOf(draft.tree.depth(node) - 1)];
  ++method.accepted_rank[SpeculationCounters::RankOf(draft.RankOf(node))];
}

void Speculator::NoteTrials(const Sequence& sequence, std::span<const std::pair<double, bool>> trials) {
  const api::GenerationRequest& request = sequence.state->request();
  const bool exact = request.verification != api::Verification::kLossyTypical;
  if (!exact || !request.seed_is_secret) return;
  for (const auto& [probability, held] : trials) monitor_.Note(probability, held);
}

void Speculator::AfterStep(std::span<const CommittedRows> steps, ConstMatrixF taps) {
  if (steps.empty()) return;
  if (!enabled()) {  // nothing will be drafted any more, so nothing is kept for it
    for (const CommittedRows& step : steps) Drop(*step.sequence);
    return;
  }
  const int64_t start = Clock::Real().NowNanos();
  for (auto& drafter : drafters_) {
    if (drafter->wants_taps()) drafter->AfterStep(steps, taps);
  }
  drafting_ns_in_step_ += Clock::Real().NowNanos() - start;  // NoteStep books it, or the next Plan
}

// What came of asking in a step that is over. Where two were asked, both answer for it.
void Speculator::NoteGain(int n_sequences, int64_t nanos) {
  const double plain = n_sequences > 0 ? cost_.Of(n_sequences) : 0;
  if (plain <= 0) return;
  const double spent = static_cast<double>(nanos) - plain + static_cast<double>(drafting_ns_in_step_);
  const double gain = static_cast<double>(n_kept_in_step_) / n_sequences - spent / plain;
  for (Record& record : records_) {
    if (record.was_asked) record.ledger.Note(gain);
  }
}

void Speculator::NoteStep(int n_rows, int n_sequences, int64_t nanos) {
  NoteGain(n_sequences, nanos);
  const double row = cost_.Of(1);
  const auto branches = static_cast<int64_t>(branch_units_in_step_ * branch_cost_.factor() * row);
  branch_cost_.Observe(branch_units_in_step_, row, static_cast<double>(nanos), cost_.Of(n_rows));
  cost_.Observe(n_rows, std::max(nanos - branches, nanos / 2));
  if (n_rows > n_sequences && n_sequences > 0) {
    // In plain steps of these sequences a token takes the step's time over their number.
    const double plain = cost_.Of(n_sequences);
    counters_.saved_ns += plain * n_kept_in_step_ / n_sequences - (static_cast<double>(nanos) - plain);
  }
  counters_.saved_ns -= static_cast<double>(drafting_ns_in_step_);
  drafting_ns_in_step_ = 0;
  n_kept_in_step_ = 0;
  branch_units_in_step_ = 0;
}

void Speculator::Keep(const Sequence& sequence, kv::PrefixCache& cache, int64_t now_ns) {
  const auto& scope = sequence.state->prepared.scope;
  if (!options_.lookup || !enabled() || !scope.has_value() || sequence.n_output() < 4) return;
  if (sequence.state->forgotten) return;
  if (sequence.cursor.has_value() && cache.Forgotten(*sequence.cursor)) return;
  const kv::ScopePolicy& policy = cache.PolicyOf(scope->family());
  if (policy.zero_on_release) return;  // such a scope leaves nothing behind
  lookup_->store().Add(*scope, std::span(sequence.tokens).subspan(static_cast<size_t>(sequence.n_prompt)), now_ns,
                       policy.ttl_ns);
}

}  // namespace surety::engine
