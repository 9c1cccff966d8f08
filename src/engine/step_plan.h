// The seam between scheduler and executor: what one step computes. The real executor runs it on a model, a simulated
// one only takes the time that it would have taken.
#pragma once

#include <cstdint>
#include <vector>

#include "api/request.h"

namespace surety::engine {

// Consecutive tokens of one sequence, starting where its KV cache ends.
struct SequenceStep {
  api::RequestId request = 0;
  int first_position = 0;
  std::vector<int32_t> token_ids;
  std::vector<int32_t> page_table;  // covers first_position + token_ids.size()
  bool wants_logits = false;        // of the last token
};

struct StepPlan {
  std::vector<SequenceStep> sequences;  // decode rows first, then prefill chunks
  int n_rows = 0;                       // sum of tokens
  bool empty() const { return sequences.empty(); }
};

}  // namespace surety::engine
