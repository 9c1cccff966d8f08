// Bytes as a streamed answer, cut where the input says: the same as a whole must come out, whatever it is.
#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "base/check.h"
#include "cli/load_reply.h"
#include "cli/load_sse.h"

namespace surety::cli {
namespace {

std::vector<std::string> EventsOf(std::string_view text, size_t piece) {
  SseParser parser;
  std::vector<std::string> events;
  for (size_t at = 0; at < text.size(); at += piece) {
    (void)parser.Feed(text.substr(at, piece), 0, [&](std::string_view data, int64_t) { events.emplace_back(data); });
  }
  return events;
}

LoadRecord RecordOf(std::string_view text, size_t piece) {
  LoadRecord record;
  ReplyReader reader(record, true);
  reader.OnHeader(200, true);
  for (size_t at = 0; at < text.size(); at += piece) {
    if (!reader.OnBody(text.substr(at, piece), 0)) break;
  }
  reader.OnComplete(0);
  return record;
}

void OneInput(std::string_view input) {
  if (input.empty()) return;
  const size_t piece = static_cast<unsigned char>(input[0]) % 32 + 1;
  const std::string_view text = input.substr(1);
  SURETY_CHECK(EventsOf(text, piece) == EventsOf(text, text.size() + 1));
  const LoadRecord cut = RecordOf(text, piece), whole = RecordOf(text, text.size() + 1);
  SURETY_CHECK(cut.outcome == whole.outcome && cut.error == whole.error);
  SURETY_CHECK(cut.output_tokens == whole.output_tokens && cut.events.size() == whole.events.size());
  for (size_t i = 0; i < whole.events.size(); ++i) {
    SURETY_CHECK(whole.events[i].tokens >= 1 && whole.events[i].tokens == cut.events[i].tokens);
  }
}

}  // namespace
}  // namespace surety::cli

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  surety::cli::OneInput(std::string_view(reinterpret_cast<const char*>(data), size));
  return 0;
}
