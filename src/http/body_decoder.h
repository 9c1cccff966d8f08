// Takes a request's body out of the bytes that follow its head: a counted body or a chunked one, in pieces of any size.
//
// Threads: one. Errors: a Refused of 413 when the body is longer than allowed, 400 when the chunks are malformed.
// Invariants: (1) no byte after the body is consumed. (2) The result does not depend on how the input was cut.
// Source: RFC 9112, section 7.1.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

#include "http/request_head.h"

namespace surety::http {

class BodyDecoder {
 public:
  BodyDecoder(const RequestHead& head, uint64_t max_bytes);

  // Returns how many of `bytes` belong to the body and are taken.
  size_t Feed(std::string_view bytes);
  bool done() const { return state_ == State::kDone; }
  const std::optional<Refused>& refused() const { return refused_; }
  size_t size() const { return body_.size(); }
  std::string TakeBody() { return std::move(body_); }

 private:
  enum class State : uint8_t { kCounted, kChunkSize, kChunkLine, kChunkData, kChunkEnd, kTrailer, kDone, kFailed };

  void Fail(int status, std::string code, std::string message);
  void TakeSizeDigit(char c);
  void TakeLineByte(char c);
  void TakeEndByte(char c);
  void TakeTrailerByte(char c);
  void StartChunk();

  State state_;
  uint64_t max_bytes_;
  uint64_t left_ = 0;           // of a counted body or of this chunk
  int n_digits_ = 0;
  size_t n_overhead_ = 0;       // bytes of size lines and trailers in a row without data
  size_t line_bytes_ = 0;       // of this trailer line
  bool saw_return_ = false;
  std::string body_;
  std::optional<Refused> refused_;
};

}  // namespace surety::http
