// Bytes as what follows a connection's start: heads and bodies one after the other. Whatever the pieces in which they
// come, the requests are the same. A refusal may need more bytes in one way than in another (a head that cannot become
// valid is found when its end is searched, or only at its end), and so may its reason.
#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "base/check.h"
#include "http/body_decoder.h"
#include "http/request_head.h"
#include "observe/trace.h"

namespace surety::http {
namespace {

constexpr size_t kMaxHeadBytes = 2048;
constexpr uint64_t kMaxBodyBytes = 4096;

struct Seen {
  std::vector<std::string> texts;  // of each request: method, target, body
  bool refused = false;            // what came after them
  size_t consumed = 0;
};

// What is read of a traceparent is what it says.
void CheckTraceparent(const RequestHead& head) {
  const auto header = head.headers.find("traceparent");
  if (header == head.headers.end()) return;
  const auto context = observe::ParseTraceparent(header->second);
  if (!context) return;
  SURETY_CHECK(observe::FormatTraceparent(*context).substr(2) == header->second.substr(2, 53));
}

// Takes in `bytes` as a connection does, `piece` at a time (0: all at once).
Seen ReadAll(std::string_view bytes, size_t piece) {
  Seen seen;
  HeadParser head(kMaxHeadBytes);
  size_t available = piece == 0 ? bytes.size() : 0;
  for (;;) {
    const size_t used = head.Feed(bytes.substr(seen.consumed, available - seen.consumed));
    seen.consumed += used;
    if (head.refused()) {
      SURETY_CHECK(head.refused()->status >= 400 && !head.refused()->message.empty());
      seen.refused = true;
      return seen;
    }
    if (!head.done()) {
      if (available == bytes.size()) return seen;
      available = std::min(available + piece, bytes.size());
      continue;
    }
    if (const auto target = ParseTarget(head.head().target)) {
      SURETY_CHECK(target->path == "*" || target->path.starts_with('/'));
      SURETY_CHECK(target->path.find('\0') == std::string::npos);
    }
    CheckTraceparent(head.head());
    BodyDecoder body(head.head(), kMaxBodyBytes);
    while (!body.done() && !body.refused()) {
      seen.consumed += body.Feed(bytes.substr(seen.consumed, available - seen.consumed));
      if (body.done() || body.refused()) break;
      SURETY_CHECK(seen.consumed == available);
      if (available == bytes.size()) return seen;
      available = std::min(available + piece, bytes.size());
    }
    SURETY_CHECK(body.size() <= kMaxBodyBytes);
    if (body.refused()) {
      seen.refused = true;
      return seen;
    }
    seen.texts.push_back(head.head().method + " " + head.head().target + " " + body.TakeBody());
    head = HeadParser(kMaxHeadBytes);
  }
}

void OneInput(std::string_view bytes) {
  const Seen whole = ReadAll(bytes, 0);
  SURETY_CHECK(whole.consumed <= bytes.size());
  for (const size_t piece : {1, 2, 7, 100}) SURETY_CHECK(ReadAll(bytes, piece).texts == whole.texts);
}

}  // namespace
}  // namespace surety::http

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  surety::http::OneInput(std::string_view(reinterpret_cast<const char*>(data), size));
  return 0;
}
