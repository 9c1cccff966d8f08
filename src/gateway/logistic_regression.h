// Multinomial logistic regression with an L2 penalty: the classifier that an intent signal is.
//
// Minimises f(W, b) = 1/n sum_i -log softmax(W x_i + b)[y_i] + l2/2 |W|^2 in double precision; biases are free. With
// l2 = 1 / (C n) that is scikit-learn's objective divided by C n.
// Shapes: n rows, d numbers a row, K classes; parameters are (d + 1) rows (the last one biases) of `stride` doubles,
// stride = K rounded up to kPanel; what lies beyond K stays 0.
// Threads: one caller; the work is shared out over the executor. Results do not depend on its number of workers.
// Errors: kInvalidArgument for sizes that do not fit together, numbers that are not finite, a label out of range.
// Source: L-BFGS as Liu and Nocedal, "On the limited memory BFGS method", Math. Prog. 45 (1989); step lengths by
// bisection to the weak Wolfe conditions, Lewis and Overton, Math. Prog. 141 (2013).
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "base/executor.h"
#include "base/function_ref.h"
#include "base/status.h"

namespace surety::gateway {

inline constexpr int kPanel = 8;

struct LogisticData {
  int dimension = 0, n_classes = 0;
  std::span<const float> vectors;   // n x dimension
  std::span<const int> labels;      // n
};

class LogisticObjective {
 public:
  // Copies the rows that `rows` names. `l2` > 0.
  static Result<LogisticObjective> Make(const LogisticData& data, std::span<const int> rows, double l2);

  int64_t n() const { return n_; }
  int64_t stride() const { return stride_; }
  int64_t size() const { return width_ * stride_; }
  void set_l2(double l2) { l2_ = l2; }
  // Without the processor's wider instructions; for tests: no bit may differ.
  void set_plain(bool plain) { plain_ = plain; }
  // f, and its gradient in `gradient`. Precondition: both have size() entries, and zeros beyond K.
  double Evaluate(std::span<const double> parameters, std::span<double> gradient, Executor& executor);

 private:
  void Residuals(int64_t chunk);

  int64_t n_ = 0, width_ = 0, n_classes_ = 0, stride_ = 0;
  double l2_ = 0;
  bool plain_ = false;
  std::vector<float> rows_;          // n x width, the last column 1
  std::vector<float> columns_;       // width x n
  std::vector<int> labels_;
  std::vector<double> panels_;       // the parameters, packed
  std::vector<double> residuals_;    // softmax minus truth, over n; packed
  std::vector<double> losses_;       // by chunk
};

struct MinimiseOptions {
  double tolerance = 1e-5;   // of the gradient's largest entry
  int max_evaluations = 2000;
};

struct Minimum {
  double value = 0, gradient_norm = 0;   // the gradient's largest entry
  int evaluations = 0;
  bool converged = false;
};

// From `parameters` (a start) to the minimum, in place. `go_on` is asked before each evaluation: false ends with
// kCancelled.
Result<Minimum> Minimise(LogisticObjective& objective, const MinimiseOptions& options, Executor& executor,
                         FunctionRef<bool()> go_on, std::span<double> parameters);

// The K logits of a vector. `parameters` as above.
void LogitsOf(std::span<const double> parameters, int64_t stride, std::span<const float> vector,
              std::span<double> logits);

}  // namespace surety::gateway
