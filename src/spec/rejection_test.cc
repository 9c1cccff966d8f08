// The rejection rules by exact enumeration: the law of what comes out, over all drafts and all outcomes of the tests,
// against the target's law. The functions that are enumerated are those that the verifier runs.
#include "spec/rejection.h"

#include <algorithm>
#include <cmath>
#include <cstdio>

#include <gtest/gtest.h>

#include "spec/testing/laws.h"
#include "spec/typical.h"

namespace surety::spec {
namespace {

using testing::Entries;
using testing::Language;
using testing::LanguageShape;

constexpr double kExact = 1e-12;
constexpr double kVisible = 0.05;  // what a wrong rule must differ by somewhere

struct DrawnList {
  std::vector<int32_t> tokens;
  double probability = 1;
};

// All lists of k trials with their probabilities, from the definition of the kind.
std::vector<DrawnList> AllDraws(Law q, ProposalKind kind, int k) {
  if (kind == ProposalKind::kOneHot) {
    Entries order(q.begin(), q.end());
    std::sort(order.begin(), order.end(), [](auto& a, auto& b) { return a.second > b.second; });
    DrawnList chosen;
    for (size_t i = 0; i < order.size() && i < static_cast<size_t>(k); ++i) chosen.tokens.push_back(order[i].first);
    return {chosen};
  }
  std::vector<DrawnList> lists(1);
  for (int i = 0; i < k; ++i) {
    std::vector<DrawnList> longer;
    for (const DrawnList& list : lists) {
      const auto is_left = [&](int32_t token) {
        return kind == ProposalKind::kIndependent || std::ranges::find(list.tokens, token) == list.tokens.end();
      };
      double left = 0;
      for (const auto& [token, probability] : q) left += is_left(token) ? probability : 0;
      if (left == 0) longer.push_back(list);
      for (const auto& [token, probability] : q) {
        if (probability == 0 || !is_left(token)) continue;
        longer.push_back({list.tokens, list.probability * probability / left});
        longer.back().tokens.push_back(token);
      }
    }
    lists = std::move(longer);
  }
  return lists;
}

// By token: accepted as a trial, or drawn at the end.
struct NodeOutcome {
  std::vector<double> accepted, drawn;

