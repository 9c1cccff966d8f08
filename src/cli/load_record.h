// One request of a run as it went: what the client saw and when.
//
// Units: nanoseconds from the start of the run; -1 where it did not come to that.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace surety::cli {

// How a request ended. Names are part of the reports: append.
enum class LoadOutcome {
  kOk,            // a complete answer
  kRefused,       // 429 or 503
  kHttpError,     // any other status that is not 200
  kStreamError,   // an error object inside the stream
  kConnect,       // no connection, or no TLS
  kCut,           // the connection or the stream ended before the answer did
  kProtocol,      // what came is no answer of such a server
  kTimeout,       // --timeout
  kUnfinished,    // still running when --drain was over
  kInterrupted,   // still running at Ctrl-C
  kNotSent,       // --max-connections were in use: not sent at all
};
inline constexpr int kLoadOutcomes = 11;
std::string_view LoadOutcomeName(LoadOutcome outcome);

// How the tokens of an answer were counted.
enum class TokenCount {
  kNone,    // no token came
  kUsage,   // the server's usage
  kChunks,  // no usage came: an event is taken for a token
};
std::string_view TokenCountName(TokenCount count);

struct TokenEvent {
  int64_t time_ns = 0;
  int32_t tokens = 1;
  int32_t bytes = 0;  // of text
};

struct LoadRecord {
  int64_t item = 0;
  int turn = 0;
  int64_t intended_ns = 0;
  int64_t sent_ns = -1;  // the first byte of the request is about to be written
  int64_t end_ns = -1;   // [DONE] was parsed, or it failed
  LoadOutcome outcome = LoadOutcome::kUnfinished;
  int http_status = 0;
  double retry_after_s = -1;
  std::string error;
  std::string finish_reason;
  TokenCount counted = TokenCount::kNone;
  int planned_prompt_tokens = 0, planned_output_tokens = 0;
  int64_t prompt_tokens = -1, cached_tokens = -1;  // by usage
  int64_t output_tokens = 0;                       // by `counted`
  std::vector<TokenEvent> events;                  // those that carry tokens
};

}  // namespace surety::cli
