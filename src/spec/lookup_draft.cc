#include "spec/lookup_draft.h"

#include <algorithm>

namespace surety::spec {
namespace {

// With a longer match behind it, a proposal is not given up for another search while it holds.
constexpr int kSureLength = 8;

}  // namespace

AcceptanceTable LookupDraft::Prior() {
  return AcceptanceTable({0.08, 0.15, 0.25, 0.4, 0.5, 0.6, 0.75, 0.85});
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
  if (cursor_ >= proposal_.size()) return;
  const bool right = proposal_[cursor_] == token;
  const int a_class = ClassOf(match_length_);
  own_.Note(a_class, right, kOwnTrialWeight);
  shared_.Note(a_class, right, kSharedTrialWeight);
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
