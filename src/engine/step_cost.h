// Predicts how long a step takes, from the steps that have run: t = a + b * rows + c * attended, fitted online.
//
// Few rows are limited by reading the weights, many by arithmetic, so there are two fits: up to kFewRows rows and
// above. Each is a ridge regression with exponentially fading weights; until it has seen steps of its own kind it
// borrows the other's, read pessimistically (as if all time were proportional to rows, or none was).
//
// Units: nanoseconds, rows, attended = sum over rows of the tokens each looks at. Threads: one.
#pragma once

#include <array>
#include <cstdint>

namespace surety::engine {

struct StepWork {
  int rows = 0;
  double attended = 0;
};

class StepCostModel {
 public:
  static constexpr int kFewRows = 32;
  // `attended_per_row`: how many attended tokens cost about as much arithmetic as one row of the weight matrices; only
  // the starting point of the fit.
  explicit StepCostModel(double attended_per_row) : attended_per_row_(attended_per_row) {}

  void Observe(const StepWork& work, int64_t nanos);
  // 0 before the first observation.
  int64_t Predict(const StepWork& work) const;
  bool calibrated() const { return few_.weight > 0 || many_.weight > 0; }
  // The most additional rows, from `at_least` to `at_most`, of one sequence that is at `position`, so that the step of
  // `base` and them is predicted to end within `target`. `at_least` if none does.
  int RowsWithin(const StepWork& base, int position, int at_least, int at_most, int64_t target) const;

 private:
  struct Fit {
    std::array<double, 6> xx{};  // upper triangle of sum w x x^T, x = (1, rows, attended / attended_per_row)
    std::array<double, 3> xy{};
    double weight = 0, rows = 0, nanos = 0;  // of all samples, fading
    std::array<double, 3> solution{};
  };
  std::array<double, 3> Features(const StepWork& work) const;
  void Solve(Fit& fit) const;

  double attended_per_row_;
  Fit few_, many_;
};

}  // namespace surety::engine
