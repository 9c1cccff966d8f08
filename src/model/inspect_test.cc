#include "model/inspect.h"

#include <boost/json/parse.hpp>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "model/testing/gguf_writer.h"
#include "model/testing/memory_files.h"

namespace surety::model {
namespace {

using ::testing::HasSubstr;
using ::testing::Not;

const std::string kData = SURETY_TESTDATA;

ModelReport ReportOf(const std::string& path, const InspectOptions& options = {}) {
  const auto source = OpenModelSource(FileSystem::Real(), path);
  EXPECT_TRUE(source.has_value()) << source.error().ToString();
  auto report = Inspect(**source, options);
  EXPECT_TRUE(report.has_value()) << report.error().ToString();
  return *std::move(report);
}

TEST(InspectTest, CountsAddUp) {
  const ModelReport report = ReportOf(kData + "/gguf/tiny-llama-mixed.gguf", {.context = 64, .buffers_bytes = 1000});
  int64_t tensors = 0, bytes = 0, parameters = 0;
  for (const TensorTypeCount& type : report.types) {
    tensors += type.count, bytes += type.bytes, parameters += type.parameters;
  }
  EXPECT_EQ(tensors, report.n_tensors);
  EXPECT_EQ(bytes, report.tensor_bytes);
  EXPECT_EQ(parameters, report.n_parameters);
  EXPECT_LE(bytes, report.file_bytes);
  EXPECT_GE(report.types.size(), 8u);
  EXPECT_EQ(report.kv_bytes_per_token, 2.0 * 1 * 1 * 64 * 2);
  EXPECT_EQ(report.kv_bytes, 64 * 256);
  EXPECT_EQ(report.total_bytes, report.tensor_bytes + 64 * 256 + 1000);
}

TEST(InspectTest, AttentionKinds) {
  EXPECT_EQ(ReportOf(kData + "/tiny/qwen2").attention, AttentionKind::kGqa);
  EXPECT_EQ(ReportOf(kData + "/tiny/gemma3").attention, AttentionKind::kMqa);
  EXPECT_EQ(ReportOf(kData + "/tiny/bert").attention, AttentionKind::kMha);
  const ModelReport mla = ReportOf(kData + "/tiny/deepseek_v3");
  EXPECT_EQ(mla.attention, AttentionKind::kMla);
  const MlaConfig& config = mla.config.mla;
  EXPECT_EQ(mla.kv_bytes_per_token, mla.config.n_layers * (config.kv_rank + config.rope_dim) * 2.0);
}

TEST(InspectTest, EncodersHaveNoCache) {
  const ModelReport report = ReportOf(kData + "/tiny/bert");
  EXPECT_EQ(report.kv_bytes, 0);
  EXPECT_THAT(ReportText(report), Not(HasSubstr("KV a token")));
}

TEST(InspectTest, ContextsPastTheModelAreRefused) {
  const auto source = OpenModelSource(FileSystem::Real(), kData + "/tiny/llama");
  ASSERT_TRUE(source.has_value());
  for (int context : {-1, 129}) {
    const auto report = Inspect(**source, {.context = context});
    ASSERT_FALSE(report.has_value());
    EXPECT_THAT(report.error().message(), HasSubstr("a context of " + std::to_string(context)));
  }
}

TEST(InspectTest, JsonHasTheDocumentedNames) {
  for (const char* name : {"/tiny/deepseek_v3", "/tiny/bert", "/gguf/tiny-llama-q4_k.gguf"}) {
    const ModelReport report = ReportOf(kData + name, {.digest = true});
    boost::json::error_code error;
    const boost::json::value parsed = boost::json::parse(ReportJson(report), error);
    ASSERT_FALSE(error) << name << ReportJson(report);
    const boost::json::object& json = parsed.as_object();
    for (const char* key :
         {"path", "format", "file_bytes", "name", "digest", "architecture", "encoder", "layers", "d_model", "heads",
          "kv_heads", "head_dim", "d_ff", "vocab", "max_context", "attention", "tensors", "tied_output", "kv", "memory",
          "tokenizer", "chat_template", "generation"}) {
      EXPECT_TRUE(json.contains(key)) << name << " " << key;
    }
    EXPECT_EQ(json.at("digest").as_string().size(), 64u);
    EXPECT_EQ(json.contains("latent"), report.config.IsMla());
    EXPECT_EQ(json.contains("experts"), report.config.moe.n_experts > 0);
    EXPECT_EQ(json.contains("pooling"), report.config.encoder);
    EXPECT_EQ(json.contains("rope"), !report.config.encoder);
  }
}

TEST(InspectTest, BytesFromTheFileCannotReachTheTerminal) {
  ModelReport report = ReportOf(kData + "/tiny/llama");
  report.config.name = "a\x1b[2J";
  report.chat_template = "x\x1b]0;title\x07 \xff\xed\xa0\x80 \xe2\x82\xac";
  const std::string text = ReportText(report);
  EXPECT_EQ(text.find('\x1b'), std::string::npos);
  EXPECT_EQ(text.find('\x07'), std::string::npos);
  boost::json::error_code error;
  const boost::json::value json = boost::json::parse(ReportJson(report), error);
  ASSERT_FALSE(error);
  EXPECT_THAT(std::string(json.at("chat_template").as_string()), HasSubstr("\xe2\x82\xac"));
}

}  // namespace
}  // namespace surety::model
