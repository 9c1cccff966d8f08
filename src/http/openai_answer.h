// What is made of a backend's events: one body, or a stream of chunks. Both come from the same events by the same
// functions, so that a stream adds up to the body.
//
// Threads: an Answer belongs to its ApiExchange, which calls it one call at a time, on the backend's thread. It asks
// the backend for nothing but TokenBytes, a look-up.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "api/backend.h"
#include "http/openai_error.h"
#include "http/openai_generation.h"

namespace surety::http {

// What all chunks of a stream have in common.
struct AnswerHead {
  std::string request_id;
  std::string id;            // of the answer: "chatcmpl-" and the request's
  std::string model;         // its name in the registry
  std::string fingerprint;   // of weights and program
  int64_t created_unix_s = 0;
  const api::Backend* backend = nullptr;  // alive while its sinks are called
  std::string lossy = {};    // the rule of verification that changed the answer's law; empty: it is the model's own
};

class Answer {
 public:
  virtual ~Answer() = default;

  virtual bool streams() const = 0;
  // `part`: which of the call's requests. Appends what a stream's client gets for the event.
  virtual void Add(int part, const api::Event& event, std::string& out) = 0;
  // After the last event: the end of the stream, or the body.
  virtual std::string Finish() = 0;
  // The last words of a stream that has begun and cannot be completed. Nothing like [DONE] follows.
  virtual std::string Fail(const ApiError& error);
  // Of the answer that Finish gave: extra response headers for a body.
  virtual HeaderList Headers() const { return {}; }
};

std::unique_ptr<Answer> MakeChatAnswer(AnswerHead head, const GenerationCall& call);
std::unique_ptr<Answer> MakeCompletionAnswer(AnswerHead head, const GenerationCall& call);
std::unique_ptr<Answer> MakeResponsesAnswer(AnswerHead head, const GenerationCall& call);

// ---- What the three share.

struct CollectedCall {
  std::string name, arguments;
};

// One choice, added up.
struct Collected {
  std::string text;
  std::vector<api::TokenLogprob> logprobs, prompt_logprobs;
  std::vector<CollectedCall> calls;
  api::FinishReason finish = api::FinishReason::kNone;
  std::string stop_text;
  api::Usage usage;
  api::Timings timings;
  std::shared_ptr<const api::Decision> decision;

  void Add(const api::Event& event, bool include_stop_text);
};

// Of a call: the prompt's tokens once for each part (those of its choice 0), the output's and drafts of every choice.
struct TotalUsage {
  int64_t prompt = 0, cached = 0, output = 0, drafted = 0, accepted = 0;
  void Add(int choice, const api::Usage& usage);
};
// `prediction`: the request gave one, so the usage says how many drafted tokens held.
std::string UsageJson(const TotalUsage& usage, bool prediction = false);
// The longest of each kind over the choices.
void Longest(const api::Timings& timings, api::Timings& longest);
// With llama-server's draft_n and draft_n_accepted where drafts were verified.
std::string TimingsJson(const api::Timings& timings, const TotalUsage& usage);
HeaderList TimingHeaders(const api::Timings& timings);

// "stop", "length", "tool_calls" or "content_filter"; a time limit is "length".
std::string_view FinishName(api::FinishReason finish, bool has_calls);
// vLLM's stop_reason: the stop text, "timeout", or null.
std::string StopReasonJson(api::FinishReason finish, std::string_view stop_text);
// The text of an event, with the stop text that ended it where it is asked for.
std::string TextOf(const api::Event& event, bool include_stop_text);

// {"token", "logprob", "bytes", "top_logprobs": [...]}, comma-separated.
void AppendLogprobs(std::string& out, const std::vector<api::TokenLogprob>& list, const api::Backend& backend);
// vLLM's prompt_logprobs.
std::string PromptLogprobsJson(const std::vector<api::TokenLogprob>& list, const api::Backend& backend);

// "call_..." of the index-th call in a choice; a function of its arguments alone.
std::string CallId(std::string_view request_id, int choice, int index);

}  // namespace surety::http
