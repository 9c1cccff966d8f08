// An ECMA-262 pattern as a tree. Threads: a value. Errors: kInvalidArgument with the place, counted in bytes from 1.
#pragma once

#include <memory>
#include <string_view>
#include <vector>

#include "base/status.h"
#include "engine/grammar/char_set.h"

namespace surety::engine {

struct PatternNode {
  enum class Kind : uint8_t { kSet, kSequence, kChoice, kRepeat, kBegin, kEnd };
  Kind kind = Kind::kSequence;
  CharSet set;
  std::vector<PatternNode> parts;  // kRepeat: one
  int least = 0, most = 0;         // kRepeat; most < 0: any number
};

Result<PatternNode> ParsePattern(std::string_view pattern, int max_depth);

}  // namespace surety::engine
