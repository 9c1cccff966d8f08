#include "gateway/logistic_regression.h"

#include <algorithm>
#include <cmath>
#include <deque>
#include <numeric>

#include <fmt/format.h>

#include "base/check.h"

namespace surety::gateway {
namespace {

constexpr int64_t kRowsAtOnce = 64;       // of a chunk: they stay in the second cache over all panels
constexpr int64_t kSumAtOnce = 256;       // terms of a sum for which a panel is kept in the first cache
constexpr size_t kHistory = 10;           // pairs that L-BFGS remembers
constexpr double kSufficientDecrease = 1e-4, kCurvature = 0.9;
constexpr int kMaxTrials = 40;            // of step lengths

// out[r][0..8) += sum over k of a[r][k] * panel[k][0..8), for n_rows rows. Each sum has one order, and no product is
// contracted into it, so all versions of this give the same bits.
template <int n_rows>
[[gnu::always_inline]] inline void RowsTimesPanel(const float* a, int64_t row_size, int64_t n_terms,
                                                  const double* panel, int64_t stride, double* out) {
  double sums[n_rows][kPanel];
  for (int r = 0; r < n_rows; ++r) {
    for (int c = 0; c < kPanel; ++c) sums[r][c] = out[r * stride + c];
  }
  for (int64_t k = 0; k < n_terms; ++k) {
    const double* p = panel + k * kPanel;
    for (int r = 0; r < n_rows; ++r) {
      const double x = a[r * row_size + k];
      for (int c = 0; c < kPanel; ++c) sums[r][c] += x * p[c];
    }
  }
  for (int r = 0; r < n_rows; ++r) {
    for (int c = 0; c < kPanel; ++c) out[r * stride + c] = sums[r][c];
  }
}

// out (n_rows x stride) = a (n_rows x n_terms) times the packed matrix (n_panels of n_terms x 8).
template <int rows_at_once>
[[gnu::always_inline]] inline void TimesPanelsBy(const float* a, int64_t n_rows, int64_t n_terms, const double* panels,
                                                 int64_t stride, double* out) {
  std::fill(out, out + n_rows * stride, 0.0);
  for (int64_t k = 0; k < n_terms; k += kSumAtOnce) {
    const int64_t n = std::min(kSumAtOnce, n_terms - k);
    for (int64_t p = 0; p < stride / kPanel; ++p) {
      const double* panel = panels + (p * n_terms + k) * kPanel;
      int64_t r = 0;
      for (; r + rows_at_once <= n_rows; r += rows_at_once) {
        RowsTimesPanel<rows_at_once>(a + r * n_terms + k, n_terms, n, panel, stride, out + r * stride + p * kPanel);
      }
      for (; r < n_rows; ++r) {
        RowsTimesPanel<1>(a + r * n_terms + k, n_terms, n, panel, stride, out + r * stride + p * kPanel);
      }
    }
  }
}

void TimesPanelsPlain(const float* a, int64_t n_rows, int64_t n_terms, const double* panels, int64_t stride,
                      double* out) {
  TimesPanelsBy<2>(a, n_rows, n_terms, panels, stride, out);
}

#if defined(__x86_64__)
[[gnu::target("avx2")]] void TimesPanelsAvx2(const float* a, int64_t n_rows, int64_t n_terms, const double* panels,
                                             int64_t stride, double* out) {
  TimesPanelsBy<4>(a, n_rows, n_terms, panels, stride, out);
}
#endif

using TimesPanelsFn = void (*)(const float*, int64_t, int64_t, const double*, int64_t, double*);
TimesPanelsFn TimesPanels(bool plain) {
#if defined(__x86_64__)
  static const bool has_avx2 = __builtin_cpu_supports("avx2") != 0;
  if (has_avx2 && !plain) return TimesPanelsAvx2;
#endif
  return TimesPanelsPlain;
}

double DotOf(std::span<const double> a, std::span<const double> b) {
  return std::inner_product(a.begin(), a.end(), b.begin(), 0.0);
}

double LargestOf(std::span<const double> values) {
  double largest = 0;
  for (const double value : values) largest = std::max(largest, std::abs(value));
  return largest;
}

struct LbfgsPair {
  std::vector<double> step, change;   // of parameters and gradient
  double inverse = 0;                 // 1 / (step . change)
};

// The direction -H g of the two-loop recursion.
std::vector<double> LbfgsDirection(const std::deque<LbfgsPair>& pairs, std::span<const double> gradient) {
  std::vector<double> q(gradient.begin(), gradient.end());
  std::vector<double> alpha(pairs.size());
  for (size_t i = pairs.size(); i-- > 0;) {
    alpha[i] = pairs[i].inverse * DotOf(pairs[i].step, q);
    for (size_t j = 0; j < q.size(); ++j) q[j] -= alpha[i] * pairs[i].change[j];
  }
  double scale = 1.0 / std::max(1.0, std::sqrt(DotOf(gradient, gradient)));
  if (!pairs.empty()) scale = 1.0 / (pairs.back().inverse * DotOf(pairs.back().change, pairs.back().change));
  for (double& value : q) value *= scale;
  for (size_t i = 0; i < pairs.size(); ++i) {
    const double beta = pairs[i].inverse * DotOf(pairs[i].change, q);
    for (size_t j = 0; j < q.size(); ++j) q[j] += (alpha[i] - beta) * pairs[i].step[j];
  }
  for (double& value : q) value = -value;
  return q;
}

}  // namespace

Result<LogisticObjective> LogisticObjective::Make(const LogisticData& data, std::span<const int> rows, double l2) {
  const auto d = static_cast<size_t>(std::max(data.dimension, 0));
  if (d == 0 || data.n_classes < 2 || rows.empty() || data.vectors.size() != data.labels.size() * d) {
    return Error(InvalidArgumentError("a classifier needs two labels, one row and vectors of one size at least"));
  }
  if (!(l2 > 0) || !std::isfinite(l2)) {
    return Error(InvalidArgumentError(fmt::format("an l2 of {} is not above 0", l2)));
  }
  LogisticObjective out;
  out.n_ = static_cast<int64_t>(rows.size());
  out.width_ = data.dimension + 1;
  out.n_classes_ = data.n_classes;
  out.stride_ = (data.n_classes + kPanel - 1) / kPanel * kPanel;
  out.l2_ = l2;
  out.rows_.resize(static_cast<size_t>(out.n_ * out.width_));
  out.columns_.resize(out.rows_.size());
  for (int64_t i = 0; i < out.n_; ++i) {
    const int row = rows[static_cast<size_t>(i)];
    if (row < 0 || static_cast<size_t>(row) >= data.labels.size()) {
      return Error(InvalidArgumentError(fmt::format("there is no row {}", row)));
    }
    const int label = data.labels[static_cast<size_t>(row)];
    if (label < 0 || label >= data.n_classes) {
      return Error(InvalidArgumentError(fmt::format("row {} has label {} of {}", row, label, data.n_classes)));
    }
    out.labels_.push_back(label);
    for (int64_t j = 0; j < out.width_; ++j) {
      const float x = j + 1 < out.width_ ? data.vectors[static_cast<size_t>(row) * d + static_cast<size_t>(j)] : 1.0F;
      if (!std::isfinite(x)) return Error(InvalidArgumentError(fmt::format("row {} is not finite", row)));
      out.rows_[static_cast<size_t>(i * out.width_ + j)] = x;
      out.columns_[static_cast<size_t>(j * out.n_ + i)] = x;
    }
  }
  out.panels_.resize(static_cast<size_t>(out.size()));
  out.residuals_.resize(static_cast<size_t>(out.n_ * out.stride_));
  out.losses_.resize(static_cast<size_t>((out.n_ + kRowsAtOnce - 1) / kRowsAtOnce));
  return out;
}

// Logits of a chunk of rows, their loss, and softmax minus truth into the packed residuals.
void LogisticObjective::Residuals(int64_t chunk) {
  const int64_t first = chunk * kRowsAtOnce, n_rows = std::min(kRowsAtOnce, n_ - first);
  std::vector<double> logits(static_cast<size_t>(n_rows * stride_));
  TimesPanels(plain_)(rows_.data() + first * width_, n_rows, width_, panels_.data(), stride_, logits.data());
  double loss = 0;
  for (int64_t r = 0; r < n_rows; ++r) {
    double* z = logits.data() + r * stride_;
    const int truth = labels_[static_cast<size_t>(first + r)];
    const double top = *std::max_element(z, z + n_classes_), truth_logit = z[truth];
    double sum = 0;
    for (int64_t c = 0; c < n_classes_; ++c) sum += z[c] = std::exp(z[c] - top);
    loss += std::log(sum) + top - truth_logit;
    const double scale = 1.0 / (sum * static_cast<double>(n_));
    for (int64_t c = 0; c < n_classes_; ++c) z[c] *= scale;
    z[truth] -= 1.0 / static_cast<double>(n_);
    std::fill(z + n_classes_, z + stride_, 0.0);
    for (int64_t p = 0; p < stride_ / kPanel; ++p) {
      std::copy_n(z + p * kPanel, kPanel, residuals_.data() + (p * n_ + first + r) * kPanel);
    }
  }
  losses_[static_cast<size_t>(chunk)] = loss;
}

double LogisticObjective::Evaluate(std::span<const double> parameters, std::span<double> gradient,
                                   Executor& executor) {
  SURETY_CHECK(parameters.size() == panels_.size() && gradient.size() == panels_.size());
  for (int64_t j = 0; j < width_; ++j) {
    for (int64_t p = 0; p < stride_ / kPanel; ++p) {
      std::copy_n(parameters.data() + j * stride_ + p * kPanel, kPanel, panels_.data() + (p * width_ + j) * kPanel);
    }
  }
  ParallelFor(executor, static_cast<int64_t>(losses_.size()), [&](int64_t chunk, int) { Residuals(chunk); });
  ParallelFor(executor, (width_ + kRowsAtOnce - 1) / kRowsAtOnce, [&](int64_t chunk, int) {
    const int64_t first = chunk * kRowsAtOnce;
    TimesPanels(plain_)(columns_.data() + first * n_, std::min(kRowsAtOnce, width_ - first), n_, residuals_.data(),
                        stride_, gradient.data() + first * stride_);
  });
  const double loss = std::accumulate(losses_.begin(), losses_.end(), 0.0) / static_cast<double>(n_);
  const auto n_weights = static_cast<size_t>((width_ - 1) * stride_);   // the biases are not among them
  for (size_t i = 0; i < n_weights; ++i) gradient[i] += l2_ * parameters[i];
  return loss + 0.5 * l2_ * DotOf(parameters.first(n_weights), parameters.first(n_weights));
}

namespace {

// A point of the search with what is known about it.
struct LbfgsPoint {
  std::vector<double> at, gradient;
  double value = 0;
};

struct LbfgsSearch {
  LogisticObjective& objective;
  Executor& executor;
  FunctionRef<bool()> go_on;
  int evaluations = 0;

