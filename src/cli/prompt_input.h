// Text from standard input: a whole prompt, or one line at a time, both interruptible.
// Errors: kCancelled on Ctrl-C, kInvalidArgument when more than 64 MiB come, kIoError.
#pragma once

#include <optional>
#include <string>

#include "base/status.h"

namespace surety::cli {

// Everything up to the end of standard input; one newline at its end is taken off.
Result<std::string> ReadPromptFromStdin();

enum class LineOutcome { kLine, kEnd, kInterrupted, kTimeout };

// Reads lines without taking more from standard input than it has to give.
class LineReader {
 public:
  // A line without its newline. timeout_ms < 0: waits for ever. At the end of input a last line without newline counts.
  LineOutcome Next(std::string& line, int timeout_ms = -1);

 private:
  std::string held_;
  bool ended_ = false;
};

}  // namespace surety::cli
