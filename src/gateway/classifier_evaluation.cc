#include "gateway/classifier_evaluation.h"

#include <algorithm>
#include <array>
#include <cmath>

#include "base/check.h"

namespace surety::gateway {
namespace {

constexpr double kNormal95 = 1.959963984540054;   // the normal law's 97.5 % quantile
constexpr int kCalibrationRanges = 15;

double MacroF1Of(const std::vector<std::vector<int64_t>>& confusion) {
  double sum = 0;
  int n = 0;
  for (size_t c = 0; c < confusion.size(); ++c) {
    int64_t truths = 0, predicted = 0;
    for (size_t other = 0; other < confusion.size(); ++other) {
      truths += confusion[c][other];
      predicted += confusion[other][c];
    }
    if (truths + predicted == 0) continue;
    sum += 2.0 * static_cast<double>(confusion[c][c]) / static_cast<double>(truths + predicted);
    ++n;
  }
  return n > 0 ? sum / n : 0;
}

}  // namespace

Proportion ProportionOf(int64_t count, int64_t of) {
  if (of == 0) return {0, 0, 0, 0, 1};
  const double n = static_cast<double>(of), p = static_cast<double>(count) / n, z2 = kNormal95 * kNormal95;
  const double middle = (p + z2 / (2 * n)) / (1 + z2 / n);
  const double half = kNormal95 / (1 + z2 / n) * std::sqrt(p * (1 - p) / n + z2 / (4 * n * n));
  return {count, of, p, std::max(0.0, middle - half), std::min(1.0, middle + half)};
}

Evaluation Evaluate(std::span<const Prediction> predictions, int n_classes) {
  Evaluation out;
  const auto k = static_cast<size_t>(n_classes);
  out.confusion.assign(k, std::vector<int64_t>(k));
  std::array<double, kCalibrationRanges> gap{};   // right ones minus confidence
  int64_t right = 0;
  for (const Prediction& p : predictions) {
    SURETY_CHECK(0 <= p.truth && p.truth < n_classes && 0 <= p.predicted && p.predicted < n_classes);
    const bool hit = p.truth == p.predicted;
    right += hit;
    ++out.confusion[static_cast<size_t>(p.truth)][static_cast<size_t>(p.predicted)];
    out.log_loss -= std::log(std::max(p.truth_probability, 1e-300));
    const int range = std::clamp(static_cast<int>(p.confidence * kCalibrationRanges), 0, kCalibrationRanges - 1);
    gap[static_cast<size_t>(range)] += (hit ? 1.0 : 0.0) - p.confidence;
  }
  const auto n = static_cast<double>(std::max<size_t>(predictions.size(), 1));
  for (const double g : gap) out.calibration_error += std::abs(g) / n;
  out.log_loss /= n;
  out.accuracy = ProportionOf(right, static_cast<int64_t>(predictions.size()));
  out.macro_f1 = MacroF1Of(out.confusion);
  return out;
}

AbstentionPoint AtThreshold(std::span<const Prediction> predictions, double threshold) {
  int64_t kept = 0, right = 0;
  for (const Prediction& p : predictions) {
    if (p.confidence < threshold) continue;
    ++kept;
    right += p.truth == p.predicted;
  }
  return {threshold, ProportionOf(kept, static_cast<int64_t>(predictions.size())), ProportionOf(right, kept)};
}

std::optional<AbstentionPoint> ForTarget(std::span<const Prediction> predictions, double target, bool surely) {
  std::vector<Prediction> sorted(predictions.begin(), predictions.end());
  std::ranges::sort(sorted, std::greater(), &Prediction::confidence);
  std::optional<double> threshold;
  int64_t right = 0;
  for (size_t i = 0; i < sorted.size(); ++i) {
    right += sorted[i].truth == sorted[i].predicted;
    if (i + 1 < sorted.size() && sorted[i + 1].confidence == sorted[i].confidence) continue;   // kept together
    const Proportion accuracy = ProportionOf(right, static_cast<int64_t>(i + 1));
    if ((surely ? accuracy.low : accuracy.value) >= target) threshold = sorted[i].confidence;
  }
  if (!threshold) return std::nullopt;
  return AtThreshold(predictions, *threshold);
}

}  // namespace surety::gateway
