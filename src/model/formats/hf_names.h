// Tensor names of Hugging Face checkpoints as canonical names.
#pragma once

#include <string>
#include <string_view>

#include "model/config.h"

namespace surety::model {

struct HfName {
  enum class Kind { kTensor, kIgnored, kUnknown };
  Kind kind = Kind::kUnknown;
  std::string canonical;  // kTensor only
};

// Ignored are buffers that are recomputed, heads for other tasks, and a model's own draft layers. An expert's matrix is
// named "blk.N.ffn_gate_exps.E.weight".
HfName CanonicalName(std::string_view hf_name, const ModelConfig& config);

}  // namespace surety::model
