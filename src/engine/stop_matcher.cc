#include "engine/stop_matcher.h"

#include <algorithm>

namespace surety::engine {

StopMatcher::StopMatcher(std::vector<std::string> stops) : stops_(std::move(stops)) {
  std::erase_if(stops_, [](const std::string& s) { return s.empty(); });
}

// Where the earliest stop string begins in what is held; of two at one place the longer is reported.
size_t StopMatcher::FindStop() {
  size_t first = std::string::npos;
  for (const std::string& stop : stops_) {
    const size_t at = held_.find(stop);
    if (at < first || (at == first && at != std::string::npos && stop.size() > stop_text_.size())) {
      first = at;
      stop_text_ = stop;
    }
  }
  return first;
}

// Where the longest suffix that is a proper prefix of a stop string begins; the end if there is none.
size_t StopMatcher::FindUnfinished() const {
  size_t longest = 0;
  for (const std::string& stop : stops_) {
    for (size_t n = std::min(stop.size() - 1, held_.size()); n > longest; --n) {
      if (held_.compare(held_.size() - n, n, stop, 0, n) == 0) longest = n;
    }
  }
  return held_.size() - longest;
}

std::string StopMatcher::Take(size_t n) {
  std::string taken = held_.substr(0, n);
  held_.erase(0, n);
  return taken;
}

std::string StopMatcher::Push(std::string_view text) {
  if (stopped_) return {};
  held_ += text;
  // A stop string that began earlier and may still be completed goes before one that is complete.
  const size_t unfinished = FindUnfinished();
  const size_t stop = FindStop();
  if (stop > unfinished || stop == std::string::npos) {
    stop_text_.clear();
    return Take(unfinished);
  }
  stopped_ = true;
  return Take(stop);
}

std::string StopMatcher::Flush() {
  if (stopped_) return {};
  const size_t stop = FindStop();
  stopped_ = stop != std::string::npos;
  return Take(stopped_ ? stop : held_.size());
}

}  // namespace surety::engine
