// How a draft model's trees grow: DraftModel::Draft and what it is made of.
#include "engine/draft_growth.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <optional>
#include <utility>

#include "base/clock.h"
#include "spec/coupling.h"
#include "spec/draft_policy.h"
#include "spec/rejection.h"

namespace surety::engine {
namespace {

using Candidate = DraftGrowth::Candidate;

// Candidates that a level may add to a tree, for each node that it goes on from.
constexpr int kCandidatesPerNode = 3;

}  // namespace

void DraftGrowth::FillShape() {
  std::array<int, kNodes> node_of;
  node_of.fill(-1);
  for (int n = 0; n < tree().size(); ++n) node_of[static_cast<size_t>(shape_of[static_cast<size_t>(n)])] = n;
  for (int place = 1; place < shape.size(); ++place) {
    int& node = node_of[static_cast<size_t>(place)];
    if (node >= 0) continue;
    const int parent = node_of[static_cast<size_t>(shape.parent(place))];
    int32_t token = 0;
    while (tree().FindChild(parent, token) >= 0) ++token;
    node = tree().Add(parent, token, shape.confidence(place));
    shape_of[static_cast<size_t>(node)] = place;
    ranks[static_cast<size_t>(node)] = static_cast<int8_t>(shape.token(place));
    classes[static_cast<size_t>(node)] = -1;
  }
}

// Of a sequence: what the draft has to read and where it may write; nothing where there are no pages.
std::optional<DraftGrowth> DraftModel::Begin(const DraftWish& wish, DraftProposal& proposal) {
  Sequence& sequence = *wish.sequence;
  State& state = StateFor(sequence);
  state.at = -1;
  state.written.clear();
  const int n_text = static_cast<int>(state.text.size());
  int n_computed = 0;
  if (map_.identical()) {
    n_computed = FoundInPages(sequence);
  } else {
    const auto differs =
        std::mismatch(state.text.begin(), state.text.end(), state.in_pages.begin(), state.in_pages.end());
    n_computed = static_cast<int>(differs.first - state.text.begin());
  }
  if (n_text < 1 || !PreparePages(sequence, state, n_text + wish.max_depth)) return std::nullopt;
  DraftGrowth growth;
  growth.wish = wish;
  growth.proposal = &proposal;
  growth.state = &state;
  growth.n_computed = std::min(n_computed, n_text - 1);
  growth.joint[0] = 1;
  growth.pages_left = own_pool_ == nullptr ? wish.max_pages : kOwnBranchPages;
  if (wish.by_rejection) {
    spec::ShapeTree(wish.max_nodes, wish.max_depth, wish.max_branches, 0,
                    [&](int depth, int rank) { return state.own_by_depth.Of(rank, DepthClass(depth)); }, growth.shape);
  }
  return growth;
}

// Reads `n_rows` of the text and nothing else.
void DraftModel::CatchUp(DraftGrowth& growth, int n_rows) {
  const std::span<const int32_t> text = growth.state->text;
  drafter_->Clear();
  drafter_->AddRows(text.subspan(static_cast<size_t>(growth.n_computed), static_cast<size_t>(n_rows)),
                    growth.n_computed, TableOf(*growth.wish.sequence, *growth.state), false);
  drafter_->Run();
  growth.n_computed += n_rows;
  if (!map_.identical()) growth.state->in_pages.assign(text.begin(), text.begin() + growth.n_computed);
  NotePages(*growth.wish.sequence, growth.n_computed);
}

// Logits of the draft as those of the target's tokens, with the request's transforms; no where they are of no use.
bool DraftModel::ReadLogits(const DraftGrowth& growth, std::span<float> logits) {
  if (!AllFinite(logits)) return false;
  map_.ScatterLogits(logits, target_logits_);
  if (!std::isfinite(*std::max_element(target_logits_.begin(), target_logits_.end()))) return false;
  TransformForDraft(*growth.wish.sequence, end_ids_, sampler_, target_logits_);
  return true;
}

// The tokens that most probably win the race behind a node become candidates.
void DraftModel::GrowByRace(DraftGrowth& growth, int node, int n_children) {
  const Sequence& sequence = *growth.wish.sequence;
  std::array<int32_t, spec::RankedAcceptance::kRanks> tokens;
  const auto out = std::span(tokens).first(static_cast<size_t>(n_children));
  const auto position = static_cast<uint64_t>(sequence.n_tokens() + growth.tree().depth(node));
  const int n = sequence.sampling.temperature <= 0
                    ? LargestLogits(target_logits_, out)
                    : spec::RaceLeaders(sampler_.Distribution(target_logits_, sequence.sampling),
                                        {sequence.sampling.seed, position, sequence.sampling.lane}, out);
  const DraftSureness sureness(target_logits_);
  for (int rank = 0; rank < n; ++rank) {
    const int32_t token = tokens[static_cast<size_t>(rank)];
    Candidate candidate = {node, token, static_cast<int8_t>(rank), sureness.ClassOf(token)};
    candidate.confidence = growth.state->own.Of(rank, candidate.a_class);
    candidate.joint = growth.joint[static_cast<size_t>(node)] * candidate.confidence;
    growth.candidates.push_back(candidate);
  }
}

// Fills the node's places of the shape with draws from the law.
void DraftModel::GrowByLaw(DraftGrowth& growth, int node) {
  const Sequence& sequence = *growth.wish.sequence;
  const int place = growth.shape_of[static_cast<size_t>(node)];
  std::array<int, spec::DraftTree::kMaxNodes> places;
  size_t n_places = 0;
  for (const int child : growth.shape.children(place)) places[n_places++] = child;
  const auto law = sampler_.Distribution(target_logits_, sequence.sampling);
  const auto position = static_cast<uint64_t>(sequence.n_tokens() + growth.tree().depth(node));
  std::array<int32_t, spec::DraftTree::kMaxNodes> tokens;
  const int n = spec::DraftWithoutReplacement(law, {sequence.sampling.seed, position, sequence.sampling.lane}, node,
                                              std::span(tokens).first(n_places));
  auto& laws = growth.proposal->laws;
  if (laws.size() <= static_cast<size_t>(node)) laws.resize(static_cast<size_t>(node) + 1);
  laws[static_cast<size_t>(node)].assign(law.begin(), law.end());
  for (int rank = 0; rank < n; ++rank) {
    const int child = places[static_cast<size_t>(rank)];
    growth.candidates.push_back({node, tokens[static_cast<size_t>(rank)], static_cast<int8_t>(rank), -1,
                                 growth.shape.confidence(child), 0});
  }
}

// The candidates of a level become nodes, and of these some the next frontier.
void DraftModel::AddCandidates(DraftGrowth& growth) {
  spec::DraftTree& tree = growth.tree();
  const int width = growth.wish.max_branches;
  const bool by_law = growth.wish.by_rejection;
  if (!by_law) {
    std::stable_sort(growth.candidates.begin(), growth.candidates.end(),
                     [](const Candidate& a, const Candidate& b) { return a.joint > b.joint; });
    const auto most = static_cast<size_t>(width == 1 ? 1 : kCandidatesPerNode * width);
    if (growth.candidates.size() > most) growth.candidates.resize(most);
  }
  growth.frontier.clear();
  for (const Candidate& candidate : growth.candidates) {
    if (tree.size() > growth.wish.max_nodes || tree.size() == spec::DraftTree::kMaxNodes) break;
    const int node = tree.Add(candidate.parent, candidate.token, candidate.confidence);
    const auto at = static_cast<size_t>(node);
    growth.joint[at] = candidate.joint;
    growth.ranks[at] = candidate.rank;
    growth.classes[at] = candidate.a_class;
    growth.own[at] = map_.identical() ? candidate.token : map_.ToDraft(candidate.token);
    bool goes_on = tree.depth(node) < growth.wish.max_depth && growth.own[at] >= 0 &&
                   candidate.joint >= growth.wish.floor && static_cast<int>(growth.frontier.size()) < width;
    if (by_law) {
      const auto places = growth.shape.children(growth.shape_of[static_cast<size_t>(candidate.parent)]);
      auto place = places.begin();
      for (int rank = 0; rank < candidate.rank; ++rank) ++place;
      growth.shape_of[at] = *place;
      goes_on &= !growth.shape.children(*place).empty();
    }
    const bool ends = std::find(end_ids_.begin(), end_ids_.end(), candidate.token) != end_ids_.end();
    if (goes_on && !ends) growth.frontier.push_back(node);
  }
  growth.candidates.clear();
}

// A row for a node of the frontier, in the pages of its parent or, where these have been taken on, in ones of its own.
bool DraftModel::AddNode(DraftGrowth& growth, int node) {
  if (drafter_->n_logit_rows() == drafter_->max_logit_rows() || drafter_->n_rows() == drafter_->max_rows()) {
    return false;
  }
  const auto own_pages = TableOf(*growth.wish.sequence, *growth.state);
  const int parent = growth.tree().parent(node), position = growth.n_text() - 1 + growth.tree().depth(node);
  int8_t table = growth.table[static_cast<size_t>(parent)];
  if ((growth.continued >> parent & 1) != 0) {
    const int n_tokens = std::max(position + 1, growth.n_text() + growth.wish.max_depth - 1);
    const int n_pages = kv::BranchTable::PagesFor(pages().layout(), position, n_tokens);
    if (n_pages > growth.pages_left) return false;
    const auto beside = growth.Pages(parent, own_pages);
    auto branch = kv::BranchTable::Make(pages(), beside, position, n_tokens,
                                        own_pool_ != nullptr || growth.wish.sequence->pages.zero_on_release());
    if (!branch.has_value()) return false;
    growth.pages_left -= n_pages;
    growth.branches.push_back(*std::move(branch));
    table = static_cast<int8_t>(growth.branches.size());
    const kv::BranchTable& made = growth.branches.back();
    if (position > made.first_copied()) {
      drafter_->AddCopy({beside, made.pages(), made.first_copied(), position - made.first_copied()});
    }
  }
  growth.continued |= uint64_t{1} << parent;
  growth.table[static_cast<size_t>(node)] = table;
  if (table == 0) growth.in_own_pages |= uint64_t{1} << node;
  drafter_->AddRows(std::span(growth.own).subspan(static_cast<size_t>(node), 1), position,
                    growth.Pages(node, own_pages), true);
  return true;
}

void DraftModel::AddFrontier(DraftGrowth& growth) {
  growth.first_logit_row = drafter_->n_logit_rows();
  std::erase_if(growth.frontier, [&](int node) { return !AddNode(growth, node); });
}

// What was computed is noted, and the proposal kept to be scored.
void DraftModel::Finish(DraftGrowth& growth) {
  State& state = *growth.state;
  Sequence& sequence = *growth.wish.sequence;
  DraftProposal& proposal = *growth.proposal;
  if (growth.wish.by_rejection) {
    growth.FillShape();
    proposal.kind = spec::ProposalKind::kWithoutReplacement;
    proposal.laws.resize(static_cast<size_t>(proposal.tree.size()));
  }
  if (map_.identical()) {
    NotePages(sequence, growth.n_text());
    const auto table = sequence.pages.pages();
    for (int index = growth.n_text() / pool_.layout().page_tokens; static_cast<size_t>(index) < table.size(); ++index) {
      const int32_t page = table[static_cast<size_t>(index)];
      state.written.push_back({index, page, pool_.Serial(page)});
    }
  } else {
    state.in_pages = state.text;
    for (int n = 1; n < proposal.tree.size(); ++n) {  // ancestors come first
      if ((growth.in_own_pages >> n & 1) != 0) state.in_pages.push_back(growth.own[static_cast<size_t>(n)]);
    }
  }
  state.tree = proposal.tree;
  state.ranks = growth.ranks;
  state.classes = growth.classes;
  state.in_own_pages = growth.in_own_pages;
  state.at = proposal.empty() ? -1 : 0;
}

void DraftModel::Draft(std::span<const DraftWish> wishes, std::span<DraftProposal* const> proposals) {
  std::vector<DraftGrowth> growths;
  growths.reserve(wishes.size());  // rows point into them
  int n_first_rows = 0;
  bool caught_up = false;
  for (size_t i = 0; i < wishes.size(); ++i) {
    auto growth = Begin(wishes[i], *proposals[i]);
    if (!growth) continue;
    const int behind = growth->n_text() - growth->n_computed;
    if (n_first_rows + behind <= drafter_->max_rows()) {
      n_first_rows += behind;
      growths.push_back(*std::move(growth));
      continue;
    }
    // One of them reads a part, so that the others do not wait long; it drafts in a later step.
    const int part = std::min(behind - 1, kMaxRows);
    if (caught_up || part < 1) continue;
    caught_up = true;
    CatchUp(*growth, part);
  }
  drafter_->Clear();
  for (DraftGrowth& growth : growths) {
    growth.frontier = {0};
    growth.first_logit_row = drafter_->n_logit_rows();
    drafter_->AddRows(std::span(growth.state->text).subspan(static_cast<size_t>(growth.n_computed)),
                      growth.n_computed, TableOf(*growth.wish.sequence, *growth.state), true);
  }
  while (drafter_->n_logit_rows() > 0) {
    const int n_rows = drafter_->n_rows();
    const int64_t start = Clock::Real().NowNanos();
    drafter_->Run();
    for (DraftGrowth& growth : growths) {
      for (size_t i = 0; i < growth.frontier.size(); ++i) {
        if (!ReadLogits(growth, drafter_->LogitsOf(growth.first_logit_row + static_cast<int>(i)))) continue;
        if (growth.wish.by_rejection) {
          GrowByLaw(growth, growth.frontier[i]);
        } else {
          GrowByRace(growth, growth.frontier[i],
                     std::min(growth.wish.max_branches, spec::RankedAcceptance::kRanks));
        }
      }
      AddCandidates(growth);
    }
    cost_.Observe(n_rows, Clock::Real().NowNanos() - start);
    drafter_->Clear();
    for (DraftGrowth& growth : growths) AddFrontier(growth);
  }
  for (DraftGrowth& growth : growths) Finish(growth);
}

}  // namespace surety::engine
