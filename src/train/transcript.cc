#include "train/transcript.h"

#include <algorithm>
#include <string>
#include <utility>

namespace surety::train {
namespace {

constexpr std::string_view kTurnSpaces = " \t\r\n";

// Where each token begins in the text, and the text's end; nothing where the tokens do not give the text back.
std::vector<size_t> TokenPlaces(const model::Tokenizer& tokenizer, std::string_view text,
                                std::span<const int32_t> tokens) {
  std::vector<size_t> places;
  size_t at = 0;
  for (const int32_t token : tokens) {
    std::string_view bytes = tokenizer.TokenBytes(token);
    if (bytes.empty()) bytes = tokenizer.TokenText(token);
    // Spaces that a control token takes with it.
    size_t begin = at;
    while (begin < text.size() && !text.substr(begin).starts_with(bytes) &&
           kTurnSpaces.find(text[begin]) != std::string_view::npos) {
      ++begin;
    }
    if (text.substr(begin).starts_with(bytes)) {
      at = begin;
    } else if (bytes.starts_with(' ') && text.substr(at).starts_with(bytes.substr(1))) {
      bytes.remove_prefix(1);  // the space that the vocabulary puts before a text
    } else {
      return {};
    }
    places.push_back(at);
    at += bytes.size();
  }
  if (text.find_first_not_of(kTurnSpaces, at) != std::string_view::npos) return {};
  places.push_back(text.size());
  return places;
}

std::string_view Trimmed(std::string_view text) {
  const size_t first = text.find_first_not_of(kTurnSpaces);
  if (first == std::string_view::npos) return {};
  return text.substr(first, text.find_last_not_of(kTurnSpaces) - first + 1);
}

// Finds contents one after the other in what the messages brought.
class TurnFinder {
 public:
  explicit TurnFinder(std::span<const model::TextSegment> segments) : segments_(segments) {}
  // The bytes of the text from `begin` to `end`.
  bool Next(std::string_view content, size_t& begin, size_t& end) {
    size_t base = base_, from = from_;
    for (size_t s = at_; s < segments_.size(); base += segments_[s++].text.size(), from = 0) {
      if (segments_[s].trusted) continue;
      const size_t found = segments_[s].text.find(content, from);
      if (found == std::string::npos) continue;
      begin = base + found;
      end = begin + content.size();
      at_ = s;
      base_ = base;
      from_ = found + content.size();
      return true;
    }
    return false;
  }

 private:
  std::span<const model::TextSegment> segments_;
  size_t at_ = 0, base_ = 0, from_ = 0;  // segment, its first byte in the text, byte in it
};

}  // namespace

Result<Sample> TranscriptSample(const model::Tokenizer& tokenizer, std::span<const model::TextSegment> segments,
                                std::span<const TranscriptTurn> turns, const std::function<bool()>& stop,
                                int64_t& n_lost) {
  std::string text;
  for (const model::TextSegment& segment : segments) text += segment.text;
  Sample sample;
  sample.tokens = tokenizer.Encode(segments, {});
  const std::vector<size_t> places = TokenPlaces(tokenizer, text, sample.tokens);
  TurnFinder finder(segments);
  for (size_t i = 0; i < turns.size(); ++i) {
    if (stop()) return Error(CancelledError("what was answered"));
    const std::string_view content = turns[i].content, trimmed = Trimmed(content);  // many templates trim
    size_t begin = 0, end = 0;
    const bool found = !trimmed.empty() && !places.empty() &&
                       (finder.Next(content, begin, end) || finder.Next(trimmed, begin, end));
    if (!turns[i].assistants) continue;
    if (!found) {
      ++n_lost;
      continue;
    }
    // The tokens that hold a byte of the turn.
    auto first = std::upper_bound(places.begin() + 1, places.end(), begin) - places.begin() - 1;
    // And the lone space that the vocabulary puts before it.
    while (first > 0 && places[static_cast<size_t>(first) - 1] == places[static_cast<size_t>(first)]) --first;
    auto last = std::lower_bound(places.begin(), places.end() - 1, end) - places.begin();
    if (i + 1 == turns.size()) {
      sample.tokens.resize(static_cast<size_t>(last));
      ++last;  // that it ends there
    } else if (static_cast<size_t>(last) < sample.tokens.size() &&
               tokenizer.IsEndOfText(sample.tokens[static_cast<size_t>(last)])) {
      ++last;
    }
    sample.answers.emplace_back(static_cast<int32_t>(first), static_cast<int32_t>(last));
  }
  return sample;
}

}  // namespace surety::train