  std::vector<double> Sum() const {
    std::vector<double> sum = accepted;
    for (size_t i = 0; i < sum.size(); ++i) sum[i] += drawn[i];
    return sum;
  }
};

void AddDrawn(NodeOutcome& outcome, Law law, double weight) {
  double mass = 0;
  for (const auto& entry : law) mass += entry.second;
  for (const auto& [token, value] : law) outcome.drawn[static_cast<size_t>(token)] += weight * value / mass;
}

NodeOutcome EnumerateNode(Law p, Law q, ProposalKind declared, const std::vector<DrawnList>& lists, int vocab) {
  const std::vector<double> zeros(static_cast<size_t>(vocab));
  NodeOutcome outcome = {zeros, zeros};
  Remainder remainder(vocab);
  for (const DrawnList& list : lists) {
    remainder.Begin(p, declared, q);
    double reach = list.probability;
    for (const int32_t token : list.tokens) {
      const double accept = AcceptProbability(remainder.OddsOf(token));
      outcome.accepted[static_cast<size_t>(token)] += reach * accept;
      reach *= 1 - accept;
      remainder.Reject(token);
    }
    AddDrawn(outcome, remainder.law(), reach);
  }
  return outcome;
}

// A tree whose nodes above depth `levels` have k trials; the law of contexts of 1 to levels + 1 tokens at which the
// walk ends. The trials below a node are drawn whatever happened above it, so the walk below it may be enumerated by
// itself.
void EnumerateTree(const Language& language, ProposalKind kind, int k, int levels, uint32_t context, double weight,
                   std::vector<double>& ends) {
  const Entries& p = language.p(context);
  const Entries& q = language.q(context);
  const int vocab = language.shape().vocab;
  const auto lists = levels == 0 ? std::vector<DrawnList>(1) : AllDraws(q, kind, k);
  const NodeOutcome outcome = EnumerateNode(p, q, kind, lists, vocab);
  for (int32_t token = 0; token < vocab; ++token) {
    const auto i = static_cast<size_t>(token);
    const uint32_t next = Language::Next(context, token);
    ends[next] += weight * outcome.drawn[i];
    if (outcome.accepted[i] > 0) {
      EnumerateTree(language, kind, k, levels - 1, next, weight * outcome.accepted[i], ends);
    }
  }
}

// Chains without that short cut: each whole draft, with its probability, is walked from the start.
void EnumerateChains(const Language& language, ProposalKind kind, int levels, std::vector<int32_t>& draft,
                     double probability, std::vector<double>& ends) {
  uint32_t context = 0;
  if (static_cast<int>(draft.size()) < levels) {
    for (const int32_t token : draft) context = Language::Next(context, token);
    for (const DrawnList& list : AllDraws(language.q(context), kind, 1)) {
      draft.push_back(list.tokens[0]);
      EnumerateChains(language, kind, levels, draft, probability * list.probability, ends);
      draft.pop_back();
    }
    return;
  }
  Remainder remainder(language.shape().vocab);
  double reach = probability;
  for (const int32_t token : draft) {
    remainder.Begin(language.p(context), kind, language.q(context));
    const double accept = AcceptProbability(remainder.OddsOf(token));
    remainder.Reject(token);
    for (const auto& [drawn, value] : remainder.law()) {
      ends[Language::Next(context, drawn)] += reach * (1 - accept) * value / remainder.mass();
    }
    reach *= accept;
    context = Language::Next(context, token);
  }
  for (const auto& [token, value] : language.p(context)) ends[Language::Next(context, token)] += reach * value;
}

// Five forms of language in turn: mild, peaked with zeros, zeros, greedy, q next to p.
LanguageShape ShapeOf(int i, int length) {
  LanguageShape shape = {.vocab = 3 + i / 5 % 4, .length = length};
  switch (i % 5) {
    case 0: shape.spread = 1.5; break;
    case 1: shape.spread = 8, shape.zero_share = 0.2; break;
    case 2: shape.zero_share = 0.5; break;
    case 3: shape.greedy = true; break;
    default: shape.nearness = std::pow(10.0, -3 - i / 5 % 12); break;
  }
  return shape;
}

constexpr ProposalKind kAllKinds[] = {ProposalKind::kIndependent, ProposalKind::kWithoutReplacement,
                                      ProposalKind::kOneHot};

TEST(RejectionExactTest, ChainsHaveTheTargetsJointLaw) {
  double worst = 0;
  for (int i = 0; i < 400; ++i) {
    for (const ProposalKind kind : kAllKinds) {
      const int levels = 1 + i % 3;
      const Language language(ShapeOf(i, levels + 1), static_cast<uint64_t>(i));
      std::vector<double> ends = language.Nothing();
      std::vector<int32_t> draft;
      EnumerateChains(language, kind, levels, draft, 1.0, ends);
      worst = std::max(worst, testing::TotalVariation(language.Complete(ends), language.Truth()));
    }
  }
  printf("largest total variation over 1200 chains: %.1e\n", worst);
  EXPECT_LT(worst, kExact);
}

class RejectionExactTreeTest : public ::testing::TestWithParam<ProposalKind> {};

TEST_P(RejectionExactTreeTest, TreesHaveTheTargetsJointLaw) {
  double worst = 0;
  for (int i = 0; i < 300; ++i) {
    const int levels = 1 + i % 2, k = 2 + i / 2 % 2;
    const Language language(ShapeOf(i, levels + 1), 1000 + static_cast<uint64_t>(i));
    std::vector<double> ends = language.Nothing();
    EnumerateTree(language, GetParam(), k, levels, 0, 1.0, ends);
    worst = std::max(worst, testing::TotalVariation(language.Complete(ends), language.Truth()));
  }
  printf("largest total variation over 300 trees: %.1e\n", worst);
  EXPECT_LT(worst, kExact);
}

INSTANTIATE_TEST_SUITE_P(Kinds, RejectionExactTreeTest, ::testing::ValuesIn(kAllKinds), [](const auto& info) {
  return info.param == ProposalKind::kOneHot        ? "OneHot"
         : info.param == ProposalKind::kIndependent ? "Independent"
                                                    : "WithoutReplacement";
});

TEST(RejectionExactTest, ASmallResidualIsUsedAndNotReplacedByTheTarget) {
  // q is p but for 4e-7 moved from one token to another: drawing from p after a rejection would be off by 2e-7.
  const Entries p = {{0, 0.5}, {1, 0.3}, {2, 0.2}};
  const Entries q = {{0, 0.5}, {1, 0.3 + 4e-7}, {2, 0.2 - 4e-7}};
  const auto lists = AllDraws(q, ProposalKind::kIndependent, 1);
  const NodeOutcome outcome = EnumerateNode(p, q, ProposalKind::kIndependent, lists, 3);
  const auto truth = testing::Dense(p, 3);
  EXPECT_LT(testing::TotalVariation(outcome.Sum(), truth), 1e-15);
  NodeOutcome shifted = {outcome.accepted, std::vector<double>(3)};
  AddDrawn(shifted, p, outcome.drawn[0] + outcome.drawn[1] + outcome.drawn[2]);
  EXPECT_GT(testing::TotalVariation(shifted.Sum(), truth), 1e-7);
}

TEST(RejectionExactTest, APeakedDraftWithoutReplacementKeepsItsTailExact) {
  // What is left after the first draw is 3e-13 of the mass: 1 less the drawn would keep three digits of it.
  const Entries q = {{0, 1 - 3e-13}, {1, 1e-13}, {2, 2e-13}};
  const Entries p = {{0, 0.2}, {1, 0.5}, {2, 0.3}};
  const auto lists = AllDraws(q, ProposalKind::kWithoutReplacement, 3);
  const auto law = EnumerateNode(p, q, ProposalKind::kWithoutReplacement, lists, 3).Sum();
  EXPECT_LT(testing::TotalVariation(law, testing::Dense(p, 3)), 1e-14);
}

TEST(RejectionTest, ATokenOfTargetProbabilityZeroIsNeverAccepted) {
  constexpr double kLeast = 0x1.0p-53;
  EXPECT_FALSE(Accepts({.target = 0, .draft = 1}, kLeast));
  EXPECT_FALSE(Accepts({.target = 0, .draft = 5e-324}, kLeast));
  EXPECT_TRUE(Accepts({.target = 1, .draft = 1}, 1 - kLeast));
  EXPECT_EQ(AcceptProbability({.target = 0, .draft = 0.5}), 0.0);
  EXPECT_EQ(AcceptProbability({.target = 0.25, .draft = 0.5}), 0.5);
  EXPECT_EQ(AcceptProbability({.target = 0.75, .draft = 0.5}), 1.0);
}

TEST(RejectionTest, WhereNothingIsLeftTheLawStaysAsItWas) {
  const Entries p = {{3, 0.5}, {1, 0.5}};
  Remainder remainder(4);
  remainder.Begin(p, ProposalKind::kIndependent, p);
  remainder.Reject(3);
  remainder.Reject(1);
  EXPECT_EQ(Entries(remainder.law().begin(), remainder.law().end()), p);
}

TEST(RejectionDeathTest, ATrialThatItsLawCannotGiveIsABug) {
  const Entries p = {{0, 0.5}, {1, 0.5}}, q = {{0, 1.0}};
  Remainder remainder(2);
  remainder.Begin(p, ProposalKind::kIndependent, q);
  EXPECT_DEATH(remainder.OddsOf(1), "its own law cannot give");
  remainder.Begin(p, ProposalKind::kWithoutReplacement, p);
  remainder.Reject(0);
  EXPECT_DEATH(remainder.OddsOf(0), "its own law cannot give");
}

// Rules that pass a casual look. If the enumeration could not tell them from right ones, it would prove nothing.
class WrongRuleTest : public ::testing::Test {
 protected:
  static constexpr int kVocab = 6;

