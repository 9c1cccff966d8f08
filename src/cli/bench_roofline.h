// How much work a benchmark's step is, counted from the model, and which share of the machine's roofs a time means.
//
// Counting: bytes are the packed weights that a step must read once, plus the keys and values of every position that a
// query sees; operations are two for each multiply-add of the weight matrices and of attention. Activations are not
// counted. Prefill reads keys and values once for each chunk of rows.
// Threads: any.
#pragma once

#include <string>

#include "cli/roofs.h"
#include "model/arch/model.h"
#include "model/model_source.h"

namespace surety::cli {

struct StepWork {
  double bytes = 0;
  double weight_ops = 0;      // at the rate of the weights' type
  double attention_ops = 0;   // in fp32
  bool int8_weights = true;   // quantised weights are multiplied as 8-bit integers
  double ops() const { return weight_ops + attention_ops; }
};

class WorkModel {
 public:
  WorkModel(const model::ModelSource& source, const model::Model& model, KvType kv_type);
  StepWork Decode(int steps, int depth, int sequences) const;
  StepWork Prefill(int tokens, int depth, int chunk) const;

 private:
  // Positions that queries at [first, first + n) see, summed over queries and layers.
  double SeenPositions(int first, int n) const;

  const model::ModelConfig& config_;
  double weight_bytes_, row_macs_, logit_macs_;
  double kv_bytes_per_layer_token_, attention_macs_per_seen_;
  bool int8_;
};

struct RoofShare {
  double share = 0;      // least possible time / measured time
  std::string bound_by;  // "memory" or "compute": which roof the least possible time comes from
};
RoofShare ShareOfRoof(const StepWork& work, const Roofs& roofs, double seconds);

std::string ProcessorName();

}  // namespace surety::cli
