// A request on its way through the engine: its choices, each with its tokens, its pages, its text not released yet.
// Threads: the engine thread, the only writer. Owns: see the members; the engine owns the request.
#pragma once

#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "api/request.h"
#include "engine/answer_shape.h"
#include "engine/draft_method.h"
#include "engine/sampler.h"
#include "engine/sequence_draft.h"
#include "engine/stop_matcher.h"
#include "kv/host_store.h"
#include "kv/page_pool.h"
#include "kv/prefix_cache.h"
#include "model/tokenizer/tokenizer.h"

namespace surety::engine {

// A request after validation and tokenization, which any thread may do.
struct PreparedRequest {
  api::RequestId id = 0;
  api::GenerationRequest request;
  std::vector<int32_t> prompt;
  std::vector<int32_t> prediction;  // tokens of the request's text
  int max_tokens = 0;   // of output, for each choice
  std::shared_ptr<const AnswerShape> shape;  // null: plain text
  std::optional<kv::ScopeKey> scope;  // under which its KV is shared; none: with nobody
};

struct RequestState;

// One choice of a request.
struct Sequence {
  Sequence(RequestState& owner, int choice_index, std::vector<int32_t> prompt, const model::Tokenizer& tokenizer,
           kv::PagePool& pool);

  int n_tokens() const { return static_cast<int>(tokens.size()); }
  int n_output() const { return n_tokens() - n_prompt; }
  // Not yet at its first token, or catching up after it lost its KV.
  bool prefilling() const { return rows_left() > 1 || n_output() == 0; }
  int rows_left() const { return n_tokens() - n_computed; }
  int tokens_left() const;   // of output

  RequestState* state;
  int choice;
  api::SamplingParams sampling;   // the request's, with this choice's lane
  std::vector<int32_t> tokens;    // prompt, then output
  int n_prompt;
  int n_computed = 0;     // tokens whose KV is in the pages
  int n_high_water = 0;   // the most that n_computed has ever been: rows below it are computed again
  int n_cached = 0;       // of the prompt, found in the cache when it was first planned
  bool started = false;   // planned at least once
  bool preempted = false; // waits with its progress, having run before
  kv::PageTable pages;
  std::optional<kv::PrefixCursor> cursor;  // its place in the prefix cache
  int n_published = 0;    // its first pages that the cache has been offered
  kv::SwappedPage swapped_tail;  // of a preempted choice: its last, partial page
  int swapped_tokens = 0;        // n_computed when it was swapped
  SequenceDraft draft;           // what the next step verifies behind the row it computes anyway
  DrafterStates drafters;        // what each drafter keeps
  int n_drafted = 0, n_accepted = 0;          // over all its steps
  TokenHistory history;
  model::IncrementalDecoder decoder;
  StopMatcher stops;
  ShapedAnswer shaped;
  std::vector<api::TokenLogprob> prompt_logprobs;
  Status prompt_status;  // why they cannot be had: it ends the answer
  int64_t first_planned_ns = 0, first_token_ns = 0, last_token_ns = 0;
  int64_t preempted_prefill_ns = 0, preempted_decode_ns = 0;  // waited before and after the first token
  int64_t preempted_since_ns = 0;
};

struct RequestState {
  PreparedRequest prepared;
  uint64_t conversation = 0;    // 0: none
  int64_t arrival_ns = 0;
  int64_t deadline_ns = 0;      // 0: none
  int64_t urgency = 0;          // the smaller, the sooner (wait_queue.h)
  double charged = 0, used = 0; // rows: what its tenant was charged, and what it was worth
  bool forgotten = false;       // its scope was, while it ran: nothing of it is kept or shared
  bool forked = false;          // the choices after the first have come into being
  std::vector<std::unique_ptr<Sequence>> choices;   // null once ended
  int n_open = 0;               // choices that have not ended

  api::RequestId id() const { return prepared.id; }
  int n_prompt() const { return static_cast<int>(prepared.prompt.size()); }
  const api::GenerationRequest& request() const { return prepared.request; }
  const std::string& tenant() const { return prepared.request.scope.tenant; }
};

}  // namespace surety::engine
