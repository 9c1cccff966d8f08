#include "train/trainer.h"

#include <algorithm>
#include <array>
#include <bit>
#include <cmath>
#include <numbers>
#include <numeric>

#include <boost/json.hpp>
#include <fmt/format.h>

#include "base/check.h"
#include "base/random.h"
#include "train/checkpoint.h"
#include "train/math_table.h"

namespace surety::train {
namespace {

namespace json = boost::json;
constexpr float kAdamBeta1 = 0.9f, kAdamBeta2 = 0.95f, kAdamEpsilon = 1e-8f;
constexpr int64_t kAdamPart = 1 << 16;
constexpr uint32_t kOrderLane = 0x7261'0001, kSplitLane = 0x7261'0002;  // streams of this module

// 0 .. n - 1 in an order that seed and round decide.
std::vector<int32_t> Shuffled(size_t n, uint64_t seed, uint64_t round, uint32_t lane) {
  std::vector<std::pair<uint64_t, int32_t>> keyed;
  for (size_t i = 0; i < n; ++i) {
    const RandomKey key = {.seed = seed, .position = (round << 32) | i, .purpose = RandomPurpose::kWorkload,
                           .lane = lane};
    keyed.emplace_back(RandomBits(key), static_cast<int32_t>(i));
  }
  std::sort(keyed.begin(), keyed.end());
  std::vector<int32_t> order;
  for (const auto& [bits, index] : keyed) order.push_back(index);
  return order;
}

// As bits: decimal numbers need not be read back exactly.
json::array BitsOf(std::span<const double> values) {
  json::array out;
  for (const double x : values) out.push_back(std::bit_cast<uint64_t>(x));
  return out;
}

std::vector<double> DoublesOf(const json::value& list) {
  std::vector<double> out;
  for (const json::value& item : list.as_array()) out.push_back(std::bit_cast<double>(item.to_number<uint64_t>()));
  return out;
}

class RealTrainer final : public Trainer {
 public:
  RealTrainer(const HeadShape& shape, const TrainOptions& options, Data data, std::vector<float> weights,
              Executor& executor)
      : shape_(shape), options_(options), data_(std::move(data)), layout_(shape), executor_(executor),
        math_(CurrentMath()), pass_(shape, executor), weights_(std::move(weights)), gradient_(weights_.size()),
        first_(weights_.size()), second_(weights_.size()), draft_of_(static_cast<size_t>(data_.vocab_size), -1) {
    for (size_t i = 0; i < data_.draft_ids.size(); ++i) {
      draft_of_[static_cast<size_t>(data_.draft_ids[i])] = static_cast<int32_t>(i);
    }
    split_ = SplitSamples(data_.samples->size(), options_.holdout_share, options_.seed);
    double weight = 1, sum = 0;
    for (int k = 0; k < options_.unroll; ++k, weight *= options_.depth_decay) {
      depth_weights_.push_back(weight);
      sum += weight;
    }
    for (double& w : depth_weights_) w /= sum;
    PlanBatches();
  }

  int step() const override { return static_cast<int>(records_.size()); }
  int n_steps() const override { return static_cast<int>(batches_.size()); }
  int64_t positions_done() const override { return positions_before_[records_.size()]; }
  int64_t positions_total() const override { return positions_before_.back(); }
  const std::vector<StepRecord>& records() const override { return records_; }
  const std::vector<Measurement>& measurements() const override { return measurements_; }
  std::span<const float> weights() const override { return weights_; }

  int64_t memory_bytes() const override {
    int64_t longest = 0, roots = 0;
    for (const Sample& sample : *data_.samples) longest = std::max(longest, static_cast<int64_t>(sample.tokens.size()));
    for (size_t i = 1; i < positions_before_.size(); ++i) {
      roots = std::max(roots, positions_before_[i] - positions_before_[i - 1]);
    }
    return layout_.size * 7 * static_cast<int64_t>(sizeof(float)) + PassBytes(shape_, roots, longest, options_.unroll);
  }

