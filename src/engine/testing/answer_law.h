// The law of a model's first tokens among a few that a bias lifts above all others, as its own log-probabilities give
// it, and how far counts of answers are from it.
// Threads: the engine thread.
#pragma once

#include <cmath>
#include <map>
#include <span>
#include <vector>

#include <gtest/gtest.h>

#include "engine/engine.h"
#include "spec/testing/laws.h"

namespace surety::engine::testing {

// Sanitizers make a draw ten to thirty times slower, and find what they look for in few.
#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
inline constexpr int kDrawsOver = 10;
#else
inline constexpr int kDrawsOver = 1;
#endif

using TextLaw = std::map<std::vector<int32_t>, double>;
using TextCounts = std::map<std::vector<int32_t>, int>;

// The law of the first n_tokens tokens behind the prompt, if only `choices` may come, at temperature 1.
inline TextLaw LawOfTokens(Engine& engine, const api::GenerationRequest& prompt, std::span<const int32_t> choices,
                           int n_tokens) {
  TextLaw law = {{{}, 1.0}};
  for (int depth = 0; depth < n_tokens; ++depth) {
    TextLaw longer;
    for (const auto& [tokens, probability] : law) {
      api::GenerationRequest request = prompt;
      request.tokens.insert(request.tokens.end(), tokens.begin(), tokens.end());
      request.n_logprobs = 512;  // all: raw ones, without the bias
      request.max_tokens = 1;
      EXPECT_TRUE(engine.Submit(request).has_value());
      while (!engine.idle()) {
        std::vector<api::Event> events;
        EXPECT_TRUE(engine.Step(events).ok());
        for (const api::Event& event : events) {
          for (const api::TokenLogprob& logprob : event.logprobs) {
            const std::map<int32_t, float> all(logprob.top.begin(), logprob.top.end());
            double sum = 0;
            for (const int32_t token : choices) sum += std::exp(static_cast<double>(all.at(token)));
            for (const int32_t token : choices) {
              std::vector<int32_t> next = tokens;
              next.push_back(token);
              longer[next] += probability * std::exp(static_cast<double>(all.at(token))) / sum;
            }
          }
        }
      }
    }
    law = longer;
  }
  return law;
}

// The p-value of the seen counts under the law; 0 where a text was seen that the law doesn't know.
inline double PValueOf(const TextLaw& law, const TextCounts& seen) {
  std::vector<int64_t> counts;
  std::vector<double> probabilities;
  for (const auto& [tokens, probability] : law) {
    const auto found = seen.find(tokens);
    counts.push_back(found == seen.end() ? 0 : found->second);
    probabilities.push_back(probability);
  }
  for (const auto& [tokens, count] : seen) {
    if (!law.contains(tokens)) return 0;
  }
  return spec::testing::FitPValue(counts, probabilities);
}

// What an exact rule passes but once in a million times, whatever its drafts.
inline constexpr double kOneInAMillion = 1e-6;

}  // namespace surety::engine::testing
