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
#include "engine/step_cost.h"
#include "tensor/batch_view.h"

namespace surety::engine {

// Consecutive tokens of one sequence, starting where its KV cache ends.
struct SequenceStep {
  api::RequestId request = 0;
  int choice = 0;
  int first_row = 0;                    // in StepPlan::token_ids
  int n_rows = 0;
  int first_position = 0;
  std::span<const int32_t> page_table;  // covers first_position + n_rows - n_branch_rows
  int n_branches = 0, first_branch = 0; // in StepPlan::branches: the last n_branch_rows rows
  int n_branch_rows = 0;
  int n_logits = 0;                     // of the last n_logits rows the logits are wanted
  bool decodes = false;                 // a row that continues an answer, not a piece of a prompt; drafts behind it
  int n_drafted = 0;                    // of the rows: tokens that are not committed yet but proposed
};

// A further branch of a draft tree: consecutive rows behind the sequence's own, with pages of their own.
struct BranchStep {
  int n_rows = 0;
  int first_position = 0;
  std::span<const int32_t> page_table;
};

struct StepPlan {
  std::vector<SequenceStep> sequences;  // decode rows first, then prefill chunks
  std::vector<int32_t> token_ids;       // one a row
  std::vector<BranchStep> branches;
  std::vector<KvCopy> kv_copies;        // what branches read of the paths that they leave
  int n_logit_rows = 0;
  int n_decodes = 0;                    // sequences that decode
  int n_decode_rows = 0;                // of them, drafts included
  StepWork work;
  int64_t predicted_ns = 0;             // 0: no prediction yet

  bool empty() const { return sequences.empty(); }
  int n_rows() const { return static_cast<int>(token_ids.size()); }
  void Reserve(int max_sequences, int max_rows) {
    sequences.reserve(static_cast<size_t>(max_sequences));
    token_ids.reserve(static_cast<size_t>(max_rows));
  }
  void Clear() {
    sequences.clear();
    token_ids.clear();
    branches.clear();
    kv_copies.clear();
    n_logit_rows = n_decodes = n_decode_rows = 0;
    work = {};
    predicted_ns = 0;
  }
};

}  // namespace surety::engine
