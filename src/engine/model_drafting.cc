#include "engine/model_drafting.h"

#include <cmath>
#include <limits>

namespace surety::engine {
namespace {

// Borders of the classes.
constexpr double kSureness[] = {0.1, 0.2, 0.35, 0.5, 0.65, 0.8, 0.93};
constexpr float kNever = -std::numeric_limits<float>::infinity();

}  // namespace

DraftSureness::DraftSureness(std::span<const float> logits) : logits_(logits) {
  top_ = *std::max_element(logits.begin(), logits.end());
  for (const float logit : logits) {
    if (logit > top_ - 20) sum_ += std::exp(static_cast<double>(logit - top_));
  }
}

double DraftSureness::Of(int32_t token) const {
  return std::exp(static_cast<double>(logits_[static_cast<size_t>(token)] - top_)) / sum_;
}

int8_t DraftSureness::ClassOf(int32_t token) const {
  const double probability = Of(token);
  int8_t a_class = 0;
  for (const double border : kSureness) a_class += probability > border ? 1 : 0;
  return a_class;
}

int LargestLogits(std::span<const float> logits, std::span<int32_t> out) {
  size_t n = 0;
  const auto value = [&](size_t i) { return logits[static_cast<size_t>(out[i])]; };
  for (size_t token = 0; token < logits.size(); ++token) {
    if (!(logits[token] > kNever)) continue;
    if (n == out.size() && !(logits[token] > value(n - 1))) continue;
    if (n < out.size()) ++n;
    size_t place = n - 1;
    for (; place > 0 && value(place - 1) < logits[token]; --place) out[place] = out[place - 1];
    out[place] = static_cast<int32_t>(token);
  }
  return static_cast<int>(n);
}

void TransformForDraft(const Sequence& sequence, std::span<const int32_t> end_ids, Sampler& sampler,
                       std::span<float> logits) {
  sampler.Penalise(logits, sequence.sampling, sequence.history, end_ids);
  if (!sequence.state->request().ignore_end_of_text) return;
  for (const int32_t id : end_ids) logits[static_cast<size_t>(id)] = kNever;
}

int ModelDrafterState::Score(int32_t token, spec::RankedAcceptance& shared, spec::RankedAcceptance& shared_by_depth) {
  if (at < 0) return -1;
  const int depth = DepthClass(tree.depth(at));
  int next = -1;
  for (const int child : tree.children(at)) {
    const bool right = tree.token(child) == token;
    const int rank = ranks[static_cast<size_t>(child)], a_class = classes[static_cast<size_t>(child)];
    own_by_depth.Note(rank, depth, right, spec::kOwnTrialWeight / 2);
    shared_by_depth.Note(rank, depth, right, spec::kSharedTrialWeight);
    if (right) next = child;
    if (a_class < 0) continue;
    own.Note(rank, a_class, right, spec::kOwnTrialWeight);
    shared.Note(rank, a_class, right, spec::kSharedTrialWeight);
  }
  at = next;
  return next;
}

}  // namespace surety::engine
