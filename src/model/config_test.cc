#include "model/config.h"

#include <cmath>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "model/formats/hf_config.h"
#include "model/formats/json_fields.h"

namespace surety::model {
namespace {

using ::testing::HasSubstr;

// The reference computes in float32: a power of theta (relative error ln(theta) * 2^-24 from the rounded exponent),
// some products, and a blend of two frequencies whose weight may lose digits before it is multiplied by the factor.
double RelativeTolerance(const RopeConfig& rope) {
  double blend = 0;
  if (rope.scaling == RopeScaling::kYarn) blend = 2 * rope.factor;
  if (rope.scaling == RopeScaling::kLlama3) {
    blend = rope.factor * rope.high_freq_factor / (rope.high_freq_factor - rope.low_freq_factor);
  }
  return (std::log(rope.base) + 4) * 0x1p-24 * (1 + blend);
}

TEST(RopeConfigTest, FrequenciesAndMagnitudeAreThoseOfTransformers) {
  const std::string path = std::string(SURETY_TESTDATA) + "/golden/rope_freqs.json";
  const auto golden = ReadJsonObject(FileSystem::Real(), path, 1 << 20);
  ASSERT_TRUE(golden.has_value()) << golden.error().ToString();
  const boost::json::object& cases = golden->at("cases").as_object();
  EXPECT_GE(cases.size(), 16u);
  for (const auto& [name, value] : cases) {
    SCOPED_TRACE(std::string(name));
    const boost::json::object& one = value.as_object();
    const JsonFields fields(one.at("config").as_object(), "golden");
    ModelConfig config;
    config.rope.dim = *fields.Int("head_dim");
    config.max_context = *fields.Int("max_position_embeddings");
    const Status status = ReadHfRope(fields, config);
    ASSERT_TRUE(status.ok()) << status.ToString();
    const std::vector<double> frequencies = config.rope.InverseFrequencies();
    const boost::json::array& expected = one.at("inv_freq").as_array();
    ASSERT_EQ(frequencies.size(), expected.size());
    const double tolerance = RelativeTolerance(config.rope);
    for (size_t i = 0; i < frequencies.size(); ++i) {
      const double wanted = expected[i].to_number<double>();
      EXPECT_NEAR(frequencies[i], wanted, tolerance * wanted) << i;
    }
    EXPECT_NEAR(config.rope.Magnitude(), one.at("magnitude").to_number<double>(), 1e-12);
  }
}

TEST(RopeConfigTest, TheNewerSpellingMeansTheSame) {
  const char* old_text = R"({"rope_theta":500000.0,"rope_scaling":{"type":"yarn","factor":4,
      "original_max_position_embeddings":64,"mscale":0.707,"mscale_all_dim":0.5}})";
  const char* new_text = R"({"rope_parameters":{"rope_theta":500000.0,"rope_type":"yarn","factor":4,
      "original_max_position_embeddings":64,"mscale":0.707,"mscale_all_dim":0.5}})";
  ModelConfig configs[2];
  for (int i = 0; i < 2; ++i) {
    const auto json = ParseJsonObject(i == 0 ? old_text : new_text, "test");
    ASSERT_TRUE(json.has_value());
    configs[i].rope.dim = 16;
    configs[i].max_context = 256;
    ASSERT_TRUE(ReadHfRope(JsonFields(*json, "test"), configs[i]).ok());
  }
  EXPECT_EQ(configs[0].rope.base, 500000.0);
  EXPECT_EQ(configs[0].rope.InverseFrequencies(), configs[1].rope.InverseFrequencies());
  EXPECT_EQ(configs[0].rope.Magnitude(), configs[1].rope.Magnitude());
}

TEST(RopeConfigTest, FrequencyFactorsDivide) {
  RopeConfig rope;
  rope.dim = 8;
  const std::vector<double> plain = rope.InverseFrequencies();
  rope.freq_factors = {1, 2, 4, 8};
  const std::vector<double> divided = rope.InverseFrequencies();
  for (size_t i = 0; i < 4; ++i) EXPECT_EQ(divided[i], plain[i] / (1 << i));
}

