// Generation: requests in, events out, one step at a time. The step loop is the caller's, so a command can run it in
// its own thread, a server in its engine thread (local_backend.h), a test step by step.
//
// Each step: the scheduler plans (scheduler.h), the executor runs the plan, tokens are sampled and committed, text is
// released up to what stop strings and unfinished characters hold back.
//
// Threads: one, but for Tokenize and Prepare, which any may call. Owns: the page pool, the sequences. Borrows: the
// model.
// Errors: Make: kInvalidArgument (options), kResourceExhausted (KV memory, with what was asked for). Submit:
// kInvalidArgument naming the field; kOutOfRange when prompt and context do not fit, with both lengths.
// Invariants: (1) each choice of a request ends with exactly one event whose finish is not kNone. (2) the memory of
// pages, logits and the model's step exists after Make. (3) a request's tokens do not depend on what else runs, nor on
// what was cached, nor on whether it was preempted; under the coupled rule nor on what was drafted.
#pragma once

#include <functional>
#include <memory>
#include <vector>

#include "api/backend.h"
#include "api/request.h"
#include "base/clock.h"
#include "engine/engine_options.h"
#include "engine/local_model.h"
#include "engine/sequence.h"
#include "engine/speculator.h"
#include "engine/step_plan.h"
#include "kv/page_pool.h"

namespace surety::engine {

class Scheduler;
class StepLog;

// Time and work of finished steps. Counted at commit, so that sums balance: each prompt token is counted once, as
// cached or as computed; rows computed a second time, after a preemption, are counted as recomputed and nowhere else.
struct EngineCounters {
  int64_t n_steps = 0;
  int64_t prefill_rows = 0, decode_rows = 0;
  int64_t prefill_nanos = 0, decode_nanos = 0;  // mixed steps count by their rows' share
  int64_t prompt_tokens_cached = 0, prompt_tokens_computed = 0, rows_recomputed = 0;
  int64_t prefix_queries = 0;   // prompt tokens that were looked up in the prefix cache
  int64_t output_tokens = 0;
  int64_t preemptions = 0;
  int64_t pages_swapped = 0, pages_left_to_recompute = 0;  // last, partial pages of preempted choices
};

class Engine {
 public:
  static Result<std::unique_ptr<Engine>> Make(LocalModel& model, const EngineOptions& options,
                                              Clock& clock = Clock::Real());
  virtual ~Engine() = default;

  // Prompt tokens of a request: template rendered, control tokens only where the template put them, BOS never doubled.
  virtual Result<std::vector<api::TokenId>> Tokenize(const api::GenerationRequest& request) const = 0;

  // Validates, tokenizes, gives the request its id.
  virtual Result<PreparedRequest> Prepare(api::GenerationRequest request) = 0;
  // Enqueues. With `keep` the sequence's KV stays after it ends, as conversation `keep`, and is reused by the next
  // request of the same conversation as far as the tokens agree. `arrival_ns`: when it came, on the engine's clock.
  virtual void Submit(PreparedRequest request, int64_t arrival_ns, uint64_t keep = 0) = 0;
  Result<api::RequestId> Submit(const api::GenerationRequest& request, uint64_t keep = 0);
  virtual void Cancel(api::RequestId id) = 0;
  virtual void Forget(uint64_t conversation) = 0;  // frees a kept conversation
  // One more who proposes tokens, beside those that the options and the model name. Before the first step.
  virtual void AddDrafter(std::unique_ptr<Drafter> drafter) = 0;

  virtual bool idle() const = 0;
  // One step; events are appended. Nothing to do: returns ok at once.
  virtual Status Step(std::vector<api::Event>& events) = 0;

  virtual const EngineCounters& counters() const = 0;
  virtual const SpeculationCounters& speculation() const = 0;
  virtual const spec::AcceptanceMonitor& speculation_monitor() const = 0;
  virtual const Scheduler& scheduler() const = 0;
  virtual Scheduler& scheduler() = 0;
  virtual const StepPlan& last_plan() const = 0;
  virtual const StepLog& step_log() const = 0;   // of the last 4096 steps
  virtual const std::vector<api::RequestId>& started() const = 0;  // requests that the last step took up
  virtual Clock& clock() const = 0;
  virtual const EngineOptions& options() const = 0;  // as in force
  virtual int64_t kv_bytes() const = 0;
  virtual int64_t workspace_bytes() const = 0;  // of a step, with its logits
  virtual kv::PagePool& pages() = 0;
  virtual kv::PrefixCache& cache() = 0;

  // Overwrites and frees what is cached for a scope, as api::Backend::Forget. kFailedPrecondition without a tenant.
  virtual Result<kv::ForgetReceipt> ForgetScope(const api::Scope& scope, api::ForgetExtent extent) = 0;
};

}  // namespace surety::engine
