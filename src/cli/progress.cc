#include "cli/progress.h"

#include <sys/ioctl.h>
#include <unistd.h>

#include <algorithm>

#include <fmt/core.h>

#include "base/clock.h"
#include "cli/output.h"

namespace surety::cli {
namespace {

constexpr int64_t kFirstDrawNanos = 300'000'000;
constexpr int64_t kRedrawNanos = 100'000'000;
constexpr int64_t kLogNanos = 10'000'000'000;

bool g_line_on_screen = false;

int TerminalWidth() {
  winsize size = {};
  if (ioctl(STDERR_FILENO, TIOCGWINSZ, &size) == 0 && size.ws_col > 0) return size.ws_col;
  return 80;
}

}  // namespace

bool IsTerminal(int fd) { return isatty(fd) == 1; }

void ClearProgressLine() {
  if (!g_line_on_screen) return;
  PrintError("\r\x1b[K");
  g_line_on_screen = false;
}

std::string HumanBytes(int64_t bytes) {
  const auto value = static_cast<double>(bytes);
  if (bytes < 1000) return fmt::format("{} B", bytes);
  if (bytes < 1'000'000) return fmt::format("{:.1f} kB", value / 1e3);
  if (bytes < 1'000'000'000) return fmt::format("{:.1f} MB", value / 1e6);
  return fmt::format("{:.2f} GB", value / 1e9);
}

std::string HumanSeconds(double seconds) {
  if (seconds < 1) return fmt::format("{:.0f} ms", seconds * 1e3);
  if (seconds < 100) return fmt::format("{:.1f} s", seconds);
  const auto whole = static_cast<int64_t>(seconds);
  return fmt::format("{} min {} s", whole / 60, whole % 60);
}

ProgressLine::ProgressLine(std::string label, ProgressUnit unit, std::string noun)
    : label_(std::move(label)), unit_(unit), noun_(std::move(noun)), terminal_(IsTerminal(STDERR_FILENO)),
      start_(Clock::Real().NowNanos()), last_draw_(start_) {}

std::string ProgressLine::Text(int64_t done, int64_t total, int64_t now) const {
  const double seconds = NanosToSeconds(now - start_);
  const double rate = seconds > 0 ? static_cast<double>(done - first_done_) / seconds : 0;
  std::string text = label_;
  if (total > 0) {
    const double fraction = std::clamp(static_cast<double>(done) / static_cast<double>(total), 0.0, 1.0);
    if (terminal_) {
      constexpr int kBar = 24;
      const int full = static_cast<int>(fraction * kBar);
      text += fmt::format(" [{}{}]", std::string(static_cast<size_t>(full), '='),
                          std::string(static_cast<size_t>(kBar - full), ' '));
    }
    text += fmt::format(" {:3.0f} %", fraction * 100);
  }
  if (unit_ == ProgressUnit::kBytes) {
    text += fmt::format("  {}", HumanBytes(done));
    if (total > 0) text += fmt::format(" of {}", HumanBytes(total));
    text += fmt::format("  {}/s", HumanBytes(static_cast<int64_t>(rate)));
  } else {
    text += fmt::format("  {}", done);
    if (total > 0) text += fmt::format(" of {}", total);
    text += fmt::format(" {}  {:.1f}/s", noun_, rate);
  }
  if (total > done && rate > 0) {
    text += fmt::format("  {} left", HumanSeconds(static_cast<double>(total - done) / rate));
  }
  return text;
}

bool ProgressLine::Due(int64_t now) {
  const int64_t wait = !terminal_ ? kLogNanos : drawn_ ? kRedrawNanos : kFirstDrawNanos;
  if (now - last_draw_ < wait) return false;
  last_draw_ = now;
  return true;
}

void ProgressLine::Update(int64_t done, int64_t total) {
  const int64_t now = Clock::Real().NowNanos();
  if (first_done_ < 0) first_done_ = done;
  if (Due(now)) Draw(Text(done, total, now));
}

void ProgressLine::UpdateText(std::string text) {
  if (Due(Clock::Real().NowNanos())) Draw(std::move(text));
}

void ProgressLine::Draw(std::string text) {
  if (terminal_) {
    const auto width = static_cast<size_t>(std::max(20, TerminalWidth() - 1));
    if (text.size() > width) text.resize(width);
    PrintError("\r{}\x1b[K", text);
    g_line_on_screen = true;
  } else {
    PrintError("{}\n", text);
  }
  drawn_ = true;
}

void ProgressLine::Finish() {
  if (drawn_ && terminal_) ClearProgressLine();
  drawn_ = false;
}

}  // namespace surety::cli
