#include "gateway/quantile_sketch.h"

#include <algorithm>
#include <cmath>

namespace surety::gateway {
namespace {

constexpr double kSketchGrowth = 1.02;  // the middle of a bin is sqrt(1.02) = 1.00995 from its borders

size_t SketchBins() {
  static const auto n = static_cast<size_t>(
      std::ceil(std::log(QuantileSketch::kMost / QuantileSketch::kLeast) / std::log(kSketchGrowth)));
  return n + 1;
}

}  // namespace

// Bin 0: below kLeast. Bin i: from kLeast * growth^(i-1).
void QuantileSketch::Add(double value) {
  if (bins_.empty()) bins_.resize(SketchBins());
  size_t bin = 0;
  if (value >= kLeast) {
    static const double scale = 1 / std::log(kSketchGrowth);
    bin = std::min(static_cast<size_t>(std::log(std::min(value, kMost) / kLeast) * scale) + 1, bins_.size() - 1);
  }
  ++bins_[bin];
  ++n_;
}

void QuantileSketch::Merge(const QuantileSketch& other) {
  if (other.n_ == 0) return;
  if (bins_.empty()) bins_.resize(SketchBins());
  for (size_t i = 0; i < bins_.size(); ++i) bins_[i] += other.bins_[i];
  n_ += other.n_;
}

void QuantileSketch::Clear() {
  n_ = 0;
  bins_ = {};
}

double QuantileSketch::Quantile(double q) const {
  if (n_ == 0) return 0;
  const auto rank = std::clamp<int64_t>(static_cast<int64_t>(std::ceil(q * static_cast<double>(n_))), 1, n_);
  int64_t seen = 0;
  for (size_t i = 0; i < bins_.size(); ++i) {
    seen += bins_[i];
    if (seen < rank) continue;
    if (i == 0) return 0;
    return std::min(kLeast * std::pow(kSketchGrowth, static_cast<double>(i) - 0.5), kMost);
  }
  return kMost;
}

}  // namespace surety::gateway
