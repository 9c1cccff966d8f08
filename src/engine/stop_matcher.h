// Finds stop strings in a stream of text, across the borders of its pieces. Text that could still become a stop string
// is held back; nothing else is. Threads: one. Invariant: the pieces released, then Flush(), joined, are the input up
// to the first stop string.
#pragma once

#include <string>
#include <string_view>
#include <vector>

namespace surety::engine {

class StopMatcher {
 public:
  explicit StopMatcher(std::vector<std::string> stops);  // empty strings are ignored
  // Text that is safe to release. After a stop was found: nothing.
  std::string Push(std::string_view text);
  // What was held back, at the end of the stream, up to a stop string in it.
  std::string Flush();
  bool stopped() const { return stopped_; }
  const std::string& stop_text() const { return stop_text_; }

 private:
  size_t FindStop();
  size_t FindUnfinished() const;
  std::string Take(size_t n);

  std::vector<std::string> stops_;
  std::string held_;
  std::string stop_text_;
  bool stopped_ = false;
};

}  // namespace surety::engine