  Status Evaluate(LbfgsPoint& point) {
    if (!go_on()) return CancelledError("interrupted");
    ++evaluations;
    point.value = objective.Evaluate(point.at, point.gradient, executor);
    return OkStatus();
  }

  // A step along `direction` that keeps the weak Wolfe conditions, into `next`; false: none was found.
  Result<bool> Step(const LbfgsPoint& here, std::span<const double> direction, LbfgsPoint& next) {
    const double slope = DotOf(here.gradient, direction);
    double low = 0, high = INFINITY, t = 1;
    for (int trial = 0; trial < kMaxTrials; ++trial) {
      for (size_t i = 0; i < next.at.size(); ++i) next.at[i] = here.at[i] + t * direction[i];
      SURETY_RETURN_IF_ERROR(Evaluate(next));
      if (!(next.value <= here.value + kSufficientDecrease * t * slope)) {
        high = t;
      } else if (DotOf(next.gradient, direction) < kCurvature * slope) {
        low = t;
      } else {
        return true;
      }
      t = std::isinf(high) ? 2 * low : 0.5 * (low + high);
    }
    return false;
  }
};

}  // namespace

Result<Minimum> Minimise(LogisticObjective& objective, const MinimiseOptions& options, Executor& executor,
                         FunctionRef<bool()> go_on, std::span<double> parameters) {
  SURETY_CHECK(parameters.size() == static_cast<size_t>(objective.size()));
  LbfgsSearch search{objective, executor, go_on};
  LbfgsPoint here{{parameters.begin(), parameters.end()}, std::vector<double>(parameters.size())}, next = here;
  SURETY_RETURN_IF_ERROR(search.Evaluate(here));
  std::deque<LbfgsPair> pairs;
  while (LargestOf(here.gradient) > options.tolerance && search.evaluations < options.max_evaluations) {
    const std::vector<double> direction = LbfgsDirection(pairs, here.gradient);
    SURETY_ASSIGN_OR_RETURN(const bool found, search.Step(here, direction, next));
    if (!found && pairs.empty()) break;   // as near as the arithmetic comes
    if (!found) {
      pairs.clear();
      continue;
    }
    LbfgsPair pair{next.at, next.gradient};
    for (size_t i = 0; i < next.at.size(); ++i) pair.step[i] -= here.at[i];
    for (size_t i = 0; i < next.at.size(); ++i) pair.change[i] -= here.gradient[i];
    const double product = DotOf(pair.step, pair.change);
    if (product > 0) {
      pair.inverse = 1.0 / product;
      pairs.push_back(std::move(pair));
      if (pairs.size() > kHistory) pairs.pop_front();
    }
    std::swap(here, next);
  }
  std::ranges::copy(here.at, parameters.begin());
  const double norm = LargestOf(here.gradient);
  return Minimum{here.value, norm, search.evaluations, norm <= options.tolerance};
}

void LogitsOf(std::span<const double> parameters, int64_t stride, std::span<const float> vector,
              std::span<double> logits) {
  SURETY_CHECK(parameters.size() == (vector.size() + 1) * static_cast<size_t>(stride));
  const double* biases = parameters.data() + static_cast<int64_t>(vector.size()) * stride;
  std::copy_n(biases, logits.size(), logits.begin());
  for (size_t j = 0; j < vector.size(); ++j) {
    const double x = vector[j];
    const double* row = parameters.data() + static_cast<int64_t>(j) * stride;
    for (size_t c = 0; c < logits.size(); ++c) logits[c] += x * row[c];
  }
}

}  // namespace surety::gateway
