// Reads one HTTP/1.1 reply out of bytes as they come, however the network has cut them.
//
// Strict where a lax reader could be led to see another message than its neighbour: two lengths, a length beside
// chunks, codings other than "chunked", folded lines and control bytes are errors. A line may end with LF alone.
// Threads: one. Errors: kUnavailable with what is wrong; kCancelled when the body's receiver gives up.
// Source: RFC 9112 sections 4 to 7; RFC 9110 section 15.2 (interim replies are passed over).
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <string_view>

#include "base/function_ref.h"
#include "base/status.h"

namespace surety::gateway {

class HttpReplyParser {
 public:
  static constexpr size_t kMaxHeadBytes = 64 << 10;  // status lines, headers and trailers together

  explicit HttpReplyParser(bool to_head_request) : to_head_request_(to_head_request) {}

  // How many of the bytes belong to the reply: fewer than there are only when it is complete. Not called after an
  // error. `on_body` gets the body's bytes; false from it is kCancelled.
  Result<size_t> Feed(std::string_view bytes, FunctionRef<bool(std::string_view)> on_body);
  // The peer has closed. ok: the reply is complete, perhaps by that.
  Status End();

  bool head_done() const { return state_ > State::kHeader; }
  bool done() const { return state_ == State::kDone; }
  bool started() const { return n_head_bytes_ > 0; }
  bool ends_by_close() const { return state_ == State::kUntilClose; }
  bool keep_alive() const { return keep_alive_; }            // once done
  int64_t keep_alive_seconds() const { return keep_alive_s_; }  // as its server says; -1: it does not
  int64_t content_length() const { return length_; }         // -1: not said
  int status() const { return status_; }
  const std::map<std::string, std::string>& headers() const { return headers_; }

 private:
  enum class State : uint8_t {
    kStatusLine, kHeader, kSized, kUntilClose, kChunkSize, kChunk, kChunkEnd, kTrailer, kDone,
  };

  Status Line(std::string_view line);
  Status StatusLine(std::string_view line);
  Status Header(std::string_view line);
  Status HeadEnd();
  Status ChunkSize(std::string_view line);
  bool in_lines() const;

  const bool to_head_request_;
  State state_ = State::kStatusLine;
  std::string line_;
  size_t n_head_bytes_ = 0;
  int status_ = 0;
  bool http10_ = false, keep_alive_ = false;
  int64_t length_ = -1, left_ = 0, keep_alive_s_ = -1;
  std::map<std::string, std::string> headers_;
};

}  // namespace surety::gateway
