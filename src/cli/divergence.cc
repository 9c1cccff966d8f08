#include "cli/divergence.h"

#include <algorithm>
#include <cmath>
#include <limits>

namespace surety::cli {

std::string_view FaultOfLogits(std::span<const float> logits) {
  bool possible = false;
  for (const float logit : logits) {
    if (std::isnan(logit)) return "a value that is not a number";
    if (logit == std::numeric_limits<float>::infinity()) return "an infinite value";
    possible = possible || std::isfinite(logit);
  }
  return possible ? "" : "no finite value";
}

double LogSumExp(std::span<const float> logits) {
  const double top = *std::max_element(logits.begin(), logits.end());
  if (std::isinf(top)) return top;  // only minus infinity, or an infinity that decides alone
  double sum = 0;
  for (const float logit : logits) sum += std::exp(static_cast<double>(logit) - top);
  return top + std::log(sum);
}

double LogProbability(std::span<const float> logits, int index) {
  return static_cast<double>(logits[static_cast<size_t>(index)]) - LogSumExp(logits);
}

double KlDivergence(std::span<const float> reference, std::span<const float> ours) {
  const double reference_norm = LogSumExp(reference);
  const double our_norm = LogSumExp(ours);
  double sum = 0;
  for (size_t i = 0; i < reference.size(); ++i) {
    const double log_p = static_cast<double>(reference[i]) - reference_norm;
    const double p = std::exp(log_p);
    if (p != 0) sum += p * (log_p - (static_cast<double>(ours[i]) - our_norm));
  }
  return sum < 0 ? 0.0 : sum;  // rounding may go a little below zero; what is not a number stays so
}

int ArgMax(std::span<const float> logits) {
  return static_cast<int>(std::max_element(logits.begin(), logits.end()) - logits.begin());
}

}  // namespace surety::cli
