// Logits to a token: the transforms of SamplingParams in their stated order, then one draw keyed by (seed, position).
//
// Threads: one caller. Owns: scratch of vocabulary size, made once.
// Invariants: (1) the result is a function of (logits, params, history, position) alone. (2) a token of probability 0
// is never drawn. (3) temperature 0 takes the largest logit after bias and penalties, the lowest id on ties. Source:
// Holtzman et al. 2020 (top-p); Fan et al. 2018 (top-k); Meister et al. 2023 (locally typical); Nguyen et al. 2024
// (min-p); Keskar et al. 2019 (repetition penalty).
#pragma once

#include <cstdint>
#include <span>
#include <unordered_map>
#include <vector>

#include "api/request.h"
#include "kernels/cpu/logits_scan.h"
#include "spec/coupling.h"

namespace surety::engine {

using kernels::cpu::AllFinite;

// What a sequence has produced and read so far, as far as sampling needs it.
class TokenHistory {
 public:
  void AddPrompt(std::span<const int32_t> tokens);
  void AddOutput(int32_t token);
  int n_output() const { return static_cast<int>(n_output_); }
  std::span<const int32_t> tokens() const { return tokens_; }
  const std::unordered_map<int32_t, int>& output_counts() const { return output_counts_; }

 private:
  std::vector<int32_t> tokens_;  // prompt, then output
  size_t n_output_ = 0;
  std::unordered_map<int32_t, int> output_counts_;
};

class Sampler {
 public:
  explicit Sampler(int vocab_size);

  // Bias, penalties and the minimum length, in place. end_ids are masked while n_output < min_tokens.
  void Penalise(std::span<float> logits, const api::SamplingParams& params, const TokenHistory& history,
                std::span<const int32_t> end_ids) const;
  // The distribution after all transforms: (token, probability); probabilities sum to 1. Descending, or by id where
  // nothing but the temperature shapes it.
  // Call after Penalise. The span is valid until the next call.
  std::span<const std::pair<int32_t, double>> Distribution(std::span<const float> logits,
                                                           const api::SamplingParams& params);
  // A draw at absolute output position `position`: the winner of an exponential race (spec/coupling.h), so that a
  // drafter who runs the same race over its own law often names the same token.
  int32_t Sample(std::span<const float> logits, const api::SamplingParams& params, uint64_t position);

 private:
  void FindFrom(std::span<const float> logits, float threshold);
  void WeighFound(std::span<const float> logits, float top, double scale);
  void TakeTopK(std::span<const float> logits, size_t k, float top, double scale);
  void TakeTopP(std::span<const float> logits, double top_p, float top, double scale);
  double WeighAll(std::span<const float> logits, float top, double scale);
  static int32_t RaceOfAll(std::span<const float> logits, int32_t best, double scale, const spec::RaceKey& key);

  std::vector<std::pair<int32_t, double>> candidates_;
  std::vector<float> work_;
  std::vector<double> weights_;
  std::vector<int32_t> indices_;
};

// Natural log-probabilities of the raw logits: the chosen token's and the n best.
api::TokenLogprob LogprobOf(std::span<const float> logits, int32_t token, int n_top);

}  // namespace surety::engine
