// How a head's trees grow: HeadDrafter::Draft and what it is made of.
#include <algorithm>
#include <cmath>
#include <limits>
#include <numeric>

#include "base/clock.h"
#include "engine/head_drafter.h"
#include "spec/coupling.h"

namespace surety::engine {
namespace {

using Node = HeadGrowth::Node;

constexpr size_t kMaxHeadChildren = 8;    // of a node
constexpr size_t kMaxHeadNodes = 1024;    // candidates of one tree
}  // namespace

// False where nothing can be drafted: no state of the last row, no pages.
bool HeadDrafter::Begin(const DraftWish& wish, DraftProposal& proposal, HeadGrowth& growth) {
  HeadState& state = StateFor(*wish.sequence);
  state.at = -1;
  const Sequence& sequence = *wish.sequence;
  const int n = sequence.n_tokens();
  if (state.kept.empty() || state.end() != n - 1) return false;
  const int depth = medusa_ != nullptr ? 0 : wish.max_depth;
  if (n + depth > context_tokens_ || (eagle_ != nullptr && n + depth > sequence.pages.capacity_tokens())) return false;
  growth.wish = wish;
  growth.proposal = &proposal;
  growth.state = &state;
  growth.pages_left = wish.max_pages;
  growth.nodes.emplace_back();
  growth.nodes[0].token = sequence.tokens.back();
  growth.frontier = {0};
  return true;
}

// Logits of the head as those of the target's tokens, with the request's transforms; no where they are of no use.
bool HeadDrafter::ReadLogits(const HeadGrowth& growth, int row) {
  const std::span<const float> logits(logits_.as<float>() + static_cast<size_t>(row) * vocab_, vocab_);
  if (!AllFinite(logits)) return false;
  const std::span<const int32_t> ids = target_.head()->target_ids();
  if (ids.empty()) {  // rows beyond the tokenizer's vocabulary are padding
    std::copy_n(logits.begin(), target_logits_.size(), target_logits_.begin());
  } else {
    std::fill(target_logits_.begin(), target_logits_.end(), -std::numeric_limits<float>::infinity());
    for (size_t i = 0; i < ids.size(); ++i) {
      if (static_cast<size_t>(ids[i]) < target_logits_.size()) target_logits_[static_cast<size_t>(ids[i])] = logits[i];
    }
  }
  TransformForDraft(*growth.wish.sequence, end_ids_, sampler_, target_logits_);
  return std::isfinite(*std::max_element(target_logits_.begin(), target_logits_.end()));
}

// The children of a node of this depth, from target_logits_.
void HeadDrafter::ChooseChildren(const HeadGrowth& growth, int depth) {
  const Sequence& sequence = *growth.wish.sequence;
  std::array<int32_t, kMaxHeadChildren> tokens;
  const auto wanted = std::min(static_cast<size_t>(growth.wish.max_branches), kMaxHeadChildren);
  const std::span<int32_t> out = std::span(tokens).first(wanted);
  const auto position = static_cast<uint64_t>(sequence.n_tokens() + depth);
  const int n = growth.wish.by_rejection || sequence.sampling.temperature <= 0
                    ? LargestLogits(target_logits_, out)
                    : spec::RaceLeaders(sampler_.Distribution(target_logits_, sequence.sampling),
                                        {sequence.sampling.seed, position, sequence.sampling.lane}, out);
  const DraftSureness sureness(target_logits_);
  children_.clear();
  for (const int32_t token : std::span(tokens).first(static_cast<size_t>(n))) {
    children_.push_back({token, sureness.ClassOf(token)});
  }
}

void HeadDrafter::AddChildren(HeadGrowth& growth, int parent) {
  for (size_t rank = 0; rank < children_.size() && growth.nodes.size() < kMaxHeadNodes; ++rank) {
    const Node& above = growth.nodes[static_cast<size_t>(parent)];
    Node node;
    node.parent = parent;
    node.depth = above.depth + 1;
    node.token = children_[rank].token;
    node.rank = static_cast<int8_t>(rank);
    node.a_class = children_[rank].a_class;
    node.confidence = growth.state->own.Of(static_cast<int>(rank), node.a_class);
    node.joint = above.joint * node.confidence;
    if (node.joint >= growth.wish.floor) growth.nodes.push_back(node);
  }
}

// The nodes of the new level that are gone on from: the likeliest that do not end the text.
void HeadDrafter::ChooseFrontier(HeadGrowth& growth, size_t first_new) {
  growth.frontier.clear();
  for (size_t i = first_new; i < growth.nodes.size(); ++i) {
    const Node& node = growth.nodes[i];
    const bool ends = std::find(end_ids_.begin(), end_ids_.end(), node.token) != end_ids_.end();
    if (!ends && node.depth < growth.wish.max_depth) growth.frontier.push_back(static_cast<int>(i));
  }
  std::stable_sort(growth.frontier.begin(), growth.frontier.end(), [&](int a, int b) {
    return growth.nodes[static_cast<size_t>(a)].joint > growth.nodes[static_cast<size_t>(b)].joint;
  });
  const auto width = static_cast<size_t>(growth.wish.max_branches);
  if (growth.frontier.size() > width) growth.frontier.resize(width);
}

// A row for a node of the frontier with its parent's state, in the pages of its parent or, where these have been taken
// on, in ones of its own.
bool HeadDrafter::AddNodeRow(HeadGrowth& growth, int index) {
  const Sequence& sequence = *growth.wish.sequence;
  if (static_cast<int>(logit_rows_.size()) == max_logit_rows_) return false;  // fewer than max_rows_
  Node& node = growth.nodes[static_cast<size_t>(index)];
  Node& parent = growth.nodes[static_cast<size_t>(node.parent)];
  const int position = sequence.n_tokens() - 1 + node.depth;
  const auto pages_of = [&](int table) {
    return table == 0 ? sequence.pages.pages() : growth.branches[static_cast<size_t>(table) - 1].pages();
  };
  node.table = parent.table;
  if (parent.is_continued) {
    const int n_tokens = std::max(position + 1, sequence.n_tokens() + growth.wish.max_depth - 1);
    const int n_pages = kv::BranchTable::PagesFor(pool_.layout(), position, n_tokens);
    if (n_pages > growth.pages_left || growth.branches.size() >= 100) return false;
    const auto beside = pages_of(parent.table);
    auto branch = kv::BranchTable::Make(pool_, beside, position, n_tokens, sequence.pages.zero_on_release());
    if (!branch.has_value()) return false;
    growth.pages_left -= n_pages;
    growth.branches.push_back(*std::move(branch));
    node.table = static_cast<int8_t>(growth.branches.size());
    const kv::BranchTable& made = growth.branches.back();
    if (position > made.first_copied()) {
      copies_.push_back({beside, made.pages(), made.first_copied(), position - made.first_copied()});
    }
  }
  parent.is_continued = true;
  rows_.push_back({static_cast<int>(ids_.size()), 1, position, pages_of(node.table), growth.first_visible});
  AddRow(node.token, eagle_->hidden().Row(parent.row), static_cast<size_t>(eagle_->state_dim(true)));
  positions_.push_back(position);
  logit_rows_.push_back(static_cast<int32_t>(ids_.size()) - 1);
  return true;
}

void HeadDrafter::DraftEagle(std::span<HeadGrowth> growths) {
  // What does not fit into one step with the others is read before it.
  int n_rows = 0;
  for (HeadGrowth& growth : growths) {
    const Sequence& sequence = *growth.wish.sequence;
    const int n_unread = sequence.n_tokens() - std::min(FirstUnread(sequence, *growth.state), sequence.n_tokens() - 1);
    if (n_rows + n_unread + static_cast<int>(growths.size()) > max_rows_) {
      Read(sequence, *growth.state, sequence.n_tokens() - 1);
      ++n_rows;
    } else {
      n_rows += n_unread;
    }
  }
  ClearRows();
  for (HeadGrowth& growth : growths) {
    const Sequence& sequence = *growth.wish.sequence;
    const int n = sequence.n_tokens(), first = std::min(FirstUnread(sequence, *growth.state), n - 1);
    AddSequence(sequence, *growth.state, first, n, true);
    growth.first_visible = rows_.back().first_visible;
    growth.nodes[0].row = static_cast<int>(ids_.size()) - 1;
  }
  bool own = false;
  while (!logit_rows_.empty()) {
    const int64_t start = Clock::Real().NowNanos();
    const int rows = static_cast<int>(ids_.size());
    RunHead(own);
    int logit_row = 0;
    for (HeadGrowth& growth : growths) {
      const Sequence& sequence = *growth.wish.sequence;
      if (!own) {
        const int n = sequence.n_tokens();
        cache_.NoteWritten(sequence.pages.pages(), rows_[static_cast<size_t>(&growth - growths.data())].first_position,
                           n);
      }
      const size_t first_new = growth.nodes.size();
      for (const int node : growth.frontier) {
        if (own) growth.nodes[static_cast<size_t>(node)].row = logit_row;
        if (!ReadLogits(growth, logit_row++)) continue;
        ChooseChildren(growth, growth.nodes[static_cast<size_t>(node)].depth);
        AddChildren(growth, node);
      }
      ChooseFrontier(growth, first_new);
    }
    cost_.Observe(rows, Clock::Real().NowNanos() - start);
    ClearRows();
    for (HeadGrowth& growth : growths) {
      std::erase_if(growth.frontier, [&](int node) { return !AddNodeRow(growth, node); });
    }
    own = true;
  }
}

void HeadDrafter::DraftMedusa(std::span<HeadGrowth> growths) {
  const auto n = static_cast<int64_t>(growths.size());
  states_.clear();
  for (const HeadGrowth& growth : growths) {
    const float* last = growth.state->kept.Last();
    states_.insert(states_.end(), last, last + state_floats_);
  }
  const auto is_going_on = [](const HeadGrowth& growth) { return !growth.frontier.empty(); };
  for (int head = 0; head < medusa_->n_heads() && std::any_of(growths.begin(), growths.end(), is_going_on); ++head) {
    const int64_t start = Clock::Real().NowNanos();
    medusa_->Forward(head, ConstMatrixF(states_.data(), n, static_cast<int64_t>(state_floats_)),
                     MatrixF(logits_.as<float>(), n, static_cast<int64_t>(vocab_)));
    for (size_t i = 0; i < growths.size(); ++i) {
      HeadGrowth& growth = growths[i];
      const size_t first_new = growth.nodes.size();
      if (!growth.frontier.empty() && ReadLogits(growth, static_cast<int>(i))) {
        ChooseChildren(growth, head);
        for (const int node : growth.frontier) AddChildren(growth, node);
      }
      ChooseFrontier(growth, first_new);
    }
    cost_.Observe(static_cast<int>(n), Clock::Real().NowNanos() - start);
  }
}

// Of all candidates those that are reached most probably are proposed. A parent is never less probable than its child
// and comes before it, so that they are a tree.
void HeadDrafter::Finish(HeadGrowth& growth) {
  DraftProposal& proposal = *growth.proposal;
  std::vector<int> order(growth.nodes.size() - 1);
  std::iota(order.begin(), order.end(), 1);
  std::stable_sort(order.begin(), order.end(), [&](int a, int b) {
    return growth.nodes[static_cast<size_t>(a)].joint > growth.nodes[static_cast<size_t>(b)].joint;
  });
  const auto most = static_cast<size_t>(std::min(growth.wish.max_nodes, spec::DraftTree::kMaxNodes - 1));
  if (order.size() > most) order.resize(most);
  std::sort(order.begin(), order.end());
  std::vector<int> placed(growth.nodes.size(), -1);
  placed[0] = 0;
  HeadState& state = *growth.state;
  for (const int i : order) {
    const Node& node = growth.nodes[static_cast<size_t>(i)];
    const int n = proposal.tree.Add(placed[static_cast<size_t>(node.parent)], node.token, node.confidence);
    placed[static_cast<size_t>(i)] = n;
    state.ranks[static_cast<size_t>(n)] = node.rank;
    state.classes[static_cast<size_t>(n)] = node.a_class;
  }
  proposal.is_blind = growth.wish.by_rejection;
  state.Trim(1);  // they are read; the last one is read again with the next, for what it says
  state.tree = proposal.tree;
  state.at = proposal.empty() ? -1 : 0;
}

void HeadDrafter::Draft(std::span<const DraftWish> wishes, std::span<DraftProposal* const> proposals) {
  was_asked_ = true;
  std::vector<HeadGrowth> growths;
  growths.reserve(wishes.size());  // rows point into them
  for (size_t i = 0; i < wishes.size(); ++i) {
    HeadGrowth growth;
    if (static_cast<int>(growths.size()) == max_logit_rows_) break;
    if (Begin(wishes[i], *proposals[i], growth)) growths.push_back(std::move(growth));
  }
  if (growths.empty()) return;
  if (medusa_ != nullptr) {
    DraftMedusa(growths);
  } else {
    DraftEagle(growths);
  }
  for (HeadGrowth& growth : growths) Finish(growth);
}

}  // namespace surety::engine
