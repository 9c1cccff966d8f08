#include "cli/bench_roofline.h"

#include <algorithm>
#include <fstream>

namespace surety::cli {
namespace {

// Whether most of the weights, by size, are of a block-quantised type.
bool MostlyQuantised(const model::ModelSource& source) {
  size_t quantised = 0, all = 0;
  for (const TensorView& tensor : source.tensors()) {
    all += tensor.bytes.size();
    if (InfoOf(tensor.dtype).block_elements > 1) quantised += tensor.bytes.size();
  }
  return quantised * 2 > all;
}

}  // namespace

WorkModel::WorkModel(const model::ModelSource& source, const model::Model& model, KvType kv_type)
    : config_(model.config()), weight_bytes_(static_cast<double>(model.bytes_per_decoded_token())),
      row_macs_(static_cast<double>(model.macs_per_row())),
      logit_macs_(static_cast<double>(model.macs_per_logit_row())), int8_(MostlyQuantised(source)) {
  const KvLayout layout = config_.KvLayoutFor(kv_type, 16);
  kv_bytes_per_layer_token_ = layout.BytesPerToken() / layout.n_layers;
  const int v_dim = layout.latent ? config_.mla.kv_rank : layout.v_dim;
  attention_macs_per_seen_ = static_cast<double>(config_.n_heads) * (layout.k_dim + v_dim);
}

double WorkModel::SeenPositions(int first, int n) const {
  double seen = 0;
  for (int layer = 0; layer < config_.n_layers; ++layer) {
    const int window = config_.WindowOf(layer);
    for (int i = 0; i < n; ++i) seen += window > 0 ? std::min(first + i + 1, window) : first + i + 1;
  }
  return seen;
}

StepWork WorkModel::Decode(int steps, int depth, int sequences) const {
  StepWork work;
  const double seen = SeenPositions(depth, steps) * sequences;
  work.int8_weights = int8_;
  work.bytes = weight_bytes_ * steps + seen * kv_bytes_per_layer_token_;
  work.weight_ops = 2.0 * (row_macs_ + logit_macs_) * steps * sequences;
  work.attention_ops = 2.0 * seen * attention_macs_per_seen_;
  return work;
}

StepWork WorkModel::Prefill(int tokens, int depth, int chunk) const {
  StepWork work;
  work.int8_weights = int8_;
  for (int done = 0; done < tokens; done += chunk) {
    const int n = std::min(chunk, tokens - done);
    work.bytes += weight_bytes_ + static_cast<double>(depth + done + n) * config_.n_layers * kv_bytes_per_layer_token_;
  }
  work.weight_ops = 2.0 * (row_macs_ * tokens + logit_macs_);
  work.attention_ops = 2.0 * SeenPositions(depth, tokens) * attention_macs_per_seen_;
  return work;
}

RoofShare ShareOfRoof(const StepWork& work, const Roofs& roofs, double seconds) {
  const double weight_rate = work.int8_weights ? roofs.int8_op_per_s : roofs.fp32_flop_per_s;
  const double memory = roofs.read_bytes_per_s > 0 ? work.bytes / roofs.read_bytes_per_s : 0;
  const double compute = work.weight_ops / weight_rate + work.attention_ops / roofs.fp32_flop_per_s;
  return {std::max(memory, compute) / seconds, memory >= compute ? "memory" : "compute"};
}

std::string ProcessorName() {
  std::ifstream in("/proc/cpuinfo");  // the system's own list, which has no size and cannot be mapped
  for (std::string line; std::getline(in, line);) {
    const size_t colon = line.find(": ");
    if (line.starts_with("model name") && colon != std::string::npos) return line.substr(colon + 2);
  }
  return "unknown";
}

}  // namespace surety::cli
