#include "gateway/intent_training.h"

#include <algorithm>
#include <cmath>
#include <map>
#include <numeric>
#include <set>

#include <fmt/format.h>

#include "base/check.h"
#include "base/random.h"

namespace surety::gateway {
namespace {

constexpr double kLogTemperatureBound = 4.6;   // from 1/100 to 100
constexpr int kWorseInARow = 2;                // penalties that did worse, after which weaker ones are not tried

std::span<const float> TrainingVector(const LabelledVectors& data, int row) {
  const auto d = static_cast<size_t>(data.dimension);
  return std::span(data.vectors).subspan(static_cast<size_t>(row) * d, d);
}

// Log loss of softmax(s z), and with `slope` its derivative by s.
double ScaledLogLoss(std::span<const double> logits, std::span<const int> labels, int n_classes, double s,
                     double* slope) {
  const auto k = static_cast<size_t>(n_classes);
  double loss = 0, derivative = 0;
  for (size_t i = 0; i < labels.size(); ++i) {
    const std::span<const double> z = logits.subspan(i * k, k);
    const double top = *std::ranges::max_element(z), truth = z[static_cast<size_t>(labels[i])];
    double sum = 0, mean = 0;
    for (const double value : z) {
      const double e = std::exp(s * (value - top));
      sum += e;
      mean += e * value;
    }
    loss += std::log(sum) + s * (top - truth);
    derivative += mean / sum - truth;
  }
  const double n = static_cast<double>(std::max<size_t>(labels.size(), 1));
  if (slope != nullptr) *slope = derivative / n;
  return loss / n;
}

struct RowParts {
  std::vector<int> kept, held_out;
};
RowParts WithoutFold(std::span<const int> rows, std::span<const int> folds, int fold) {
  RowParts parts;
  for (size_t i = 0; i < rows.size(); ++i) (folds[i] == fold ? parts.held_out : parts.kept).push_back(rows[i]);
  return parts;
}

// The fits of one choice and their count towards the whole.
class LayerFitter {
 public:
  LayerFitter(const LabelledVectors& data, const TrainingOptions& options, Executor& executor,
              TrainingProgressFn progress, TrainingProgress& state)
      : data_(data), options_(options), executor_(executor), progress_(progress), state_(state) {
    const auto d = static_cast<size_t>(data_.dimension);
    mean_.assign(d, 0.0);
    for (size_t i = 0; i < data_.vectors.size(); ++i) mean_[i % d] += data_.vectors[i];
    for (double& value : mean_) value /= static_cast<double>(data_.labels.size());
    for (size_t i = 0; i < data_.vectors.size(); ++i) {
      data_.vectors[i] = static_cast<float>(data_.vectors[i] - mean_[i % d]);
    }
  }

  Result<FittedLayer> Fit(std::span<const int> rows) {
    FittedLayer out;
    SURETY_RETURN_IF_ERROR(Choose(rows, out));
    out.l2 = L2Of(out.c, rows.size());
    SURETY_ASSIGN_OR_RETURN(LogisticObjective objective, LogisticObjective::Make(data_.Data(), rows, out.l2));
    out.stride = objective.stride();
    out.parameters.assign(static_cast<size_t>(objective.size()), 0.0);
    SURETY_ASSIGN_OR_RETURN(out.minimum, Descend(objective, options_.minimise, out.parameters));
    double* biases = out.parameters.data() + static_cast<int64_t>(mean_.size()) * out.stride;
    for (size_t j = 0; j < mean_.size(); ++j) {   // for the vectors as they are
      const double* row = out.parameters.data() + static_cast<int64_t>(j) * out.stride;
      for (int64_t c = 0; c < out.stride; ++c) biases[c] -= row[c] * mean_[j];
    }
    return out;
  }

 private:
  static double L2Of(double c, size_t n_rows) { return 1.0 / (c * static_cast<double>(n_rows)); }

  Result<Minimum> Descend(LogisticObjective& objective, const MinimiseOptions& options,
                          std::vector<double>& parameters) {
    const auto go_on = [&] { return progress_(state_); };
    auto minimum = Minimise(objective, options, executor_, go_on, parameters);
    ++state_.fits_done;
    return minimum;
  }

