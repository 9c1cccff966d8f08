// Reads one streamed answer of an OpenAI-compatible server into a LoadRecord.
//
// Tokens of an event: by the usage in each chunk where the server sends that; else one each if the total of the usage
// agrees; else (several tokens in a chunk) the total is shared out in proportion to the text's bytes, at least one
// each. An end token that usage counts but no text shows belongs to the chunk with the finish reason.
// Threads: one. Owns: nothing of the record, which must outlive it.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

#include "cli/load_record.h"
#include "cli/load_sse.h"

namespace surety::cli {

class ReplyReader {
 public:
  // keep_text: the answer's text is kept, for the next turn.
  ReplyReader(LoadRecord& record, bool keep_text) : record_(record), keep_text_(keep_text) {}

  void OnHeader(int status, bool event_stream);
  // A piece of the body, without HTTP's own framing. False: what comes next does not matter, the connection may go.
  bool OnBody(std::string_view bytes, int64_t time_ns);
  // The body is complete. Fills in the record's outcome, end and tokens.
  void OnComplete(int64_t time_ns);
  // It ended otherwise. An answer whose end was already read stays complete.
  void OnFailure(LoadOutcome outcome, std::string message, int64_t time_ns);

  const std::string& text() const { return text_; }

 private:
  void OnEvent(std::string_view data, int64_t time_ns, int64_t now_ns);
  void Fail(LoadOutcome outcome, std::string message, int64_t time_ns);
  bool AnswerEnded() const { return done_ || !record_.finish_reason.empty(); }
  void CountTokens();
  void ShareOut(int64_t total);

  LoadRecord& record_;
  bool keep_text_;
  SseParser sse_;
  bool event_stream_ = false, done_ = false, failed_ = false;
  bool counts_by_chunk_ = true;  // so far every event came with a usage of its own
  int64_t usage_tokens_ = -1, counted_before_ = 0;
  int64_t finish_ns_ = -1;  // of a chunk with a finish reason and no text
  std::string text_, body_;
};

}  // namespace surety::cli
