// One line of progress on stderr, for whatever takes more than a moment.
//
// On a terminal the line is redrawn in place and removed at the end. Elsewhere (a log) long work prints one plain line
// every ten seconds, so that a log shows life without filling up.
// Threads: one.
#pragma once

#include <cstdint>
#include <string>

namespace surety::cli {

enum class ProgressUnit { kBytes, kCount };

class ProgressLine {
 public:
  // `noun` follows counts ("tokens"); ignored for bytes. Nothing is drawn in the first 0.3 s.
  ProgressLine(std::string label, ProgressUnit unit, std::string noun = {});
  ~ProgressLine() { Finish(); }
  ProgressLine(const ProgressLine&) = delete;
  ProgressLine& operator=(const ProgressLine&) = delete;

  // total <= 0: unknown.
  void Update(int64_t done, int64_t total);
  // The same with a line that the caller has made, instead of label and counts.
  void UpdateText(std::string text);
  void Finish();

 private:
  bool Due(int64_t now);  // and remembers that it was
  void Draw(std::string text);
  std::string Text(int64_t done, int64_t total, int64_t now) const;

  std::string label_;
  ProgressUnit unit_;
  std::string noun_;
  bool terminal_;
  int64_t start_;
  int64_t last_draw_;
  int64_t first_done_ = -1;  // where this run began: a resumed download is not counted in the rate
  bool drawn_ = false;
};

// Removes a progress line that is on the screen, before something else is printed.
void ClearProgressLine();

// "1.2 GB", decimal units.
std::string HumanBytes(int64_t bytes);
// "830 ms", "12.3 s", "4 min 10 s".
std::string HumanSeconds(double seconds);

bool IsTerminal(int fd);

}  // namespace surety::cli
