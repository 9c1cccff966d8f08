#include "engine/sampler.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <map>
#include <numeric>
#include <tuple>

#include <gtest/gtest.h>

#include "base/random.h"

namespace surety::engine {
namespace {

std::vector<float> RandomLogits(int n, uint64_t seed, double spread) {
  std::vector<float> logits(static_cast<size_t>(n));
  for (int i = 0; i < n; ++i) {
    const double u = RandomUniform({seed, static_cast<uint64_t>(i), RandomPurpose::kTest});
    logits[static_cast<size_t>(i)] = static_cast<float>((u - 0.5) * spread);
  }
  return logits;
}

// The law in the order of the definitions, on the whole vocabulary, without any shortcut.
std::map<int32_t, double> NaiveLaw(const std::vector<float>& logits, const api::SamplingParams& p) {
  std::vector<std::pair<double, int32_t>> order;  // (-probability, id): ascending = most probable first, lower id first
  const double top = *std::max_element(logits.begin(), logits.end());
  for (size_t i = 0; i < logits.size(); ++i) {
    order.emplace_back(-std::exp((logits[i] - top) / static_cast<double>(p.temperature)), static_cast<int32_t>(i));
  }
  const auto normalise = [&order] {
    double sum = 0;
    for (const auto& [w, id] : order) sum += w;
    for (auto& [w, id] : order) w = -(w / sum);
    std::sort(order.begin(), order.end());
  };
  std::sort(order.begin(), order.end());
  if (p.top_k > 0 && static_cast<size_t>(p.top_k) < order.size()) order.resize(static_cast<size_t>(p.top_k));
  normalise();
  if (p.typical_p < 1) {
    double entropy = 0;
    for (const auto& [w, id] : order) {
      if (w < 0) entropy -= -w * std::log(-w);
    }
    std::stable_sort(order.begin(), order.end(), [&](const auto& a, const auto& b) {
      return std::abs(-std::log(-a.first) - entropy) < std::abs(-std::log(-b.first) - entropy);
    });
    double mass = 0;
    size_t n = 0;
    while (n < order.size() && mass < p.typical_p) mass += -order[n++].first;
    order.resize(n);
    normalise();
  }
  if (p.top_p < 1) {
    double mass = 0;
    size_t n = 0;
    while (n < order.size() && mass < p.top_p) mass += -order[n++].first;
    order.resize(n);
    normalise();
  }
  if (p.min_p > 0) {
    const double floor = -order[0].first * p.min_p;
    std::erase_if(order, [&](const auto& e) { return -e.first < floor; });
    normalise();
  }
  std::map<int32_t, double> law;
  for (const auto& [w, id] : order) law[id] = -w;
  return law;
}

TEST(SamplerTest, DistributionFollowsTheDefinitions) {
  Sampler sampler(200);
  int checked = 0;
  for (uint64_t seed = 0; seed < 60; ++seed) {
    const auto logits = RandomLogits(200, seed, 16.0);
    for (float temperature : {0.3f, 1.0f, 1.7f}) {
      for (int top_k : {0, 1, 7}) {
        for (float typical : {1.0f, 0.6f}) {
          for (float top_p : {1.0f, 0.8f}) {
            for (float min_p : {0.0f, 0.05f}) {
              const api::SamplingParams p = {.temperature = temperature, .top_k = top_k, .typical_p = typical,
                                             .top_p = top_p, .min_p = min_p};
              const auto law = NaiveLaw(logits, p);
              const auto ours = sampler.Distribution(logits, p);
              ASSERT_EQ(ours.size(), law.size()) << seed << " " << temperature << " " << top_k << " " << top_p;
              for (const auto& [id, probability] : ours) {
                ASSERT_TRUE(law.contains(id));
                ASSERT_NEAR(probability, law.at(id), 1e-12);
              }
              ++checked;
            }
          }
        }
      }
    }
  }
  EXPECT_EQ(checked, 60 * 3 * 3 * 2 * 2 * 2);
}

// Vocabularies in which the largest are looked for by columns, and top-p by depth.
TEST(SamplerTest, DistributionOfManyTokensFollowsTheDefinitions) {
  constexpr int kTokens = 6000;
  Sampler sampler(kTokens);
  for (uint64_t seed = 0; seed < 12; ++seed) {
    auto logits = RandomLogits(kTokens, seed, seed % 3 == 0 ? 4.0 : 40.0);
    if (seed % 4 == 1) {
      for (float& logit : logits) logit = std::round(logit);  // ties
    }
    if (seed % 4 == 2) {
      for (size_t i = 0; i < logits.size(); i += 3) logits[i] = -std::numeric_limits<float>::infinity();
    }
    for (float temperature : {0.01f, 0.7f, 1.0f, 3.0f, 1e6f}) {
      for (const auto& [top_k, top_p, min_p] : {std::tuple{0, 1.0f, 0.0f}, std::tuple{40, 1.0f, 0.0f},
                                                std::tuple{20, 0.8f, 0.0f}, std::tuple{0, 0.95f, 0.0f},
                                                std::tuple{0, 0.9999f, 0.05f}, std::tuple{5999, 0.5f, 0.0f},
                                                std::tuple{1, 1.0f, 0.0f}}) {
        const api::SamplingParams p = {.temperature = temperature, .top_k = top_k, .top_p = top_p, .min_p = min_p};
        auto law = NaiveLaw(logits, p);
        std::erase_if(law, [](const auto& entry) { return entry.second < 1e-25; });
        std::map<int32_t, double> ours;
        for (const auto& [id, probability] : sampler.Distribution(logits, p)) ours[id] = probability;
        // A sum that ends within rounding of top_p may take one token more or less.
        std::erase_if(ours, [](const auto& entry) { return entry.second < 1e-25; });
        ASSERT_NEAR(static_cast<double>(ours.size()), static_cast<double>(law.size()), top_p < 1 ? 1 : 0)
            << seed << " " << temperature << " " << top_k << " " << top_p;
        double distance = 0;
        for (const auto& [id, probability] : law) {
          distance += std::abs(probability - (ours.contains(id) ? ours.at(id) : 0));
        }
        ASSERT_LT(distance, ours.size() == law.size() ? 1e-11 : 1e-3)
            << seed << " " << temperature << " " << top_k << " " << top_p;
      }
    }
  }
}

TEST(SamplerTest, TheOnlyTokenOfTopKIsTheLargest) {
  for (const int n : {4, 6000}) {
    Sampler sampler(n);
    std::vector<float> logits(static_cast<size_t>(n), -1.0f);
    logits[1] = 0.0f;
    logits[2] = 1e-20f;  // the weights of both are 1
    logits[3] = 1e-20f;
    for (const float temperature : {0.1f, 1.0f, 100.0f}) {
      EXPECT_EQ(sampler.Sample(logits, {.temperature = temperature, .top_k = 1}, 0), 2) << n;
    }
    logits[0] = NAN;  // asked by mistake: any answer, no crash
    EXPECT_LT(LogprobOf(logits, 1, 3).top.size(), 4u);
    std::fill(logits.begin(), logits.end(), NAN);
    EXPECT_LT(LogprobOf(logits, 1, 3).top.size(), 4u);
  }
}

// The whole vocabulary's race is run without its law; it must end as the race of the law does.
TEST(SamplerTest, TheRaceOfAllTokensIsTheRaceOfTheirLaw) {
  for (const int n : {1, 3, 7, 8, 9, 200, 6000}) {
    Sampler sampler(n);
    for (uint64_t seed = 0; seed < 40; ++seed) {
      auto logits = RandomLogits(n, seed, static_cast<double>(seed));
      for (size_t i = 1; i < logits.size(); i += 5) logits[i] = -std::numeric_limits<float>::infinity();
      for (const float temperature : {1e-38f, 1e-3f, 0.5f, 1.0f, 2.0f, 1e9f}) {
        const api::SamplingParams p = {.temperature = temperature, .seed = seed, .lane = 3};
        const int32_t winner = spec::RaceWinner(sampler.Distribution(logits, p), {seed, 17, 3});
        EXPECT_EQ(sampler.Sample(logits, p, 17), winner) << n << " " << seed << " " << temperature;
      }
    }
  }
}

TEST(SamplerTest, DrawsFollowTheDistribution) {
  // Chi-square over 200,000 draws: 9 degrees of freedom, 99.99 % quantile 33.7.
  const auto logits = RandomLogits(10, 5, 4.0);
  const api::SamplingParams p = {.temperature = 1.0f, .seed = 11};
  Sampler sampler(10);
  std::vector<double> expected(10);
  for (const auto& [id, probability] : sampler.Distribution(logits, p)) expected[static_cast<size_t>(id)] = probability;
  std::vector<int> seen(10);
  constexpr int kDraws = 200'000;
  for (int i = 0; i < kDraws; ++i) ++seen[static_cast<size_t>(sampler.Sample(logits, p, static_cast<uint64_t>(i)))];
  double chi_square = 0;
  for (size_t i = 0; i < 10; ++i) {
    const double e = expected[i] * kDraws;
    chi_square += (seen[i] - e) * (seen[i] - e) / e;
  }
  EXPECT_LT(chi_square, 33.7);
}

TEST(SamplerTest, GreedyTakesTheLowestIdOnTies) {
  Sampler sampler(5);
  const std::vector<float> logits = {1, 3, 3, -2, 3};
  EXPECT_EQ(sampler.Sample(logits, {.temperature = 0.0f}, 0), 1);
}

TEST(SamplerTest, SameKeySameTokenOtherLaneOtherStream) {
  Sampler sampler(1000);
  const auto logits = RandomLogits(1000, 3, 2.0);
  int differ = 0;
  for (uint64_t position = 0; position < 50; ++position) {
    const int32_t a = sampler.Sample(logits, {.seed = 9}, position);
    EXPECT_EQ(a, sampler.Sample(logits, {.seed = 9}, position));
    differ += a != sampler.Sample(logits, {.seed = 9, .lane = 1}, position);
  }
  EXPECT_GT(differ, 40);
}

TEST(SamplerTest, MaskedTokensAreNeverDrawn) {
  Sampler sampler(3);
  const float masked = -std::numeric_limits<float>::infinity();
  for (uint64_t position = 0; position < 2000; ++position) {
    EXPECT_EQ(sampler.Sample(std::vector<float>{masked, 0.0f, masked}, {.temperature = 5.0f}, position), 1);
  }
}

TEST(SamplerTest, PenaltiesFollowTheirFormulas) {
  Sampler sampler(6);
  TokenHistory history;
  history.AddPrompt(std::vector<int32_t>{0, 1, 1});
  history.AddOutput(2);
  history.AddOutput(2);
  history.AddOutput(3);
  std::vector<float> logits = {2, -2, 4, -4, 1, 1};
  const api::SamplingParams p = {.logit_bias = {{4, 0.5f}}, .repetition_penalty = 2.0f, .frequency_penalty = 0.25f,
                                 .presence_penalty = 1.0f, .min_tokens = 10};
  sampler.Penalise(logits, p, history, std::vector<int32_t>{5});
  EXPECT_FLOAT_EQ(logits[0], 1.0f);                  // seen in the prompt, positive: halved
  EXPECT_FLOAT_EQ(logits[1], -4.0f);                 // negative: doubled, once although seen twice
  EXPECT_FLOAT_EQ(logits[2], 2.0f - 0.5f - 1.0f);    // output twice
  EXPECT_FLOAT_EQ(logits[3], -8.0f - 0.25f - 1.0f);  // output once
  EXPECT_FLOAT_EQ(logits[4], 1.5f);                  // bias alone
  EXPECT_EQ(logits[5], -std::numeric_limits<float>::infinity());
}

TEST(SamplerTest, RepetitionWindowForgetsOldTokens) {
  Sampler sampler(3);
  TokenHistory history;
  history.AddPrompt(std::vector<int32_t>{0, 1, 2});
  std::vector<float> logits = {1, 1, 1};
  sampler.Penalise(logits, {.repetition_penalty = 2.0f, .repetition_window = 2}, history, {});
  EXPECT_EQ(logits, (std::vector<float>{1, 0.5f, 0.5f}));
}

TEST(SamplerTest, LogprobsAreTheLogSoftmax) {
  const auto logits = RandomLogits(50, 8, 9.0);
  const auto record = LogprobOf(logits, 17, 3);
  double sum = 0;
  for (float l : logits) sum += std::exp(static_cast<double>(l));
  EXPECT_NEAR(record.logprob, logits[17] - std::log(sum), 1e-5);
  ASSERT_EQ(record.top.size(), 3u);
  EXPECT_EQ(logits[static_cast<size_t>(record.top[0].first)], *std::max_element(logits.begin(), logits.end()));
  EXPECT_GE(record.top[0].second, record.top[1].second);
}

TEST(SamplerTest, ValidateNamesTheParameter) {
  const auto message = [](const api::SamplingParams& p) { return p.Validate(10).message(); };
  EXPECT_TRUE(api::SamplingParams{}.Validate(10).ok());
  EXPECT_NE(message({.temperature = -1}).find("temperature"), std::string::npos);
  EXPECT_NE(message({.temperature = NAN}).find("temperature"), std::string::npos);
  EXPECT_NE(message({.top_p = 0}).find("top_p"), std::string::npos);
  EXPECT_NE(message({.min_p = 1.5f}).find("min_p"), std::string::npos);
  EXPECT_NE(message({.repetition_penalty = 0}).find("repetition_penalty"), std::string::npos);
  EXPECT_NE(message({.logit_bias = {{10, 1.0f}}}).find("token 10"), std::string::npos);
  EXPECT_NE(message({.logit_bias = {{-1, 1.0f}}}).find("token -1"), std::string::npos);
  EXPECT_NE(message({.logit_bias = {{3, INFINITY}}}).find("token 3 must be a finite number"), std::string::npos);
  EXPECT_NE(message({.logit_bias = {{3, NAN}}}).find("token 3"), std::string::npos);
  EXPECT_TRUE(api::SamplingParams({.logit_bias = {{3, -INFINITY}}}).Validate(10).ok());
  EXPECT_NE(message({.top_k = -1}).find("top_k is -1, "), std::string::npos);
}

TEST(SamplerTest, LogitsPastTheLargestFloatStillHaveAWinner) {
  const float largest = std::numeric_limits<float>::max();
  for (const float top_p : {1.0f, 0.5f}) {
    const api::SamplingParams p = {.logit_bias = {{2, largest}, {2, largest}}, .top_k = 3, .typical_p = 0.9f,
                                   .top_p = top_p, .min_p = 0.1f};
    std::vector<float> logits = {1, 2, largest, 4};
    Sampler sampler(4);
    sampler.Penalise(logits, p, TokenHistory(), {});
    EXPECT_TRUE(AllFinite(logits));
    EXPECT_EQ(sampler.Sample(logits, p, 0), 2);
  }
}

TEST(SamplerTest, AllFiniteSeesEveryPlace) {
  for (const float bad : {NAN, INFINITY, -INFINITY}) {
    for (size_t at = 0; at < 37; ++at) {
      std::vector<float> logits(37, std::numeric_limits<float>::max());
      EXPECT_TRUE(AllFinite(logits));
      logits[at] = bad;
      EXPECT_FALSE(AllFinite(logits)) << at;
    }
  }
}

}  // namespace
}  // namespace surety::engine
