// A deterministic automaton over code points: what a string of a schema may hold. Threads: a value.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "engine/grammar/grammar_builder.h"

namespace surety::engine {

struct CharDfa {
  struct Edge {
    char32_t first, last;
    int32_t target;
  };
  struct State {
    std::vector<Edge> edges;  // sorted, not overlapping; what is missing is refused
    bool accepts = false;
  };
  std::vector<State> states;  // the first is the start

  bool Accepts(std::string_view utf8) const;  // false for text that is not UTF-8
};

// The budget is the builder's: where it breaks, builder.status() says so and what is returned is of no use.
CharDfa Intersect(const CharDfa& a, const CharDfa& b, GrammarBuilder& budget);
// Strings of at least `least` and at most `most` code points; most < 0: any.
CharDfa LengthDfa(int64_t least, int64_t most, GrammarBuilder& budget);
// All strings but these.
CharDfa NoneOf(const std::vector<std::string>& texts, GrammarBuilder& budget);

// The strings that an ECMA-262 pattern is found in, as JSON Schema means it: not anchored unless it says so.
// Look-around, back references, word borders and Unicode properties are refused; so is nesting beyond the builder's
// limit. kInvalidArgument with the place in the pattern.
Result<CharDfa> CompilePattern(std::string_view pattern, GrammarBuilder& budget);

}  // namespace surety::engine
