#include "spec/lookup_draft.h"

#include <algorithm>

namespace surety::spec {
namespace {

// With a longer match behind it, a proposal is not given up for another search while it holds.
constexpr int kSureLength = 8;
// How far another way on is followed: it is a shorter match's.
constexpr int kMaxAlternativeTokens = 8;

}  // namespace

RankedAcceptance LookupDraft::Prior() {
  return RankedAcceptance({0.08, 0.15, 0.25, 0.4, 0.5, 0.6, 0.75, 0.85});
}

int LookupDraft::ClassOf(int match_length) {
  constexpr int kUpTo[] = {2, 3, 4, 6, 8, 12, 20};  // the last class: more
  int a_class = 0;
  while (a_class < 7 && match_length > kUpTo[a_class]) ++a_class;
  return a_class;
}

void LookupDraft::Read(std::span<const int32_t> tokens) {
  index_.AppendBreak();
  for (const int32_t token : tokens) index_.Append(token);
}

void LookupDraft::Observe(int32_t token) {
  index_.Append(token);
  for (size_t i = 0; i < n_alternatives_; ++i) {
    const Alternative& other = alternatives_[i];
    const int rank = static_cast<int>(i) + 1;
    own_.Note(rank, ClassOf(other.match_length), other.token == token, kOwnTrialWeight);
    shared_.Note(rank, ClassOf(other.match_length), other.token == token, kSharedTrialWeight);
  }
  n_alternatives_ = 0;
  if (cursor_ >= proposal_.size()) return;
  const bool right = proposal_[cursor_] == token;
  const int a_class = ClassOf(match_length_);
  own_.Note(0, a_class, right, kOwnTrialWeight);
  shared_.Note(0, a_class, right, kSharedTrialWeight);
  if (right) {
    ++cursor_;
    ++match_length_;
  } else {
    cursor_ = proposal_.size();
  }
}

// A text that goes on where the match ends is taken as it is; where it ends itself, it is expected to repeat what lies
// between the match and its end.
void LookupDraft::Take(const MatchIndex& source, const MatchIndex::Match& match) {
  proposal_.clear();
  cursor_ = 0;
  match_length_ = match.length;
  from_elsewhere_ = &source != &index_;
  const auto rest = source.tokens().subspan(static_cast<size_t>(match.next));
  const auto end = std::find(rest.begin(), rest.end(), -1);  // a break between texts
  const bool repeats = end == rest.end() && &source == &index_;
  const auto n = static_cast<size_t>(end - rest.begin());
  for (size_t i = 0; i < kMaxProposal && (repeats || i < n); ++i) proposal_.push_back(rest[i % n]);
}

void LookupDraft::DropProposal() {
  std::fill(proposal_.begin(), proposal_.end(), 0);
  proposal_.clear();
  cursor_ = 0;
  match_length_ = 0;
  alternatives_.fill({});
  n_alternatives_ = 0;
}

void LookupDraft::FindAlternatives(const MatchIndex& source) {
  std::array<MatchIndex::Match, kMaxAlternatives + 1> matches;
  const int n = source.FindEach(index_.tokens(), matches);
  for (const MatchIndex::Match& match : std::span(matches).first(static_cast<size_t>(n))) {
    const int32_t token = source.tokens()[static_cast<size_t>(match.next)];
    const auto found = std::span(alternatives_).first(n_alternatives_);
    const bool is_known =
        std::any_of(found.begin(), found.end(), [&](const Alternative& other) { return other.token == token; });
    if (token == proposal_[cursor_] || is_known) continue;
    size_t at = std::min(n_alternatives_, static_cast<size_t>(kMaxAlternatives - 1));
    if (n_alternatives_ == kMaxAlternatives && alternatives_[at].match_length >= match.length) continue;
    n_alternatives_ = std::min(n_alternatives_ + 1, static_cast<size_t>(kMaxAlternatives));
    for (; at > 0 && alternatives_[at - 1].match_length < match.length; --at) alternatives_[at] = alternatives_[at - 1];
    alternatives_[at] = {token, match.length, &source, match.next};
  }
}

void LookupDraft::AddAlternative(const Alternative& alternative, const TreeLimits& limits, DraftTree& tree) const {
  const auto rest = alternative.source->tokens().subspan(static_cast<size_t>(alternative.next));
  const int rank = static_cast<int>(&alternative - alternatives_.data()) + 1;
  const int most = std::min(kMaxAlternativeTokens, limits.max_depth);
  for (int depth = 0, node = 0; depth < most && static_cast<size_t>(depth) < rest.size(); ++depth) {
    const int32_t token = rest[static_cast<size_t>(depth)];
    if (token < 0 || tree.size() > limits.max_nodes) return;  // a break between texts
    node = tree.Add(node, token, own_.Of(depth == 0 ? rank : 0, ClassOf(alternative.match_length + depth)));
    if (node == DraftTree::kFull) return;
  }
}

void LookupDraft::ProposeTree(const MatchIndex* elsewhere, const TreeLimits& limits, DraftTree& tree) {
  const auto proposal = Propose(elsewhere);
  n_alternatives_ = 0;
  others_from_elsewhere_ = false;
  if (proposal.empty() || limits.max_nodes < 1 || limits.max_depth < 1) return;
  const bool is_sure = match_length_ >= kSureLength;
  if (!is_sure && limits.max_branches > 1) {
    FindAlternatives(index_);
    if (elsewhere != nullptr) FindAlternatives(*elsewhere);
    n_alternatives_ = std::min(n_alternatives_, static_cast<size_t>(limits.max_branches - 1));
  }
  // The others' places are kept free, so that the policy sees them all.
  const int room = limits.max_nodes - static_cast<int>(n_alternatives_) * 2;
  const int most = std::min({limits.max_depth, std::max(room, 1), static_cast<int>(proposal.size())});
  for (int depth = 0, node = 0; depth < most && node != DraftTree::kFull; ++depth) {
    node = tree.Add(node, proposal[static_cast<size_t>(depth)], Acceptance(depth));
  }
  for (size_t i = 0; i < n_alternatives_; ++i) {
    AddAlternative(alternatives_[i], limits, tree);
    others_from_elsewhere_ |= alternatives_[i].source != &index_;
  }
}

std::span<const int32_t> LookupDraft::Propose(const MatchIndex* elsewhere) {
  if (cursor_ >= proposal_.size() || match_length_ < kSureLength) {
    MatchIndex::Match match = index_.Find(index_.tokens());
    const MatchIndex* source = &index_;
    if (elsewhere != nullptr) {
      const MatchIndex::Match other = elsewhere->Find(index_.tokens());
      if (other.length > match.length) {
        match = other;
        source = elsewhere;
      }
    }
    if (match.length > 0 && (cursor_ >= proposal_.size() || match.length > match_length_)) Take(*source, match);
  }
  return std::span(proposal_).subspan(std::min(cursor_, proposal_.size()));
}

}  // namespace surety::spec
