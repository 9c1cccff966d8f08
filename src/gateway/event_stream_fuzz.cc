// Any bytes as a stream of events: the same events however it is cut, and no line end inside the data but our own.
#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "base/check.h"
#include "gateway/event_stream.h"

namespace surety::gateway {
namespace {

std::vector<std::string> FuzzEvents(std::string_view bytes, size_t step) {
  EventStream stream;
  std::vector<std::string> events;
  const auto add = [&](std::string_view data) {
    SURETY_CHECK(data.find('\r') == std::string_view::npos);
    events.emplace_back(data);
    return true;
  };
  for (size_t at = 0; at < bytes.size(); at += step) SURETY_CHECK(stream.Feed(bytes.substr(at, step), add).ok());
  stream.End(add);
  return events;
}

}  // namespace
}  // namespace surety::gateway

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  const std::string_view bytes(reinterpret_cast<const char*>(data), size);
  const auto whole = surety::gateway::FuzzEvents(bytes, size + 1);
  size_t n_bytes = 0;
  for (const std::string& event : whole) n_bytes += event.size();
  SURETY_CHECK(n_bytes <= size);
  for (const size_t step : {size_t{1}, size_t{3}, size % 17 + 2}) {
    SURETY_CHECK(surety::gateway::FuzzEvents(bytes, step) == whole);
  }
  return 0;
}