TEST(RopeConfigTest, UnknownScalingsAreNamed) {
  for (const char* type : {"dynamic", "longrope", "su"}) {
    const std::string text = std::string(R"({"rope_scaling":{"rope_type":")") + type + R"("}})";
    const auto json = ParseJsonObject(text, "'config.json'");
    ModelConfig config;
    config.rope.dim = 8;
    const Status status = ReadHfRope(JsonFields(*json, "'config.json'"), config);
    EXPECT_EQ(status.code(), StatusCode::kUnimplemented);
    EXPECT_THAT(status.message(), HasSubstr(std::string("unknown scaling '") + type + "'"));
  }
}

ModelConfig Small() {
  ModelConfig c;
  c.architecture = "llama";
  c.n_layers = 2;
  c.d_model = 64;
  c.n_heads = 4;
  c.n_kv_heads = 2;
  c.head_dim = 16;
  c.d_ff = 64;
  c.vocab_size = 256;
  c.max_context = 128;
  c.rope.dim = 16;
  return c;
}

ModelConfig SmallMla() {
  ModelConfig c = Small();
  c.n_kv_heads = 4;
  c.mla = {32, 24, 8, 8, 8};
  c.rope.dim = 8;
  c.moe.n_experts = 8;
  c.moe.n_used = 2;
  c.moe.d_ff_expert = 16;
  c.moe.n_dense_layers = 1;
  c.moe.n_groups = 4;
  c.moe.n_groups_used = 2;
  return c;
}

TEST(ModelConfigTest, ValidateNamesTheFieldAndItsValue) {
  EXPECT_TRUE(Small().Validate().ok());
  EXPECT_TRUE(SmallMla().Validate().ok()) << SmallMla().Validate().ToString();
  struct Case {
    void (*change)(ModelConfig&);
    const char* text;
  };
  const Case cases[] = {
      {[](ModelConfig& c) { c.n_layers = 0; }, "n_layers is 0"},
      {[](ModelConfig& c) { c.n_layers = 1 << 30; }, "n_layers is 1073741824"},
      {[](ModelConfig& c) { c.d_model = -1; }, "d_model is -1"},
      {[](ModelConfig& c) { c.n_kv_heads = 3; }, "n_heads is 4, but must be a multiple of n_kv_heads, 3"},
      {[](ModelConfig& c) { c.head_dim = 1 << 30; }, "n_heads * head_dim is 4294967296"},
      {[](ModelConfig& c) { c.head_dim = 528; }, "head_dim is 528, but must be at most 512"},
      {[](ModelConfig& c) { c.d_ff = 0; }, "d_ff is 0"},
      {[](ModelConfig& c) { c.vocab_size = 0; }, "vocab_size is 0"},
      {[](ModelConfig& c) { c.max_context = 0; }, "max_context is 0"},
      {[](ModelConfig& c) { c.norm_eps = 0; }, "norm_eps is 0"},
      {[](ModelConfig& c) { c.norm_eps = NAN; }, "norm_eps is nan"},
      {[](ModelConfig& c) { c.attention_scale = INFINITY; }, "attention_scale is inf"},
      {[](ModelConfig& c) { c.rope.dim = 18; }, "rope.dim is 18"},
      {[](ModelConfig& c) { c.rope.dim = 7; }, "rope.dim is 7, but must be even"},
      {[](ModelConfig& c) { c.rope.base = 0; }, "rope.base is 0"},
      {[](ModelConfig& c) { c.rope.scaling = RopeScaling::kYarn; }, "rope.original_context is 0"},
      {[](ModelConfig& c) { c.rope.freq_factors = {1}; }, "rope.freq_factors is 1"},
      {[](ModelConfig& c) { c.rope_local = c.rope, c.rope_local.factor = 0; }, "rope_local.factor is 0"},
      {[](ModelConfig& c) { c.windows = {8}; }, "windows is 1"},
      {[](ModelConfig& c) { c.windows = {8, -8}; }, "windows is -8"},
  };
  for (const Case& one : cases) {
    ModelConfig config = Small();
    one.change(config);
    const Status status = config.Validate();
    EXPECT_EQ(status.code(), StatusCode::kInvalidArgument) << one.text;
    EXPECT_THAT(status.message(), HasSubstr(one.text));
  }
  const Case mla_cases[] = {
      {[](ModelConfig& c) { c.mla.v_dim = 0; }, "mla.v_dim is 0"},
      {[](ModelConfig& c) { c.mla.v_dim = 257; }, "mla.v_dim is 257, but must be at most 256"},
      {[](ModelConfig& c) { c.mla.kv_rank = 513; }, "mla.kv_rank is 513, but must be at most 512"},
      {[](ModelConfig& c) { c.mla.nope_dim = 9; }, "head_dim is 16, but must be mla.nope_dim + mla.rope_dim"},
      {[](ModelConfig& c) { c.moe.n_groups = 3; }, "moe.n_groups is 3, but must be a divisor"},
      {[](ModelConfig& c) { c.moe.n_groups_used = 5; }, "moe.n_groups_used is 5"},
      {[](ModelConfig& c) { c.moe.n_used = 5; }, "moe.n_used is 5, but must be 1 to the 4 experts of the groups used"},
      {[](ModelConfig& c) { c.moe.n_dense_layers = 3; }, "moe.n_dense_layers is 3"},
  };
  for (const Case& one : mla_cases) {
    ModelConfig config = SmallMla();
    one.change(config);
    EXPECT_THAT(config.Validate().message(), HasSubstr(one.text));
  }
}

TEST(ModelConfigTest, KvBytesPerTokenAreThePublishedOnes) {
  ModelConfig llama3_8b = Small();
  llama3_8b.n_layers = 32, llama3_8b.n_heads = 32, llama3_8b.n_kv_heads = 8, llama3_8b.head_dim = 128;
  EXPECT_EQ(llama3_8b.KvLayoutFor(KvType::kBF16, 16).BytesPerToken(), 131072.0);
  ModelConfig deepseek_v3 = SmallMla();
  deepseek_v3.n_layers = 61, deepseek_v3.n_heads = 128, deepseek_v3.mla = {512, 1536, 128, 64, 128};
  EXPECT_EQ(deepseek_v3.KvLayoutFor(KvType::kBF16, 16).BytesPerToken(), 70272.0);
  EXPECT_TRUE(deepseek_v3.KvLayoutFor(KvType::kBF16, 16).Validate().ok());
}

}  // namespace
}  // namespace surety::model
