// What KvStore leaves in the pages, element by element, and that it touches nothing else.
#include "kernels/cpu/kv_store.h"

#include <gtest/gtest.h>

#include <cmath>
#include <cstring>
#include <vector>

#include "base/thread_pool.h"
#include "kernels/cpu/isa.h"
#include "kernels/cpu/testing/attention_rig.h"
#include "kernels/kv_read.h"
#include "tensor/half.h"

namespace surety::kernels::cpu {
namespace {

using testing::Chunk;
using testing::NumberAt;
using testing::Rig;

float Rounded(KvType type, float x) {
  switch (type) {
    case KvType::kF32: return x;
    case KvType::kF16: return F16ToF32(F32ToF16(x));
    case KvType::kBF16: return BF16ToF32(F32ToBF16(x));
    case KvType::kQ8_0: break;
  }
  return NAN;
}

class KvStoreTest : public ::testing::Test {
 protected:
  void TearDown() override { EXPECT_TRUE(SetIsa(BestIsa()).ok()); }
  std::unique_ptr<Executor> three_ = MakeThreadPool({.n_workers = 3, .pin = false, .spin_nanos = 0});
};

TEST_F(KvStoreTest, FloatTypesRoundEachNumberAndLeaveTheRestOfThePageAlone) {
  for (KvType type : {KvType::kF32, KvType::kF16, KvType::kBF16}) {
    for (int dim : {1, 7, 16, 33, 64}) {
      for (bool latent : {false, true}) {
        for (Isa isa : SupportedIsas()) {
          ASSERT_TRUE(SetIsa(isa).ok());
          const int heads = latent ? 1 : 3;
          const KvLayout layout = {2, heads, dim, dim, 32, type, latent};
          Rig rig(layout, 2, 100, 3);
          rig.Store(*three_, 1, {{0, 5, 60}, {1, 0, 1}});
          rig.Store(*three_, 1, {{1, 1, 1}, {0, 65, 3}});
          const BatchView& batch = rig.Batch({{0, 0, 1}, {1, 0, 1}});
          for (int id = 0; id < 2; ++id) {
            const auto table = batch.sequences[static_cast<size_t>(id)].page_table;
            for (int t = 0; t < 96; ++t) {
              const bool written = id == 0 ? t >= 5 && t < 68 : t < 2;
              for (int h = 0; h < heads; ++h) {
                for (int e = 0; e < dim; ++e) {
                  const auto column = static_cast<uint64_t>(h * dim + e);
                  const float k = StoredKey(rig.kv(), 1, table, h, t, e);
                  const float v = StoredValue(rig.kv(), 1, table, h, t, e);
                  EXPECT_TRUE(std::isnan(StoredKey(rig.kv(), 0, table, h, t, e)));
                  if (!written) {
                    EXPECT_TRUE(std::isnan(k) && std::isnan(v)) << t;
                    continue;
                  }
                  const auto at = static_cast<uint64_t>(t);
                  EXPECT_EQ(k, Rounded(type, NumberAt(1, static_cast<uint64_t>(id), at, column)));
                  EXPECT_EQ(v, Rounded(type, NumberAt(latent ? 1 : 2, static_cast<uint64_t>(id), at, column)));
                }
              }
            }
          }
        }
      }
    }
  }
}

TEST_F(KvStoreTest, Q8ScalesFollowTheRule) {
  const KvLayout layout = {1, 2, 64, 32, 16, KvType::kQ8_0, false};
  for (Isa isa : SupportedIsas()) {
    ASSERT_TRUE(SetIsa(isa).ok());
    Rig rig(layout, 1, 40, 3);
    rig.Store(*three_, 0, {{0, 3, 30}});
    const auto table = rig.Batch({{0, 0, 1}}).sequences[0].page_table;
    const auto check = [&](uint64_t kind, int dim, int h, int t, auto read) {
      for (int b = 0; b < dim; b += 32) {
        float largest = 0;
        for (int i = b; i < b + 32; ++i) {
          const auto column = static_cast<uint64_t>(h * dim + i);
          largest = std::max(largest, std::abs(NumberAt(kind, 0, static_cast<uint64_t>(t), column)));
        }
        const float scale = F16ToF32(F32ToF16(largest / 127.0f));
        for (int i = b; i < b + 32; ++i) {
          const float x = NumberAt(kind, 0, static_cast<uint64_t>(t), static_cast<uint64_t>(h * dim + i));
          const float q = std::min(127.0f, std::max(-127.0f, std::nearbyint(x / scale)));
          EXPECT_EQ(read(h, t, i), scale * q);
        }
      }
    };
    for (int t = 3; t < 33; ++t) {
      for (int h = 0; h < 2; ++h) {
        check(1, 64, h, t, [&](int hh, int tt, int i) { return StoredKey(rig.kv(), 0, table, hh, tt, i); });
        check(2, 32, h, t, [&](int hh, int tt, int i) { return StoredValue(rig.kv(), 0, table, hh, tt, i); });
      }
    }
    for (int t : {0, 1, 2, 33, 39}) EXPECT_TRUE(std::isnan(StoredKey(rig.kv(), 0, table, 0, t, 0)));
  }
}

TEST_F(KvStoreTest, SpecialNumbers) {
  SerialExecutor serial;
  for (Isa isa : SupportedIsas()) {
    ASSERT_TRUE(SetIsa(isa).ok());
    // A spread of magnitudes, with halves' subnormals and ties, as f16 and bf16.
    for (KvType type : {KvType::kF16, KvType::kBF16}) {
      const KvLayout layout = {1, 1, 512, 64, 16, type, false};
      Rig rig(layout, 1, 16, 0);
      const BatchView& batch = rig.Batch({{0, 0, 1}});
      std::vector<float> k(512), v(64, 1.0f);
      for (int i = 0; i < 512; ++i) {
        const float mantissa = 1.0f + static_cast<float>(i % 7) * 0x1.002p-4f;
        k[static_cast<size_t>(i)] = std::ldexp(i % 2 == 0 ? mantissa : -mantissa, i / 8 - 40);
      }
      k[0] = 65519.0f, k[1] = 65520.0f, k[2] = INFINITY, k[3] = 0x1p-25f, k[4] = 0x1.8p-25f, k[5] = -0.0f;
      KvStore(serial, 0, ConstMatrixF(k.data(), 1, 512), ConstMatrixF(v.data(), 1, 64), batch, rig.kv());
      for (int i = 0; i < 512; ++i) {
        EXPECT_EQ(StoredKey(rig.kv(), 0, batch.sequences[0].page_table, 0, 0, i),
                  Rounded(type, k[static_cast<size_t>(i)]));
      }
    }
    const KvLayout layout = {1, 1, 64, 32, 16, KvType::kQ8_0, false};
    Rig rig(layout, 1, 16, 0);
    const BatchView& batch = rig.Batch({{0, 0, 1}});
    std::vector<float> k(64, 1.0f), v(32, 0.0f);
    k[40] = NAN;
    v[3] = 1e-9f;  // below what a half's scale can say
    KvStore(serial, 0, ConstMatrixF(k.data(), 1, 64), ConstMatrixF(v.data(), 1, 32), batch, rig.kv());
    const auto table = batch.sequences[0].page_table;
    EXPECT_NEAR(StoredKey(rig.kv(), 0, table, 0, 0, 31), 1.0f, 1e-3f);
    EXPECT_TRUE(std::isnan(StoredKey(rig.kv(), 0, table, 0, 0, 32)));
    EXPECT_EQ(StoredValue(rig.kv(), 0, table, 0, 0, 3), 0.0f);
  }
}

}  // namespace
}  // namespace surety::kernels::cpu
