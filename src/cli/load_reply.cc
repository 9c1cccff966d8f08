#include "cli/load_reply.h"

#include <algorithm>
#include <numeric>
#include <utility>
#include <vector>

#include <boost/json.hpp>
#include <fmt/format.h>

namespace surety::cli {
namespace {

namespace json = boost::json;
constexpr size_t kErrorBodyBytes = 4096;
constexpr size_t kErrorTextBytes = 300;
constexpr int64_t kMostTokens = 1'000'000'000;

// The member if it is an object's and no null.
const json::value* Member(const json::value& value, std::string_view key) {
  const auto* object = value.if_object();
  const json::value* member = object == nullptr ? nullptr : object->if_contains(key);
  return member == nullptr || member->is_null() ? nullptr : member;
}

int64_t CountIn(const json::value& object, std::string_view key) {
  const json::value* member = Member(object, key);
  if (member == nullptr || !member->is_number()) return -1;
  boost::system::error_code error;
  const auto count = member->to_number<int64_t>(error);
  return error || count < 0 || count > kMostTokens ? -1 : count;
}

std::string_view TextIn(const json::value& object, std::string_view key) {
  const json::value* member = Member(object, key);
  return member != nullptr && member->is_string() ? std::string_view(member->get_string()) : std::string_view();
}

std::string ErrorText(const json::value& value) {
  const json::value* error = Member(value, "error");
  if (error == nullptr) return {};
  if (error->is_string()) return std::string(error->get_string());
  const std::string_view message = TextIn(*error, "message");
  return message.empty() ? json::serialize(*error) : std::string(message);
}

std::string Shortened(std::string text) {
  if (text.size() > kErrorTextBytes) text.resize(kErrorTextBytes);
  return text;
}

// Bytes of text or tool calls that a choice brings; `text` gets the visible answer.
size_t BytesOf(const json::value& choice, std::string& text) {
  const std::string_view completion = TextIn(choice, "text");
  text += completion;
  size_t bytes = completion.size();
  if (const json::value* delta = Member(choice, "delta")) {
    const std::string_view content = TextIn(*delta, "content");
    text += content;
    bytes += content.size();
    for (const char* key : {"reasoning_content", "reasoning", "refusal"}) bytes += TextIn(*delta, key).size();
    if (const json::value* calls = Member(*delta, "tool_calls"); calls != nullptr && calls->is_array()) {
      for (const json::value& call : calls->get_array()) {
        const json::value* function = Member(call, "function");
        if (function != nullptr) bytes += TextIn(*function, "name").size() + TextIn(*function, "arguments").size();
      }
    }
  }
  return bytes;
}

}  // namespace

std::string_view LoadOutcomeName(LoadOutcome outcome) {
  constexpr std::string_view kNames[kLoadOutcomes] = {"ok",       "refused", "http_error", "stream_error",
                                                      "connect",  "cut",     "protocol",   "timeout",
                                                      "unfinished", "interrupted", "not_sent"};
  return kNames[static_cast<int>(outcome)];
}

std::string_view TokenCountName(TokenCount count) {
  constexpr std::string_view kNames[] = {"none", "usage", "chunks"};
  return kNames[static_cast<int>(count)];
}

void ReplyReader::OnHeader(int status, bool event_stream) {
  record_.http_status = status;
  event_stream_ = event_stream;
}

bool ReplyReader::OnBody(std::string_view bytes, int64_t time_ns) {
  if (failed_) return false;
  if (record_.http_status != 200 || !event_stream_) {
    body_ += bytes.substr(0, kErrorBodyBytes - std::min(kErrorBodyBytes, body_.size()));
    return true;
  }
  const Status status = sse_.Feed(bytes, time_ns, [&](std::string_view data, int64_t first_byte_ns) {
    if (!failed_) OnEvent(data, first_byte_ns, time_ns);
  });
  if (!status.ok()) Fail(LoadOutcome::kProtocol, status.message(), time_ns);
  return !failed_;
}

void ReplyReader::OnEvent(std::string_view data, int64_t time_ns, int64_t now_ns) {
  if (done_ || data.empty()) return;
  if (data == "[DONE]") {
    done_ = true;
    record_.end_ns = now_ns;
    return;
  }
  boost::system::error_code parse_error;
  const json::value value = json::parse(data, parse_error);
  if (parse_error || !value.is_object()) {
    Fail(LoadOutcome::kProtocol, Shortened(fmt::format("an event is no JSON object: {}", data)), now_ns);
    return;
  }
  if (Member(value, "error") != nullptr) {
    Fail(LoadOutcome::kStreamError, Shortened(ErrorText(value)), now_ns);
    return;
  }
  size_t bytes = 0;
  std::string text;
  if (const json::value* choices = Member(value, "choices"); choices != nullptr && choices->is_array()) {
    for (const json::value& choice : choices->get_array()) {
      bytes += BytesOf(choice, text);
      if (const std::string_view reason = TextIn(choice, "finish_reason"); !reason.empty()) {
        record_.finish_reason = reason;
        finish_ns_ = bytes == 0 ? time_ns : -1;
      }
    }
  }
  if (keep_text_) text_ += text;
  int64_t so_far = -1;
  if (const json::value* usage = Member(value, "usage")) {
    so_far = CountIn(*usage, "completion_tokens");
    if (so_far >= 0) usage_tokens_ = so_far;
    if (const int64_t n = CountIn(*usage, "prompt_tokens"); n >= 0) record_.prompt_tokens = n;
    if (const json::value* details = Member(*usage, "prompt_tokens_details")) {
      if (const int64_t n = CountIn(*details, "cached_tokens"); n >= 0) record_.cached_tokens = n;
    }
  }
  if (bytes == 0) return;
  TokenEvent event{time_ns, 1, static_cast<int32_t>(bytes)};
  if (so_far > counted_before_) {
    event.tokens = static_cast<int32_t>(so_far - counted_before_);
    counted_before_ = so_far;
  } else {
    counts_by_chunk_ = false;
  }
  record_.events.push_back(event);
}

// The total over the events in proportion to their bytes: one each first, then by the running sum, so that the parts
// add up to the total exactly.
void ReplyReader::ShareOut(int64_t total) {
  auto& events = record_.events;
  const auto n = static_cast<int64_t>(events.size());
  const double rest = static_cast<double>(std::max<int64_t>(0, total - n));
  double all_bytes = 0;
  for (const TokenEvent& event : events) all_bytes += event.bytes;
  double bytes = 0;
  int64_t given = 0;
  for (TokenEvent& event : events) {
    bytes += event.bytes;
    const auto until = static_cast<int64_t>(rest * (bytes / all_bytes) + 0.5);
    event.tokens = static_cast<int32_t>(1 + until - given);
    given = until;
  }
}

void ReplyReader::CountTokens() {
  auto& events = record_.events;
  if (usage_tokens_ < 0) {
    record_.counted = events.empty() ? TokenCount::kNone : TokenCount::kChunks;
    for (TokenEvent& event : events) event.tokens = 1;
    record_.output_tokens = static_cast<int64_t>(events.size());
    return;
  }
  record_.counted = TokenCount::kUsage;
  record_.output_tokens = usage_tokens_;
  if (events.empty()) return;
  const auto n = static_cast<int64_t>(events.size());
  const int64_t unseen = usage_tokens_ - (counts_by_chunk_ ? counted_before_ : n);
  if (unseen == 1 && record_.finish_reason == "stop" && finish_ns_ >= 0) {
    events.push_back({finish_ns_, 1, 0});
  } else if (counts_by_chunk_) {
    events.back().tokens += static_cast<int32_t>(std::max<int64_t>(0, unseen));
    return;
  } else if (unseen > 0) {
    ShareOut(usage_tokens_);
    return;
  }
  if (!counts_by_chunk_) {
    for (TokenEvent& event : events) event.tokens = 1;
  }
}

void ReplyReader::Fail(LoadOutcome outcome, std::string message, int64_t time_ns) {
  if (failed_) return;
  failed_ = true;
  record_.outcome = outcome;
  record_.error = std::move(message);
  record_.end_ns = time_ns;
  CountTokens();
}

void ReplyReader::OnComplete(int64_t time_ns) {
  if (failed_) return;
  if (record_.http_status == 200 && event_stream_) {
    if (!AnswerEnded()) {
      Fail(LoadOutcome::kCut, "the stream ended without [DONE] and without a finish reason", time_ns);
      return;
    }
    if (record_.events.empty() && usage_tokens_ <= 0 && record_.finish_reason.empty()) {
      Fail(LoadOutcome::kProtocol, "a stream without any token", time_ns);
      return;
    }
    record_.outcome = LoadOutcome::kOk;
    if (!done_) record_.end_ns = time_ns;
    CountTokens();
    return;
  }
  boost::system::error_code error;
  const json::value value = json::parse(body_, error);
  std::string text = error ? body_ : ErrorText(value);
  if (text.empty()) text = body_;
  const int status = record_.http_status;
  if (status == 200) {
    Fail(LoadOutcome::kProtocol, "the answer is no event stream: " + Shortened(std::move(text)), time_ns);
  } else {
    const bool refused = status == 429 || status == 503;
    Fail(refused ? LoadOutcome::kRefused : LoadOutcome::kHttpError,
         fmt::format("status {}: {}", status, Shortened(std::move(text))), time_ns);
  }
}

void ReplyReader::OnFailure(LoadOutcome outcome, std::string message, int64_t time_ns) {
  if (failed_) return;
  if (done_) {
    OnComplete(time_ns);
    return;
  }
  Fail(outcome, std::move(message), time_ns);
}

}  // namespace surety::cli
