// One answer from an engine, piece by piece, with its timing. Ctrl-C ends the answer, not the engine.
//
// Threads: the engine's. Errors: as Engine::Submit and Engine::Step state them.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include <boost/json.hpp>

#include "api/request.h"
#include "base/function_ref.h"
#include "engine/engine.h"

namespace surety::cli {

struct Answer {
  std::string text;
  std::vector<api::TokenId> tokens;
  std::vector<api::TokenLogprob> logprobs;
  api::FinishReason finish = api::FinishReason::kNone;
  std::string stop_text;
  api::Usage usage;
  double ttft_seconds = 0;    // from submission to the first token; 0 if there was none
  double total_seconds = 0;
  double prefill_tok_per_s = 0;  // computed prompt tokens (those found in the cache cost nothing)
  double decode_tok_per_s = 0;   // after the first token; 0 if there was no second one
};

// `on_text` gets each piece as it is final. With `keep` > 0 the conversation's KV stays (engine.h).
Result<Answer> Generate(engine::Engine& engine, const api::GenerationRequest& request, uint64_t keep,
                        FunctionRef<void(std::string_view)> on_text);

// "prompt 31 tokens (12 cached)  prefill 210.3 tok/s  first token 0.15 s  answer 64 tokens  decode 30.1 tok/s ..."
std::string TimingLine(const Answer& answer);

// Fields: text, token_ids, finish_reason, stop_text, prompt_tokens, cached_tokens, output_tokens, draft_tokens,
// accepted_tokens, ttft_seconds, total_seconds, prefill_tok_per_s, decode_tok_per_s.
void DescribeAnswer(const Answer& answer, boost::json::object& out);

}  // namespace surety::cli
