// States that are kept equal a plain list of them, and no more memory is held than for a few beyond.
#include "engine/kept_states.h"

#include <deque>
#include <random>
#include <vector>

#include <gtest/gtest.h>

namespace surety::engine {
namespace {

constexpr size_t kStateWidth = 5;

TEST(KeptStatesTest, EqualsAListAndHoldsNoMemoryThatIsNotNeeded) {
  for (const bool zero : {false, true}) {
    std::mt19937 random(11);
    KeptStates kept(kStateWidth);
    if (zero) kept.MarkZeroOnRelease();
    std::deque<std::vector<float>> truth;
    for (int step = 0; step < 3000; ++step) {
      const int what = static_cast<int>(random() % 20);
      if (what == 0) {
        kept.Clear();
        truth.clear();
        EXPECT_EQ(kept.capacity_bytes(), 0u);
      } else if (what < 4) {
        const size_t left = random() % 12;
        kept.Trim(static_cast<int>(left));
        while (truth.size() > left) truth.pop_front();
      } else {
        std::vector<float> row(kStateWidth);
        for (float& value : row) value = 1 + static_cast<float>(random() % 1000);
        kept.Append(row.data());
        truth.push_back(row);
      }
      ASSERT_EQ(kept.size(), static_cast<int>(truth.size()));
      for (size_t i = 0; i < truth.size(); ++i) {
        const float* row = kept.Row(static_cast<int>(i));
        ASSERT_EQ(std::vector<float>(row, row + kStateWidth), truth[i]) << "step " << step;
      }
      const size_t held = kept.capacity_bytes() / sizeof(float) / kStateWidth;
      ASSERT_LE(held, truth.size() + 8);
      // Where rows were, nothing of them is left.
      for (size_t i = truth.size() * kStateWidth; zero && i < held * kStateWidth; ++i) ASSERT_EQ(kept.Row(0)[i], 0.0f);
    }
  }
}

TEST(KeptStatesTest, WipedStatesAreGone) {
  KeptStates kept(kStateWidth);
  const std::vector<float> row(kStateWidth, 3.0f);
  for (int i = 0; i < 20; ++i) kept.Append(row.data());
  kept.Wipe();
  EXPECT_TRUE(kept.empty());
  EXPECT_EQ(kept.capacity_bytes(), 0u);
}

}  // namespace
}  // namespace surety::engine
