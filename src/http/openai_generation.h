// From a request's body to api::GenerationRequest: what chat, completions and responses have in common, and the entry
// for each of them.
//
// Threads: pure functions. Errors: 400 naming the field.
// Invariants: (1) the scope is the caller's own; a body can only add a salt. (2) No request is more urgent than its
// caller may ask for.
#pragma once

#include <string>
#include <vector>

#include "api/backend.h"
#include "http/handler.h"
#include "http/openai_error.h"
#include "http/params.h"

namespace surety::http {

// Who asks whom.
struct CallContext {
  const Identity& identity;
  const api::ModelDescription& model;
  uint64_t fresh_seed = 0;  // where the body names none
};

struct GenerationCall {
  std::vector<api::GenerationRequest> requests;  // one for each prompt
  std::vector<std::string> prompt_texts;         // completions with echo: of prompts that came as text
  bool stream = false;
  bool include_usage = false;
  bool include_stop_text = false;
  bool timings = false;
  bool prediction = false;        // chat: given, so usage says what held
  bool echo = false;
  bool drop_output = false;       // max_tokens 0 with echo: the prompt alone
  bool output_logprobs = false;   // asked for, not only needed to choose
  bool prompt_logprobs = false;   // in vLLM's form
  int n = 1;                      // answers given for each prompt, of requests[i].n_choices
  boost::json::object body;       // responses: fields that the answer repeats
};

// Bodies must have passed CheckParameters.
Parsed<GenerationCall> MapChat(const boost::json::object& body, const CallContext& context);
Parsed<GenerationCall> MapCompletions(const boost::json::object& body, const CallContext& context);
Parsed<GenerationCall> MapResponses(const boost::json::object& body, const CallContext& context);

// Messages, tools and template values alone: /tokenize, /apply-template.
Parsed<api::GenerationRequest> MapTemplated(const boost::json::object& body);

// The body's name for a field of GenerationRequest that a backend refused: "n_choices" is "n".
std::string BodyField(std::string_view field, Endpoint endpoint, const boost::json::object& body);

// Token ids: whole numbers within the vocabulary.
Parsed<std::vector<api::TokenId>> MapTokens(const boost::json::array& array, const std::string& path, int vocab_size);

}  // namespace surety::http
