#include "tensor/dtype.h"

#include <map>
#include <string_view>

#include <gtest/gtest.h>

namespace surety {
namespace {

// Bytes for 256 numbers, by the public format.
TEST(DTypeTest, TableAgreesWithTheFormat) {
  const std::map<std::string_view, int64_t> bytes = {
      {"F32", 1024}, {"F16", 512},  {"BF16", 512}, {"Q4_0", 144}, {"Q4_1", 160},   {"Q5_0", 176},  {"Q5_1", 192},
      {"Q8_0", 272}, {"Q2_K", 84},  {"Q3_K", 110}, {"Q4_K", 144}, {"Q5_K", 176},   {"Q6_K", 210},  {"IQ4_NL", 144},
      {"IQ4_XS", 136}};
  EXPECT_EQ(AllDTypes().size(), bytes.size());
  for (const DTypeInfo& info : AllDTypes()) {
    ASSERT_TRUE(bytes.contains(info.name)) << info.name;
    EXPECT_EQ(RowBytes(info.dtype, 256), bytes.at(info.name)) << info.name;
    EXPECT_EQ(RowBytes(info.dtype, 0), 0);
    EXPECT_EQ(RowBytes(info.dtype, int64_t{1} << 40), bytes.at(info.name) << 32) << info.name;
  }
}

TEST(DTypeTest, NumbersAndNamesGoBothWaysAndAgreeWithGgufsNames) {
  for (const DTypeInfo& info : AllDTypes()) {
    const auto number = static_cast<uint32_t>(info.dtype);
    EXPECT_EQ(DTypeFromGgufNumber(number), info.dtype);
    EXPECT_EQ(DTypeFromName(info.name), info.dtype);
    EXPECT_EQ(GgufTypeName(number), info.name);
  }
  for (uint32_t number : {4u, 5u, 9u, 15u, 16u, 24u, 39u, 40u, 0xFFFFFFFFu}) {
    EXPECT_FALSE(DTypeFromGgufNumber(number).has_value()) << number;
    EXPECT_FALSE(GgufTypeName(number).empty());
  }
  EXPECT_FALSE(DTypeFromName("Q9_9").has_value());
}

}  // namespace
}  // namespace surety
