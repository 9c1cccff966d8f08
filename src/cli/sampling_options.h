// Sampling flags of `run` and `chat`.
//
// What the user does not set comes from the model's own recommendation (generation_config.json or GGUF's
// general.sampling.*), else it is greedy: temperature 0.
// Errors: kInvalidArgument naming the flag, its value and its range; kDataLoss for a recommendation out of range.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "api/request.h"
#include "base/status.h"
#include "cli/flags.h"
#include "engine/local_model.h"

namespace surety::cli {

struct SamplingFlags {
  std::optional<double> temperature, top_p, min_p, typical_p, repetition_penalty, frequency_penalty, presence_penalty;
  std::optional<int> top_k, repetition_window;
  int min_tokens = 0;
  uint64_t seed = 0;
  std::vector<std::string> logit_bias;  // "ID=VALUE"
  int max_tokens = -1;
  std::vector<std::string> stop;
  bool ignore_eos = false;

  void Declare(Flags& flags);
  // What can be checked without a model.
  Status Validate() const;
  // Precondition: Validate() is ok. Fills sampling, max_tokens, stop and ignore_end_of_text.
  Status Apply(const engine::LocalModel& model, api::GenerationRequest& request) const;
};

}  // namespace surety::cli
