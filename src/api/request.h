// What a caller may ask of a backend: the waist between the parts that speak to people (cli, http, gateway) and the
// parts that compute (engine, cluster, a remote server).
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include <boost/json.hpp>

#include "base/status.h"

namespace surety::api {

using TokenId = int32_t;
using RequestId = uint64_t;

// Transforms of the next-token distribution, applied in the order of the fields below, then renormalised.
// A parameter that a path cannot honour is an error, never dropped.
struct SamplingParams {
  std::vector<std::pair<TokenId, float>> logit_bias;  // added to the raw logits; -inf forbids
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
};

enum class FinishReason : uint8_t { kNone, kStop, kLength, kCancelled, kError };
std::string_view NameOf(FinishReason reason);

struct Usage {
  int prompt_tokens = 0;
  int cached_tokens = 0;   // of prompt_tokens, found in the KV cache
  int output_tokens = 0;
};

struct TokenLogprob {
  TokenId token = -1;
  float logprob = 0;
  std::vector<std::pair<TokenId, float>> top;
};

// What happened to a request since the last event. A request ends with exactly one event whose finish is not kNone.
struct Event {
  RequestId request = 0;
  std::string text;                     // valid UTF-8, may be empty
  std::vector<TokenId> tokens;
  std::vector<TokenLogprob> logprobs;   // one a token, where asked for
  FinishReason finish = FinishReason::kNone;
  std::string stop_text;                // the stop string that ended it
  Status error;                         // with kError
  Usage usage;                          // with the last event
};

}  // namespace surety::api
