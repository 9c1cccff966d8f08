// Prompts of about a given number of tokens: common English words, most of which are one token with the space before
// them in every usual vocabulary, or token ids.
//
// A segment's words depend on (seed, lane, position) alone and a shorter segment is the beginning of a longer one, so
// equal blocks of a trace become equal text. Threads: any.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "cli/load_random.h"

namespace surety::cli {

struct TextSegment {
  LoadLane lane = LoadLane::kUserText;
  uint64_t position = 0;
  int tokens = 0;
};

// Words with one space between them; tokens / tokens_per_word of them, at least one for a segment that is not empty.
std::string WordsOf(std::span<const TextSegment> segments, uint64_t seed, double tokens_per_word);

// Ids from 0 to vocabulary - 1.
std::vector<int64_t> TokenIdsOf(std::span<const TextSegment> segments, uint64_t seed, int vocabulary);

}  // namespace surety::cli
