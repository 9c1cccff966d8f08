// The training of a head: batches in an order that the seed decides, one AdamW step each, measurements on texts that
// are not learned from, checkpoints from which it goes on to the same bits.
//
// Threads: one caller; the executor's workers inside. Owns: weights and the optimiser's state. Borrows: samples,
// features, executor.
// Invariants: (1) the weights after step s are a function of data, options, initial weights and instruction set, not of
// the number of workers nor of interruptions.
// Errors: Restore: kDataLoss (not a checkpoint, damaged), kFailedPrecondition (of another run); Step: kInternal where
// the loss is no longer a number.
// Source: Loshchilov and Hutter, "Decoupled Weight Decay Regularization", 2019; Li et al., "EAGLE-3", 2025 (loss).
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "base/executor.h"
#include "base/file.h"
#include "base/status.h"
#include "train/features.h"
#include "train/head_pass.h"
#include "train/samples.h"

namespace surety::train {

struct TrainOptions {
  double epochs = 3;             // passes over the texts
  int max_steps = 0;             // 0: as many as the epochs take
  int batch_tokens = 1024;       // positions of a step, about
  int unroll = 5;                // depths learned
  double depth_decay = 0.8;      // weight of a depth against the one before
  double learning_rate = 1e-3;
  double warmup_share = 0.03;    // of the steps; then cosine decay to least_rate_share
  double least_rate_share = 0.05;
  double weight_decay = 0.01;    // of matrices
  double clip_norm = 1.0;        // of the gradient; 0: none
  double holdout_share = 0.05;   // of the texts: measured, not learned
  int64_t eval_positions = 4096; // measured on the way; at the end all of the held-out texts
  uint64_t seed = 0;

  Status Validate() const;
};

// What is measured at one step. Acceptance of a depth: the share of drafts there that hold, of those whose drafts
// before held, when the target's likeliest token is taken (a chain, greedy).
struct Measurement {
  int step = 0;
  std::vector<double> loss, acceptance;
  std::vector<int64_t> n_tried;  // by depth
  // Expected tokens a step of the target with a chain of as many drafts as depths.
  double TokensPerStep() const;
};

struct StepRecord {
  double loss = 0;           // of the batch, weighted over depths
  double gradient_norm = 0;  // before clipping
};

// Which samples are held out, ascending; the others are learned. At least one of each where there are two.
struct Split {
  std::vector<int32_t> learned, held_out;
};
Split SplitSamples(size_t n, double holdout_share, uint64_t seed);

// Writes the embedding of a target token, H numbers.
using EmbeddingFn = std::function<void(int32_t token, float* out)>;

class Trainer {
 public:
  struct Data {
    const std::vector<Sample>* samples = nullptr;
    const FeatureFile* features = nullptr;
    std::vector<int32_t> draft_ids;  // target ids that the head may say, ascending
    int vocab_size = 0;
    EmbeddingFn embedding;
    std::string digest;              // of everything that decides the result, for checkpoints
  };
  static Result<std::unique_ptr<Trainer>> Make(const HeadShape& shape, const TrainOptions& options, Data data,
                                               std::vector<float> initial_weights, Executor& executor);
  virtual ~Trainer() = default;

  virtual int step() const = 0;      // steps done
  virtual int n_steps() const = 0;   // of the whole training
  virtual int64_t positions_done() const = 0;   // of batches so far, all epochs
  virtual int64_t positions_total() const = 0;
  virtual Status Step() = 0;
  // On the held-out texts, up to about so many positions; 0: all. Recorded in measurements().
  virtual Measurement Measure(int64_t max_positions) = 0;

  virtual const std::vector<StepRecord>& records() const = 0;  // one a step
  virtual const std::vector<Measurement>& measurements() const = 0;
  virtual std::span<const float> weights() const = 0;
  virtual int64_t memory_bytes() const = 0;  // weights, optimiser, activations, a checkpoint being written, about

  virtual Status Save(const std::string& path) const = 0;
  virtual Status Restore(FileSystem& files, const std::string& path) = 0;
};

// The texts of `indices` as a batch; exposed for tests.
HeadBatch<float> MakeBatch(const Trainer::Data& data, const std::vector<int32_t>& draft_of, const HeadShape& shape,
                           std::span<const int32_t> indices, int unroll);

}  // namespace surety::train
