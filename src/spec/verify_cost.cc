#include "spec/verify_cost.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <utility>

namespace surety::spec {
namespace {

// How far one step moves the logarithms of level and ratio towards what was seen. A ratio moves quickly at first, then
// slowly: were it to follow a machine that slows down, those of other numbers of rows would be left behind.
constexpr double kLevelWeight = 0.25, kFirstRatioWeight = 1 - kLevelWeight, kLastRatioWeight = 0.02;
constexpr double kDoubt = 0.8;
constexpr double kNone = std::numeric_limits<double>::infinity();

}  // namespace

void VerifyCost::Observe(int rows, int64_t nanos) {
  if (rows < 1 || rows > kMaxRows || nanos <= 0) return;
  const auto seen = static_cast<double>(nanos);
  Figure& figure = figures_[static_cast<size_t>(rows)];
  if (level_ == 0) {
    level_ = seen;
    figure.ratio = 1;
  } else if (figure.ratio == 0) {
    figure.ratio = std::min(seen / level_, kMostOverGuess * RatioOf(rows));
  } else {
    const double doubt = std::exchange(figure.doubt, 1);
    if (doubt < 1 && seen < level_ * figure.ratio * std::sqrt(doubt)) {  // nearer to what it counted as
      figure.ratio *= doubt;
      figure.n_seen = 1;
    }
    const double off = std::log(std::min(seen / (level_ * figure.ratio), kMostOver));
    level_ *= std::exp(kLevelWeight * off);
    figure.ratio *= std::exp(std::clamp(1.0 / figure.n_seen, kLastRatioWeight, kFirstRatioWeight) * off);
  }
  ++figure.n_seen;
  figure.last_step = ++n_steps_;
  DoubtStale();
  Order();
}

void VerifyCost::DoubtStale() {
  for (Figure& figure : figures_) {
    if (figure.ratio == 0 || n_steps_ - figure.last_step < kStaleSteps) continue;
    figure.doubt *= kDoubt;
    figure.last_step = n_steps_;
  }
}

// What was seen lately is bounded by what more rows took lately. What is doubted lies between what fewer and more rows
// took lately, and counts as no less than it would be guessed from those had it never been seen.
void VerifyCost::Order() {
  double at_most = kNone;
  int other = 0;  // the nearest number of rows that was seen lately
  for (int rows = kMaxRows; rows >= 1; --rows) {
    Figure& figure = figures_[static_cast<size_t>(rows)];
    if (figure.ratio == 0) continue;
    if (figure.doubt == 1) {
      figure.counts_as = at_most = std::min(at_most, figure.ratio);
      other = rows;
    } else {
      const double guess = other > 0 ? at_most * GuessedShare(rows, other) : 0;
      figure.counts_as = std::max(figure.ratio * figure.doubt, std::min(figure.ratio, guess));
    }
  }
  double at_least = 0;
  for (int rows = 1; rows <= kMaxRows; ++rows) {
    Figure& figure = figures_[static_cast<size_t>(rows)];
    if (figure.ratio == 0) continue;
    if (figure.doubt == 1) {
      at_least = figure.counts_as;
      other = rows;
    } else if (at_least > 0) {
      const double guess = at_least * GuessedMore(other, rows);
      figure.counts_as = std::max({figure.counts_as, at_least, std::min(figure.ratio, guess)});
    }
  }
  at_most = kNone;
  for (auto figure = figures_.rbegin(); figure != figures_.rend(); ++figure) {
    if (figure->ratio > 0) figure->counts_as = at_most = std::min(at_most, figure->counts_as);
  }
}

double VerifyCost::RatioOf(int rows) const {
  rows = std::clamp(rows, 1, kMaxRows);
  int below = rows, above = rows;
  const auto at = [this](int n) { return figures_[static_cast<size_t>(n)].counts_as; };
  while (below > 0 && at(below) == 0) --below;
  while (above <= kMaxRows && at(above) == 0) ++above;
  if (below == 0 && above > kMaxRows) return 0;
  if (below == above) return at(rows);
  if (below == 0) return at(above) * GuessedShare(rows, above);
  const double guess = at(below) * GuessedMore(below, rows);
  if (above > kMaxRows) return guess;
  return std::min(guess, at(below) + (at(above) - at(below)) * (rows - below) / (above - below));
}

void BranchCost::Observe(double units, double row_nanos, double nanos, double expected) {
  if (row_nanos <= 0 || expected <= 0) return;
  if (units <= 0) {
    factor_ += kForgetting * (1 - factor_);
    return;
  }
  // Noise goes both ways, so it is not cut off at 0.
  const double seen = std::clamp((nanos - expected) / (units * row_nanos), -2 * kMostFactor, 2 * kMostFactor);
  factor_ = std::clamp(factor_ + kWeight * (seen - factor_), kLeastFactor, kMostFactor);
}

}  // namespace surety::spec
