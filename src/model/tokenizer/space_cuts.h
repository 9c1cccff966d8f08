// Where text may be cut before a U+2581 without changing what byte-pair encoding makes of it: merges only ever build
// tokens, so a cut between two characters is exact if no token has the one right before the other.
// Threads: immutable.
#pragma once

#include <string_view>
#include <vector>

#include "base/function_ref.h"
#include "model/tokenizer/tokenizer_spec.h"

namespace surety::model {

class SpaceCuts {
 public:
  explicit SpaceCuts(const TokenizerSpec& spec);
  // Calls fn for the parts of `text`, in order; they join to it.
  void ForEachPart(std::string_view text, FunctionRef<void(std::string_view)> fn) const;

 private:
  // By code point: a token has it right before U+2581. Empty: never cut.
  std::vector<bool> joined_;
};

}  // namespace surety::model
