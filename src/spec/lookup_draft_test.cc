// Lookup drafts against a search of all earlier places, and their scores against the definition of a fading average.
#include "spec/lookup_draft.h"

#include <algorithm>
#include <array>

#include <gtest/gtest.h>

#include "base/random.h"

namespace surety::spec {
namespace {

using Tokens = std::vector<int32_t>;

Tokens ProposalOf(LookupDraft& draft, const MatchIndex* elsewhere = nullptr) {
  const auto proposal = draft.Propose(elsewhere);
  return {proposal.begin(), proposal.end()};
}

// The proposal goes on as one of `texts` does after an earlier place where its last two tokens stand; at the end of the
// text it repeats from there (`repeats`).
bool IsAContinuation(const Tokens& text, const Tokens& source, bool repeats, const Tokens& proposal) {
  for (size_t place = 2; text.size() >= 2 && place < source.size(); ++place) {
    if (source[place - 1] != text.back() || source[place - 2] != text[text.size() - 2]) continue;
    size_t n_same = 0;
    const size_t period = source.size() - place;
    while (n_same < proposal.size() && (n_same < period || repeats) &&
           proposal[n_same] == source[place + n_same % period]) {
      ++n_same;
    }
    if (n_same == proposal.size()) return true;
  }
  return false;
}

TEST(LookupDraftTest, ATextThatRepeatsIsExpectedToGoOnRepeating) {
  for (int period = 1; period <= 20; ++period) {
    RankedAcceptance shared = LookupDraft::Prior();
    LookupDraft draft(shared);
    Tokens text;
    for (int i = 0; i < 2 * period + 4; ++i) text.push_back(100 + i % period);
    draft.Read(text);
    const Tokens proposal = ProposalOf(draft);
    ASSERT_EQ(proposal.size(), size_t{LookupDraft::kMaxProposal});
    for (size_t i = 0; i < proposal.size(); ++i) {
      ASSERT_EQ(proposal[i], 100 + static_cast<int32_t>(text.size() + i) % period) << period;
    }
  }
}

TEST(LookupDraftTest, EachProposalContinuesAnEarlierPlaceOfTheSameText) {
  int n_proposals = 0, n_right = 0, n_wrong = 0;
  for (uint64_t seed = 0; seed < 200; ++seed) {
    uint64_t n = 0;
    const auto below = [&](int most) {
      return static_cast<int32_t>(RandomBits({seed, n++, RandomPurpose::kTest}) % static_cast<uint64_t>(most));
    };
    RankedAcceptance shared = LookupDraft::Prior();
    LookupDraft draft(shared);
    const int alphabet = 2 + below(10);
    Tokens prediction, text;
    for (int i = below(40); i > 0; --i) prediction.push_back(below(alphabet));
    for (int i = 1 + below(40); i > 0; --i) text.push_back(below(alphabet));
    draft.Read(prediction);
    draft.Read(text);
    int32_t expected = -1;
    for (int i = 0; i < 60; ++i) {
      const Tokens proposal = ProposalOf(draft);
      ASSERT_LE(proposal.size(), size_t{LookupDraft::kMaxProposal});
      ASSERT_EQ(std::count_if(proposal.begin(), proposal.end(), [](int32_t t) { return t < 0; }), 0);
      if (!proposal.empty()) {
        ++n_proposals;
        expected = proposal[0];
      }
      // A proposal that still holds may have been made earlier, for a shorter text; its source is as good as then.
      const size_t n_before = std::min<size_t>(text.size() - 1, LookupDraft::kMaxProposal);
      bool found = proposal.empty();
      for (size_t back = 0; back <= n_before && !found; ++back) {
        const Tokens then(text.begin(), text.end() - static_cast<int64_t>(back));
        Tokens whole(text.end() - static_cast<int64_t>(back), text.end());
        whole.insert(whole.end(), proposal.begin(), proposal.end());
        found = IsAContinuation(then, then, true, whole) || IsAContinuation(then, prediction, false, whole);
      }
      ASSERT_TRUE(found) << "seed " << seed << ", token " << i;
      // Tokens come as proposed, mostly.
      const int32_t token = expected >= 0 && below(4) > 0 ? expected : below(alphabet);
      if (!proposal.empty()) ++(token == proposal[0] ? n_right : n_wrong);
      draft.Observe(token);
      text.push_back(token);
      // What is right goes on; what is wrong is not proposed a moment longer.
      const Tokens next = ProposalOf(draft);
      if (proposal.size() > 1 && token == proposal[0]) {
        ASSERT_FALSE(next.empty());
      }
      expected = -1;
    }
  }
  EXPECT_GT(n_proposals, 5000);
  EXPECT_GT(n_right, 3000);
  EXPECT_GT(n_wrong, 1000);
}

TEST(LookupDraftTest, AnotherTextIsTakenWhereItsMatchIsLonger) {
  MatchIndex elsewhere;
  for (const int32_t token : {1, 2, 3, 4, 50, 51}) elsewhere.Append(token);
  RankedAcceptance shared = LookupDraft::Prior();
  LookupDraft own(shared);
  own.Read(Tokens{3, 4, 60, 61, 1, 2, 3, 4});
  EXPECT_EQ(ProposalOf(own, &elsewhere), (Tokens{50, 51}));  // four tokens agree there, two here
  EXPECT_EQ(ProposalOf(own), (Tokens{50, 51}));              // it holds until something longer is found
  LookupDraft equal(shared);
  equal.Read(Tokens{2, 3, 4, 60, 61, 9, 2, 3, 4});
  MatchIndex as_long;
  for (const int32_t token : {7, 2, 3, 4, 50, 51}) as_long.Append(token);
  EXPECT_EQ(ProposalOf(equal, &as_long)[0], 60);             // of equals its own
  LookupDraft nothing(shared);
  nothing.Read(Tokens{7, 8, 9});
  EXPECT_TRUE(ProposalOf(nothing, &as_long).empty());
}

TEST(LookupDraftTest, ProposalsFromAnotherTextEndWithIt) {
  MatchIndex elsewhere;
  for (const int32_t token : {1, 2, 3}) elsewhere.Append(token);
  elsewhere.AppendBreak();
  for (const int32_t token : {70, 71}) elsewhere.Append(token);
  RankedAcceptance shared = LookupDraft::Prior();
  LookupDraft draft(shared);
  draft.Read(Tokens{1, 2});
  EXPECT_EQ(ProposalOf(draft, &elsewhere), Tokens{3});
  draft.DropProposal();
  EXPECT_TRUE(ProposalOf(draft).empty());
}

TEST(LookupDraftTest, ASureProposalIsKeptAndAnUnsureOneGivesWayToALongerMatch) {
  RankedAcceptance shared = LookupDraft::Prior();
  LookupDraft draft(shared);
  Tokens text;
  for (int32_t i = 0; i < 30; ++i) text.push_back(i);
  text.insert(text.end(), {5, 6});
  draft.Read(text);
  EXPECT_EQ(ProposalOf(draft)[0], 7);
  MatchIndex longer;
  for (const int32_t token : {29, 5, 6, 7, 90}) longer.Append(token);
  draft.Observe(7);
  EXPECT_EQ(ProposalOf(draft, &longer)[0], 90);  // 29 5 6 7 against 5 6 7
  draft.Observe(8);
  EXPECT_EQ(ProposalOf(draft)[0], 9);
}

// The scores by the text alone: which length stood behind each proposed token, whether it was right, and a fading
// average by the definition, in exact arithmetic of weights.
TEST(LookupDraftTest, ScoresAreFadingAveragesOfWhatCame) {
  RankedAcceptance shared = LookupDraft::Prior();
  std::array<double, 8> own;
  for (size_t i = 0; i < 8; ++i) own[i] = shared.Of(0, static_cast<int>(i));
  ASSERT_TRUE(std::is_sorted(own.begin(), own.end()) && own[0] > 0 && own[7] < 1);  // longer matches are surer
  std::array<double, 8> all = own;
  LookupDraft draft(shared);
  Tokens text;
  for (int32_t i = 0; i < 40; ++i) text.push_back(i);
  text.insert(text.end(), {10, 11});
  draft.Read(text);
  const auto class_of = [](int length) -> size_t {
    return length <= 2 ? 0 : length == 3 ? 1 : length == 4 ? 2 : length <= 6 ? 3 : length <= 8 ? 4 : length <= 12 ? 5
           : length <= 20 ? 6 : 7;
  };
  int length = 2;
  for (int32_t token = 12; token < 36; ++token) {
    ASSERT_EQ(ProposalOf(draft)[0], token);
    for (int depth = 0; depth < 30; ++depth) {
      ASSERT_NEAR(draft.Acceptance(depth), own[class_of(length + depth)], 1e-12);
    }
    const bool right = token != 35;
    draft.Observe(right ? token : 1000);
    double& own_value = own[class_of(length)];
    double& all_value = all[class_of(length)];
    own_value = own_value * 7 / 8 + (right ? 0.125 : 0);
    all_value = all_value * 63 / 64 + (right ? 1.0 / 64 : 0);
    ++length;
  }
  for (size_t i = 0; i < 8; ++i) EXPECT_NEAR(shared.Of(0, static_cast<int>(i)), all[i], 1e-12);
  // A sequence that begins now believes what all have seen, and nothing changes while nothing is proposed.
  LookupDraft later(shared);
  later.Read(Tokens{1, 2, 3});
  EXPECT_TRUE(ProposalOf(later).empty());
  later.Observe(4);
  EXPECT_NEAR(later.Acceptance(50), all[7], 1e-12);
}

TEST(LookupDraftTest, PlacesThatWentOnDifferentlyBecomeBranches) {
  RankedAcceptance shared = LookupDraft::Prior();
  LookupDraft draft(shared);
  //                  three agree here         two here        and two here, earlier
  draft.Read(Tokens{1, 2, 70, 71, 0, 9, 1, 2, 60, 61, 62, 8, 1, 2, 50, 51, 5, 9, 1, 2});
  MatchIndex elsewhere;
  for (const int32_t token : {9, 9, 1, 2, 40, 41}) elsewhere.Append(token);
  DraftTree tree(2);
  draft.ProposeTree(&elsewhere, {40, 6, 4}, tree);
  // The main proposal is the longest match's; the others follow by the length of theirs.
  std::vector<int32_t> first;
  for (const int child : tree.children(0)) first.push_back(tree.token(child));
  EXPECT_EQ(first, (Tokens{60, 40, 50, 70}));
  EXPECT_TRUE(draft.from_elsewhere());
  const int main = tree.FindChild(0, 60), other = tree.FindChild(0, 50);
  EXPECT_EQ(tree.token(*tree.children(main).begin()), 61);
  EXPECT_EQ(tree.token(*tree.children(other).begin()), 51);
  EXPECT_LT(tree.confidence(other), tree.confidence(main));
  // What a branch holds is learned by its rank: the second alternative was right.
  const double before = shared.Of(2, LookupDraft::ClassOf(2)), first_before = shared.Of(0, LookupDraft::ClassOf(3));
  draft.Observe(50);
  EXPECT_NEAR(shared.Of(2, LookupDraft::ClassOf(2)), before * 63 / 64 + 1.0 / 64, 1e-12);
  EXPECT_NEAR(shared.Of(0, LookupDraft::ClassOf(3)), first_before * 63 / 64, 1e-12);
  // Chains alone, and few nodes.
  DraftTree chain(2);
  LookupDraft again(shared);
  again.Read(Tokens{1, 2, 70, 71, 0, 9, 1, 2, 60, 61, 62, 8, 1, 2});
  again.ProposeTree(nullptr, {40, 6, 1}, chain);
  EXPECT_TRUE(chain.IsChain());
  EXPECT_EQ(chain.size(), 7);
  DraftTree small(2);
  again.ProposeTree(nullptr, {3, 6, 4}, small);
  EXPECT_LE(small.size(), 4);
}

TEST(LookupDraftTest, ALongMatchHasNoAlternatives) {
  RankedAcceptance shared = LookupDraft::Prior();
  LookupDraft draft(shared);
  Tokens text;
  for (int32_t i = 0; i < 12; ++i) text.push_back(i);
  text.push_back(50);
  text.insert(text.end(), {10, 11, 60, 7});
  for (int32_t i = 0; i < 12; ++i) text.push_back(i);
  draft.Read(text);
  DraftTree tree(11);
  draft.ProposeTree(nullptr, {40, 4, 4}, tree);
  EXPECT_TRUE(tree.IsChain());
  EXPECT_EQ(tree.token(1), 50);
}

}  // namespace
}  // namespace surety::spec
