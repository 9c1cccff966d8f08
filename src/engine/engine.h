// Generation: requests in, events out, one step at a time. The step loop is the caller's, so a command can run it in
// its own thread, a server in its engine thread, a test step by step.
//
// Each step: the scheduler plans (decode rows first, then prefill chunks within the row budget), the executor runs the
// plan, tokens are sampled and committed, text is released up to what stop strings and unfinished characters hold back.
//
// Threads: one. Owns: the page pool, the sequences. Borrows: the model.
// Errors: Make: kInvalidArgument (options), kResourceExhausted (KV memory, with what was asked for). Submit:
// kInvalidArgument naming the field; kOutOfRange when prompt and context do not fit, with both lengths.
// Invariants: (1) each request ends with exactly one event whose finish is not kNone. (2) all per-step memory exists
// after Make. (3) a request's tokens do not depend on what else runs.
#pragma once

#include <functional>
#include <memory>
#include <vector>

#include "api/request.h"
#include "base/clock.h"
#include "engine/local_model.h"
#include "kv/page_pool.h"
#include "tensor/kv_layout.h"

namespace surety::engine {

struct EngineOptions {
  int context_tokens = 4096;    // longest sequence; capped at the model's
  int64_t kv_budget_bytes = 0;  // 0: room for one sequence of context_tokens
  int page_tokens = 16;
  KvType kv_type = KvType::kF16;
  int max_sequences = 1;        // at the same time; further requests wait
  int max_rows = 512;           // rows of one step: the prefill chunk

  Status Validate() const;
};

// Time and work of finished steps, for the timing summary.
struct EngineCounters {
  int64_t n_steps = 0;
  int64_t prefill_rows = 0, decode_rows = 0;
  int64_t prefill_nanos = 0, decode_nanos = 0;  // mixed steps count by their rows' share
};

class Engine {
 public:
  static Result<std::unique_ptr<Engine>> Make(LocalModel& model, const EngineOptions& options,
                                              Clock& clock = Clock::Real());
  virtual ~Engine() = default;

  // Prompt tokens of a request: template rendered, control tokens only where the template put them, BOS never doubled.
  virtual Result<std::vector<api::TokenId>> Tokenize(const api::GenerationRequest& request) const = 0;

  // Enqueues. With `keep` the sequence's KV stays after it ends, as conversation `keep`, and is reused by the next
  // request of the same conversation as far as the tokens agree.
  virtual Result<api::RequestId> Submit(const api::GenerationRequest& request, uint64_t keep = 0) = 0;
  virtual void Cancel(api::RequestId id) = 0;
  virtual void Forget(uint64_t conversation) = 0;  // frees a kept conversation

  virtual bool idle() const = 0;
  // One step; events are appended. Nothing to do: returns ok at once.
  virtual Status Step(std::vector<api::Event>& events) = 0;

  virtual const EngineCounters& counters() const = 0;
  virtual const EngineOptions& options() const = 0;  // as in force
  virtual int64_t kv_bytes() const = 0;
  virtual int64_t workspace_bytes() const = 0;  // of a step, with its logits
  virtual kv::PagePool& pages() = 0;
};

}  // namespace surety::engine
