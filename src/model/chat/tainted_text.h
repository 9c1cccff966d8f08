// A string that knows of each byte whether the template's author or the caller's data put it there.
//
// Invariants: (1) runs() alternate in trust, none is empty, and the last ends at size(); (2) joining, cutting and
// copying keep every byte's trust; what is written new says its trust.
#pragma once

#include <cstddef>
#include <string>
#include <string_view>
#include <vector>

namespace surety::model::chat {

class TaintedText {
 public:
  // Bytes from the end of the run before up to `end`.
  struct Run {
    size_t end;
    bool trusted;
    bool operator==(const Run&) const = default;
  };

  TaintedText() = default;
  TaintedText(std::string_view text, bool trusted) { Append(text, trusted); }

  const std::string& text() const { return text_; }
  size_t size() const { return text_.size(); }
  bool empty() const { return text_.empty(); }
  const std::vector<Run>& runs() const { return runs_; }

  bool TrustedAt(size_t position) const;  // position < size()
  bool AllTrusted() const { return runs_.empty() || (runs_.size() == 1 && runs_[0].trusted); }

  void Append(std::string_view text, bool trusted);
  void Append(const TaintedText& other) { AppendRange(other, 0, other.size()); }
  // `other` must not be this text; [begin, begin + size) must lie in it.
  void AppendRange(const TaintedText& other, size_t begin, size_t size);
  TaintedText Substring(size_t begin, size_t size) const;

  bool operator==(const TaintedText&) const = default;

 private:
  void ExtendRun(size_t end, bool trusted);

  std::string text_;
  std::vector<Run> runs_;
};

}  // namespace surety::model::chat