  Status Step() override {
    SURETY_CHECK(step() < n_steps());
    const HeadBatch<float> batch = BatchOf(batches_[records_.size()]);
    std::fill(gradient_.begin(), gradient_.end(), 0.0f);
    const auto results = pass_.Run(weights_.data(), batch, depth_weights_, gradient_.data());
    StepRecord record;
    for (size_t k = 0; k < results.size(); ++k) record.loss += depth_weights_[k] * results[k].loss;
    record.gradient_norm = GradientNorm();
    if (!std::isfinite(record.loss) || !std::isfinite(record.gradient_norm)) {
      return InternalError(fmt::format("the loss of step {} is no number any more; a lower --learning-rate may help",
                                       step() + 1));
    }
    const double clip = options_.clip_norm;
    Update(clip > 0 && record.gradient_norm > clip ? clip / record.gradient_norm : 1.0);
    records_.push_back(record);
    return OkStatus();
  }

  Measurement Measure(int64_t max_positions) override {
    Measurement m;
    m.step = step();
    const auto unroll = static_cast<size_t>(options_.unroll);
    std::vector<DepthResult> sums(unroll);
    std::vector<double> loss(unroll);
    std::vector<int32_t> indices;
    int64_t taken = 0, positions = 0;
    const auto run = [&] {
      if (indices.empty()) return;
      const auto results = pass_.Run(weights_.data(), BatchOf(indices), depth_weights_, nullptr);
      for (size_t k = 0; k < unroll; ++k) {
        loss[k] += results[k].loss * static_cast<double>(results[k].n_learned);
        sums[k].n_learned += results[k].n_learned;
        sums[k].n_tried += results[k].n_tried;
        sums[k].n_held += results[k].n_held;
      }
      indices.clear();
      positions = 0;
    };
    for (const int32_t index : split_.held_out) {
      if (max_positions > 0 && taken >= max_positions) break;
      const auto n = static_cast<int64_t>((*data_.samples)[static_cast<size_t>(index)].tokens.size());
      indices.push_back(index);
      taken += n;
      if ((positions += n) >= options_.batch_tokens) run();
    }
    run();
    const auto share = [](double a, int64_t b) { return b > 0 ? a / static_cast<double>(b) : 0; };
    for (size_t k = 0; k < unroll; ++k) {
      m.loss.push_back(share(loss[k], sums[k].n_learned));
      m.acceptance.push_back(share(static_cast<double>(sums[k].n_held), sums[k].n_tried));
      m.n_tried.push_back(sums[k].n_tried);
    }
    measurements_.push_back(m);
    return m;
  }

  Status Save(const std::string& path) const override {
    json::object state = {{"digest", data_.digest}, {"steps", n_steps()}};
    json::array records, measurements;
    for (const StepRecord& r : records_) records.push_back(BitsOf(std::array{r.loss, r.gradient_norm}));
    for (const Measurement& m : measurements_) {
      measurements.push_back(json::object{{"step", m.step},
                                          {"loss", BitsOf(m.loss)},
                                          {"acceptance", BitsOf(m.acceptance)},
                                          {"n_tried", json::array(m.n_tried.begin(), m.n_tried.end())}});
    }
    state["records"] = std::move(records);
    state["measurements"] = std::move(measurements);
    const std::span<const float> arrays[] = {weights_, first_, second_};
    return WriteCheckpoint(path, state, arrays);
  }

  Status Restore(FileSystem& files, const std::string& path) override {
    SURETY_ASSIGN_OR_RETURN(Checkpoint checkpoint, ReadCheckpoint(files, path));
    const json::value* digest = checkpoint.state.if_contains("digest");
    if (digest == nullptr || !digest->is_string() || digest->as_string() != data_.digest ||
        checkpoint.arrays.size() != 3 || checkpoint.arrays[0].size() != weights_.size() ||
        checkpoint.state.at("records").as_array().size() > batches_.size()) {
      return FailedPreconditionError(path + ": a checkpoint of another model, corpus or setting");
    }
    weights_ = std::move(checkpoint.arrays[0]);
    first_ = std::move(checkpoint.arrays[1]);
    second_ = std::move(checkpoint.arrays[2]);
    records_.clear();
    measurements_.clear();
    for (const json::value& r : checkpoint.state.at("records").as_array()) {
      const auto pair = DoublesOf(r);
      records_.push_back({pair.at(0), pair.at(1)});
    }
    for (const json::value& value : checkpoint.state.at("measurements").as_array()) {
      Measurement m;
      m.step = static_cast<int>(value.at("step").to_number<int64_t>());
      m.loss = DoublesOf(value.at("loss"));
      m.acceptance = DoublesOf(value.at("acceptance"));
      for (const json::value& n : value.at("n_tried").as_array()) m.n_tried.push_back(n.to_number<int64_t>());
      measurements_.push_back(std::move(m));
    }
    return OkStatus();
  }

