#include "cli/load_text.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <string_view>

namespace surety::cli {
namespace {

// 256, so that one byte of randomness is one word.
constexpr std::array<std::string_view, 256> kWords = {
    "the", "of", "and", "to", "in", "is", "that", "for", "it", "was", "on", "are", "as", "with", "his", "they", "at",
    "be", "this", "from", "have", "or", "by", "one", "had", "not", "but", "what", "all", "were", "when", "we",
    "there", "can", "an", "your", "which", "their", "said", "if", "do", "will", "each", "about", "how", "up", "out",
    "them", "then", "she", "many", "some", "so", "these", "would", "other", "into", "has", "more", "her", "two",
    "like", "him", "see", "time", "could", "no", "make", "than", "first", "been", "its", "who", "now", "people", "my",
    "made", "over", "did", "down", "only", "way", "find", "use", "may", "water", "long", "little", "very", "after",
    "words", "called", "just", "where", "most", "know", "get", "through", "back", "much", "before", "go", "good",
    "new", "write", "our", "used", "me", "man", "too", "any", "day", "same", "right", "look", "think", "also",
    "around", "another", "came", "come", "work", "three", "word", "must", "because", "does", "part", "even", "place",
    "well", "such", "here", "take", "why", "things", "help", "put", "years", "different", "away", "again", "off",
    "went", "old", "number", "great", "tell", "men", "say", "small", "every", "found", "still", "between", "name",
    "should", "home", "big", "give", "air", "line", "set", "own", "under", "read", "last", "never", "us", "left",
    "end", "along", "while", "might", "next", "sound", "below", "saw", "something", "thought", "both", "few", "those",
    "always", "looked", "show", "large", "often", "together", "asked", "house", "world", "going", "want", "school",
    "important", "until", "form", "food", "keep", "children", "feet", "land", "side", "without", "boy", "once",
    "animals", "life", "enough", "took", "four", "head", "above", "kind", "began", "almost", "live", "page", "got",
    "earth", "need", "far", "hand", "high", "year", "mother", "light", "parts", "country", "father", "let", "night",
    "following", "picture", "being", "study", "second", "eyes", "soon", "times", "story", "river", "white", "five",
    "body", "paper", "best", "across", "during", "today", "better", "however", "sure", "knew", "told",
};

RandomKey KeyOf(const TextSegment& segment, uint64_t seed) {
  return {seed, segment.position, RandomPurpose::kWorkload, static_cast<uint32_t>(segment.lane)};
}

}  // namespace

std::string WordsOf(std::span<const TextSegment> segments, uint64_t seed, double tokens_per_word) {
  std::string out;
  for (const TextSegment& segment : segments) {
    if (segment.tokens <= 0) continue;
    const auto n = static_cast<uint32_t>(std::max(1.0, std::round(segment.tokens / tokens_per_word)));
    uint64_t bits = 0;
    for (uint32_t i = 0; i < n; ++i) {
      if (i % 8 == 0) bits = RandomBits(KeyOf(segment, seed), i / 8);
      if (!out.empty()) out += ' ';
      out += kWords[bits & 0xFF];
      bits >>= 8;
    }
  }
  return out;
}

std::vector<int64_t> TokenIdsOf(std::span<const TextSegment> segments, uint64_t seed, int vocabulary) {
  std::vector<int64_t> ids;
  for (const TextSegment& segment : segments) {
    for (int i = 0; i < segment.tokens; ++i) {
      const uint64_t bits = RandomBits(KeyOf(segment, seed), static_cast<uint32_t>(i));
      ids.push_back(static_cast<int64_t>(bits % static_cast<uint64_t>(vocabulary)));
    }
  }
  return ids;
}

}  // namespace surety::cli
