#include "base/aligned_buffer.h"

#include <algorithm>
#include <cstdint>
#include <utility>

#include <gtest/gtest.h>

namespace surety {
namespace {

TEST(AlignedBufferTest, IsAlignedAndZeroAtEverySize) {
  for (size_t size_bytes : {size_t{1}, size_t{63}, size_t{64}, size_t{65}, (size_t{1} << 20) - 1, size_t{1} << 20,
                            (size_t{2} << 20) + 1, size_t{5} << 20}) {
    const AlignedBuffer buffer(size_bytes);
    ASSERT_EQ(buffer.size_bytes(), size_bytes);
    EXPECT_EQ(reinterpret_cast<uintptr_t>(buffer.data()) % 64, 0u);
    EXPECT_TRUE(std::all_of(buffer.data(), buffer.data() + size_bytes, [](std::byte b) { return b == std::byte{0}; }));
  }
}

TEST(AlignedBufferTest, AnEmptyOneHasNoMemory) {
  EXPECT_EQ(AlignedBuffer(0).data(), nullptr);
  EXPECT_EQ(AlignedBuffer().size_bytes(), 0u);
}

TEST(AlignedBufferTest, MovesLeaveOneOwner) {
  AlignedBuffer a(100);
  std::byte* const data = a.data();
  AlignedBuffer b(std::move(a));
  EXPECT_EQ(b.data(), data);
  AlignedBuffer c(2 << 20);
  c = std::move(b);
  EXPECT_EQ(c.data(), data);
  EXPECT_EQ(c.size_bytes(), 100u);
}

TEST(AlignedBufferTest, AnImpossibleSizeIsAStatus) {
  for (size_t size_bytes : {SIZE_MAX, SIZE_MAX - 63, (size_t{1} << 47) + 1}) {
    const auto buffer = AlignedBuffer::TryAllocate(size_bytes);
    ASSERT_FALSE(buffer.has_value());
    EXPECT_EQ(buffer.error().code(), StatusCode::kResourceExhausted);
  }
}

}  // namespace
}  // namespace surety