 private:
  void PlanBatches() {
    const auto& learned = split_.learned;
    int64_t once = 0;
    for (const int32_t i : learned) once += Positions(i);
    const auto wanted = static_cast<int64_t>(std::ceil(options_.epochs * static_cast<double>(once)));
    positions_before_ = {0};
    std::vector<int32_t> batch;
    int64_t size = 0, total = 0;
    const auto close = [&] {
      batches_.push_back(std::move(batch));
      positions_before_.push_back(total);
      batch.clear();
      size = 0;
    };
    const auto full = [&] {
      return options_.max_steps > 0 ? static_cast<int>(batches_.size()) >= options_.max_steps : total >= wanted;
    };
    for (uint64_t epoch = 0; once > 0 && !full(); ++epoch) {
      for (const int32_t at : Shuffled(learned.size(), options_.seed, epoch, kOrderLane)) {
        const int32_t index = learned[static_cast<size_t>(at)];
        batch.push_back(index);
        size += Positions(index);
        total += Positions(index);
        if (size >= options_.batch_tokens) close();
        if (full()) break;
      }
    }
    if (!batch.empty() && !(options_.max_steps > 0 && full())) close();
  }

  int64_t Positions(int32_t index) const {
    return std::max<int64_t>(0, static_cast<int64_t>((*data_.samples)[static_cast<size_t>(index)].tokens.size()) - 1);
  }

  HeadBatch<float> BatchOf(std::span<const int32_t> indices) const {
    return MakeBatch(data_, draft_of_, shape_, indices, options_.unroll);
  }

  double GradientNorm() {
    const int64_t n = layout_.size, parts = (n + kAdamPart - 1) / kAdamPart;
    std::vector<double> sums(static_cast<size_t>(parts));
    ParallelFor(executor_, parts, [&](int64_t part, int) {
      double sum = 0;
      for (int64_t i = part * kAdamPart; i < std::min(n, (part + 1) * kAdamPart); ++i) {
        const double g = gradient_[static_cast<size_t>(i)];
        sum += g * g;
      }
      sums[static_cast<size_t>(part)] = sum;
    });
    return std::sqrt(std::accumulate(sums.begin(), sums.end(), 0.0));
  }

  double RateAt(int step) const {
    const double warmup = std::max(1.0, options_.warmup_share * n_steps());
    if (step + 1 < warmup) return options_.learning_rate * (step + 1) / warmup;
    const double share = std::clamp((step + 1 - warmup) / std::max(1.0, n_steps() - warmup), 0.0, 1.0);
    const double least = options_.least_rate_share;
    return options_.learning_rate * (least + (1 - least) * 0.5 * (1 + std::cos(std::numbers::pi * share)));
  }

  void Update(double gradient_scale) {
    const int done = step() + 1;
    AdamStep adam;
    adam.learning_rate = static_cast<float>(RateAt(step()));
    adam.beta1 = kAdamBeta1;
    adam.beta2 = kAdamBeta2;
    adam.epsilon = kAdamEpsilon;
    adam.correction1 = static_cast<float>(1 - std::pow(static_cast<double>(kAdamBeta1), done));
    adam.correction2 = static_cast<float>(1 - std::pow(static_cast<double>(kAdamBeta2), done));
    adam.gradient_scale = static_cast<float>(gradient_scale);
    for (const HeadTensorPlace& place : layout_.tensors) {
      const float decay = place.matrix() ? static_cast<float>(options_.weight_decay) : 0.0f;
      ParallelFor(executor_, (place.size() + kAdamPart - 1) / kAdamPart, [&](int64_t part, int) {
        const int64_t at = place.offset + part * kAdamPart;
        math_.adam(adam, decay, std::min(kAdamPart, place.size() - part * kAdamPart), gradient_.data() + at,
                   first_.data() + at, second_.data() + at, weights_.data() + at);
      });
    }
  }