  // The penalty and temperature of the lowest held-out log loss. Penalties are tried from the strongest on, each from
  // where the last one ended.
  Status Choose(std::span<const int> rows, FittedLayer& best) {
    const std::vector<int> folds = StratifiedFolds(data_, rows, options_.inner_folds, options_.seed + 1);
    struct Inner {
      LogisticObjective objective;
      std::vector<int> held_out;
      std::vector<double> parameters;
    };
    std::vector<Inner> inner;
    std::vector<int> labels;
    for (int fold = 0; fold < options_.inner_folds; ++fold) {
      RowParts parts = WithoutFold(rows, folds, fold);
      if (parts.held_out.empty()) continue;
      SURETY_ASSIGN_OR_RETURN(auto objective, LogisticObjective::Make(data_.Data(), parts.kept, 1));
      const auto size = static_cast<size_t>(objective.size());
      for (const int row : parts.held_out) labels.push_back(data_.labels[static_cast<size_t>(row)]);
      inner.push_back({std::move(objective), std::move(parts.held_out), std::vector<double>(size)});
    }
    MinimiseOptions minimise = options_.minimise;
    minimise.tolerance = options_.choice_tolerance;
    int worse = 0, tried = 0;
    for (const double c : options_.c_grid) {
      ++tried;
      std::vector<double> logits;
      for (Inner& part : inner) {
        part.objective.set_l2(L2Of(c, static_cast<size_t>(part.objective.n())));
        SURETY_ASSIGN_OR_RETURN([[maybe_unused]] const Minimum minimum,
                                Descend(part.objective, minimise, part.parameters));
        for (const int row : part.held_out) {
          const size_t at = logits.size();
          logits.resize(at + static_cast<size_t>(data_.n_classes()));
          LogitsOf(part.parameters, part.objective.stride(), TrainingVector(data_, row), std::span(logits).subspan(at));
        }
      }
      const double temperature = BestTemperature(logits, labels, data_.n_classes());
      const double loss = ScaledLogLoss(logits, labels, data_.n_classes(), 1.0 / temperature, nullptr);
      if (best.c > 0 && loss >= best.inner_log_loss) {
        if (++worse == kWorseInARow) break;
        continue;
      }
      worse = 0;
      best.c = c;
      best.temperature = temperature;
      best.inner_log_loss = loss;
    }
    state_.fits_done += static_cast<int>((options_.c_grid.size() - static_cast<size_t>(tried)) * inner.size());
    return OkStatus();
  }

