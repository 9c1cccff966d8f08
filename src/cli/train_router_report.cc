#include "cli/train_router_report.h"

#include <algorithm>
#include <cmath>
#include <optional>
#include <tuple>

#include <fmt/format.h>

#include "cli/json_out.h"
#include "cli/progress.h"

namespace surety::cli {
namespace {

namespace json = boost::json;

constexpr double kThresholds[] = {0, 0.1, 0.2, 0.3, 0.4, 0.5, 0.6, 0.7, 0.8, 0.9, 0.95, 0.99};
constexpr size_t kShownConfusions = 12;

struct RouterConfusion {
  int64_t count = 0;
  size_t truth = 0, predicted = 0;
};

std::vector<RouterConfusion> RouterConfusions(const gateway::Evaluation& evaluation) {
  std::vector<RouterConfusion> out;
  for (size_t t = 0; t < evaluation.confusion.size(); ++t) {
    for (size_t p = 0; p < evaluation.confusion.size(); ++p) {
      if (t != p && evaluation.confusion[t][p] > 0) out.push_back({evaluation.confusion[t][p], t, p});
    }
  }
  std::ranges::sort(out, [](const RouterConfusion& a, const RouterConfusion& b) {
    return std::tuple(-a.count, a.truth, a.predicted) < std::tuple(-b.count, b.truth, b.predicted);
  });
  return out;
}

json::object ProportionJson(const gateway::Proportion& p) {
  return {{"value", Rounded(p.value)}, {"low", Rounded(p.low)}, {"high", Rounded(p.high)},
          {"count", p.count}, {"of", p.of}};
}

json::object AbstentionJson(const gateway::AbstentionPoint& point) {
  return {{"threshold", point.threshold}, {"coverage", ProportionJson(point.coverage)},
          {"accuracy", ProportionJson(point.accuracy)}};
}

json::value AbstentionJson(const std::optional<gateway::AbstentionPoint>& point) {
  return point ? json::value(AbstentionJson(*point)) : json::value(nullptr);
}

std::string AbstentionLine(const gateway::AbstentionPoint& point) {
  return fmt::format("  {:9.3f}  {:7.1f} %  {:7.1f} %  [{:.1f}, {:.1f}]\n", point.threshold,
                     100 * point.coverage.value, 100 * point.accuracy.value, 100 * point.accuracy.low,
                     100 * point.accuracy.high);
}

// Rounded up, so that the printed threshold keeps what was promised.
double RoundedUp(double threshold) { return std::ceil(threshold * 1000) / 1000; }

std::string TargetText(const RouterFigures& figures) {
  std::string out;
  for (const bool surely : {false, true}) {
    const auto point = gateway::ForTarget(figures.predictions, figures.target_accuracy, surely);
    const std::string what = fmt::format("{:.4g} %{}", 100 * figures.target_accuracy,
                                         surely ? ", low end of the interval" : "");
    if (!point) {
      out += fmt::format("For {}: no threshold reaches it\n", what);
      continue;
    }
    out += fmt::format("For {}: min_confidence: {:.3f}   (answers {:.1f} %, {:.1f} % right)\n", what,
                       RoundedUp(point->threshold), 100 * point->coverage.value, 100 * point->accuracy.value);
  }
  return out;
}

}  // namespace

double QuantileOf(std::vector<double> values, double q) {
  if (values.empty()) return 0;
  std::ranges::sort(values);
  const auto at = static_cast<size_t>(std::ceil(q * static_cast<double>(values.size())));
  return values[std::clamp<size_t>(at, 1, values.size()) - 1];
}

json::object RouterEvaluationJson(const RouterFigures& figures) {
  const auto evaluation = gateway::Evaluate(figures.predictions, static_cast<int>(figures.labels.size()));
  json::array curve, confusion, c_by_fold(figures.c_by_fold.begin(), figures.c_by_fold.end());
  for (const double threshold : kThresholds) {
    curve.push_back(AbstentionJson(gateway::AtThreshold(figures.predictions, threshold)));
  }
  for (const auto& row : evaluation.confusion) confusion.push_back(json::array(row.begin(), row.end()));
  return {{"method", "nested stratified cross-validation; equal texts stay in one fold"},
          {"folds", figures.folds},
          {"accuracy", ProportionJson(evaluation.accuracy)},
          {"macro_f1", Rounded(evaluation.macro_f1)},
          {"log_loss", Rounded(evaluation.log_loss)},
          {"calibration_error", Rounded(evaluation.calibration_error)},
          {"c_by_fold", std::move(c_by_fold)},
          {"target_accuracy", figures.target_accuracy},
          {"at_target", AbstentionJson(gateway::ForTarget(figures.predictions, figures.target_accuracy, false))},
          {"surely_at_target", AbstentionJson(gateway::ForTarget(figures.predictions, figures.target_accuracy, true))},
          {"abstention", std::move(curve)},
          {"confusion", std::move(confusion)}};
}

std::string RouterReportText(const RouterFigures& figures) {
  const auto evaluation = gateway::Evaluate(figures.predictions, static_cast<int>(figures.labels.size()));
  const gateway::Proportion& accuracy = evaluation.accuracy;
  std::string out = fmt::format("{} texts, {} labels; {} texts stand there more than once, {} of them with different "
                                "labels\n", figures.rows, figures.labels.size(), figures.duplicate_texts,
                                figures.conflicting_texts);
  out += fmt::format("Accuracy {:.2f} % [{:.2f}, {:.2f}] on texts not seen ({} folds), macro F1 {:.4f}, log loss "
                     "{:.4f}, calibration error {:.2f} %\n", 100 * accuracy.value, 100 * accuracy.low,
                     100 * accuracy.high, figures.folds, evaluation.macro_f1, evaluation.log_loss,
                     100 * evaluation.calibration_error);
  out += fmt::format("C {} (by fold: ", figures.c);
  for (size_t i = 0; i < figures.c_by_fold.size(); ++i) {
    out += fmt::format("{}{}", i > 0 ? ", " : "", figures.c_by_fold[i]);
  }
  out += fmt::format("), temperature {:.3f}; embedding took {}, training {}\n", figures.temperature,
                     HumanSeconds(figures.embed_seconds), HumanSeconds(figures.train_seconds));
  if (!figures.classify_ms.empty()) {
    out += fmt::format("One question: median {:.2f} ms, p95 {:.2f} ms, embedding included\n",
                       QuantileOf(figures.classify_ms, 0.5), QuantileOf(figures.classify_ms, 0.95));
  }
  out += "\n  threshold   answers    right      95 % interval\n";
  for (const double threshold : kThresholds) {
    out += AbstentionLine(gateway::AtThreshold(figures.predictions, threshold));
  }
  out += "\n" + TargetText(figures);
  const auto confusions = RouterConfusions(evaluation);
  if (!confusions.empty()) out += "\nMost frequent confusions (truth, taken for):\n";
  for (size_t i = 0; i < std::min(confusions.size(), kShownConfusions); ++i) {
    out += fmt::format("  {:4}  {}, {}\n", confusions[i].count, figures.labels[confusions[i].truth],
                       figures.labels[confusions[i].predicted]);
  }
  return out;
}

}  // namespace surety::cli
