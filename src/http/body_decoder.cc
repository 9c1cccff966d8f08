#include "http/body_decoder.h"

#include <algorithm>
#include <utility>

#include "base/hash.h"

namespace surety::http {
namespace {

// Extensions of one chunk, or all trailers: more has no use and would only keep the server busy.
constexpr size_t kMaxOverheadBytes = 16 * 1024;

Refused TooLarge(uint64_t max_bytes) {
  return {413, "request_too_large", "the request's body is longer than " + std::to_string(max_bytes) + " bytes"};
}

}  // namespace

BodyDecoder::BodyDecoder(const RequestHead& head, uint64_t max_bytes) : max_bytes_(max_bytes) {
  left_ = head.content_length;
  state_ = head.chunked ? State::kChunkSize : left_ > 0 ? State::kCounted : State::kDone;
  if (head.chunked) left_ = 0;
  if (left_ > max_bytes_) {
    refused_ = TooLarge(max_bytes_);
    state_ = State::kFailed;
  }
}

void BodyDecoder::Fail(int status, std::string code, std::string message) {
  refused_ = Refused{status, std::move(code), std::move(message)};
  state_ = State::kFailed;
}

size_t BodyDecoder::Feed(std::string_view bytes) {
  size_t at = 0;
  while (at < bytes.size() && state_ != State::kDone && state_ != State::kFailed) {
    if (state_ == State::kCounted || state_ == State::kChunkData) {
      const size_t n = static_cast<size_t>(std::min<uint64_t>(left_, bytes.size() - at));
      body_.append(bytes.substr(at, n));
      at += n;
      left_ -= n;
      n_overhead_ = 0;
      if (left_ == 0) state_ = state_ == State::kCounted ? State::kDone : State::kChunkEnd;
      continue;
    }
    const char c = bytes[at++];
    if (++n_overhead_ > kMaxOverheadBytes) {
      Fail(431, "header_too_large", "chunk extensions or trailers are too long");
      break;
    }
    if (state_ == State::kChunkSize) TakeSizeDigit(c);
    else if (state_ == State::kChunkLine) TakeLineByte(c);
    else if (state_ == State::kChunkEnd) TakeEndByte(c);
    else TakeTrailerByte(c);
  }
  return at;
}

void BodyDecoder::TakeSizeDigit(char c) {
  const int digit = HexDigitValue(c);
  if (digit < 0) {
    const bool ends = c == '\r' || c == ';' || c == ' ' || c == '\t';
    if (n_digits_ == 0 || !ends) return Fail(400, "bad_request", "a chunk's size is a hexadecimal number");
    state_ = State::kChunkLine;
    return TakeLineByte(c);
  }
  // Sixteen digits fill 64 bits: no overflow before the limit below.
  if (++n_digits_ > 16) return Fail(400, "bad_request", "a chunk's size has more than 16 digits");
  left_ = left_ * 16 + static_cast<uint64_t>(digit);
}

void BodyDecoder::TakeLineByte(char c) {
  if (saw_return_) {
    saw_return_ = false;
    if (c != '\n') return Fail(400, "bad_request", "a chunk's size line ends with CR LF");
    return StartChunk();
  }
  if (c == '\r') saw_return_ = true;
  else if (c == '\n') Fail(400, "bad_request", "a chunk's size line ends with CR LF");
}

void BodyDecoder::StartChunk() {
  n_digits_ = 0;
  if (left_ == 0) {
    line_bytes_ = 0;
    state_ = State::kTrailer;
    return;
  }
  if (left_ > max_bytes_ - body_.size()) {
    refused_ = TooLarge(max_bytes_);
    state_ = State::kFailed;
    return;
  }
  state_ = State::kChunkData;
}

void BodyDecoder::TakeEndByte(char c) {
  if (c != (saw_return_ ? '\n' : '\r')) return Fail(400, "bad_request", "a chunk's data ends with CR LF");
  if (saw_return_) state_ = State::kChunkSize;
  saw_return_ = !saw_return_;
}

// Trailers are read over: nothing in them may change what the head said.
void BodyDecoder::TakeTrailerByte(char c) {
  if (saw_return_) {
    saw_return_ = false;
    if (c != '\n') return Fail(400, "bad_request", "a trailer line ends with CR LF");
    if (line_bytes_ == 0) state_ = State::kDone;
    line_bytes_ = 0;
    return;
  }
  if (c == '\r') saw_return_ = true;
  else if (c == '\n') Fail(400, "bad_request", "a trailer line ends with CR LF");
  else ++line_bytes_;
}

}  // namespace surety::http
