// WorstCase against every course that a task can take, CostOf against a walk over single tokens.
#include <algorithm>
#include <random>
#include <string>

#include <gtest/gtest.h>

#include "gateway/quota.h"

namespace surety::gateway {
namespace {

Policy QuotaDrawPolicy(std::mt19937& random) {
  Policy policy;
  for (int i = 0; i < 3; ++i) {
    ModelSpec model;
    model.name = "m" + std::to_string(i);
    model.input_cost_per_token = static_cast<double>(random() % 16) / 16;  // dyadic: sums are exact
    model.output_cost_per_token = static_cast<double>(random() % 16) / 16;
    model.cache_read_input_token_cost = model.input_cost_per_token / 4;
    policy.models[model.name] = model;
    ContextSpec context;
    context.name = "c" + std::to_string(i);
    context.max_input_tokens = static_cast<int>(random() % 3) * 40;
    policy.contexts[context.name] = context;
  }
  const int n = 1 + static_cast<int>(random() % 5);
  for (int i = 0; i < n; ++i) {
    RouteSpec route;
    route.name = "r" + std::to_string(i);
    route.answer = random() % 4 ? RouteSpec::Answer::kModel
                                : static_cast<RouteSpec::Answer>(random() % 2 ? 3 : 0);  // human, template
    route.model = "m" + std::to_string(random() % 3);
    if (random() % 2) route.context = "c" + std::to_string(random() % 3);
    route.max_attempts = 1 + static_cast<int>(random() % 3);
    route.max_output_tokens = 1 + static_cast<int>(random() % 6);
    for (int j = i + 1; j < n; ++j) {
      if (random() % 2) route.fallback.push_back({"r" + std::to_string(j), {}});
    }
    policy.routes.push_back(route);
  }
  return policy;
}

// Tries every course: how many generations on each route, how long each output, where it goes on.
void QuotaTryAll(const Policy& policy, const RouteSpec& route, int input, int max_output, int attempt,
                 QuotaAmount so_far, QuotaAmount& most) {
  most.money = std::max(most.money, so_far.money);
  most.tokens = std::max(most.tokens, so_far.tokens);
  for (const FallbackSpec& next : route.fallback) {
    QuotaTryAll(policy, *policy.FindRoute(next.to), input, max_output, 0, so_far, most);
  }
  if (route.answer != RouteSpec::Answer::kModel || attempt == route.max_attempts) return;
  const ModelSpec& model = policy.models.at(route.model);
  int prompt = input;
  if (!route.context.empty() && policy.contexts.at(route.context).max_input_tokens > 0) {
    prompt = policy.contexts.at(route.context).max_input_tokens;
  }
  for (const int output : {0, std::min(max_output, route.max_output_tokens)}) {
    for (const int cached : {0, prompt}) {
      const GenerationCost cost = CostOf(model, prompt, cached, output);
      QuotaAmount after = so_far;
      after.money += cost.prefill + cost.cached_prefill + cost.decode;
      after.tokens += prompt + output;
      QuotaTryAll(policy, route, input, max_output, attempt + 1, after, most);
    }
  }
}

TEST(QuotaCostTest, TheWorstCaseIsTheDearestOfAllCourses) {
  std::mt19937 random(6);
  for (int n = 0; n < 150; ++n) {
    const Policy policy = QuotaDrawPolicy(random);
    const int input = static_cast<int>(random() % 60), output = 1 + static_cast<int>(random() % 8);
    const RouteSpec& route = policy.routes[0];
    QuotaAmount most;
    QuotaTryAll(policy, route, input, output, 0, {}, most);
    const QuotaAmount worst = WorstCase(policy, route, input, output);
    EXPECT_EQ(worst.money, most.money) << n;
    EXPECT_EQ(worst.tokens, most.tokens) << n;
    EXPECT_EQ(WorstCase(policy, route, input, 0).tokens, WorstCase(policy, route, input, 1'000'000).tokens);
  }
}

TEST(QuotaCostTest, ACycleOfFallbacksEnds) {
  std::mt19937 random(7);
  Policy policy = QuotaDrawPolicy(random);
  policy.routes.back().fallback.push_back({"r0", {}});
  for (const RouteSpec& route : policy.routes) EXPECT_GE(WorstCase(policy, route, 10, 10).money, 0);
}

TEST(QuotaCostTest, BucketsAreDisjointAndSumToTheTokens) {
  std::mt19937 random(8);
  for (int n = 0; n < 2000; ++n) {
    ModelSpec model;
    model.input_cost_per_token = static_cast<double>(random() % 64) / 64;
    model.cache_read_input_token_cost = static_cast<double>(random() % 64) / 64;
    model.output_cost_per_token = static_cast<double>(random() % 64) / 64;
    const int prompt = static_cast<int>(random() % 50), cached = static_cast<int>(random() % 70),
              output = static_cast<int>(random() % 50);
    double prefill = 0, cached_prefill = 0, decode = 0;
    for (int i = 0; i < prompt; ++i) {
      if (i < cached) cached_prefill += model.cache_read_input_token_cost;
      if (i >= cached) prefill += model.input_cost_per_token;
    }
    for (int i = 0; i < output; ++i) decode += model.output_cost_per_token;
    const GenerationCost cost = CostOf(model, prompt, cached, output);
    EXPECT_EQ(cost.prefill, prefill);
    EXPECT_EQ(cost.cached_prefill, cached_prefill);
    EXPECT_EQ(cost.decode, decode);
    model.input_cost_per_token = model.cache_read_input_token_cost = model.output_cost_per_token = 1;
    const GenerationCost tokens = CostOf(model, prompt, cached, output);
    EXPECT_EQ(tokens.prefill + tokens.cached_prefill + tokens.decode, prompt + output);
  }
  const GenerationCost none = CostOf(ModelSpec{}, -5, -5, -5);
  EXPECT_EQ(none.prefill + none.cached_prefill + none.decode, 0);
}

}  // namespace
}  // namespace surety::gateway