  const HeadShape shape_;
  const TrainOptions options_;
  const Data data_;
  const HeadLayout layout_;
  Executor& executor_;
  const MathTable& math_;
  HeadPass<float> pass_;
  std::vector<float> weights_, gradient_, first_, second_;
  std::vector<int32_t> draft_of_;  // by target id; -1: not in the draft vocabulary
  Split split_;
  std::vector<double> depth_weights_;
  std::vector<std::vector<int32_t>> batches_;
  std::vector<int64_t> positions_before_;  // of each batch, and of the end
  std::vector<StepRecord> records_;
  std::vector<Measurement> measurements_;
};

}  // namespace

Status TrainOptions::Validate() const {
  const auto wrong = [](const char* flag, double value, const char* rule) {
    return InvalidArgumentError(fmt::format("{}: {} is not {}", flag, value, rule));
  };
  if (!(epochs > 0 && epochs <= 1000)) return wrong("--epochs", epochs, "above 0 and up to 1000");
  if (max_steps < 0) return wrong("--steps", max_steps, "0 (by --epochs) or more");
  if (batch_tokens < 16 || batch_tokens > 1 << 20) return wrong("--batch-tokens", batch_tokens, "from 16 to 1048576");
  if (unroll < 1 || unroll > 16) return wrong("--depths", unroll, "from 1 to 16");
  if (!(depth_decay > 0 && depth_decay <= 1)) return wrong("--depth-decay", depth_decay, "above 0 and up to 1");
  if (!(learning_rate > 0 && learning_rate < 1)) return wrong("--learning-rate", learning_rate, "between 0 and 1");
  if (!(warmup_share >= 0 && warmup_share <= 1)) return wrong("--warmup", warmup_share, "from 0 to 1");
  if (!(weight_decay >= 0 && weight_decay < 10)) return wrong("--weight-decay", weight_decay, "from 0 to below 10");
  if (!(clip_norm >= 0 && std::isfinite(clip_norm))) return wrong("--clip", clip_norm, "0 (off) or more");
  if (!(holdout_share > 0 && holdout_share < 1)) return wrong("--holdout", holdout_share, "between 0 and 1");
  return OkStatus();
}

double Measurement::TokensPerStep() const {
  double tokens = 1, reached = 1;
  for (const double share : acceptance) tokens += reached *= share;
  return tokens;
}

Split SplitSamples(size_t n, double holdout_share, uint64_t seed) {
  Split split;
  auto order = Shuffled(n, seed, 0, kSplitLane);
  auto held = static_cast<size_t>(std::llround(holdout_share * static_cast<double>(n)));
  if (n >= 2) held = std::clamp<size_t>(held, 1, n - 1);
  split.held_out.assign(order.begin(), order.begin() + static_cast<ptrdiff_t>(held));
  split.learned.assign(order.begin() + static_cast<ptrdiff_t>(held), order.end());
  std::sort(split.held_out.begin(), split.held_out.end());
  std::sort(split.learned.begin(), split.learned.end());
  return split;
}

Result<std::unique_ptr<Trainer>> Trainer::Make(const HeadShape& shape, const TrainOptions& options, Data data,
                                               std::vector<float> initial_weights, Executor& executor) {
  SURETY_RETURN_IF_ERROR(shape.Validate());
  SURETY_RETURN_IF_ERROR(options.Validate());
  SURETY_CHECK(static_cast<int64_t>(initial_weights.size()) == HeadLayout(shape).size);
  SURETY_CHECK(static_cast<int>(data.draft_ids.size()) == shape.draft_vocab);
  auto trainer = std::make_unique<RealTrainer>(shape, options, std::move(data), std::move(initial_weights), executor);
  if (trainer->n_steps() == 0) {
    return Error(InvalidArgumentError("nothing to learn from: two texts of two tokens are the least"));
  }
  return std::unique_ptr<Trainer>(std::move(trainer));
}

}  // namespace surety::train
