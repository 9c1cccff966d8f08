#include "engine/stop_matcher.h"

#include <algorithm>
#include <utility>

namespace surety::engine {

StopMatcher::StopMatcher(std::vector<std::string> stops) : stops_(std::move(stops)) {
  std::erase_if(stops_, [](const std::string& s) { return s.empty(); });
}

std::string StopMatcher::Push(std::string_view text) {
  if (stopped_) return {};
  held_ += text;
  // The earliest match ends the stream; of two at one place the longer is reported.
  size_t first = std::string::npos;
  for (const std::string& stop : stops_) {
    const size_t at = held_.find(stop);
    if (at == std::string::npos) continue;
    if (at < first || (at == first && stop.size() > stop_text_.size())) {
      first = at;
      stop_text_ = stop;
    }
  }
  if (first != std::string::npos) {
    stopped_ = true;
    std::string released = held_.substr(0, first);
    held_.clear();
    return released;
  }
  // Hold the longest suffix that is a proper prefix of a stop string.
  size_t held = 0;
  for (const std::string& stop : stops_) {
    for (size_t n = std::min(stop.size() - 1, held_.size()); n > held; --n) {
      if (held_.compare(held_.size() - n, n, stop, 0, n) == 0) held = n;
    }
  }
  std::string released = held_.substr(0, held_.size() - held);
  held_.erase(0, held_.size() - held);
  return released;
}

std::string StopMatcher::Flush() { return stopped_ ? std::string() : std::exchange(held_, {}); }

}  // namespace surety::engine
