// ChunksOf: where a text may be cut.
#include <algorithm>
#include <array>

#include "gateway/document_store.h"

namespace surety::gateway {
namespace {

constexpr std::string_view kChunkSpace = " \t\r\n\f\v";

bool IsChunkSpace(char c) { return kChunkSpace.find(c) != kChunkSpace.npos; }
bool IsChunkLetter(char c) { return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z'); }
bool IsChunkDigit(char c) { return c >= '0' && c <= '9'; }

// A line that begins a point of a list, a row of a table, a quotation or a heading.
bool BeginsListItem(std::string_view line) {
  if (line.empty()) return false;
  if (line[0] == '#' || line[0] == '|' || line[0] == '>') return true;
  if (line[0] == '-' || line[0] == '*' || line[0] == '+') return line.size() > 1 && line[1] == ' ';
  const bool bracket = line[0] == '(';
  size_t at = bracket ? 1 : 0;
  const size_t begin = at;
  while (at < line.size() && at - begin < 5 && (IsChunkDigit(line[at]) || (bracket && IsChunkLetter(line[at])))) ++at;
  if (at == begin || at >= line.size()) return false;
  if (bracket) return line[at] == ')';
  return (line[at] == '.' || line[at] == ')') && at + 1 < line.size() && line[at + 1] == ' ';
}

// The text before ends with a full stop that belongs to an abbreviation or an initial.
bool EndsInAbbreviation(std::string_view before) {
  static constexpr std::array<std::string_view, 34> kAbbreviations = {
      "approx", "art", "arts", "cf", "ch", "co", "corp", "dept", "dr", "ed", "eq", "etc", "fig", "inc", "jr", "ltd",
      "mr", "mrs", "ms", "no", "nos", "para", "paras", "pp", "prof", "rev", "sec", "secs", "sect", "sr", "st", "stat",
      "vol", "vs"};
  before.remove_suffix(1);
  size_t begin = before.size();
  while (begin > 0 && (IsChunkLetter(before[begin - 1]) || before[begin - 1] == '.')) --begin;
  const std::string_view word = before.substr(begin);
  if (word.size() == 1 || word.find('.') != word.npos) return !word.empty();  // "J.", "e.g.", "U.S."
  std::string lower(word);
  for (char& c : lower) c = static_cast<char>(c >= 'A' && c <= 'Z' ? c + ('a' - 'A') : c);
  return std::ranges::find(kAbbreviations, lower) != kAbbreviations.end();
}

// White space after `before` ends a sentence, if `next` goes on. In doubt it does not.
bool EndsSentence(std::string_view before, std::string_view next) {
  static constexpr std::array<std::string_view, 10> kClosers = {")", "]", "}", "\"", "'", "*", "_", "\u201D", "\u2019",
                                                                "\u00BB"};
  for (bool again = true; again;) {
    again = false;
    for (const std::string_view closer : kClosers) {
      if (!before.ends_with(closer)) continue;
      before.remove_suffix(closer.size());
      again = true;
    }
  }
  if (before.ends_with("\u3002") || before.ends_with("\uFF01") || before.ends_with("\uFF1F")) return true;
  if (!before.ends_with('.') && !before.ends_with('!') && !before.ends_with('?') && !before.ends_with("\u2026")) {
    return false;
  }
  if (!next.empty() && next[0] >= 'a' && next[0] <= 'z') return false;
  return !before.ends_with('.') || !EndsInAbbreviation(before);
}

// Where paragraphs end, the blank lines after them included. A heading belongs to what follows it.
std::vector<size_t> ParagraphEnds(std::string_view text) {
  std::vector<size_t> ends;
  bool words = false, blank = false, heading = false;  // words: seen so far
  for (size_t at = 0; at < text.size();) {
    const size_t end = std::min(text.find('\n', at), text.size() - 1) + 1;
    const std::string_view line = text.substr(at, end - at);
    const bool is_blank = line.find_first_not_of(kChunkSpace) == line.npos;
    if (!is_blank) {
      if (words && blank && !heading) ends.push_back(at);
      heading = line[0] == '#';
      words = true;
    }
    blank = is_blank;
    at = end;
  }
  if (!text.empty()) ends.push_back(text.size());
  return ends;
}

// Where sentences of text[begin, end) end, the white space after them included.
std::vector<size_t> SentenceEnds(std::string_view text, size_t begin, size_t end) {
  std::vector<size_t> ends;
  for (size_t at = begin; at < end; ++at) {
    if (static_cast<unsigned char>(text[at]) == 0xE3 || static_cast<unsigned char>(text[at]) == 0xEF) {
      const std::string_view stop = text.substr(at, 3);
      if (at + 3 < end && (stop == "\u3002" || stop == "\uFF01" || stop == "\uFF1F") && !IsChunkSpace(text[at + 3])) {
        ends.push_back(at + 3);
      }
      continue;
    }
    if (!IsChunkSpace(text[at])) continue;
    const size_t after = std::min(text.find_first_not_of(kChunkSpace, at), end);
    const std::string_view space = text.substr(at, after - at), next = text.substr(after, end - after);
    const auto lines = std::ranges::count(space, '\n');
    if (after < end && (lines > 1 || (lines == 1 && BeginsListItem(next)) ||
                        EndsSentence(text.substr(begin, at - begin), next))) {
      ends.push_back(after);
    }
    at = after - 1;
  }
  ends.push_back(end);
  return ends;
}

// Where to cut a sentence that is longer than `max_bytes`: between words, else between characters. The cut lies in
// (begin, begin + max_bytes].
size_t HardCut(std::string_view text, size_t begin, size_t max_bytes) {
  const size_t limit = begin + max_bytes;
  for (size_t at = limit; at > begin + max_bytes / 2; --at) {
    if (IsChunkSpace(text[at - 1])) return at;
  }
  size_t at = limit;
  for (int back = 0; back < 3 && at > begin + 1 && (static_cast<unsigned char>(text[at]) & 0xC0) == 0x80; ++back) --at;
  return (static_cast<unsigned char>(text[at]) & 0xC0) == 0x80 ? limit : at;  // no UTF-8: anywhere
}

class Chunker {
 public:
  Chunker(std::string_view text, size_t max_bytes) : text_(text), max_bytes_(std::max<size_t>(max_bytes, 4)) {}

  std::vector<std::string> Cut() {
    for (const size_t paragraph : ParagraphEnds(text_)) {
      if (paragraph - end_ <= max_bytes_) {
        Take(paragraph);
        continue;
      }
      for (const size_t sentence : SentenceEnds(text_, end_, paragraph)) TakeSentence(sentence);
    }
    Emit();
    return std::move(chunks_);
  }

 private:
  void TakeSentence(size_t sentence) {
    if (sentence - end_ > max_bytes_) Emit();
    while (sentence - end_ > max_bytes_) {
      Take(HardCut(text_, end_, max_bytes_));
      Emit();
    }
    Take(sentence);
  }
  // What reaches to `end` joins the chunk, or begins the next one.
  void Take(size_t end) {
    if (end - begin_ > max_bytes_) Emit();
    end_ = end;
  }
  void Emit() {
    if (end_ > begin_) chunks_.emplace_back(text_.substr(begin_, end_ - begin_));
    begin_ = end_;
  }

  std::string_view text_;
  size_t max_bytes_;
  size_t begin_ = 0, end_ = 0;
  std::vector<std::string> chunks_;
};

}  // namespace

std::vector<std::string> ChunksOf(std::string_view text, size_t max_bytes) { return Chunker(text, max_bytes).Cut(); }

}  // namespace surety::gateway
