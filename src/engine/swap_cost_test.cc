#include "engine/swap_cost.h"

#include <gtest/gtest.h>

namespace surety::engine {
namespace {

TEST(SwapCostTest, TakesTheCheaperWay) {
  SwapCost cost;
  EXPECT_TRUE(cost.ShouldSwap(1));  // nothing is known of copies: one is tried, and timed
  cost.ObserveCopy(1000);
  EXPECT_EQ(cost.RoundTrip(), 2000);
  EXPECT_TRUE(cost.ShouldSwap(2001));
  EXPECT_FALSE(cost.ShouldSwap(2000));  // a tie needs no memory
  EXPECT_FALSE(cost.ShouldSwap(10));
  EXPECT_TRUE(cost.ShouldSwap(0));      // nothing is known of steps
}

TEST(SwapCostTest, FollowsTheMachine) {
  SwapCost cost;
  cost.ObserveCopy(1000);
  for (int i = 0; i < 100; ++i) cost.ObserveCopy(5000);
  EXPECT_NEAR(static_cast<double>(cost.RoundTrip()), 10'000, 10);
}

}  // namespace
}  // namespace surety::engine