  LabelledVectors data_;         // less the mean
  std::vector<double> mean_;
  const TrainingOptions& options_;
  Executor& executor_;
  TrainingProgressFn progress_;
  TrainingProgress& state_;
};

int FitsOfOne(const TrainingOptions& options) {
  return static_cast<int>(options.c_grid.size()) * options.inner_folds + 1;
}

Prediction PredictionOf(const LabelledVectors& data, const FittedLayer& layer, int row) {
  std::vector<double> z(static_cast<size_t>(data.n_classes()));
  LogitsOf(layer.parameters, layer.stride, TrainingVector(data, row), z);
  const auto top = std::ranges::max_element(z);
  const double highest = *top;
  const int predicted = static_cast<int>(top - z.begin());
  double sum = 0;
  for (double& value : z) sum += value = std::exp((value - highest) / layer.temperature);
  const int truth = data.labels[static_cast<size_t>(row)];
  return {truth, predicted, 1.0 / sum, z[static_cast<size_t>(truth)] / sum};
}

Status CheckTrainingOptions(const LabelledVectors& data, const TrainingOptions& options) {
  SURETY_CHECK(data.groups.size() == data.labels.size());
  if (options.folds < 2 || options.inner_folds < 2) return InvalidArgumentError("there must be 2 folds at least");
  if (options.c_grid.empty() || !std::ranges::all_of(options.c_grid, [](double c) { return c > 0; })) {
    return InvalidArgumentError("there must be a penalty to choose, and all above 0");
  }
  return OkStatus();
}

}  // namespace

std::vector<int> StratifiedFolds(const LabelledVectors& data, std::span<const int> rows, int folds, uint64_t seed) {
  // A group counts for the label of its first row.
  std::map<int, std::vector<int>> groups_by_label;
  std::map<int, int> fold_of_group;
  for (const int row : rows) {
    const int group = data.groups[static_cast<size_t>(row)];
    if (fold_of_group.emplace(group, 0).second) {
      groups_by_label[data.labels[static_cast<size_t>(row)]].push_back(group);
    }
  }
  uint64_t draw = 0;
  int next = 0;
  for (auto& [label, groups] : groups_by_label) {
    for (size_t i = groups.size(); i > 1; --i) {
      const double u = RandomUniform({.seed = seed, .position = draw++, .purpose = RandomPurpose::kWorkload});
      std::swap(groups[i - 1], groups[std::min(static_cast<size_t>(u * static_cast<double>(i)), i - 1)]);
    }
    for (const int group : groups) fold_of_group[group] = next++ % folds;   // goes on, so that folds are of one size
  }
  std::vector<int> out;
  for (const int row : rows) out.push_back(fold_of_group[data.groups[static_cast<size_t>(row)]]);
  return out;
}

double BestTemperature(std::span<const double> logits, std::span<const int> labels, int n_classes) {
  // The loss is convex in the scale 1 / t, so its derivative changes sign once.
  double low = -kLogTemperatureBound, high = kLogTemperatureBound;
  for (int i = 0; i < 40; ++i) {
    const double middle = 0.5 * (low + high);
    double slope = 0;
    ScaledLogLoss(logits, labels, n_classes, std::exp(middle), &slope);
    (slope > 0 ? high : low) = middle;
  }
  return std::exp(-0.5 * (low + high));
}

Status CheckLabelCounts(const LabelledVectors& data, int folds) {
  std::vector<std::set<int>> groups(data.names.size());
  for (size_t i = 0; i < data.labels.size(); ++i) groups[static_cast<size_t>(data.labels[i])].insert(data.groups[i]);
  if (data.names.size() < 2) return InvalidArgumentError("the texts have one label only; a classifier tells two apart");
  for (size_t c = 0; c < groups.size(); ++c) {
    if (groups[c].size() >= static_cast<size_t>(folds)) continue;
    return InvalidArgumentError(fmt::format("the label \"{}\" has {} different texts; {} folds need {} of each label",
                                            data.names[c], groups[c].size(), folds, folds));
  }
  return OkStatus();
}

Result<FittedLayer> FitLayer(const LabelledVectors& data, std::span<const int> rows, const TrainingOptions& options,
                             Executor& executor, TrainingProgressFn progress) {
  SURETY_RETURN_IF_ERROR(CheckTrainingOptions(data, options));
  TrainingProgress state{0, FitsOfOne(options)};
  return LayerFitter(data, options, executor, progress, state).Fit(rows);
}

Result<TrainingResult> TrainIntents(const LabelledVectors& data, const TrainingOptions& options, Executor& executor,
                                    TrainingProgressFn progress) {
  SURETY_RETURN_IF_ERROR(CheckTrainingOptions(data, options));
  SURETY_RETURN_IF_ERROR(CheckLabelCounts(data, options.folds));
  std::vector<int> rows(data.labels.size());
  std::iota(rows.begin(), rows.end(), 0);
  TrainingProgress state{0, FitsOfOne(options) * (options.folds + 1)};
  LayerFitter fitter(data, options, executor, progress, state);
  TrainingResult out;
  out.outer.folds = StratifiedFolds(data, rows, options.folds, options.seed);
  out.outer.predictions.resize(rows.size());
  for (int fold = 0; fold < options.folds; ++fold) {
    const RowParts parts = WithoutFold(rows, out.outer.folds, fold);
    SURETY_ASSIGN_OR_RETURN(const FittedLayer layer, fitter.Fit(parts.kept));
    out.outer.c.push_back(layer.c);
    for (const int row : parts.held_out) {
      out.outer.predictions[static_cast<size_t>(row)] = PredictionOf(data, layer, row);
    }
  }
  SURETY_ASSIGN_OR_RETURN(out.layer, fitter.Fit(rows));
  return out;
}

IntentClassifier ClassifierOf(const LabelledVectors& data, const FittedLayer& layer) {
  IntentClassifier out;
  out.labels = data.names;
  out.label_rows.assign(data.names.size(), 0);
  for (const int label : data.labels) ++out.label_rows[static_cast<size_t>(label)];
  out.dimension = data.dimension;
  out.temperature = layer.temperature;
  out.l2 = layer.l2;
  out.training_rows = static_cast<int64_t>(data.labels.size());
  for (int64_t c = 0; c < data.n_classes(); ++c) {
    for (int64_t j = 0; j <= data.dimension; ++j) {
      out.weights.push_back(static_cast<float>(layer.parameters[static_cast<size_t>(j * layer.stride + c)]));
    }
  }
  return out;
}

}  // namespace surety::gateway
