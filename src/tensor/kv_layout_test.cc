#include "tensor/kv_layout.h"

#include <string>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace surety {
namespace {

using ::testing::HasSubstr;

KvLayout Layout(int layers, int heads, int k_dim, int v_dim, KvType type = KvType::kBF16, bool latent = false) {
  KvLayout layout;
  layout.n_layers = layers;
  layout.n_kv_heads = heads;
  layout.k_dim = k_dim;
  layout.v_dim = v_dim;
  layout.type = type;
  layout.latent = latent;
  return layout;
}

// Published models' cache sizes a token: layers * 2 * heads * head size * bytes, MLA layers * 576 * bytes.
TEST(KvLayoutTest, BytesPerTokenOfKnownModels) {
  EXPECT_EQ(Layout(32, 8, 128, 128).BytesPerToken(), 131'072);          // Llama-3-8B
  EXPECT_EQ(Layout(32, 32, 128, 128).BytesPerToken(), 524'288);         // the same without groups
  EXPECT_EQ(Layout(32, 1, 128, 128).BytesPerToken(), 16'384);           // with one head
  EXPECT_EQ(Layout(28, 4, 128, 128).BytesPerToken(), 57'344);           // Qwen2.5-7B
  EXPECT_EQ(Layout(28, 28, 128, 128).BytesPerToken(), 401'408);
  EXPECT_EQ(Layout(61, 1, 576, 512, KvType::kBF16, true).BytesPerToken(), 70'272);  // DeepSeek-V3
  EXPECT_EQ(Layout(60, 1, 576, 512, KvType::kBF16, true).BytesPerToken(), 69'120);  // DeepSeek-V2
  EXPECT_EQ(Layout(61, 128, 192, 128).BytesPerToken(), 4'997'120);      // DeepSeek-V3 as plain heads
  EXPECT_EQ(Layout(60, 128, 192, 128).BytesPerToken(), 4'915'200);
  EXPECT_EQ(Layout(61, 1, 192, 128).BytesPerToken(), 39'040);
  EXPECT_EQ(Layout(32, 8, 128, 128, KvType::kF32).BytesPerToken(), 262'144);
  EXPECT_EQ(Layout(32, 8, 128, 128, KvType::kQ8_0).BytesPerToken(), 69'632);  // 34 bytes for 32 numbers
}

TEST(KvLayoutTest, PartsAreAlignedAndDoNotOverlap) {
  for (KvType type : {KvType::kF32, KvType::kF16, KvType::kBF16, KvType::kQ8_0}) {
    for (bool latent : {false, true}) {
      for (int k_dim : {32, 64, 96, 128, 576}) {
        for (int page_tokens : {16, 32, 64}) {
          KvLayout layout = Layout(3, latent ? 1 : 2, k_dim, latent ? 32 : 64, type, latent);
          layout.page_tokens = page_tokens;
          if (!layout.Validate().ok()) continue;
          EXPECT_EQ(layout.KeyScaleOffset() % 64, 0);
          EXPECT_EQ(layout.ValueOffset() % 64, 0);
          EXPECT_EQ(layout.ValueScaleOffset() % 64, 0);
          EXPECT_EQ(layout.HeadPageBytes() % 64, 0);
          EXPECT_GE(layout.KeyBytes(), int64_t{page_tokens} * k_dim * layout.ElementBytes());
          EXPECT_EQ(layout.PageBytes(), 3 * layout.n_kv_heads * layout.HeadPageBytes());
          EXPECT_GE(layout.PageStrideBytes(), layout.PageBytes());
          EXPECT_LE(layout.PageStrideBytes(), layout.PageBytes() + 2 * layout.LayerPageBytes());
          EXPECT_EQ(layout.PageStrideBytes() % 64, 0);
          EXPECT_GE(static_cast<double>(layout.PageBytes()), layout.BytesPerToken() * page_tokens);
          EXPECT_EQ(layout.ValueBytes() + layout.ValueScaleBytes() == 0, latent);
        }
      }
    }
  }
}

TEST(KvLayoutTest, ValidateNamesTheField) {
  EXPECT_TRUE(Layout(1, 1, 1, 1).Validate().ok());
  const auto message = [](KvLayout layout, auto change) {
    change(layout);
    const Status status = layout.Validate();
    EXPECT_EQ(status.code(), StatusCode::kInvalidArgument);
    return status.message();
  };
  const KvLayout good = Layout(2, 2, 64, 64);
  EXPECT_THAT(message(good, [](KvLayout& l) { l.n_layers = 0; }), HasSubstr("n_layers is 0"));
  EXPECT_THAT(message(good, [](KvLayout& l) { l.n_kv_heads = -1; }), HasSubstr("n_kv_heads is -1"));
  EXPECT_THAT(message(good, [](KvLayout& l) { l.k_dim = 0; }), HasSubstr("k_dim"));
  EXPECT_THAT(message(good, [](KvLayout& l) { l.v_dim = 0; }), HasSubstr("v_dim"));
  EXPECT_THAT(message(good, [](KvLayout& l) { l.page_tokens = 24; }), HasSubstr("page_tokens is 24"));
  EXPECT_THAT(message(good, [](KvLayout& l) { l.page_tokens = 1 << 30; }), HasSubstr("at most 4096"));
  EXPECT_THAT(message(good, [](KvLayout& l) { l.n_layers = 1 << 30; }), HasSubstr("must be 1 to 10000"));
  EXPECT_THAT(message(good, [](KvLayout& l) { l.n_kv_heads = 1 << 30; }), HasSubstr("must be 1 to 65536"));
  EXPECT_THAT(message(good, [](KvLayout& l) { l.k_dim = 656; }), HasSubstr("k_dim is 656, but must be 1 to 640"));
  EXPECT_THAT(message(good, [](KvLayout& l) { l.v_dim = 528; }), HasSubstr("v_dim is 528, but must be 1 to 512"));
  EXPECT_THAT(message(good, [](KvLayout& l) { l.latent = true; }), HasSubstr("latent"));
  EXPECT_THAT(message(good, [](KvLayout& l) { l.type = KvType::kQ8_0; l.k_dim = 80; }), HasSubstr("k_dim is 80"));
}

TEST(KvLayoutTest, NamesOfTypesGoBothWays) {
  for (KvType type : {KvType::kF32, KvType::kF16, KvType::kBF16, KvType::kQ8_0}) {
    EXPECT_EQ(*KvTypeFromName(NameOf(type)), type);
  }
  EXPECT_EQ(KvTypeFromName("F16").error().code(), StatusCode::kInvalidArgument);
}

}  // namespace
}  // namespace surety
