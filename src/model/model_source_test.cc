#include "model/model_source.h"

#include <cmath>
#include <cstdlib>
#include <filesystem>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "model/formats/hf_names.h"
#include "model/testing/memory_files.h"

namespace surety::model {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

const std::string kTestData = SURETY_TESTDATA;

std::unique_ptr<ModelSource> OpenOrFail(const std::string& path) {
  auto source = OpenModelSource(FileSystem::Real(), path);
  EXPECT_TRUE(source.has_value()) << source.error().ToString();
  return source ? *std::move(source) : nullptr;
}

// A copy of a testdata folder in memory, to be spoiled.
MemoryFiles CopyOf(const std::string& folder) {
  MemoryFiles copy;
  for (const auto& entry : std::filesystem::recursive_directory_iterator(folder)) {
    if (!entry.is_regular_file()) continue;
    const std::string name = entry.path().string().substr(folder.size() + 1);
    copy.files["/m/" + name] = *FileSystem::Real().ReadAll(entry.path().string(), 1 << 24);
  }
  return copy;
}

void Replace(std::string& text, const std::string& from, const std::string& to) {
  const size_t at = text.find(from);
  ASSERT_NE(at, std::string::npos) << from;
  text.replace(at, from.size(), to);
}

Status ErrorOf(MemoryFiles& files, const std::string& path = "/m") {
  const auto source = OpenModelSource(files, path);
  return source ? OkStatus() : source.error();
}

TEST(HfModelTest, EveryTinyModelOpens) {
  int n = 0;
  for (const auto& entry : std::filesystem::directory_iterator(kTestData + "/tiny")) {
    if (!entry.is_directory()) continue;
    SCOPED_TRACE(entry.path().string());
    const auto source = OpenOrFail(entry.path().string());
    ASSERT_NE(source, nullptr);
    EXPECT_EQ(source->format(), "safetensors");
    EXPECT_NE(source->Find("token_embd.weight"), nullptr);
    EXPECT_GT(source->file_bytes(), 0);
    ++n;
  }
  EXPECT_GE(n, 11);
}

TEST(HfModelTest, DeepSeekV3IsMappedAsPublished) {
  const auto source = OpenOrFail(kTestData + "/tiny/deepseek_v3");
  ASSERT_NE(source, nullptr);
  const ModelConfig& c = source->config();
  EXPECT_EQ(c.architecture, "deepseek2");
  EXPECT_TRUE(c.IsMla());
  EXPECT_TRUE(c.rope.interleaved);
  EXPECT_EQ(c.rope.scaling, RopeScaling::kYarn);
  EXPECT_EQ(c.rope.Magnitude(), 1.0);
  EXPECT_EQ(c.moe.scoring, ExpertScoring::kSigmoid);
  EXPECT_TRUE(c.moe.group_by_top2);
  EXPECT_TRUE(c.moe.normalise_weights);
  EXPECT_EQ(c.moe.routed_scale, 2.5);
  EXPECT_NE(source->Find("blk.1.ffn_down_exps.7.weight"), nullptr);
  EXPECT_NE(source->Find("blk.1.exp_probs_b.bias"), nullptr);
  EXPECT_NE(source->Find("blk.0.ffn_down.weight"), nullptr);
  EXPECT_THAT(source->generation_defaults().eos_token_ids, ElementsAre(2));
}

TEST(HfModelTest, GemmaKeepsItsPeculiarities) {
  const auto source = OpenOrFail(kTestData + "/tiny/gemma3");
  ASSERT_NE(source, nullptr);
  const ModelConfig& c = source->config();
  EXPECT_EQ(c.norm_weight_offset, 1.0f);
  EXPECT_EQ(c.embedding_scale, std::sqrt(static_cast<float>(c.d_model)));
  EXPECT_FLOAT_EQ(c.attention_scale, 1 / std::sqrt(24.0f));
  EXPECT_THAT(c.windows, ElementsAre(8, 8, 0, 8));
  EXPECT_EQ(c.rope.base, 1e6);
  EXPECT_EQ(c.rope.factor, 8.0);
  EXPECT_EQ(c.rope_local.base, 1e4);
  EXPECT_EQ(c.rope_local.scaling, RopeScaling::kNone);
  EXPECT_NE(source->Find("blk.0.post_attention_norm.weight"), nullptr);
  EXPECT_NE(source->Find("blk.0.ffn_norm.weight"), nullptr);
  EXPECT_EQ(source->Find("output.weight"), nullptr);
}

TEST(HfModelTest, EncoderPoolingComesFromItsModules) {
  const auto mean = OpenOrFail(kTestData + "/tiny/bert");
  const auto cls = OpenOrFail(kTestData + "/tiny/bert-cls");
  ASSERT_TRUE(mean != nullptr && cls != nullptr);
  EXPECT_EQ(mean->config().pooling, Pooling::kMean);
  EXPECT_EQ(cls->config().pooling, Pooling::kCls);
  EXPECT_TRUE(mean->config().encoder && mean->config().normalise_embedding);
  EXPECT_EQ(mean->config().activation, FfnActivation::kGeluErf);
}

TEST(HfModelTest, OneFileOpensLikeItsFolder) {
  const auto source = OpenOrFail(kTestData + "/tiny/llama/model.safetensors");
  ASSERT_NE(source, nullptr);
  EXPECT_EQ(source->config().architecture, "llama");
  EXPECT_FALSE(source->config().rope.interleaved);
}

TEST(HfModelTest, ShardsFollowTheIndex) {
  MemoryFiles files = CopyOf(kTestData + "/tiny/mistral");
  if (!files.Exists("/m/model.safetensors.index.json")) files = CopyOf(kTestData + "/tiny/llama-sharded");
  ASSERT_TRUE(files.Exists("/m/model.safetensors.index.json"));
  EXPECT_TRUE(ErrorOf(files).ok()) << ErrorOf(files).ToString();
  std::string& index = files.files["/m/model.safetensors.index.json"];
  const std::string good = index;
  Replace(index, "model-00001-of", "../../etc/model-00001-of");
  EXPECT_THAT(ErrorOf(files).message(), HasSubstr("no .safetensors file of this folder"));
  index = good;
  Replace(index, "lm_head.weight", "lm_head.other");
  EXPECT_THAT(ErrorOf(files).message(), HasSubstr("'lm_head.other' is not in"));
  index = good;
  std::string shard;
  for (const auto& [path, contents] : files.files) {
    if (path.find("00002-of") != std::string::npos) shard = path;
  }
  files.files.erase(shard);
  EXPECT_EQ(ErrorOf(files).code(), StatusCode::kNotFound);
  EXPECT_THAT(ErrorOf(files).message(), HasSubstr("00002-of"));
}

TEST(HfModelTest, MismatchesNameTheTensorAndBothShapes) {
  MemoryFiles files = CopyOf(kTestData + "/tiny/llama3");
  std::string& config = files.files["/m/config.json"];
  const std::string good = config;
  Replace(config, "\"intermediate_size\": 64", "\"intermediate_size\": 96");
  EXPECT_THAT(ErrorOf(files).message(),
              HasSubstr("tensor 'blk.0.ffn_gate.weight' has shape [64, 64], but [96, 64] is expected"));
  config = good;
  Replace(config, "\"num_hidden_layers\": 2", "\"num_hidden_layers\": 3");
  EXPECT_EQ(ErrorOf(files).code(), StatusCode::kNotFound);
  EXPECT_THAT(ErrorOf(files).message(), HasSubstr("tensor 'blk.2.attn_norm.weight' of shape [64] is missing"));
  config = good;
  Replace(config, "\"num_hidden_layers\": 2", "\"num_hidden_layers\": 1");
  EXPECT_EQ(ErrorOf(files).code(), StatusCode::kUnimplemented);
  EXPECT_THAT(ErrorOf(files).message(), HasSubstr("blk.1."));
  config = good;
  Replace(config, "\"num_key_value_heads\": 1", "\"num_key_value_heads\": 3");
  EXPECT_THAT(ErrorOf(files).message(), HasSubstr("n_heads is 4, but must be a multiple of n_kv_heads, 3"));
  config = good;
  Replace(config, "\"num_hidden_layers\": 2", "\"num_hidden_layers\": 2147483647");
  EXPECT_THAT(ErrorOf(files).message(), HasSubstr("'num_hidden_layers' is 2147483647"));
}

TEST(HfModelTest, MissingKeysAndUnknownTypesNameTheFile) {
  MemoryFiles files = CopyOf(kTestData + "/tiny/llama");
  std::string& config = files.files["/m/config.json"];
  const std::string good = config;
  for (const char* key : {"hidden_size", "num_attention_heads", "vocab_size", "rms_norm_eps", "model_type"}) {
    config = good;
    Replace(config, std::string("\"") + key + "\"", "\"other\"");
    EXPECT_EQ(ErrorOf(files).code(), StatusCode::kNotFound) << key;
    EXPECT_THAT(ErrorOf(files).message(), HasSubstr("'/m/config.json': key '" + std::string(key) + "' is missing"));
  }
  config = good;
  Replace(config, "\"model_type\": \"llama\"", "\"model_type\": \"mamba\"");
  EXPECT_EQ(ErrorOf(files).code(), StatusCode::kUnimplemented);
  EXPECT_THAT(ErrorOf(files).message(), HasSubstr("'mamba'"));
  EXPECT_THAT(ErrorOf(files).message(), HasSubstr("deepseek_v3, gemma2, gemma3_text, llama, mistral, qwen2, qwen3"));
  config = "{\"model_type\": ";
  EXPECT_THAT(ErrorOf(files).message(), HasSubstr("'/m/config.json': byte"));
  files.files.erase("/m/config.json");
  EXPECT_EQ(ErrorOf(files).code(), StatusCode::kInvalidArgument);
}

TEST(HfModelTest, PickledWeightsAreRefusedWithTheReason) {
  MemoryFiles files = CopyOf(kTestData + "/tiny/llama");
  files.files["/m/pytorch_model.bin"] = files.files["/m/model.safetensors"];
  files.files.erase("/m/model.safetensors");
  files.files.erase("/m/reference.safetensors");
  EXPECT_THAT(ErrorOf(files).message(), HasSubstr("pickled weights"));
}

TEST(HfModelTest, ChatTemplateFilesInOrder) {
  MemoryFiles files = CopyOf(kTestData + "/tiny/llama");
  const auto chat = [&] { return (*OpenModelSource(files, "/m"))->chat_template(); };
  EXPECT_EQ(chat(), "");
  files.files["/m/tokenizer_config.json"] =
      R"({"chat_template":[{"name":"tool_use","template":"T"},{"name":"default","template":"D"}]})";
  EXPECT_EQ(chat(), "D");
  files.files["/m/tokenizer_config.json"] = R"({"chat_template":"S"})";
  EXPECT_EQ(chat(), "S");
  files.files["/m/chat_template.json"] = R"({"chat_template":"J"})";
  EXPECT_EQ(chat(), "J");
  files.files["/m/chat_template.jinja"] = "{{ raw }}";
  EXPECT_EQ(chat(), "{{ raw }}");
  files.files.erase("/m/chat_template.jinja");
  files.files["/m/chat_template.json"] = R"({"chat_template":7})";
  EXPECT_THAT(ErrorOf(files).message(), HasSubstr("'/m/chat_template.json': key 'chat_template' is a number"));
}

TEST(HfModelTest, EndTokensOutsideTheVocabularyAreRefused) {
  MemoryFiles files = CopyOf(kTestData + "/tiny/llama");
  files.files["/m/generation_config.json"] = R"({"eos_token_id":[2,256],"temperature":0.6,"top_k":20})";
  EXPECT_THAT(ErrorOf(files).message(), HasSubstr("end token 256 is not in the vocabulary of 256"));
  files.files["/m/generation_config.json"] = R"({"eos_token_id":[2,7],"temperature":0.6,"top_k":20})";
  const auto source = OpenModelSource(files, "/m");
  ASSERT_TRUE(source.has_value());
  EXPECT_THAT((*source)->generation_defaults().eos_token_ids, ElementsAre(2, 7));
  EXPECT_EQ((*source)->generation_defaults().temperature, 0.6);
  EXPECT_EQ((*source)->generation_defaults().top_k, 20);
}

TEST(HfModelTest, DigestDependsOnWeightsAndConfiguration) {
  MemoryFiles files = CopyOf(kTestData + "/tiny/llama");
  const auto digest = [&] { return *(*OpenModelSource(files, "/m"))->Digest(); };
  const std::string before = digest();
  EXPECT_EQ(before.size(), 64u);
  EXPECT_EQ(digest(), before);
  files.files["/m/model.safetensors"].back() ^= 1;
  const std::string other_weights = digest();
  EXPECT_NE(other_weights, before);
  files.files["/m/tokenizer.json"] = "{}";
  EXPECT_NE(digest(), other_weights);
}

TEST(HfNamesTest, OldLayerNormNamesAndPrefixesAreKnown) {
  ModelConfig bert;
  bert.encoder = true;
  EXPECT_EQ(CanonicalName("bert.encoder.layer.11.output.LayerNorm.gamma", bert).canonical,
            "blk.11.layer_output_norm.weight");
  EXPECT_EQ(CanonicalName("embeddings.LayerNorm.beta", bert).canonical, "token_embd_norm.bias");
  EXPECT_EQ(CanonicalName("embeddings.position_ids", bert).kind, HfName::Kind::kIgnored);
  ModelConfig llama;
  llama.architecture = "llama";
  EXPECT_EQ(CanonicalName("layers.3.mlp.up_proj.weight", llama).canonical, "blk.3.ffn_up.weight");
  EXPECT_EQ(CanonicalName("model.layers.3.self_attn.sinks", llama).kind, HfName::Kind::kUnknown);
  EXPECT_EQ(CanonicalName("model.layers.99999999999.mlp.up_proj.weight", llama).kind, HfName::Kind::kUnknown);
  EXPECT_EQ(CanonicalName("model.layers..mlp.up_proj.weight", llama).kind, HfName::Kind::kUnknown);
}

TEST(GgufModelTest, EveryTinyModelOpens) {
  int n = 0;
  for (const auto& entry : std::filesystem::directory_iterator(kTestData + "/gguf")) {
    if (entry.path().extension() != ".gguf") continue;
    SCOPED_TRACE(entry.path().string());
    const auto source = OpenOrFail(entry.path().string());
    ASSERT_NE(source, nullptr);
    EXPECT_EQ(source->format(), "gguf");
    const ModelConfig& c = source->config();
    EXPECT_EQ(c.rope.interleaved, c.architecture == "llama");
    EXPECT_EQ(c.norm_weight_offset, 0.0f);
    EXPECT_FALSE(source->chat_template().empty());
    ++n;
  }
  EXPECT_GE(n, 7);
}

class RealModelTest : public ::testing::Test {
 protected:
  // Empty (and the test skipped) if the model is not on this machine.
  static std::string PathOf(const std::string& name) {
    const char* folder = std::getenv("SURETY_MODELS");
    const char* home = std::getenv("HOME");
    const std::string cache = std::string(home == nullptr ? "" : home) + "/.cache/surety/models";
    const std::string path = (folder != nullptr ? folder : cache) + "/" + name;
    return FileSystem::Real().Exists(path) ? path : "";
  }
};

TEST_F(RealModelTest, ShapesAreThoseOfTheCatalogue) {
  struct Case {
    const char* file;
    const char* architecture;
    int layers, d_model, heads, kv_heads, head_dim, d_ff, vocab, context;
    size_t tensors;
    bool has_template;
  };
  const Case cases[] = {
      {"smollm2-135m-instruct.gguf", "llama", 30, 576, 9, 3, 64, 1536, 49152, 8192, 272, true},
      {"qwen2.5-coder-0.5b-instruct.gguf", "qwen2", 24, 896, 14, 2, 64, 4864, 151936, 32768, 291, true},
      {"qwen2.5-coder-1.5b-instruct.gguf", "qwen2", 28, 1536, 12, 2, 128, 8960, 151936, 32768, 339, true},
      {"gemma-3-270m.gguf", "gemma3", 18, 640, 4, 1, 256, 2048, 262144, 32768, 236, false},
      {"all-MiniLM-L6-v2", "bert", 6, 384, 12, 12, 32, 1536, 30522, 512, 101, false},
  };
  int seen = 0;
  for (const Case& one : cases) {
    const std::string path = PathOf(one.file);
    if (path.empty()) continue;
    SCOPED_TRACE(one.file);
    const auto source = OpenOrFail(path);
    ASSERT_NE(source, nullptr);
    const ModelConfig& c = source->config();
    EXPECT_EQ(c.architecture, one.architecture);
    EXPECT_THAT((std::vector<int>{c.n_layers, c.d_model, c.n_heads, c.n_kv_heads, c.head_dim, c.d_ff, c.vocab_size,
                                  c.max_context}),
                ElementsAre(one.layers, one.d_model, one.heads, one.kv_heads, one.head_dim, one.d_ff, one.vocab,
                            one.context));
    EXPECT_EQ(source->tensors().size(), one.tensors);
    EXPECT_EQ(!source->chat_template().empty(), one.has_template);
    ++seen;
  }
  if (seen == 0) GTEST_SKIP() << "no real models on this machine (SURETY_MODELS)";
}

TEST_F(RealModelTest, DigestIsTheFilesSha256) {
  const std::string path = PathOf("smollm2-135m-instruct.gguf");
  if (path.empty()) GTEST_SKIP() << "smollm2-135m-instruct.gguf is not on this machine (SURETY_MODELS)";
  EXPECT_EQ(*OpenOrFail(path)->Digest(), "b179c9523d0e6a0f98a330c7562b682750a6f8c8c15e5bc70ea373728110db53");
}

TEST(OpenModelSourceTest, OtherThingsAreRefused) {
  FileSystem& files = FileSystem::Real();
  EXPECT_EQ(OpenModelSource(files, "/no/such/model").error().code(), StatusCode::kNotFound);
  EXPECT_EQ(OpenModelSource(files, "/no/such/model.safetensors").error().code(), StatusCode::kNotFound);
  EXPECT_EQ(OpenModelSource(files, kTestData).error().code(), StatusCode::kInvalidArgument);
  const auto other = OpenModelSource(files, kTestData + "/text/README.md");
  ASSERT_FALSE(other.has_value());
  EXPECT_EQ(other.error().code(), StatusCode::kInvalidArgument);
  EXPECT_THAT(other.error().message(), HasSubstr("neither a GGUF file"));
}

}  // namespace
}  // namespace surety::model
