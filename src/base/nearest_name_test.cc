#include "base/nearest_name.h"

#include <string>
#include <vector>

#include <gtest/gtest.h>

namespace surety {
namespace {

TEST(NearestNameTest, FindsTheClosestWithinHalfOfTheName) {
  const std::vector<std::string> names = {"temperature", "top_p", "top_k", "seed"};
  EXPECT_EQ(NearestName("temprature", names), "temperature");
  EXPECT_EQ(NearestName("top_q", names), "top_p");  // the first of equals
  EXPECT_EQ(NearestName("sede", names), "seed");
  EXPECT_EQ(NearestName("seed", names), "seed");
  EXPECT_EQ(NearestName("frequency_penalty", names), "");
  EXPECT_EQ(NearestName("", names), "");
  EXPECT_EQ(NearestName("x", {}), "");
}

TEST(NearestNameTest, AVeryLongNameCostsLittle) {
  const std::vector<std::string> names(100, "temperature");
  EXPECT_EQ(NearestName(std::string(4 << 20, 'a'), names), "");
}

}  // namespace
}  // namespace surety
