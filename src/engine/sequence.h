// One request on its way through the engine: its tokens, its pages, its text that is not released yet.
// Threads: the engine thread, its only writer.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "api/request.h"
#include "engine/sampler.h"
#include "engine/stop_matcher.h"
#include "kv/page_pool.h"
#include "model/tokenizer/tokenizer.h"

namespace surety::engine {

struct Sequence {
  Sequence(api::RequestId request_id, api::GenerationRequest r, std::vector<int32_t> prompt,
           const model::Tokenizer& tokenizer, kv::PagePool& pool)
      : id(request_id), request(std::move(r)), tokens(std::move(prompt)), n_prompt(static_cast<int>(tokens.size())),
        pages(pool), decoder(tokenizer), stops(request.stop) {
    history.AddPrompt(tokens);
  }

  int n_tokens() const { return static_cast<int>(tokens.size()); }
  int n_output() const { return n_tokens() - n_prompt; }
  bool prefilling() const { return n_computed < n_tokens() - 1 || n_output() == 0; }
  int rows_left() const { return n_tokens() - n_computed; }

  api::RequestId id;
  api::GenerationRequest request;
  uint64_t conversation = 0;  // 0: none
  std::vector<int32_t> tokens;  // prompt, then output
  int n_prompt;
  int n_computed = 0;    // tokens whose KV is in the cache
  int n_cached = 0;      // of the prompt, found there at the start
  int max_tokens = 0;    // of output
  kv::PageTable pages;
  TokenHistory history;
  model::IncrementalDecoder decoder;
  StopMatcher stops;
};

}  // namespace surety::engine
