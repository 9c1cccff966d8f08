#include "spec/verify_cost.h"

#include <algorithm>

namespace surety::spec {

void VerifyCost::Observe(int rows, int64_t nanos) {
  if (rows < 1 || rows > kMaxRows || nanos <= 0) return;
  double& kept = nanos_[static_cast<size_t>(rows)];
  const auto seen = static_cast<double>(nanos);
  // A step that something else on the machine held up says little about the next.
  kept = kept == 0 ? seen : kept + 0.15 * (std::min(seen, 3 * kept) - kept);
}

double VerifyCost::Of(int rows) const {
  rows = std::clamp(rows, 1, kMaxRows);
  int below = rows, above = rows;
  while (below > 0 && nanos_[static_cast<size_t>(below)] == 0) --below;
  while (above <= kMaxRows && nanos_[static_cast<size_t>(above)] == 0) ++above;
  const auto at = [this](int n) { return nanos_[static_cast<size_t>(n)]; };
  if (below == 0 && above > kMaxRows) return 0;
  if (below == 0) return at(above) * (1 - kGuessedSlope * (above - rows) / (1 + kGuessedSlope * (above - 1)));
  if (above > kMaxRows) return at(below) * (1 + kGuessedSlope * (rows - below));
  if (below == above) return at(rows);
  const double upper = std::max(at(above), at(below));
  return at(below) + (upper - at(below)) * (rows - below) / (above - below);
}

}  // namespace surety::spec
