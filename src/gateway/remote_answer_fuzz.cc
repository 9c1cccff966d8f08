// Any bytes as what a remote server answers: one body, or a line a chunk. What is taken is text and tool calls of
// choices that were asked for, nothing behind a choice's end.
#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "base/check.h"
#include "gateway/remote_answer.h"
#include "gateway/remote_error.h"

namespace surety::gateway {
namespace {

constexpr int kFuzzChoices = 2;

void CheckFuzzEvents(const std::vector<api::Event>& events, const RemoteAnswer& answer) {
  size_t n_bytes[kFuzzChoices] = {};
  for (const api::Event& event : events) {
    SURETY_CHECK(event.choice >= 0 && event.choice < kFuzzChoices);
    SURETY_CHECK(event.finish == api::FinishReason::kNone && (!event.text.empty() || !event.tool_calls.empty()));
    n_bytes[event.choice] += event.text.size();
    for (const api::ToolCallDelta& call : event.tool_calls) {
      SURETY_CHECK(call.index >= 0);
      n_bytes[event.choice] += call.name.size() + call.arguments.size();
    }
  }
  int64_t output = 0;
  for (int i = 0; i < kFuzzChoices; ++i) {
    SURETY_CHECK(answer.choice(i).n_bytes == n_bytes[i]);
    const api::Usage usage = answer.UsageOf(i);
    SURETY_CHECK(usage.prompt_tokens >= 0 && usage.cached_tokens >= 0 && usage.output_tokens >= 0);
    SURETY_CHECK(usage.cached_tokens <= usage.prompt_tokens);
    output += usage.output_tokens;
  }
  SURETY_CHECK(output >= 0);
}

void OneAnswer(std::string_view bytes) {
  RemoteAnswer whole(kFuzzChoices, 100);
  std::vector<api::Event> events;
  if (whole.Whole(bytes, events).ok()) {
    SURETY_CHECK(whole.done());
    CheckFuzzEvents(events, whole);
  }
  RemoteAnswer stream(kFuzzChoices, 100);
  events.clear();
  Status status;
  while (!bytes.empty() && status.ok() && !stream.done()) {
    const size_t end = std::min(bytes.find('\n'), bytes.size());
    status = stream.Chunk(bytes.substr(0, end), events);
    bytes.remove_prefix(std::min(end + 1, bytes.size()));
  }
  if (status.ok()) CheckFuzzEvents(events, stream);
}

}  // namespace
}  // namespace surety::gateway

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  const std::string_view bytes(reinterpret_cast<const char*>(data), size);
  surety::gateway::OneAnswer(bytes);
  // The same bytes as an error's body, and as the header that says when to come back.
  surety::gateway::HttpReply reply;
  reply.status = 400 + static_cast<int>(size % 200);
  reply.body = std::string(bytes);
  reply.headers["retry-after"] = std::string(bytes.substr(0, 64));
  const auto failure = surety::gateway::FailureOf(reply, 1'796'032'800'000'000'000);
  SURETY_CHECK(!failure.status.ok() && failure.retry_after_s >= 0 && failure.retry_after_s <= 60);
  return 0;
}
