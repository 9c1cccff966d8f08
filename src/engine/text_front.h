// From what a request says to token ids: the chat template rendered in trusted and untrusted segments, or plain text,
// or ids as given. Threads: any. Errors: kInvalidArgument (not exactly one of messages, prompt, tokens; a template
// error with line and column; an id out of range), kFailedPrecondition (messages, but the model has no usable
// template). Invariants: (1) control tokens come from the template or the operator only. (2) never two BOS at the
// start. (3) text that is not UTF-8 is refused (kInvalidArgument), not cut.
#pragma once

#include <string_view>
#include <vector>

#include "api/request.h"
#include "engine/local_model.h"

namespace surety::engine {

Result<std::vector<api::TokenId>> TokenizeRequest(const LocalModel& model, const api::GenerationRequest& request,
                                                  int64_t now_unix_seconds);

// The text that the model's template makes of the messages.
Result<std::string> RenderMessages(const LocalModel& model, const api::GenerationRequest& request,
                                   int64_t now_unix_seconds);

// The same in its pieces: what messages brought is not trusted.
Result<std::vector<model::TextSegment>> RenderMessageSegments(const LocalModel& model,
                                                              const api::GenerationRequest& request,
                                                              int64_t now_unix_seconds);

// kInvalidArgument with `what` and the place of the first byte that is not UTF-8.
Status CheckUtf8(std::string_view text, std::string_view what);

}  // namespace surety::engine
