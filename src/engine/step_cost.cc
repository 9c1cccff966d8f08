#include "engine/step_cost.h"

#include <algorithm>
#include <cmath>

namespace surety::engine {
namespace {

constexpr double kSampleFade = 0.98;   // a sample's weight halves within 34 further samples of its kind
constexpr double kRidge = 0.01;  // of one sample, towards the starting point

}  // namespace

std::array<double, 3> StepCostModel::Features(const StepWork& work) const {
  return {1.0, static_cast<double>(work.rows), work.attended / attended_per_row_};
}

void StepCostModel::Observe(const StepWork& work, int64_t nanos) {
  if (work.rows <= 0 || nanos <= 0) return;
  Fit& fit = work.rows <= kFewRows ? few_ : many_;
  const std::array<double, 3> x = Features(work);
  const double y = static_cast<double>(nanos);
  // Relative errors count: a sample is weighted by the inverse square of its time.
  const double scale = 1.0 / (y * y);
  for (double& v : fit.xx) v *= kSampleFade;
  for (double& v : fit.xy) v *= kSampleFade;
  size_t k = 0;
  for (size_t i = 0; i < 3; ++i) {
    for (size_t j = i; j < 3; ++j) fit.xx[k++] += scale * x[i] * x[j];
    fit.xy[i] += scale * x[i] * y;
  }
  fit.weight = fit.weight * kSampleFade + 1;
  fit.rows = fit.rows * kSampleFade + x[1] + x[2];
  fit.nanos = fit.nanos * kSampleFade + y;
  Solve(fit);
}

void StepCostModel::Solve(Fit& fit) const {
  // Starting point: all time proportional to rows and to what they attend.
  const double per_row = fit.nanos / fit.rows;
  const std::array<double, 3> prior = {0.0, per_row, per_row};
  const std::array<double, 3> size = {fit.nanos / fit.weight, per_row, per_row};  // what 1 in each unknown means
  std::array<std::array<double, 4>, 3> m{};
  size_t k = 0;
  const double mean = fit.nanos / fit.weight;
  for (size_t i = 0; i < 3; ++i) {
    for (size_t j = i; j < 3; ++j, ++k) m[i][j] = m[j][i] = fit.xx[k];
    m[i][3] = fit.xy[i];
  }
  for (size_t i = 0; i < 3; ++i) {
    const double ridge = kRidge / (size[i] * size[i]);
    m[i][i] += ridge;
    m[i][3] += ridge * prior[i];
  }
  // Unknowns may not be negative: one that comes out so is fixed at zero and the rest solved again.
  std::array<bool, 3> fixed{};
  for (int round = 0; round < 3; ++round) {
    auto a = m;
    for (size_t i = 0; i < 3; ++i) {
      if (!fixed[i]) continue;
      for (size_t j = 0; j < 4; ++j) a[i][j] = 0;
      for (size_t j = 0; j < 3; ++j) a[j][i] = 0;
      a[i][i] = 1;
    }
    for (size_t i = 0; i < 3; ++i) {  // symmetric and positive definite: no pivoting needed
      for (size_t j = i + 1; j < 3; ++j) {
        const double factor = a[j][i] / a[i][i];
        for (size_t c = i; c < 4; ++c) a[j][c] -= factor * a[i][c];
      }
    }
    for (size_t i = 3; i-- > 0;) {
      double sum = a[i][3];
      for (size_t j = i + 1; j < 3; ++j) sum -= a[i][j] * fit.solution[j];
      fit.solution[i] = sum / a[i][i];
    }
    bool again = false;
    for (size_t i = 0; i < 3; ++i) {
      if (!fixed[i] && fit.solution[i] < 0) fixed[i] = again = true;
    }
    if (!again) return;
  }
  fit.solution = {mean, 0, 0};
}

int64_t StepCostModel::Predict(const StepWork& work) const {
  if (!calibrated() || work.rows <= 0) return 0;
  const std::array<double, 3> x = Features(work);
  const bool is_few = work.rows <= kFewRows;
  const Fit& own = is_few ? few_ : many_;
  double t = 0;
  if (own.weight > 0) {
    for (size_t i = 0; i < 3; ++i) t += own.solution[i] * x[i];
  } else {
    const Fit& other = is_few ? many_ : few_;
    const double proportional = other.nanos / other.rows * (x[1] + x[2]);
    // Few rows cost at least a share of what many cost; many cost at most in proportion.
    t = is_few ? std::max(proportional, 0.1 * other.nanos / other.weight) : proportional;
  }
  return static_cast<int64_t>(std::llround(std::max(t, 0.0)));
}

int StepCostModel::RowsWithin(const StepWork& base, int position, int at_least, int at_most, int64_t target) const {
  const auto fits = [&](int n) {
    StepWork work = base;
    work.rows += n;
    work.attended += static_cast<double>(n) * position + 0.5 * n * (n + 1.0);
    return Predict(work) <= target;
  };
  if (at_most <= at_least) return at_most;
  int low = at_least, high = at_most;  // the largest that fits is in [low, high], or none above low does
  while (low < high) {
    const int middle = low + (high - low + 1) / 2;
    if (fits(middle)) {
      low = middle;
    } else {
      high = middle - 1;
    }
  }
  return low;
}

}  // namespace surety::engine
