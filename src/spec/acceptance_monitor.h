// A certificate, kept while serving, that speculation is lossless: a draft that was chosen without looking at the
// randomness of its position must hold exactly as often as the target gives it probability.
//
// Each such trial adds (held - p) to a sum that is a martingale with steps bounded by 1 if the rule is exact. The test
// is valid at any time and for ever: it raises a false alarm with probability kFalseAlarm in the whole life of a
// server, not for each look. A bias b shows after about 12 / b^2 trials.
//
// Threads: one. Owns: nothing.
// Source: the normal-mixture martingale of Robbins 1970; Howard, Ramdas, McAuliffe, Sekhon 2021 (section 3.2); the
// step's variance proxy of 1/4 is Hoeffding's.
#pragma once

#include <cmath>
#include <cstdint>

namespace surety::spec {

class AcceptanceMonitor {
 public:
  static constexpr double kFalseAlarm = 1e-9;

  void Note(double probability, bool held) {
    sum_ += (held ? 1.0 : 0.0) - probability;
    ++n_;
  }
  int64_t n_trials() const { return n_; }
  // Held less expected, a trial.
  double bias() const { return n_ > 0 ? sum_ / static_cast<double>(n_) : 0; }
  // How far the sum is from 0, as a share of what is still credible: over 1 the rule is not exact.
  double strain() const {
    constexpr double kMixture = 250;  // the variance at which the test is sharpest: a thousand trials
    const double variance = 0.25 * static_cast<double>(n_) + kMixture;
    const double credible = std::sqrt(variance * (2 * std::log(1 / kFalseAlarm) + std::log(variance / kMixture)));
    return std::abs(sum_) / credible;
  }
  bool alarm() const { return strain() > 1; }

 private:
  double sum_ = 0;
  int64_t n_ = 0;
};

}  // namespace surety::spec
