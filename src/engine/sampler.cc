#include "engine/sampler.h"

#include <algorithm>
#include <cmath>
#include <functional>
#include <limits>
#include <numeric>

#include "kernels/cpu/logits_scan.h"
#include "spec/coupling.h"

namespace surety::engine {
namespace {

using Candidate = std::pair<int32_t, double>;

using kernels::cpu::kLeastExponent;  // even a million such tokens together hold less than 2^-53, the step of a draw
constexpr float kMasked = -std::numeric_limits<float>::infinity();
constexpr float kLargest = std::numeric_limits<float>::max();

// Penalties and biases of any size leave a finite number or minus infinity.
float Bounded(float logit) { return std::min(logit, kLargest); }

bool MoreProbable(const Candidate& a, const Candidate& b) {
  return a.second != b.second ? a.second > b.second : a.first < b.first;
}

void Normalise(std::vector<Candidate>& candidates) {
  double sum = 0;
  for (const Candidate& c : candidates) sum += c.second;
  for (Candidate& c : candidates) c.second /= sum;
}

// Keeps the candidates whose surprise is closest to the entropy until they hold typical_p of the mass.
void KeepTypical(std::vector<Candidate>& candidates, double typical_p) {
  double entropy = 0;
  for (const Candidate& c : candidates) {
    if (c.second > 0) entropy -= c.second * std::log(c.second);
  }
  const auto distance = [entropy](const Candidate& c) {
    return c.second > 0 ? std::abs(-std::log(c.second) - entropy) : std::numeric_limits<double>::infinity();
  };
  std::stable_sort(candidates.begin(), candidates.end(),
                   [&](const Candidate& a, const Candidate& b) { return distance(a) < distance(b); });
  double mass = 0;
  size_t kept = 0;
  while (kept < candidates.size() && mass < typical_p) mass += candidates[kept++].second;
  candidates.resize(std::max<size_t>(1, kept));
  std::sort(candidates.begin(), candidates.end(), MoreProbable);
}

// Keeps the fewest most probable candidates, of those in descending order, that hold top_p of the mass; at least one.
void KeepTopP(std::vector<Candidate>& candidates, double top_p) {
  double mass = 0;
  size_t kept = 0;
  do {
    mass += candidates[kept++].second;
  } while (mass < top_p && kept < candidates.size());
  candidates.resize(kept);
}

// A number that at least k logits are not below, and few more; minus infinity where that is not quickly found. `work`:
// scratch.
float ThresholdOfTop(std::span<const float> logits, size_t k, std::vector<float>& work) {
  // The k-th largest of the columns is at most the k-th largest of all, and little less where there are many of them.
  constexpr size_t kColumnsPerToken = 32, kLeastColumns = 256;
  const size_t n_columns = std::max(kLeastColumns, k * kColumnsPerToken);
  if (k == 0 || k >= logits.size() || n_columns >= logits.size() / 4) return kMasked;
  work.resize(n_columns);
  kernels::cpu::ColumnMaxima(logits, work);
  std::nth_element(work.begin(), work.begin() + static_cast<int64_t>(k) - 1, work.end(), std::greater<>());
  return work[k - 1];
}

void KeepMinP(std::vector<Candidate>& candidates, double min_p) {
  const double floor = candidates.front().second * min_p;
  while (candidates.size() > 1 && candidates.back().second < floor) candidates.pop_back();
}

}  // namespace

void TokenHistory::AddPrompt(std::span<const int32_t> tokens) {
  tokens_.insert(tokens_.end(), tokens.begin(), tokens.end());
}

void TokenHistory::AddOutput(int32_t token) {
  tokens_.push_back(token);
  ++n_output_;
  ++output_counts_[token];
}

Sampler::Sampler(int vocab_size) {
  const auto n = static_cast<size_t>(vocab_size);
  candidates_.reserve(n);
  work_.reserve(n);
  weights_.reserve(n);
  indices_.reserve(n);
}

void Sampler::Penalise(std::span<float> logits, const api::SamplingParams& params, const TokenHistory& history,
                       std::span<const int32_t> end_ids) const {
  for (const auto& [token, bias] : params.logit_bias) {
    float& logit = logits[static_cast<size_t>(token)];
    logit = Bounded(logit + bias);
  }
  if (params.repetition_penalty != 1.0f && params.repetition_window != 0) {
    std::span<const int32_t> seen = history.tokens();
    if (params.repetition_window > 0 && seen.size() > static_cast<size_t>(params.repetition_window)) {
      seen = seen.last(static_cast<size_t>(params.repetition_window));
    }
    // Each token once, however often it occurs.
    std::vector<int32_t> distinct(seen.begin(), seen.end());
    std::sort(distinct.begin(), distinct.end());
    distinct.erase(std::unique(distinct.begin(), distinct.end()), distinct.end());
    for (int32_t token : distinct) {
      float& logit = logits[static_cast<size_t>(token)];
      logit = Bounded(logit > 0 ? logit / params.repetition_penalty : logit * params.repetition_penalty);
    }
  }
  if (params.frequency_penalty != 0.0f || params.presence_penalty != 0.0f) {
    for (const auto& [token, count] : history.output_counts()) {
      float& logit = logits[static_cast<size_t>(token)];
      logit = Bounded(logit - (static_cast<float>(count) * params.frequency_penalty + params.presence_penalty));
    }
  }
  if (history.n_output() < params.min_tokens) {
    for (int32_t id : end_ids) logits[static_cast<size_t>(id)] = kMasked;
  }
}

// indices_ = the tokens whose logits are at least `threshold`, ascending.
void Sampler::FindFrom(std::span<const float> logits, float threshold) {
  indices_.resize(logits.size());
  indices_.resize(static_cast<size_t>(kernels::cpu::IndicesFrom(logits, threshold, indices_)));
}

// candidates_ = the tokens of indices_ in their order with their weights, exp(0) = 1 at most.
void Sampler::WeighFound(std::span<const float> logits, float top, double scale) {
  candidates_.clear();
  for (const int32_t token : indices_) {
    const double exponent = (static_cast<double>(logits[static_cast<size_t>(token)]) - top) * scale;
    if (exponent > kLeastExponent) candidates_.emplace_back(token, std::exp(exponent));
  }
}

// candidates_ = the k tokens of the largest logits in descending order; ties at the k-th place: lower ids stay.
void Sampler::TakeTopK(std::span<const float> logits, size_t k, float top, double scale) {
  const auto is_before = [&](int32_t a, int32_t b) {
    const float la = logits[static_cast<size_t>(a)], lb = logits[static_cast<size_t>(b)];
    return la != lb ? la > lb : a < b;
  };
  FindFrom(logits, ThresholdOfTop(logits, k, work_));
  if (indices_.size() > k) {
    std::nth_element(indices_.begin(), indices_.begin() + static_cast<int64_t>(k) - 1, indices_.end(), is_before);
    indices_.resize(k);
  }
  std::sort(indices_.begin(), indices_.end(), is_before);
  WeighFound(logits, top, scale);
}

// weights_ = all tokens' weights. Returns their sum, by eight lanes.
double Sampler::WeighAll(std::span<const float> logits, float top, double scale) {
  weights_.resize(logits.size());
  kernels::cpu::ExpWeights(logits, top, scale, weights_.data());
  double lanes[8] = {};
  size_t i = 0;
  for (; i + 8 <= weights_.size(); i += 8) {
    for (size_t lane = 0; lane < 8; ++lane) lanes[lane] += weights_[i + lane];
  }
  for (; i < weights_.size(); ++i) lanes[0] += weights_[i];
  return ((lanes[0] + lanes[4]) + (lanes[1] + lanes[5])) + ((lanes[2] + lanes[6]) + (lanes[3] + lanes[7]));
}

// candidates_ = the fewest most probable tokens that hold top_p of the whole vocabulary's mass, in descending order.
void Sampler::TakeTopP(std::span<const float> logits, double top_p, float top, double scale) {
  const double mass = top_p * WeighAll(logits, top, scale);
  // They are seldom far from the best.
  for (double depth = 4;; depth *= 2) {
    const bool all = depth >= -kLeastExponent;
    FindFrom(logits, all ? kMasked : static_cast<float>(top - depth / scale));
    WeighFound(logits, top, scale);
    double sum = 0;
    for (const Candidate& c : candidates_) sum += c.second;
    if (all || sum >= mass) break;
  }
  // Off a heap: few are kept of what may be many.
  const auto less_probable = [](const Candidate& a, const Candidate& b) { return MoreProbable(b, a); };
  std::make_heap(candidates_.begin(), candidates_.end(), less_probable);
  auto heap_end = candidates_.end();
  double kept = 0;
  do {
    std::pop_heap(candidates_.begin(), heap_end, less_probable);
    kept += (--heap_end)->second;
  } while (kept < mass && heap_end != candidates_.begin());
  // The kept ones stand at the end, the most probable last.
  std::reverse(candidates_.begin(), candidates_.end());
  candidates_.resize(static_cast<size_t>(candidates_.end() - heap_end));
}

std::span<const Candidate> Sampler::Distribution(std::span<const float> logits, const api::SamplingParams& params) {
  candidates_.clear();
  const int32_t best = kernels::cpu::ArgMax(logits);
  const float top = logits[static_cast<size_t>(best)];
  if (params.temperature == 0.0f || top == kMasked) {
    candidates_.emplace_back(best, 1.0);
    return candidates_;
  }
  const double scale = 1.0 / params.temperature;
  bool has_top_p = params.top_p < 1.0f;
  if (params.top_k > 0) {
    TakeTopK(logits, static_cast<size_t>(params.top_k), top, scale);
  } else if (has_top_p && params.typical_p >= 1.0f) {
    TakeTopP(logits, params.top_p, top, scale);
    has_top_p = false;
  } else {
    WeighAll(logits, top, scale);
    candidates_.resize(weights_.size());
    size_t n = 0;
    for (size_t i = 0; i < weights_.size(); ++i) {
      candidates_[n] = {static_cast<int32_t>(i), weights_[i]};
      n += weights_[i] > 0 ? 1 : 0;
    }
    candidates_.resize(n);
    if (params.typical_p < 1.0f || params.min_p > 0.0f) {
      std::sort(candidates_.begin(), candidates_.end(), MoreProbable);
    }
  }
  Normalise(candidates_);
  if (params.typical_p < 1.0f) {
    KeepTypical(candidates_, params.typical_p);
    Normalise(candidates_);
  }
  if (has_top_p) {
    KeepTopP(candidates_, params.top_p);
    Normalise(candidates_);
  }
  if (params.min_p > 0.0f) {
    KeepMinP(candidates_, params.min_p);
    Normalise(candidates_);
  }
  return candidates_;
}

int32_t Sampler::Sample(std::span<const float> logits, const api::SamplingParams& params, uint64_t position) {
  if (params.temperature == 0.0f) return kernels::cpu::ArgMax(logits);
  const spec::RaceKey key = {params.seed, position, params.lane};
  const bool whole = params.top_k <= 0 && params.typical_p >= 1.0f && params.top_p >= 1.0f && params.min_p <= 0.0f;
  if (!whole) return spec::RaceWinner(Distribution(logits, params), key);
  const int32_t best = kernels::cpu::ArgMax(logits);
  if (logits[static_cast<size_t>(best)] == kMasked) return best;
  return RaceOfAll(logits, best, 1.0 / params.temperature, key);
}

// spec::RaceWinner of the law of all tokens, but for rounding, without working out more than a few of its entries.
int32_t Sampler::RaceOfAll(std::span<const float> logits, int32_t best, double scale, const spec::RaceKey& key) {
  const spec::RaceNoise noise(key);
  const float top = logits[static_cast<size_t>(best)];
  spec::RaceLead lead;
  lead.Try(best, 1.0, noise);
  const auto n = std::ssize(logits);
  for (int64_t i = 0; (i = kernels::cpu::NextInRace(logits, i, top, scale, lead.limit(), noise.words())) < n; ++i) {
    const double exponent = (static_cast<double>(logits[static_cast<size_t>(i)]) - top) * scale;
    if (exponent > kLeastExponent) lead.Try(static_cast<int32_t>(i), std::exp(exponent), noise);
  }
  return lead.winner();
}

api::TokenLogprob LogprobOf(std::span<const float> logits, int32_t token, int n_top) {
  const float top = logits[static_cast<size_t>(kernels::cpu::ArgMax(logits))];
  std::vector<double> weights(logits.size());
  kernels::cpu::ExpWeights(logits, top, 1, weights.data());
  const double log_sum = top + std::log(std::accumulate(weights.begin(), weights.end(), 0.0));
  api::TokenLogprob result;
  result.token = token;
  result.logprob = static_cast<float>(logits[static_cast<size_t>(token)] - log_sum);
  auto n = std::min(static_cast<size_t>(std::max(0, n_top)), logits.size());
  if (n == 0) return result;
  std::vector<float> work;
  std::vector<int32_t> ids(logits.size());
  ids.resize(static_cast<size_t>(kernels::cpu::IndicesFrom(logits, ThresholdOfTop(logits, n, work), ids)));
  n = std::min(n, ids.size());
  std::partial_sort(ids.begin(), ids.begin() + static_cast<int64_t>(n), ids.end(), [&](int32_t a, int32_t b) {
    const float la = logits[static_cast<size_t>(a)], lb = logits[static_cast<size_t>(b)];
    return la != lb ? la > lb : a < b;
  });
  for (size_t i = 0; i < n; ++i) {
    result.top.emplace_back(ids[i], static_cast<float>(logits[static_cast<size_t>(ids[i])] - log_sum));
  }
  return result;
}

}  // namespace surety::engine
