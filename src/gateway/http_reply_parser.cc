#include "gateway/http_reply_parser.h"

#include <algorithm>
#include <limits>

#include "base/hash.h"

namespace surety::gateway {
namespace {

constexpr size_t kMaxChunkLine = 4096;

Status ReplyError(std::string_view what) { return UnavailableError("the answer is no HTTP: " + std::string(what)); }

bool ReplyTokenChar(char c) {
  return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') ||
         std::string_view("!#$%&'*+-.^_`|~").find(c) != std::string_view::npos;
}

std::string ReplyLower(std::string_view text) {
  std::string lower(text);
  std::ranges::transform(lower, lower.begin(), [](char c) { return c >= 'A' && c <= 'Z' ? char(c - 'A' + 'a') : c; });
  return lower;
}

std::string_view ReplyTrim(std::string_view text) {
  while (!text.empty() && (text.front() == ' ' || text.front() == '\t')) text.remove_prefix(1);
  while (!text.empty() && (text.back() == ' ' || text.back() == '\t')) text.remove_suffix(1);
  return text;
}

// Digits only; -1: none, something else, or too large.
int64_t ReplyNumber(std::string_view text) {
  if (text.empty() || text.size() > 18) return -1;
  int64_t value = 0;
  for (const char c : text) {
    if (c < '0' || c > '9') return -1;
    value = value * 10 + (c - '0');
  }
  return value;
}

// Calls `each` for the members of a comma-separated list.
void ReplyList(std::string_view list, FunctionRef<void(std::string_view)> each) {
  while (true) {
    const size_t comma = std::min(list.find(','), list.size());
    each(ReplyTrim(list.substr(0, comma)));
    if (comma == list.size()) return;
    list.remove_prefix(comma + 1);
  }
}

}  // namespace

bool HttpReplyParser::in_lines() const {
  return state_ != State::kSized && state_ != State::kUntilClose && state_ != State::kChunk && state_ != State::kDone;
}

Result<size_t> HttpReplyParser::Feed(std::string_view bytes, FunctionRef<bool(std::string_view)> on_body) {
  const size_t n_all = bytes.size();
  while (!bytes.empty() && state_ != State::kDone) {
    if (in_lines()) {
      const size_t end = bytes.find('\n');
      const size_t n = end == std::string_view::npos ? bytes.size() : end + 1;
      const bool chunk_line = state_ == State::kChunkSize || state_ == State::kChunkEnd;
      if (!chunk_line) n_head_bytes_ += n;
      if (n_head_bytes_ > kMaxHeadBytes) return Error(ReplyError("headers of more than 64 KiB"));
      if (chunk_line && line_.size() + n > kMaxChunkLine) return Error(ReplyError("a chunk's line is too long"));
      line_ += bytes.substr(0, n);
      bytes.remove_prefix(n);
      if (end == std::string_view::npos) break;
      line_.pop_back();
      if (line_.ends_with('\r')) line_.pop_back();
      if (line_.find('\r') != std::string::npos) return Error(ReplyError("a carriage return inside a line"));
      SURETY_RETURN_IF_ERROR(Line(line_));
      line_.clear();
      continue;
    }
    const bool counted = state_ != State::kUntilClose;
    const size_t n = counted ? std::min(bytes.size(), static_cast<size_t>(left_)) : bytes.size();
    if (!on_body(bytes.substr(0, n))) return Error(CancelledError("given up"));
    bytes.remove_prefix(n);
    if (!counted) continue;
    left_ -= static_cast<int64_t>(n);
    if (left_ == 0) state_ = state_ == State::kSized ? State::kDone : State::kChunkEnd;
  }
  return n_all - bytes.size();
}

Status HttpReplyParser::Line(std::string_view line) {
  switch (state_) {
    case State::kStatusLine: return StatusLine(line);
    case State::kHeader: return line.empty() ? HeadEnd() : Header(line);
    case State::kChunkSize: return ChunkSize(line);
    case State::kChunkEnd:
      if (!line.empty()) return ReplyError("no line end after a chunk");
      state_ = State::kChunkSize;
      return OkStatus();
    case State::kTrailer:
      if (line.empty()) state_ = State::kDone;
      return OkStatus();
    default: return OkStatus();
  }
}

Status HttpReplyParser::StatusLine(std::string_view line) {
  const bool digits = line.size() >= 12 && std::ranges::all_of(line.substr(9, 3), [](char c) {
    return c >= '0' && c <= '9';
  });
  if (!digits || !line.starts_with("HTTP/1.") || (line[7] != '0' && line[7] != '1') || line[8] != ' ' ||
      (line.size() > 12 && line[12] != ' ')) {
    return ReplyError("its first line is not 'HTTP/1.1 STATUS'");
  }
  http10_ = line[7] == '0';
  status_ = static_cast<int>(ReplyNumber(line.substr(9, 3)));
  if (status_ < 100 || status_ == 101) return ReplyError("status " + std::to_string(status_) + " to a plain request");
  state_ = State::kHeader;
  return OkStatus();
}

Status HttpReplyParser::Header(std::string_view line) {
  const size_t colon = line.find(':');
  if (colon == std::string_view::npos || colon == 0) return ReplyError("a header without a name");
  const std::string_view name = line.substr(0, colon), value = ReplyTrim(line.substr(colon + 1));
  if (!std::ranges::all_of(name, ReplyTokenChar)) return ReplyError("a header's name has a character that none may");
  if (std::ranges::any_of(value, [](char c) { return (c >= 0 && c < ' ' && c != '\t') || c == 0x7f; })) {
    return ReplyError("a control byte in a header");
  }
  const std::string key = ReplyLower(name);
  const auto [entry, is_new] = headers_.emplace(key, value);
  if (is_new) return OkStatus();
  if (key == "content-length") return entry->second == value ? OkStatus() : ReplyError("two lengths");
  entry->second.append(", ").append(value);
  return OkStatus();
}

Status HttpReplyParser::HeadEnd() {
  if (status_ < 200) {  // interim; the reply is still to come
    headers_.clear();
    state_ = State::kStatusLine;
    return OkStatus();
  }
  keep_alive_ = !http10_;
  if (const auto connection = headers_.find("connection"); connection != headers_.end()) {
    ReplyList(connection->second, [&](std::string_view option) {
      if (ReplyLower(option) == "close") keep_alive_ = false;
    });
  }
  if (const auto hint = headers_.find("keep-alive"); hint != headers_.end()) {
    ReplyList(hint->second, [&](std::string_view option) {
      if (ReplyLower(option).starts_with("timeout=")) keep_alive_s_ = ReplyNumber(option.substr(8));
    });
  }
  const auto length = headers_.find("content-length"), coding = headers_.find("transfer-encoding");
  if (length != headers_.end() && (length_ = ReplyNumber(length->second)) < 0) {
    return ReplyError("content-length is '" + length->second + "'");
  }
  if (to_head_request_ || status_ == 204 || status_ == 304) {
    state_ = State::kDone;
    return OkStatus();
  }
  if (coding != headers_.end()) {
    if (length != headers_.end()) return ReplyError("a length and chunks");
    if (ReplyLower(coding->second) != "chunked") return ReplyError("transfer coding '" + coding->second + "'");
    state_ = State::kChunkSize;
  } else if (length_ >= 0) {
    left_ = length_;
    state_ = left_ == 0 ? State::kDone : State::kSized;
  } else {
    keep_alive_ = false;
    state_ = State::kUntilClose;
  }
  return OkStatus();
}

Status HttpReplyParser::ChunkSize(std::string_view line) {
  const std::string_view digits = ReplyTrim(line.substr(0, std::min(line.find(';'), line.size())));
  if (digits.empty() || digits.size() > 15) return ReplyError("a chunk without a size");
  left_ = 0;
  for (const char c : digits) {
    const int value = HexDigitValue(c);
    if (value < 0) return ReplyError("a chunk's size is no hexadecimal number");
    left_ = left_ * 16 + value;
  }
  state_ = left_ == 0 ? State::kTrailer : State::kChunk;
  return OkStatus();
}

Status HttpReplyParser::End() {
  if (state_ == State::kUntilClose) state_ = State::kDone;
  if (state_ == State::kDone) return OkStatus();
  if (!started()) return UnavailableError("closed without an answer");
  return UnavailableError(head_done() ? "closed inside the answer's body" : "closed inside the answer's headers");
}

}  // namespace surety::gateway
