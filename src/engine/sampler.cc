#include "engine/sampler.h"

#include <algorithm>
#include <bit>
#include <cmath>
#include <functional>
#include <limits>

#include "spec/coupling.h"

namespace surety::engine {
namespace {

using Candidate = std::pair<int32_t, double>;

// exp(-60) of the best: even a million such tokens together hold less than 2^-53, the step of the uniform draw.
constexpr double kNegligibleExponent = -60.0;
constexpr float kMasked = -std::numeric_limits<float>::infinity();
constexpr float kLargest = std::numeric_limits<float>::max();

// Penalties and biases of any size leave a finite number or minus infinity.
float Bounded(float logit) { return std::min(logit, kLargest); }

bool MoreProbable(const Candidate& a, const Candidate& b) {
  return a.second != b.second ? a.second > b.second : a.first < b.first;
}

int32_t ArgMax(std::span<const float> logits) {
  int32_t best = 0;
  for (size_t i = 1; i < logits.size(); ++i) {
    if (logits[i] > logits[static_cast<size_t>(best)]) best = static_cast<int32_t>(i);
  }
  return best;
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

// Keeps the fewest most probable candidates that hold top_p of the mass (at least one), in descending order. Takes them
// off a heap: few are kept of many.
void KeepTopP(std::vector<Candidate>& candidates, double top_p) {
  const auto less_probable = [](const Candidate& a, const Candidate& b) { return MoreProbable(b, a); };
  std::make_heap(candidates.begin(), candidates.end(), less_probable);
  double mass = 0;
  auto heap_end = candidates.end();
  do {
    std::pop_heap(candidates.begin(), heap_end, less_probable);
    mass += (--heap_end)->second;
  } while (mass < top_p && heap_end != candidates.begin());
  // The kept ones stand at the end, the most probable last.
  std::reverse(candidates.begin(), candidates.end());
  candidates.resize(static_cast<size_t>(candidates.end() - heap_end));
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
  candidates_.reserve(static_cast<size_t>(vocab_size));
  work_.reserve(static_cast<size_t>(vocab_size));
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

std::span<const Candidate> Sampler::Distribution(std::span<const float> logits, const api::SamplingParams& params) {
  candidates_.clear();
  const int32_t best = ArgMax(logits);
  if (params.temperature == 0.0f || logits[static_cast<size_t>(best)] == kMasked) {
    candidates_.emplace_back(best, 1.0);
    return candidates_;
  }
  const double inverse_temperature = 1.0 / params.temperature;
  const double top = logits[static_cast<size_t>(best)];

  // With top-k only the k best are looked at further, otherwise the whole vocabulary.
  float threshold = kMasked;
  if (params.top_k > 0 && static_cast<size_t>(params.top_k) < logits.size()) {
    work_.assign(logits.begin(), logits.end());
    std::nth_element(work_.begin(), work_.begin() + (params.top_k - 1), work_.end(), std::greater<>());
    threshold = work_[static_cast<size_t>(params.top_k - 1)];
  }
  for (size_t i = 0; i < logits.size(); ++i) {
    const float logit = logits[i];
    const double exponent = (logit - top) * inverse_temperature;
    if (logit < threshold || !(exponent > kNegligibleExponent)) continue;
    candidates_.emplace_back(static_cast<int32_t>(i), std::exp(exponent));
  }
  const bool needs_order = params.top_k > 0 || params.typical_p < 1.0f || params.min_p > 0.0f;
  if (needs_order) std::sort(candidates_.begin(), candidates_.end(), MoreProbable);
  if (params.top_k > 0 && candidates_.size() > static_cast<size_t>(params.top_k)) {
    candidates_.resize(static_cast<size_t>(params.top_k));  // ties at the k-th place: lower ids stay
  }
  Normalise(candidates_);
  if (params.typical_p < 1.0f) {
    KeepTypical(candidates_, params.typical_p);
    Normalise(candidates_);
  }
  if (params.top_p < 1.0f) {
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
  if (params.temperature == 0.0f) return ArgMax(logits);
  return spec::RaceWinner(Distribution(logits, params), {params.seed, position, params.lane});
}

bool AllFinite(std::span<const float> logits) {
  // As integers, without a branch: an exponent of all ones is infinity or NaN.
  constexpr uint32_t kExponent = 0x7F800000;
  uint32_t bad = 0;
  for (const float logit : logits) {
    bad |= static_cast<uint32_t>((std::bit_cast<uint32_t>(logit) & kExponent) == kExponent);
  }
  return bad == 0;
}

api::TokenLogprob LogprobOf(std::span<const float> logits, int32_t token, int n_top) {
  const double top = logits[static_cast<size_t>(ArgMax(logits))];
  double sum = 0;
  for (float logit : logits) sum += std::exp(logit - top);
  const double log_sum = top + std::log(sum);
  api::TokenLogprob result;
  result.token = token;
  result.logprob = static_cast<float>(logits[static_cast<size_t>(token)] - log_sum);
  const auto n = std::min(static_cast<size_t>(std::max(0, n_top)), logits.size());
  if (n == 0) return result;
  std::vector<int32_t> ids(logits.size());
  for (size_t i = 0; i < ids.size(); ++i) ids[i] = static_cast<int32_t>(i);
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