  // The largest total variation that a rule reaches over 300 pairs.
  template <typename Rule>
  static double Worst(double zero_share, Rule rule) {
    double worst = 0;
    for (uint64_t i = 0; i < 300; ++i) {
      const Entries p = testing::RandomLaw(kVocab, 77, 2 * i, 3, zero_share);
      const Entries q = testing::RandomLaw(kVocab, 77, 2 * i + 1, 3, 0);
      worst = std::max(worst, testing::TotalVariation(rule(p, q).Sum(), testing::Dense(p, kVocab)));
    }
    printf("largest total variation over 300 nodes: %.1e\n", worst);
    return worst;
  }

  static NodeOutcome Empty() { return {std::vector<double>(kVocab), std::vector<double>(kVocab)}; }

  // One trial from q that is left out where `skip` says so, with the token drawn from p instead.
  template <typename Skip>
  static NodeOutcome OneTrialOrTarget(Law p, Law q, Skip skip) {
    std::vector<DrawnList> kept;
    double skipped = 0;
    for (const DrawnList& list : AllDraws(q, ProposalKind::kIndependent, 1)) {
      if (skip(list.tokens[0])) {
        skipped += list.probability;
      } else {
        kept.push_back(list);
      }
    }
    NodeOutcome outcome = EnumerateNode(p, q, ProposalKind::kIndependent, kept, kVocab);
    AddDrawn(outcome, p, skipped);
    return outcome;
  }
};

TEST_F(WrongRuleTest, TheRightOnesPassOnTheSameLaws) {
  for (const ProposalKind kind : kAllKinds) {
    const double worst =
        Worst(0, [&](Law p, Law q) { return EnumerateNode(p, q, kind, AllDraws(q, kind, 3), kVocab); });
    EXPECT_LT(worst, kExact);
  }
}

TEST_F(WrongRuleTest, RepeatsMergedIntoOneTrialAreSeen) {
  EXPECT_GT(Worst(0, [](Law p, Law q) {
    auto lists = AllDraws(q, ProposalKind::kIndependent, 3);
    for (DrawnList& list : lists) {
      std::vector<int32_t> distinct;
      for (const int32_t token : list.tokens) {
        if (std::ranges::find(distinct, token) == distinct.end()) distinct.push_back(token);
      }
      list.tokens = distinct;
    }
    return EnumerateNode(p, q, ProposalKind::kIndependent, lists, kVocab);
  }), kVisible);
}

TEST_F(WrongRuleTest, TheOriginalLawOfDrawsWithoutReplacementIsSeen) {
  EXPECT_GT(Worst(0, [](Law p, Law q) {
    return EnumerateNode(p, q, ProposalKind::kIndependent, AllDraws(q, ProposalKind::kWithoutReplacement, 3), kVocab);
  }), kVisible);
}

TEST_F(WrongRuleTest, TheSoftmaxValueOfChosenTokensIsSeen) {
  EXPECT_GT(Worst(0, [](Law p, Law q) {
    return EnumerateNode(p, q, ProposalKind::kIndependent, AllDraws(q, ProposalKind::kOneHot, 3), kVocab);
  }), kVisible);
}

TEST_F(WrongRuleTest, TypicalAcceptanceIsSeen) {
  EXPECT_GT(Worst(0, [](Law p, Law q) {
    const int32_t token = AllDraws(q, ProposalKind::kOneHot, 1)[0].tokens[0];
    NodeOutcome outcome = Empty();
    const bool accepted = LossyTypicalAccepts(p, token);
    outcome.accepted[static_cast<size_t>(token)] = accepted;
    AddDrawn(outcome, p, accepted ? 0.0 : 1.0);
    return outcome;
  }), kVisible);
}

TEST_F(WrongRuleTest, DroppingDraftsThatTheirOwnLawHoldsForUnlikelyIsSeen) {
  EXPECT_GT(Worst(0, [](Law p, Law q) {
    return OneTrialOrTarget(p, q, [&](int32_t token) { return ProbabilityOf(q, token) < 0.3; });
  }), kVisible);
}

TEST_F(WrongRuleTest, DroppingForbiddenDraftsIsSeen) {
  EXPECT_GT(Worst(0.5, [](Law p, Law q) {
    return OneTrialOrTarget(p, q, [&](int32_t token) { return ProbabilityOf(p, token) == 0; });
  }), kVisible);
}

}  // namespace
}  // namespace surety::spec
