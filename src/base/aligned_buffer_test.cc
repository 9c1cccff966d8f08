#include "base/aligned_buffer.h"

#include <algorithm>
#include <cstdint>
#include <memory>
#include <utility>
#include <vector>

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

TEST(BufferArenaTest, BlocksAreApartAlignedAndZero) {
  BufferArena arena;
  std::vector<AlignedBuffer> blocks;
  for (size_t i = 1; i <= 200; ++i) {  // several chunks
    auto block = arena.TryAllocate(i * 1237);
    ASSERT_TRUE(block.has_value());
    EXPECT_EQ(block->size_bytes(), i * 1237);
    EXPECT_EQ(reinterpret_cast<uintptr_t>(block->data()) % 64, 0u);
    EXPECT_TRUE(std::all_of(block->data(), block->data() + i * 1237, [](std::byte b) { return b == std::byte{0}; }));
    std::fill_n(block->data(), i * 1237, static_cast<std::byte>(i));
    blocks.push_back(std::move(*block));
  }
  for (size_t i = 1; i <= 200; ++i) {
    const AlignedBuffer& block = blocks[i - 1];
    EXPECT_TRUE(std::all_of(block.data(), block.data() + i * 1237,
                            [i](std::byte b) { return b == static_cast<std::byte>(i); }));
  }
}

TEST(BufferArenaTest, BlocksOutliveTheArenaAndEachOther) {
  auto arena = std::make_unique<BufferArena>();
  AlignedBuffer first = std::move(arena->TryAllocate(1000).value());
  AlignedBuffer second = std::move(arena->TryAllocate(1000).value());
  AlignedBuffer large = std::move(arena->TryAllocate(BufferArena::kChunkBytes).value());
  EXPECT_EQ(arena->TryAllocate(0).value().data(), nullptr);
  arena.reset();
  first = AlignedBuffer();
  second = std::move(large);  // the moved-from one has the chunk now, and gives it back
  large = AlignedBuffer();
  std::fill_n(second.data(), second.size_bytes(), std::byte{1});
}

TEST(BufferArenaTest, AnImpossibleSizeIsAStatus) {
  BufferArena arena;
  const auto buffer = arena.TryAllocate(SIZE_MAX);
  ASSERT_FALSE(buffer.has_value());
  EXPECT_EQ(buffer.error().code(), StatusCode::kResourceExhausted);
}

}  // namespace
}  // namespace surety
