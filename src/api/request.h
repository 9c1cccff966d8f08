// What a caller may ask of a backend: the waist between the parts that speak to people (cli, http, gateway) and the
// parts that compute (engine, cluster, a remote server).
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include <boost/json.hpp>

#include "api/caller.h"
#include "api/decision.h"
#include "api/scope.h"
#include "base/status.h"

namespace surety::api {

using TokenId = int32_t;
using RequestId = uint64_t;

// Transforms of the next-token distribution, applied in the order of the fields below, then renormalised.
// A parameter that a path cannot honour is an error, never dropped.
struct SamplingParams {
  std::vector<std::pair<TokenId, float>> logit_bias = {};  // added to the raw logits; -inf forbids
  float repetition_penalty = 1.0f;  // > 0; divides positive, multiplies negative logits of tokens seen so far
  float frequency_penalty = 0.0f;   // subtracts count * penalty (output tokens)
  float presence_penalty = 0.0f;    // subtracts penalty once (output tokens)
  int repetition_window = -1;       // tokens looked back at by repetition_penalty; -1: all, 0: none
  int min_tokens = 0;               // end-of-text is masked before this many output tokens
  float temperature = 1.0f;         // 0: greedy, the lowest id on ties
  int top_k = 0;                    // 0: off
  float typical_p = 1.0f;           // 1: off
  float top_p = 1.0f;               // 1: off
  float min_p = 0.0f;               // 0: off
  uint64_t seed = 0;
  uint32_t lane = 0;                // which of n parallel samples

  // kInvalidArgument naming the parameter, its value and its range.
  Status Validate(int vocab_size) const;
};

// What the answer must look like. Compiled before the request is admitted; an answer that breaks it is never released
// as complete.
struct Constraint {
  enum class Kind : uint8_t { kNone, kJsonObject, kJsonSchema, kGrammar };
  Kind kind = Kind::kNone;
  boost::json::value schema;  // kJsonSchema
  std::string grammar;        // kGrammar: GBNF
};

// How drafted tokens are verified. kCoupled: the answer is a function of seed and position, whatever was drafted.
// kRejection: the answer has the same law, but for one seed it depends on what was drafted. kLossyTypical: drafts that
// are likely enough are taken as they are, so the law changes; the answer says so.
enum class Verification : uint8_t { kCoupled, kRejection, kLossyTypical };

// How tools may be called. The tools themselves are in template_values["tools"], in OpenAI's form.
struct ToolUse {
  enum class Choice : uint8_t { kNone, kAuto, kRequired, kNamed };
  Choice choice = Choice::kNone;  // kNone: the answer is text, whatever it looks like
  std::string name;               // kNamed
  bool parallel = true;           // more than one call in an answer
};

struct GenerationRequest {
  // Exactly one of the three.
  boost::json::array messages;     // chat, rendered by the model's template
  std::string prompt;              // plain text
  std::vector<TokenId> tokens;     // ready-made
  bool has_messages = false, has_prompt = false, has_tokens = false;

  boost::json::object template_values;  // further keywords of the template (tools, ...)
  SamplingParams sampling;
  int max_tokens = -1;                  // -1: to the end of the context
  bool ignore_end_of_text = false;
  std::vector<std::string> stop;        // ends the answer; not part of it
  int n_logprobs = -1;                  // alternatives reported for each token; -1: none at all
  int n_prompt_logprobs = -1;           // the same for the prompt; the whole prompt is computed, nothing is reused
  std::vector<TokenId> stop_tokens;     // end the answer as the model's own end tokens do
  int n_choices = 1;                    // parallel samples of one prompt: lanes sampling.lane, sampling.lane + 1, ...
  Constraint constraint;
  ToolUse tool_use;
  bool speculate = true;                // tokens may be drafted and verified together (see Verification)
  bool seed_is_secret = false;          // drawn for this request by who serves it: its caller cannot have known it
  Verification verification = Verification::kCoupled;
  bool wants_progress = false;          // a governed backend may send events of progress before the answer
  std::string prediction;               // text that the answer is expected to resemble: drafts are looked up in it

  // Set by who verified the caller, never from a field of the body alone.
  Scope scope;
  Caller caller;
  int priority = 0;                     // lower runs earlier
  int64_t timeout_ms = 0;               // from submission to the last token; 0: none
};

// kTimeout: the request's own time limit. kFiltered: a check of the whole answer kept it back; it has no content.
enum class FinishReason : uint8_t { kNone, kStop, kLength, kCancelled, kTimeout, kError, kFiltered };
std::string_view NameOf(FinishReason reason);

struct Usage {
  int prompt_tokens = 0;
  int cached_tokens = 0;   // of prompt_tokens, found in the KV cache
  int output_tokens = 0;
  int draft_tokens = 0;    // proposed and verified
  int accepted_tokens = 0; // of draft_tokens, those that held and were given, an end token included
};

struct TokenLogprob {
  TokenId token = -1;
  float logprob = 0;
  std::vector<std::pair<TokenId, float>> top;
};

// Where a choice's time went, monotonic clock. Sum of the three <= time from submission to its end.
struct Timings {
  int64_t queue_ns = 0;        // submitted to first planned, and any time spent preempted
  int64_t prefill_ns = 0;      // first planned to first token, without time spent preempted
  int64_t decode_ns = 0;       // first token to last token, likewise
};

// A piece of a tool call: the first piece of a call carries its name, the following ones fragments of its arguments;
// joined, the arguments are a JSON text.
struct ToolCallDelta {
  int index = 0;           // of the call within the answer
  std::string name;        // with the first piece only
  std::string arguments;
};

// What happened to one choice of a request since its last event. A choice ends with exactly one event whose finish is
// not kNone; the request ends with the last of its choices.
struct Event {
  RequestId request = 0;
  int choice = 0;                       // 0 .. n_choices - 1
  std::string text;                     // valid UTF-8, may be empty
  std::vector<TokenId> tokens;
  std::vector<TokenLogprob> logprobs;   // one a token, where asked for
  std::vector<TokenLogprob> prompt_logprobs;  // with the first event; the first token's is {token, 0, {}}
  std::vector<ToolCallDelta> tool_calls;
  FinishReason finish = FinishReason::kNone;
  std::string stop_text;                // the stop string that ended it
  Status error;                         // with kError
  Usage usage;                          // with the last event of a choice
  Timings timings;                      // with the last event of a choice
  bool progress = false;                // no piece of the answer: `decision` says at which stage the request is
  // Of a governed backend: with progress, the first piece and the last event.
  std::shared_ptr<const Decision> decision = nullptr;
};

}  // namespace surety::api
