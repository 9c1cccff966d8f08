// A compiled pattern in the dialect of tokenizer files: Unicode classes, look-ahead, case-insensitive groups.
// Threads: immutable after Make; any thread may use it. Matching needs valid UTF-8.
// Errors: Make: kInvalidArgument with the pattern, the offset and PCRE2's words.
#pragma once

#include <memory>
#include <string>
#include <string_view>

#include "base/function_ref.h"
#include "base/status.h"
#include "model/tokenizer/pattern_scan.h"

namespace surety::model {

class Regex {
 public:
  // Well-known patterns get their hand-written matcher.
  static Result<Regex> Make(const std::string& pattern);
  // Never a hand-written matcher: what those are tested against.
  static Result<Regex> MakeCompiled(const std::string& pattern);

  // Calls fn(begin, end) for each match, left to right, without overlap; empty matches are skipped. A pattern that runs
  // into its match limit finds no further match.
  void ForEachMatch(std::string_view text, FunctionRef<void(size_t begin, size_t end)> fn) const;

 private:
  std::shared_ptr<void> code_;  // pcre2_code
  ScanFunction scan_ = nullptr;
};

}  // namespace surety::model
