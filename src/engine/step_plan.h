// The seam between scheduler and executor: what one step computes. The real executor runs it on a model, a simulated
// one only takes the time that it would have taken.
//
// Flat arrays that keep their memory from step to step. Threads: the engine thread.
// Owns: its arrays; page tables are borrowed from the sequences until the step is over.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "api/request.h"

namespace surety::engine {

// Consecutive tokens of one sequence, starting where its KV cache ends.
struct SequenceStep {
  api::RequestId request = 0;
  int first_row = 0;                    // in StepPlan::token_ids
  int n_rows = 0;
  int first_position = 0;
  std::span<const int32_t> page_table;  // covers first_position + n_rows
  bool wants_logits = false;            // of the last row
};

struct StepPlan {
  std::vector<SequenceStep> sequences;  // decode rows first, then prefill chunks
  std::vector<int32_t> token_ids;       // one a row
  int n_logit_rows = 0;

  bool empty() const { return sequences.empty(); }
  int n_rows() const { return static_cast<int>(token_ids.size()); }
  void Reserve(int max_sequences, int max_rows) {
    sequences.reserve(static_cast<size_t>(max_sequences));
    token_ids.reserve(static_cast<size_t>(max_rows));
  }
  void Clear() {
    sequences.clear();
    token_ids.clear();
    n_logit_rows = 0;
  }
};

}  // namespace surety::engine
