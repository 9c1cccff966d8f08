#include "engine/model_costs.h"

#include <algorithm>

namespace surety::engine {

double AttendedPerRow(const model::Model& model) {
  const model::ModelConfig& config = model.config();
  const double macs = 2.0 * config.n_heads * config.head_dim * config.n_layers;
  return std::max(1.0, static_cast<double>(model.macs_per_row()) / std::max(1.0, macs));
}

double ContextShare(const model::Model& model, const KvLayout& layout) {
  return layout.BytesPerToken() / static_cast<double>(std::max<int64_t>(1, model.bytes_per_decoded_token()));
}

}  // namespace surety::engine
