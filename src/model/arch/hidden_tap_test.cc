// Hidden states that a step keeps: against a reference of every tap, and that keeping them changes nothing else.
#include <cmath>
#include <cstring>

#include <gtest/gtest.h>

#include "model/testing/model_runner.h"
#include "model/testing/reference_file.h"

namespace surety::model {
namespace {

const std::string kTinyModels = std::string(SURETY_TESTDATA) + "/tiny/";
const std::vector<std::vector<int>> kCuts = {{1}, {7}, {16, 1}, {1000}};

bool EqualBits(std::span<const float> a, std::span<const float> b) {
  return a.size() == b.size() && std::memcmp(a.data(), b.data(), a.size_bytes()) == 0;
}

std::unique_ptr<ModelRunner> RunnerWith(const std::string& path, std::vector<HiddenTap> taps) {
  auto runner = ModelRunner::Open(path, {.taps = std::move(taps)});
  EXPECT_TRUE(runner.has_value()) << (runner ? "" : runner.error().ToString());
  return runner ? *std::move(runner) : nullptr;
}

class HiddenTapTest : public ::testing::TestWithParam<const char*> {};

TEST_P(HiddenTapTest, LogitsKeepTheirBitsWhateverIsKept) {
  const std::string path = kTinyModels + GetParam();
  const auto reference = ReadReferenceFile(path + "/reference.safetensors");
  ASSERT_FALSE(reference.input_ids.empty());
  const auto plain = RunnerWith(path, {});
  ASSERT_NE(plain, nullptr);
  EXPECT_EQ(plain->model().taps().rows, 0);
  const auto all = plain->Run(reference.input_ids, {1000});
  plain->set_last_logits_only(true);
  const std::vector<std::vector<HiddenTap>> choices = {
      {{0}}, {{1}, {0}}, {{HiddenTap::kFinal}}, {{0}, {1}, {HiddenTap::kFinal}}};
  for (const auto& taps : choices) {
    const auto runner = RunnerWith(path, taps);
    ASSERT_NE(runner, nullptr);
    std::vector<float> first;
    for (const auto& cut : kCuts) {
      runner->set_last_logits_only(false);
      EXPECT_TRUE(EqualBits(all, runner->Run(reference.input_ids, cut))) << taps.size() << " taps, chunk " << cut[0];
      if (first.empty()) first = runner->tapped();
      EXPECT_EQ(first.size(), reference.input_ids.size() * taps.size() *
                                  static_cast<size_t>(runner->model().config().d_model));
      EXPECT_TRUE(EqualBits(first, runner->tapped())) << taps.size() << " taps, chunk " << cut[0];
      runner->set_last_logits_only(true);
      EXPECT_TRUE(EqualBits(plain->Run(reference.input_ids, cut), runner->Run(reference.input_ids, cut)));
      EXPECT_TRUE(EqualBits(first, runner->tapped())) << "with few logits";
    }
    EXPECT_EQ(runner->forward_allocations(), 0);
  }
}

INSTANTIATE_TEST_SUITE_P(Architectures, HiddenTapTest,
                         ::testing::Values("llama", "gemma2", "gemma3", "qwen3", "deepseek_v2", "deepseek_v3"));

TEST(HiddenTapReferenceTest, StatesEqualTheReferenceOfEveryTap) {
  const auto reference = ReadReferenceFile(std::string(SURETY_TESTDATA) + "/heads/llama_taps.safetensors");
  ASSERT_FALSE(reference.input_ids.empty());
  const auto runner = RunnerWith(kTinyModels + "llama", {{1}, {HiddenTap::kFinal}, {0}});
  ASSERT_NE(runner, nullptr);
  runner->Run(reference.input_ids, {5});
  const auto& kept = runner->tapped();
  const size_t d = 64, rows = reference.input_ids.size();
  ASSERT_EQ(kept.size(), rows * 3 * d);
  // Two layers of sums of at most 64 terms on values of a few units: far below this, and far above it if a tap is off.
  constexpr double kTolerance = 2e-4;
  const char* const names[] = {"entering_1", "final", "entering_0"};
  for (size_t tap = 0; tap < 3; ++tap) {
    const auto& expected = reference.values.at(names[tap]);
    for (size_t row = 0; row < rows; ++row) {
      for (size_t c = 0; c < d; ++c) {
        ASSERT_NEAR(kept[(row * 3 + tap) * d + c], expected[row * d + c], kTolerance) << names[tap] << " row " << row;
      }
    }
  }
}

TEST(HiddenTapReferenceTest, RefusesLayersThatAreNotThere) {
  for (const int layer : {2, -2, 100}) {
    const auto runner = ModelRunner::Open(kTinyModels + "llama", {.taps = {{0}, {layer}}});
    ASSERT_FALSE(runner.has_value());
    EXPECT_EQ(runner.error().code(), StatusCode::kInvalidArgument);
    EXPECT_NE(runner.error().message().find("layer " + std::to_string(layer)), std::string::npos);
    EXPECT_NE(runner.error().message().find("0 to 1"), std::string::npos);
  }
  EXPECT_EQ(ModelRunner::Open(kTinyModels + "bert", {.taps = {{0}}}).error().code(), StatusCode::kUnimplemented);
}

}  // namespace
}  // namespace surety::model
