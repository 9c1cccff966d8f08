#include "model/chat/tainted_text.h"

#include <algorithm>

namespace surety::model::chat {

bool TaintedText::TrustedAt(size_t position) const {
  if (runs_.size() == 1) return runs_[0].trusted;
  const auto run = std::upper_bound(runs_.begin(), runs_.end(), position,
                                    [](size_t at, const Run& r) { return at < r.end; });
  return run != runs_.end() && run->trusted;
}

void TaintedText::ExtendRun(size_t end, bool trusted) {
  if (!runs_.empty() && runs_.back().trusted == trusted) {
    runs_.back().end = end;
  } else {
    runs_.push_back({end, trusted});
  }
}

void TaintedText::Append(std::string_view text, bool trusted) {
  if (text.empty()) return;
  text_.append(text);
  ExtendRun(text_.size(), trusted);
}

void TaintedText::AppendRange(const TaintedText& other, size_t begin, size_t size) {
  if (size == 0) return;
  const size_t base = text_.size();
  text_.append(other.text_, begin, size);
  auto run = std::upper_bound(other.runs_.begin(), other.runs_.end(), begin,
                              [](size_t at, const Run& r) { return at < r.end; });
  for (; run != other.runs_.end(); ++run) {
    const size_t end = std::min(run->end, begin + size);
    ExtendRun(base + (end - begin), run->trusted);
    if (end == begin + size) break;
  }
}

TaintedText TaintedText::Substring(size_t begin, size_t size) const {
  TaintedText result;
  result.AppendRange(*this, begin, size);
  return result;
}

}  // namespace surety::model::chat
