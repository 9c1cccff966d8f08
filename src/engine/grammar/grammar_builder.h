// Puts a grammar together from states, empty moves, byte ranges and calls, within a budget.
//
// Threads: one. Errors: once the budget is broken, status() says which part of it and nothing grows any more; callers
// look at it where they loop. Finish: kInvalidArgument for a budget, a left recursion (the cycle named) and a grammar
// that no finite text matches.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "engine/grammar/char_set.h"
#include "engine/grammar/grammar.h"

namespace surety::engine {

class GrammarBuilder {
 public:
  explicit GrammarBuilder(const GrammarLimits& limits);

  int32_t NewRule(std::string name);
  int32_t NewState();
  void SetRule(int32_t rule, int32_t start, int32_t end);  // nothing may leave `end`
  bool is_set(int32_t rule) const { return rules_[static_cast<size_t>(rule)].start >= 0; }
  const std::string& name(int32_t rule) const { return rules_[static_cast<size_t>(rule)].name; }

  void Empty(int32_t from, int32_t to);
  void Bytes(int32_t from, uint8_t first, uint8_t last, int32_t to);
  void Call(int32_t from, int32_t rule, int32_t to);
  void Literal(int32_t from, std::string_view bytes, int32_t to);
  // One code point of the set, as UTF-8.
  void Chars(int32_t from, const CharSet& set, int32_t to);
  // Any of the texts; common beginnings are shared.
  void AnyOf(int32_t from, std::vector<std::string> texts, int32_t to);

  bool ok() const { return status_.ok(); }
  const Status& status() const { return status_; }
  const GrammarLimits& limits() const { return limits_; }
  void CheckTime();

  Result<GrammarPtr> Finish(int32_t root);

 private:
  friend class GrammarFinisher;
  struct Edge {
    enum class Kind : uint8_t { kEmpty, kBytes, kCall };
    Kind kind;
    uint8_t first = 0, last = 0;
    int32_t rule = -1;
    int32_t to = 0;
  };
  struct Rule {
    std::string name;
    int32_t start = -1, end = -1;
  };
  void Add(int32_t from, Edge edge);
  void Refuse(std::string_view what, int64_t limit);

  GrammarLimits limits_;
  int64_t deadline_ns_ = 0;
  Status status_;
  std::vector<std::vector<Edge>> states_;
  std::vector<Rule> rules_;
  int n_edges_ = 0;
};

}  // namespace surety::engine
