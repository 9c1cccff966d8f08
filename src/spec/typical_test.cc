#include "spec/typical.h"

#include <gtest/gtest.h>

#include "spec/testing/laws.h"

namespace surety::spec {
namespace {

using testing::Entries;

// -(0.5 ln 0.50001 + 2 * 0.25 ln 0.25001) = 0.346564 + 0.693127 = 1.039691; exp(-1.039691) = 0.353564; 0.09 of it.
TEST(LossyTypicalTest, TheThresholdIsTheFormulasByHand) {
  const Entries three = {{7, 0.5}, {1, 0.25}, {3, 0.25}};
  EXPECT_NEAR(LossyTypicalThreshold(three), 0.0318208, 1e-7);
  // Eight equal ones: H = -ln 0.12501 = 2.0793615, exp(-H) = 0.12501.
  Entries eight;
  for (int32_t i = 0; i < 8; ++i) eight.emplace_back(i, 0.125);
  EXPECT_NEAR(LossyTypicalThreshold(eight), 0.09 * 0.12501, 1e-12);
  EXPECT_NEAR(LossyTypicalThreshold(eight, {.delta = 0.5}), 0.5 * 0.12501, 1e-12);
}

TEST(LossyTypicalTest, EpsilonIsTheLargestThreshold) {
  // One-hot: exp(-H) = 1.00001.
  EXPECT_NEAR(LossyTypicalThreshold(testing::OneHot(5)), 0.0900009, 1e-12);
  EXPECT_EQ(LossyTypicalThreshold(testing::OneHot(5), {.epsilon = 0.3, .delta = 0.5}), 0.3);
}

TEST(LossyTypicalTest, AcceptsStrictlyAboveTheThreshold) {
  const Entries p = {{0, 0.4}, {1, 0.3}, {2, 0.3}};
  const LossyTypicalOptions options = {.epsilon = 0.3, .delta = 100};
  EXPECT_TRUE(LossyTypicalAccepts(p, 0, options));
  EXPECT_FALSE(LossyTypicalAccepts(p, 1, options));
  EXPECT_FALSE(LossyTypicalAccepts(p, 9));
}

TEST(LossyTypicalTest, AOneHotTargetAcceptsItsTokenAlone) {
  EXPECT_TRUE(LossyTypicalAccepts(testing::OneHot(5), 5));
  EXPECT_FALSE(LossyTypicalAccepts(testing::OneHot(5), 4));
}

TEST(LossyTypicalTest, TheLongestPathWinsThenTheLikelier) {
  const Entries p = {{1, 0.5}, {2, 0.3}, {3, 0.2}, {4, 0.0}};
  const auto law_of = [&](int) { return Law(p); };
  DraftTree tree;
  EXPECT_EQ(LossyTypicalPath(tree, law_of), 0);
  tree.Add(0, 4, 1);
  EXPECT_EQ(LossyTypicalPath(tree, law_of), 0);  // its only token is refused
  const int one = tree.Add(0, 1, 1), two = tree.Add(0, 2, 1);
  EXPECT_EQ(LossyTypicalPath(tree, law_of), one);
  const int deep = tree.Add(two, 3, 1);
  EXPECT_EQ(LossyTypicalPath(tree, law_of), deep);  // 0.06 of two tokens before 0.5 of one
  const int likelier = tree.Add(one, 2, 1);
  EXPECT_EQ(LossyTypicalPath(tree, law_of), likelier);
  tree.Add(tree.Add(1, 1, 1), 1, 1);  // below a refused node nothing counts
  EXPECT_EQ(LossyTypicalPath(tree, law_of), likelier);
}

}  // namespace
}  // namespace surety::spec
