#include "engine/stop_matcher.h"

#include <algorithm>

#include <gtest/gtest.h>

#include "base/random.h"

namespace surety::engine {
namespace {

// The whole text at once, by definition: up to the first place where any stop string begins.
std::string Naive(const std::string& text, const std::vector<std::string>& stops) {
  size_t first = std::string::npos;
  for (const auto& stop : stops) {
    if (!stop.empty()) first = std::min(first, text.find(stop));
  }
  return text.substr(0, first);
}

TEST(StopMatcherTest, AnySplitGivesTheSameText) {
  uint64_t counter = 0;
  const auto draw = [&counter](uint64_t n) { return RandomBits({77, counter++, RandomPurpose::kTest}) % n; };
  for (int round = 0; round < 4000; ++round) {
    std::string text;
    for (uint64_t i = 0, n = draw(30); i < n; ++i) text += static_cast<char>('a' + draw(3));
    std::vector<std::string> stops;
    for (uint64_t i = 0, n = draw(4); i < n; ++i) {
      std::string stop;
      for (uint64_t j = 0, m = draw(5); j < m; ++j) stop += static_cast<char>('a' + draw(3));
      stops.push_back(stop);
    }
    StopMatcher matcher(stops);
    std::string released;
    for (size_t at = 0; at < text.size();) {
      const size_t n = 1 + draw(4);
      released += matcher.Push(text.substr(at, n));
      at += n;
      // Nothing is released that a stop string could still take back.
      EXPECT_EQ(Naive(text, stops).compare(0, released.size(), released), 0) << text;
    }
    released += matcher.Flush();
    EXPECT_EQ(released, Naive(text, stops)) << text;
    EXPECT_EQ(matcher.stopped(), Naive(text, stops).size() < text.size());
  }
}

TEST(StopMatcherTest, HoldsOnlyWhatCouldBecomeAStop) {
  StopMatcher matcher({"\n\nUser:"});
  EXPECT_EQ(matcher.Push("Hello\n"), "Hello");
  EXPECT_EQ(matcher.Push("\nworld"), "\n\nworld");
  EXPECT_EQ(matcher.Push(" end\n\nUs"), " end");
  EXPECT_EQ(matcher.Flush(), "\n\nUs");
}

TEST(StopMatcherTest, ReportsTheLongerOfTwoAtOnePlace) {
  StopMatcher matcher({"ab", "abc"});
  EXPECT_EQ(matcher.Push("xabc"), "x");
  EXPECT_EQ(matcher.stop_text(), "abc");
}

}  // namespace
}  // namespace surety::engine
