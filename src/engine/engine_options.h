// How an engine is set up.
//
// Threads: values. Errors: Validate: kInvalidArgument naming the field, its value and what would be right.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

#include "base/status.h"
#include "engine/speculator.h"
#include "kv/prefix_cache.h"
#include "tensor/kv_layout.h"

namespace surety::engine {

struct EngineOptions {
  int context_tokens = 4096;    // longest sequence; capped at the model's
  int64_t kv_budget_bytes = 0;  // 0: room for one sequence of context_tokens
  int page_tokens = 16;
  KvType kv_type = KvType::kF16;
  int max_sequences = 1;        // at the same time; further requests wait
  int max_rows = 512;           // rows of one step: the prefill chunk
  int min_chunk_rows = 2;       // rows of prompts that a step has at least while streams run
  int itl_target_ms = 0;        // time of a step while streams run; 0: itl_stretch times that of one without prompts
  double itl_stretch = 1.7;
  SpeculationOptions speculation = {};
  int max_prompt_logprob_rows = 16;  // rows of a step whose logits are wanted for prompt logprobs
  // Prefixes are kept and shared inside a request's scope; requests without a tenant share nothing.
  kv::ScopePolicy cache_policy = {};      // of scopes
  int64_t host_cache_bytes = 0;      // memory for pages that the KV budget has no room for; 0: none
  std::string disk_cache_folder = {};     // empty: none
  int64_t disk_cache_bytes = 0;
  std::string model_digest = {};          // SHA-256 of the weights, hex; empty: from the file's name and size

  int max_logit_rows() const {
    return max_sequences + max_prompt_logprob_rows + speculation.draft_rows();
  }
  Status Validate() const;
};

// Pages for the KV budget. What can never be there must be refused now, not when it runs out: the pool takes physical
// memory as it fills.
Result<int> PagesFor(const EngineOptions& options, const KvLayout& layout);

// kInvalidArgument: a field whose value breaks a rule.
Status WrongValue(std::string_view field, int64_t value, std::string_view rule);

}  // namespace surety::engine
