#include "gateway/logistic_regression.h"

#include <cmath>
#include <cstdlib>
#include <numeric>

#include <gtest/gtest.h>

#include "base/random.h"
#include "base/thread_pool.h"

namespace surety::gateway {
namespace {

struct LogisticProblem {
  int n, d, k;
  std::vector<float> vectors;
  std::vector<int> labels, rows;

  LogisticProblem(int n, int d, int k, uint64_t seed) : n(n), d(d), k(k), rows(static_cast<size_t>(n)) {
    std::iota(rows.begin(), rows.end(), 0);
    uint64_t at = 0;
    const auto draw = [&] { return RandomUniform({.seed = seed, .position = at++, .purpose = RandomPurpose::kTest}); };
    for (int i = 0; i < n; ++i) {
      for (int j = 0; j < d; ++j) vectors.push_back(static_cast<float>(2 * draw() - 1));
      labels.push_back(static_cast<int>(draw() * k) % k);
    }
  }
  LogisticData Data() const { return {d, k, vectors, labels}; }
  LogisticObjective Objective(double l2) const { return *LogisticObjective::Make(Data(), rows, l2); }
};

// f by its definition, in long double.
double NaiveObjective(const LogisticProblem& p, double l2, std::span<const double> w, int64_t stride) {
  long double loss = 0, squares = 0;
  for (int i = 0; i < p.n; ++i) {
    std::vector<long double> z(static_cast<size_t>(p.k));
    for (int c = 0; c < p.k; ++c) {
      z[c] = w[static_cast<size_t>(p.d * stride + c)];
      for (int j = 0; j < p.d; ++j) z[c] += static_cast<long double>(p.vectors[i * p.d + j]) * w[j * stride + c];
    }
    long double sum = 0;
    for (const long double value : z) sum += std::exp(value);
    loss += std::log(sum) - z[p.labels[i]];
  }
  for (int j = 0; j < p.d; ++j) {
    for (int c = 0; c < p.k; ++c) squares += static_cast<long double>(w[j * stride + c]) * w[j * stride + c];
  }
  return static_cast<double>(loss / p.n + l2 / 2 * squares);
}

std::vector<double> LogisticPoint(const LogisticProblem& p, const LogisticObjective& objective, uint64_t seed) {
  std::vector<double> w(static_cast<size_t>(objective.size()));
  for (int64_t j = 0; j <= p.d; ++j) {
    for (int c = 0; c < p.k; ++c) {
      const auto at = static_cast<uint64_t>(j * p.k + c);
      w[j * objective.stride() + c] = 4 * RandomUniform({.seed = seed, .position = at}) - 2;
    }
  }
  return w;
}

const auto LogisticGoOn = [] { return true; };

TEST(LogisticRegressionTest, ValueIsTheDefinitionsAndTheGradientItsDerivative) {
  SerialExecutor serial;
  // Odd and even rows, classes below, at and beyond a panel, more rows than a chunk and than a block of a sum.
  for (const LogisticProblem& p :
       {LogisticProblem(1, 1, 2, 1), LogisticProblem(37, 5, 3, 2), LogisticProblem(64, 8, 8, 3),
        LogisticProblem(131, 70, 9, 4), LogisticProblem(301, 3, 17, 5)}) {
    LogisticObjective objective = p.Objective(0.03);
    std::vector<double> w = LogisticPoint(p, objective, 7), gradient(w.size()), ignored(w.size());
    const double value = objective.Evaluate(w, gradient, serial);
    EXPECT_NEAR(value, NaiveObjective(p, 0.03, w, objective.stride()), 1e-12 * (1 + std::abs(value)));
    for (size_t i = 0; i < w.size(); i += 1 + w.size() / 97) {
      if (static_cast<int64_t>(i) % objective.stride() >= p.k) {
        EXPECT_EQ(gradient[i], 0) << "beyond the classes";
        continue;
      }
      const double h = 1e-5, kept = w[i];
      w[i] = kept + h;
      const double above = NaiveObjective(p, 0.03, w, objective.stride());
      w[i] = kept - h;
      const double below = NaiveObjective(p, 0.03, w, objective.stride());
      w[i] = kept;
      // The third derivative of the loss is below 1 and inputs are below 1: the error of the difference is below h^2.
      EXPECT_NEAR(gradient[i], (above - below) / (2 * h), h * h + 1e-10) << "entry " << i;
    }
  }
}

TEST(LogisticRegressionTest, AtTheMinimumTheGradientVanishesAndNoNeighbourIsLower) {
  SerialExecutor serial;
  const LogisticProblem p(120, 6, 4, 11);
  LogisticObjective objective = p.Objective(0.01);
  std::vector<double> w(static_cast<size_t>(objective.size()));
  const auto minimum = Minimise(objective, {.tolerance = 1e-7}, serial, LogisticGoOn, w);
  ASSERT_TRUE(minimum.has_value());
  EXPECT_TRUE(minimum->converged);
  std::vector<double> gradient(w.size());
  EXPECT_DOUBLE_EQ(objective.Evaluate(w, gradient, serial), minimum->value);
  for (const double g : gradient) EXPECT_LE(std::abs(g), 1e-7);
  for (uint64_t seed = 1; seed <= 20; ++seed) {
    std::vector<double> near = LogisticPoint(p, objective, seed);
    for (size_t i = 0; i < near.size(); ++i) near[i] = w[i] + 1e-2 * near[i];
    EXPECT_GT(NaiveObjective(p, 0.01, near, objective.stride()), minimum->value);
  }
  // Biases are free, so at the minimum each label is as probable on average as it is frequent.
  std::vector<double> mean(4), share(4);
  for (int i = 0; i < p.n; ++i) {
    std::vector<double> z(4);
    LogitsOf(w, objective.stride(), std::span(p.vectors).subspan(static_cast<size_t>(i) * 6, 6), z);
    const double sum = std::exp(z[0]) + std::exp(z[1]) + std::exp(z[2]) + std::exp(z[3]);
    for (int c = 0; c < 4; ++c) mean[c] += std::exp(z[c]) / sum / p.n;
    share[p.labels[i]] += 1.0 / p.n;
  }
  for (int c = 0; c < 4; ++c) EXPECT_NEAR(mean[c], share[c], 2e-7);
}

TEST(LogisticRegressionTest, TwoPointsHaveTheirKnownMinimum) {
  // x = 1 of class 0 and x = -1 of class 1: weights w and -w with 1 / (1 + exp(2 w)) = l2 w, by bisection here.
  SerialExecutor serial;
  const std::vector<float> vectors = {1, -1};
  const std::vector<int> labels = {0, 1}, rows = {0, 1};
  for (const double l2 : {1.0, 0.1, 0.001}) {
    double low = 0, high = 100;
    for (int i = 0; i < 200; ++i) {
      const double w = 0.5 * (low + high);
      (1 / (1 + std::exp(2 * w)) > l2 * w ? low : high) = w;
    }
    LogisticObjective objective = *LogisticObjective::Make({1, 2, vectors, labels}, rows, l2);
    std::vector<double> w(static_cast<size_t>(objective.size()));
    ASSERT_TRUE(Minimise(objective, {.tolerance = 1e-8}, serial, LogisticGoOn, w)->converged);
    // The curvature is l2 at least, so a gradient of 1e-8 is at most 1e-8 / l2 away.
    EXPECT_NEAR(w[0], low, 1e-8 / l2 * 2);
    EXPECT_NEAR(w[1], -low, 1e-8 / l2 * 2);
    EXPECT_NEAR(w[kPanel] - w[kPanel + 1], 0, 1e-6);
  }
}

TEST(LogisticRegressionTest, NeitherWorkersNorInstructionsChangeABit) {
  const LogisticProblem p(501, 41, 11, 13);
  std::vector<std::vector<double>> results;
  for (const int workers : {1, 2, 3, -1}) {
    const auto pool = MakeThreadPool({.n_workers = std::abs(workers), .pin = false, .spin_nanos = 0});
    LogisticObjective objective = p.Objective(1e-3);
    objective.set_plain(workers < 0);
    std::vector<double> w(static_cast<size_t>(objective.size()));
    ASSERT_TRUE(Minimise(objective, {}, *pool, LogisticGoOn, w));
    results.push_back(w);
  }
  EXPECT_EQ(results[0], results[1]);
  EXPECT_EQ(results[0], results[2]);
  EXPECT_EQ(results[0], results[3]);
}

TEST(LogisticRegressionTest, RefusesWhatDoesNotFitAndStopsWhenAsked) {
  const LogisticProblem p(10, 3, 3, 1);
  const std::vector<int> no_rows, beyond = {10};
  EXPECT_FALSE(LogisticObjective::Make(p.Data(), no_rows, 1));
  EXPECT_FALSE(LogisticObjective::Make(p.Data(), beyond, 1));
  EXPECT_FALSE(LogisticObjective::Make(p.Data(), p.rows, 0));
  EXPECT_FALSE(LogisticObjective::Make(p.Data(), p.rows, NAN));
  LogisticProblem broken = p;
  broken.vectors[4] = NAN;
  EXPECT_FALSE(LogisticObjective::Make(broken.Data(), p.rows, 1));
  broken = p;
  broken.labels[2] = 3;
  EXPECT_FALSE(LogisticObjective::Make(broken.Data(), p.rows, 1));

  SerialExecutor serial;
  LogisticObjective objective = p.Objective(1e-6);
  std::vector<double> w(static_cast<size_t>(objective.size()));
  int asked = 0;
  const auto stopped = Minimise(objective, {}, serial, [&] { return ++asked < 5; }, w);
  ASSERT_FALSE(stopped);
  EXPECT_EQ(stopped.error().code(), StatusCode::kCancelled);
  EXPECT_EQ(asked, 5);
}

}  // namespace
}  // namespace surety::gateway
