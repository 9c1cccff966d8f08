#include "engine/step_log.h"

#include <gtest/gtest.h>

namespace surety::engine {
namespace {

TEST(StepLogTest, KeepsTheLastOnesInOrder) {
  StepLog log(4);
  EXPECT_TRUE(log.Last(10).empty());
  for (int i = 1; i <= 6; ++i) log.Next().decode_rows = 10 * i;
  EXPECT_EQ(log.n_steps(), 6);
  const std::vector<StepRecord> all = log.Last(10);
  ASSERT_EQ(all.size(), 4u);
  for (size_t i = 0; i < all.size(); ++i) {
    EXPECT_EQ(all[i].number, static_cast<int64_t>(i) + 3);
    EXPECT_EQ(all[i].decode_rows, 10 * (static_cast<int>(i) + 3));
    EXPECT_EQ(all[i].prefill_rows, 0);  // nothing is left of the record that was overwritten
  }
  const std::vector<StepRecord> last = log.Last(1);
  ASSERT_EQ(last.size(), 1u);
  EXPECT_EQ(last[0].number, 6);
  EXPECT_TRUE(log.Last(0).empty());
  EXPECT_TRUE(log.Last(-3).empty());
}

}  // namespace
}  // namespace surety::engine
