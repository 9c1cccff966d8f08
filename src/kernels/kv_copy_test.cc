// Ops::CopyKv number by number: what is copied equals its source, what is not stays as it was.
#include <bit>
#include <set>
#include <vector>

#include <gtest/gtest.h>

#include "base/aligned_buffer.h"
#include "base/executor.h"
#include "base/random.h"
#include "kernels/cpu/cpu_ops.h"
#include "kernels/kv_read.h"
#include "kernels/ops.h"

namespace surety::kernels {
namespace {

class CopyDraws {
 public:
  explicit CopyDraws(uint64_t seed) : seed_(seed) {}
  uint64_t Bits() { return RandomBits({seed_, n_++, RandomPurpose::kTest}); }
  int Below(int n) { return static_cast<int>(Bits() % static_cast<uint64_t>(n)); }

 private:
  uint64_t seed_, n_ = 0;
};

// Each number as stored, as bits, layer by layer, page by page.
std::vector<uint32_t> NumbersOf(const PagedKvView& kv) {
  std::vector<uint32_t> numbers;
  const KvLayout& layout = kv.layout;
  for (int layer = 0; layer < layout.n_layers; ++layer) {
    for (int32_t page = 0; page < kv.n_pages; ++page) {
      for (int slot = 0; slot < layout.page_tokens; ++slot) {
        for (int head = 0; head < layout.n_kv_heads; ++head) {
          const std::span<const int32_t> table(&page, 1);
          for (int e = 0; e < layout.k_dim; ++e) {
            numbers.push_back(std::bit_cast<uint32_t>(StoredKey(kv, layer, table, head, slot, e)));
          }
          for (int e = 0; e < layout.v_dim; ++e) {
            numbers.push_back(std::bit_cast<uint32_t>(StoredValue(kv, layer, table, head, slot, e)));
          }
        }
      }
    }
  }
  return numbers;
}

void FillSmallNumbers(const PagedKvView& kv, CopyDraws& draws) {
  auto* bytes = reinterpret_cast<uint8_t*>(kv.base);
  // Bits that are an ordinary number in each type, so that no NaN hides a difference.
  for (int64_t i = 0; i < kv.n_pages * kv.page_stride_bytes; ++i) bytes[i] = static_cast<uint8_t>(draws.Bits() % 0x70);
}

TEST(CopyKvTest, MovesTheTokensOfARangeAndNothingElse) {
  SerialExecutor executor;
  const auto ops = cpu::MakeCpuOps(executor);
  CopyDraws draws(1);
  for (const KvType type : {KvType::kF32, KvType::kF16, KvType::kBF16, KvType::kQ8_0}) {
    for (const bool latent : {false, true}) {
      if (latent && type == KvType::kQ8_0) continue;
      for (const int page_tokens : {16, 48}) {
        const KvLayout layout = {.n_layers = 2, .n_kv_heads = latent ? 1 : 3, .k_dim = 64, .v_dim = 32,
                                 .page_tokens = page_tokens, .type = type, .latent = latent};
        ASSERT_TRUE(layout.Validate().ok());
        constexpr int kPages = 7;
        auto memory = *AlignedBuffer::TryAllocate(static_cast<size_t>(kPages * layout.PageStrideBytes()));
        const PagedKvView kv = {layout, memory.data(), layout.PageStrideBytes(), kPages};
        for (int round = 0; round < 20; ++round) {
          FillSmallNumbers(kv, draws);
          const auto before = NumbersOf(kv);
          // Two tables of three pages; sometimes they share their first page.
          const std::vector<int32_t> from = {0, 1, 2}, to = {draws.Below(2) == 0 ? 0 : 6, 3, 4};
          const int first = draws.Below(2 * page_tokens), n = 1 + draws.Below(3 * page_tokens - first);
          const KvCopy copy = {from, to, first, n};
          ops->CopyKv(1, {&copy, 1}, kv);
          const auto after = NumbersOf(kv);
          const auto a_token = static_cast<size_t>(layout.n_kv_heads * (layout.k_dim + layout.v_dim));
          const auto index = [&](int layer, int32_t page, int slot) {
            return static_cast<size_t>((layer * kPages + page) * page_tokens + slot) * a_token;
          };
          std::set<std::pair<int32_t, int>> written;  // page, slot
          for (int position = first; position < first + n; ++position) {
            const auto at = static_cast<size_t>(position / page_tokens);
            const int slot = position % page_tokens;
            written.emplace(to[at], slot);
            for (size_t i = 0; i < a_token; ++i) {
              ASSERT_EQ(after[index(1, to[at], slot) + i], before[index(1, from[at], slot) + i]);
            }
          }
          for (int layer = 0; layer < 2; ++layer) {
            for (int32_t page = 0; page < kPages; ++page) {
              for (int slot = 0; slot < page_tokens; ++slot) {
                if (layer == 1 && written.contains({page, slot})) continue;
                for (size_t i = 0; i < a_token; ++i) {
                  ASSERT_EQ(after[index(layer, page, slot) + i], before[index(layer, page, slot) + i]);
                }
              }
            }
          }
        }
      }
    }
  }
}

TEST(CopyKvTest, ALaterCopyReadsWhatAnEarlierOneWrote) {
  SerialExecutor executor;
  const auto ops = cpu::MakeCpuOps(executor);
  const KvLayout layout = {.n_layers = 1, .n_kv_heads = 2, .k_dim = 8, .v_dim = 8, .type = KvType::kF32};
  auto memory = *AlignedBuffer::TryAllocate(static_cast<size_t>(3 * layout.PageStrideBytes()));
  const PagedKvView kv = {layout, memory.data(), layout.PageStrideBytes(), 3};
  CopyDraws draws(2);
  FillSmallNumbers(kv, draws);
  const std::vector<int32_t> tables[] = {{0}, {1}, {2}};
  const KvCopy copies[] = {{tables[0], tables[1], 2, 3}, {tables[1], tables[2], 0, 6}};
  ops->CopyKv(0, copies, kv);
  for (int position = 0; position < 6; ++position) {
    const auto& source = position >= 2 && position < 5 ? tables[0] : tables[1];
    EXPECT_EQ(StoredKey(kv, 0, tables[2], 1, position, 3), StoredKey(kv, 0, source, 1, position, 3));
    EXPECT_EQ(StoredValue(kv, 0, tables[2], 1, position, 7), StoredValue(kv, 0, source, 1, position, 7));
  }
}

}  // namespace
}  // namespace surety::kernels
