#include "cli/prompt_input.h"

#include <poll.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>

#include <fmt/format.h>

#include "cli/interrupt.h"

namespace surety::cli {
namespace {

constexpr size_t kMaxPromptBytes = 64 << 20;

enum class InputState { kReady, kTimeout, kInterrupted };

// Waits until a read of standard input would answer at once. The interrupts' own descriptor is waited for as well: a
// signal may come just before the wait, or to another thread, and would end no wait by itself.
InputState WaitForInput(int timeout_ms) {
  while (true) {
    if (Interrupted()) return InputState::kInterrupted;
    pollfd waiting[] = {{STDIN_FILENO, POLLIN, 0}, {InterruptDescriptor(), POLLIN, 0}};
    const int ready = poll(waiting, 2, timeout_ms);
    if (ready == 0) return InputState::kTimeout;
    if (ready < 0 && errno != EINTR) return InputState::kReady;  // the read will tell
    if (Interrupted()) return InputState::kInterrupted;
    if (ready > 0 && waiting[0].revents != 0) return InputState::kReady;
    ForgetWakeUps();
  }
}

}  // namespace

Result<std::string> ReadPromptFromStdin() {
  std::string text;
  char piece[65536];
  while (true) {
    if (WaitForInput(-1) == InputState::kInterrupted) return Error(CancelledError("interrupted"));
    const ssize_t n = read(STDIN_FILENO, piece, sizeof(piece));
    if (n == 0) break;
    if (n < 0) {
      if (errno == EINTR && Interrupted()) return Error(CancelledError("interrupted"));
      if (errno == EINTR) continue;
      return Error(IoError(fmt::format("standard input: {}", std::strerror(errno))));
    }
    text.append(piece, static_cast<size_t>(n));
    if (text.size() > kMaxPromptBytes) return Error(InvalidArgumentError("the prompt is longer than 64 MiB"));
  }
  if (text.ends_with('\n')) text.pop_back();
  return text;
}

LineOutcome LineReader::Next(std::string& line, int timeout_ms) {
  while (true) {
    const size_t newline = held_.find('\n');
    if (newline != std::string::npos || (ended_ && !held_.empty())) {
      line = held_.substr(0, newline);
      held_.erase(0, newline == std::string::npos ? held_.size() : newline + 1);
      if (line.ends_with('\r')) line.pop_back();
      return LineOutcome::kLine;
    }
    if (ended_ || held_.size() > kMaxPromptBytes) return LineOutcome::kEnd;
    const InputState state = WaitForInput(timeout_ms);
    if (state == InputState::kInterrupted) return LineOutcome::kInterrupted;
    if (state == InputState::kTimeout) return LineOutcome::kTimeout;
    char piece[4096];
    const ssize_t n = read(STDIN_FILENO, piece, sizeof(piece));
    if (n < 0 && Interrupted()) return LineOutcome::kInterrupted;
    if (n < 0 && errno == EINTR) continue;
    if (n <= 0) {
      const bool terminal = isatty(STDIN_FILENO) == 1;
      if (terminal && held_.empty()) return LineOutcome::kEnd;  // Ctrl-D: more may come later
      ended_ = true;
      continue;
    }
    held_.append(piece, static_cast<size_t>(n));
  }
}

}  // namespace surety::cli
