// Prices: what a task may cost at most, and what a generation did cost.
#include <algorithm>
#include <functional>
#include <map>
#include <string_view>
#include <utility>

#include "base/check.h"
#include "gateway/quota.h"

namespace surety::gateway {
namespace {

// The dearest path from a route on, each route once. `surety check` refuses cycles of fallbacks; one that stands here
// all the same is cut where it closes.
class QuotaPaths {
 public:
  // `input_of`: the most of a route whose context sets no limit.
  using InputOf = std::function<int(const RouteSpec&)>;
  QuotaPaths(const Policy& policy, InputOf input_of, int max_output_tokens)
      : policy_(policy), input_of_(std::move(input_of)), output_(max_output_tokens) {}

  QuotaAmount From(const RouteSpec& route) {
    if (!open_.emplace(route.name, true).second) return {};
    QuotaAmount rest;
    for (const FallbackSpec& next : route.fallback) {
      const RouteSpec* to = policy_.FindRoute(next.to);
      SURETY_CHECK_MSG(to != nullptr, "a fallback to a route that the policy does not have");
      const QuotaAmount there = From(*to);
      rest.money = std::max(rest.money, there.money);
      rest.tokens = std::max(rest.tokens, there.tokens);
    }
    open_.erase(route.name);
    const QuotaAmount here = Here(route);
    return {here.money + rest.money, here.tokens + rest.tokens};
  }

 private:
  QuotaAmount Here(const RouteSpec& route) const {
    if (route.answer != RouteSpec::Answer::kModel && route.answer != RouteSpec::Answer::kTools) return {};
    const auto model = policy_.models.find(route.model);
    SURETY_CHECK_MSG(model != policy_.models.end(), "a route with a model that the policy does not have");
    const auto context = policy_.contexts.find(route.context);
    const int declared = context == policy_.contexts.end() ? 0 : context->second.max_input_tokens;
    const int64_t input = declared > 0 ? declared : std::max(input_of_(route), 0);
    const int64_t output = output_ > 0 ? std::min(output_, route.max_output_tokens) : route.max_output_tokens;
    const int64_t attempts = std::max(route.max_attempts, 1);
    const ModelSpec& m = model->second;
    const double input_price = std::max(m.input_cost_per_token, m.cache_read_input_token_cost);
    const double once =
        static_cast<double>(input) * input_price + static_cast<double>(output) * m.output_cost_per_token;
    return {static_cast<double>(attempts) * once, attempts * (input + output)};
  }

  const Policy& policy_;
  const InputOf input_of_;
  const int output_;
  std::map<std::string_view, bool> open_;
};

}  // namespace

QuotaAmount WorstCase(const Policy& policy, const RouteSpec& route, int input_tokens, int max_output_tokens) {
  return QuotaPaths(policy, [input_tokens](const RouteSpec&) { return input_tokens; }, max_output_tokens).From(route);
}

QuotaAmount WorstCaseOf(const Policy& policy, const RouteSpec& route, const std::map<std::string, int>& context_tokens,
                        int max_output_tokens) {
  const auto input_of = [&](const RouteSpec& of) {
    const auto found = context_tokens.find(of.model);
    return found == context_tokens.end() || found->second <= 0 ? kAssumedContextTokens : found->second;
  };
  return QuotaPaths(policy, input_of, max_output_tokens).From(route);
}

GenerationCost CostOf(const ModelSpec& model, int prompt_tokens, int cached_tokens, int output_tokens) {
  const int prompt = std::max(prompt_tokens, 0), cached = std::clamp(cached_tokens, 0, prompt);
  return {.prefill = (prompt - cached) * model.input_cost_per_token,
          .cached_prefill = cached * model.cache_read_input_token_cost,
          .decode = std::max(output_tokens, 0) * model.output_cost_per_token};
}

}  // namespace surety::gateway
