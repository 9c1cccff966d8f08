// The OpenAI-compatible API: chat and text completions, responses, embeddings, models, tokens, templates, and
// /openapi.json.
//
// Threads: handlers return at once; the work is posted to `post` (parsing, tokenizing, submitting) and `post_slow`
// (embeddings, which block for as long as the model computes). A full queue is a 503.
// Errors: docs/http_api.md.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <vector>

#include "base/clock.h"
#include "http/handler.h"
#include "http/model_registry.h"
#include "base/worker_pool.h"
#include "observe/trace.h"

namespace surety::http {

struct OpenAiOptions {
  std::shared_ptr<ModelRegistry> models;
  Clock* clock = &Clock::Real();
  PostTask post;                          // empty: on the calling thread
  PostTask post_slow;                     // empty: as post
  std::function<uint64_t()> draw_seed;    // for requests without one; empty: from the operating system
  observe::Tracer* tracer = nullptr;      // null: no traces; outlives the routes and what they began
};

std::vector<Route> OpenAiRoutes(OpenAiOptions options);

}  // namespace surety::http
