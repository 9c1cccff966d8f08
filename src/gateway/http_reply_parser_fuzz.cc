// Any bytes as an HTTP reply: whole or cut anywhere, the same reply, the same body and the same fault.
#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>

#include "base/check.h"
#include "gateway/http_reply_parser.h"

namespace surety::gateway {
namespace {

struct FuzzReply {
  bool good = false, done = false, keep_alive = false;
  int status = 0;
  size_t used = 0;
  std::string body, error;
  std::map<std::string, std::string> headers;
  bool operator==(const FuzzReply&) const = default;
};

// `step`: bytes at a time.
FuzzReply ReadFuzzReply(std::string_view bytes, bool head, size_t step) {
  HttpReplyParser parser(head);
  FuzzReply out;
  for (size_t at = 0; at < bytes.size() && !parser.done();) {
    const std::string_view piece = bytes.substr(at, step);
    const auto used = parser.Feed(piece, [&](std::string_view part) {
      SURETY_CHECK(!part.empty());
      out.body += part;
      return true;
    });
    if (!used) {
      out.error = used.error().message();
      return out;
    }
    SURETY_CHECK(*used == piece.size() || (*used < piece.size() && parser.done()));
    out.used += *used;
    at += *used;
  }
  const bool by_close = parser.ends_by_close();
  const Status end = parser.End();
  out.good = end.ok();
  out.error = end.message();
  out.done = parser.done();
  if (!out.good) return out;
  SURETY_CHECK(parser.done() && parser.status() >= 200 && parser.status() <= 999);
  SURETY_CHECK(!by_close || !parser.keep_alive());
  SURETY_CHECK(by_close || parser.content_length() < 0 || out.body.empty() ||
               static_cast<int64_t>(out.body.size()) == parser.content_length());
  for (const auto& [name, value] : parser.headers()) {
    SURETY_CHECK(!name.empty() && value.find_first_of("\r\n") == std::string::npos);
  }
  out.keep_alive = parser.keep_alive();
  out.status = parser.status();
  out.headers = parser.headers();
  return out;
}

}  // namespace
}  // namespace surety::gateway

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  if (size == 0) return 0;
  const std::string_view bytes(reinterpret_cast<const char*>(data) + 1, size - 1);
  const bool head = (data[0] & 1) != 0;
  const auto whole = surety::gateway::ReadFuzzReply(bytes, head, bytes.size() + 1);
  for (const size_t step : {size_t{1}, size_t{2} + (data[0] >> 1)}) {
    const auto cut = surety::gateway::ReadFuzzReply(bytes, head, step);
    // Of a faulty reply the body may have been given further, never differently.
    SURETY_CHECK(cut.good == whole.good && cut.error == whole.error);
    SURETY_CHECK(!whole.good || cut == whole);
  }
  return 0;
}
