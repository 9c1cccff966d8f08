// Whole models against transformers' float32 logits, and against themselves under every way of cutting the work.
#include <cmath>
#include <cstring>
#include <filesystem>

#include <gtest/gtest.h>

#include "model/testing/allocation_counter.h"
#include "model/testing/model_runner.h"
#include "model/testing/reference_file.h"

namespace surety::model {
namespace {

const std::string kTiny = std::string(SURETY_TESTDATA) + "/tiny/";

const char* const kDecoders[] = {"llama",   "llama-f16", "llama3",      "llama3-v5",
                                 "mistral", "qwen2",     "qwen2-bf16",    "qwen3",       "gemma2",
                                 "gemma3",  "deepseek_v2", "deepseek_v2-groups", "deepseek_v3"};

std::unique_ptr<ModelRunner> OpenOrFail(const std::string& path, const RunnerOptions& options) {
  auto runner = ModelRunner::Open(path, options);
  EXPECT_TRUE(runner.has_value()) << (runner ? "" : runner.error().ToString());
  return runner ? *std::move(runner) : nullptr;
}

// The reference file states how far its logits move when every weight and activation is disturbed by a relative 1e-6.
// Float arithmetic disturbs each by at most (terms of the longest sum) * 2^-24, so the bound scales by that ratio.
double Tolerance(const ReferenceFile& reference, const ModelConfig& config) {
  const int longest_sum = std::max({config.d_model, config.d_ff, static_cast<int>(reference.input_ids.size())});
  return reference.Number("noise_1e-6") / 1e-6 * longest_sum * 0x1p-24;
}

bool SameBits(const std::vector<float>& a, const std::vector<float>& b) {
  return a.size() == b.size() && std::memcmp(a.data(), b.data(), a.size() * sizeof(float)) == 0;
}

class TinyModelTest : public ::testing::TestWithParam<const char*> {
 protected:
  std::string path() const { return kTiny + GetParam(); }
  void SetUp() override {
    if (!std::filesystem::exists(path())) GTEST_SKIP() << path() << " is absent";
  }
};

TEST_P(TinyModelTest, LogitsEqualTheReference) {
  const auto reference = ReadReferenceFile(path() + "/reference.safetensors");
  ASSERT_FALSE(reference.input_ids.empty());
  const auto runner = OpenOrFail(path(), {});
  ASSERT_NE(runner, nullptr);
  const auto& expected = reference.values.at("logits");
  const double tolerance = Tolerance(reference, runner->model().config());
  for (bool materialised : {false, true}) {
    if (!runner->model().SetMaterialisedMla(materialised) && materialised) break;
    const auto logits = runner->Run(reference.input_ids, {1000});
    ASSERT_EQ(logits.size(), expected.size());
    double worst = 0;
    for (size_t i = 0; i < logits.size(); ++i) {
      const double difference = std::abs(static_cast<double>(logits[i]) - expected[i]);
      ASSERT_FALSE(std::isnan(difference)) << "row " << i / static_cast<size_t>(runner->out_cols());
      worst = std::max(worst, difference);
    }
    EXPECT_LE(worst, tolerance) << "materialised " << materialised;
    RecordProperty("worst_difference", std::to_string(worst));
  }
}

// Levels D1 and D2 of docs/adr/0001: chunking, batch, pages and workers never change a bit.
TEST_P(TinyModelTest, BitsDoNotDependOnHowTheWorkIsCut) {
  const auto reference = ReadReferenceFile(path() + "/reference.safetensors");
  ASSERT_FALSE(reference.input_ids.empty());
  const auto& ids = reference.input_ids;
  for (KvType type : {KvType::kF32, KvType::kF16, KvType::kBF16, KvType::kQ8_0}) {
    const auto whole_runner = ModelRunner::Open(path(), {.kv_type = type});
    if (!whole_runner) {
      ASSERT_EQ(type, KvType::kQ8_0) << whole_runner.error().ToString();  // head sizes that are no multiple of 32
      continue;
    }
    const auto whole = (*whole_runner)->Run(ids, {1000});
    for (const auto& chunks : std::vector<std::vector<int>>{{1}, {7}, {16}, {17, 1}, {3, 30, 2}}) {
      EXPECT_TRUE(SameBits(whole, (*whole_runner)->Run(ids, chunks))) << NameOf(type) << " chunk " << chunks[0];
    }
    const std::vector<int32_t> other(ids.rbegin(), ids.rend());
    const auto together = (*whole_runner)->RunTogether({other, ids, {ids.begin(), ids.begin() + 5}}, 9);
    EXPECT_TRUE(SameBits(whole, together[1])) << NameOf(type) << " in a batch";
    EXPECT_TRUE(SameBits({whole.begin(), whole.begin() + static_cast<int64_t>(together[2].size())}, together[2]));
    EXPECT_EQ((*whole_runner)->forward_allocations(), 0);
    EXPECT_GT(AllocationsSoFar(), 0);  // the counter is linked in
    for (int threads : {2, 3}) {
      const auto runner = OpenOrFail(path(), {.kv_type = type, .page_tokens = 32, .n_threads = threads,
                                              .shuffle_seed = 9});
      ASSERT_NE(runner, nullptr);
      EXPECT_TRUE(SameBits(whole, runner->Run(ids, {13}))) << NameOf(type) << " threads " << threads;
      EXPECT_EQ(runner->forward_allocations(), 0) << NameOf(type) << " threads " << threads;
    }
  }
}

INSTANTIATE_TEST_SUITE_P(AllArchitectures, TinyModelTest, ::testing::ValuesIn(kDecoders), [](const auto& info) {
  std::string name = info.param;
  std::replace(name.begin(), name.end(), '-', '_');
  return name;
});

class TinyEncoderTest : public ::testing::TestWithParam<const char*> {};

TEST_P(TinyEncoderTest, HiddenStatesEqualTheReference) {
  const std::string path = kTiny + GetParam();
  const auto reference = ReadReferenceFile(path + "/reference.safetensors");
  ASSERT_FALSE(reference.input_ids.empty());
  const auto runner = OpenOrFail(path, {});
  ASSERT_NE(runner, nullptr);
  const auto hidden = runner->Run(reference.input_ids, {1000});
  EXPECT_EQ(runner->forward_allocations(), 0);
  const auto& expected = reference.values.at("last_hidden_state");
  ASSERT_EQ(hidden.size(), expected.size());
  const double tolerance = Tolerance(reference, runner->model().config());
  for (size_t i = 0; i < hidden.size(); ++i) ASSERT_NEAR(hidden[i], expected[i], tolerance) << i;
}

INSTANTIATE_TEST_SUITE_P(AllEncoders, TinyEncoderTest, ::testing::Values("bert", "bert-cls"), [](const auto& info) {
  return std::string(info.param) == "bert" ? "bert" : "bert_cls";
});

class TinyGgufTest : public ::testing::TestWithParam<std::string> {};

TEST_P(TinyGgufTest, LogitsEqualTheDequantisedReference) {
  const std::string path = GetParam();
  const auto reference = ReadReferenceFile(path.substr(0, path.size() - 5) + ".reference.safetensors");
  ASSERT_FALSE(reference.input_ids.empty());
  const auto runner = OpenOrFail(path, {});
  ASSERT_NE(runner, nullptr);
  const auto logits = runner->Run(reference.input_ids, {1000});
  const auto& expected = reference.values.at("logits");
  ASSERT_EQ(logits.size(), expected.size());
  // Activations are rounded to 8 bits, so the distributions are compared: mean divergence and the most likely token.
  const auto v = static_cast<size_t>(runner->out_cols());
  double divergence = 0;
  int same_top = 0;
  const size_t rows = logits.size() / v;
  for (size_t row = 0; row < rows; ++row) {
    const auto log_softmax = [v](const float* x) {
      double sum = 0;
      for (size_t i = 0; i < v; ++i) sum += std::exp(static_cast<double>(x[i]));
      std::vector<double> y(v);
      for (size_t i = 0; i < v; ++i) y[i] = x[i] - std::log(sum);
      return y;
    };
    const auto p = log_softmax(expected.data() + row * v), q = log_softmax(logits.data() + row * v);
    for (size_t i = 0; i < v; ++i) divergence += std::exp(p[i]) * (p[i] - q[i]);
    same_top += std::max_element(p.begin(), p.end()) - p.begin() == std::max_element(q.begin(), q.end()) - q.begin();
  }
  // Rounding x to a step of max|x| / 127 disturbs it by about 2.5 / (127 sqrt(12)) of its root mean square. Four
  // products a layer and the output matrix add up as independent errors, and a relative error r of logits of variance v
  // costs about v r^2 / 2 of divergence. Twice that error in size is allowed: four times the divergence.
  double mean = 0, square = 0;
  for (float x : expected) {
    mean += x;
    square += static_cast<double>(x) * x;
  }
  mean /= static_cast<double>(expected.size());
  const double variance = square / static_cast<double>(expected.size()) - mean * mean;
  const double rounding = 2.5 / (127 * std::sqrt(12.0));
  const double error = rounding * rounding * (4 * runner->model().config().n_layers + 1);
  EXPECT_LT(divergence / static_cast<double>(rows), 4 * variance * error / 2) << path;
  EXPECT_GE(same_top, static_cast<int>(rows * 9 / 10)) << path;
}

std::vector<std::string> TinyGgufFiles() {
  std::vector<std::string> files;
  const std::string folder = std::string(SURETY_TESTDATA) + "/gguf";
  if (!std::filesystem::exists(folder)) return files;
  for (const auto& entry : std::filesystem::directory_iterator(folder)) {
    const std::string path = entry.path().string();
    if (path.ends_with(".gguf") &&
        std::filesystem::exists(path.substr(0, path.size() - 5) + ".reference.safetensors")) {
      files.push_back(path);
    }
  }
  std::sort(files.begin(), files.end());
  return files;
}

INSTANTIATE_TEST_SUITE_P(AllFiles, TinyGgufTest, ::testing::ValuesIn(TinyGgufFiles()), [](const auto& info) {
  std::string name = std::filesystem::path(info.param).stem().string();
  std::replace_if(name.begin(), name.end(), [](char c) { return !std::isalnum(static_cast<unsigned char>(c)); }, '_');
  return name;
});

}  // namespace
}  // namespace surety::model
