// A compiled context-free grammar over bytes: rules as automata without empty moves, whose edges read a range of bytes
// or call a rule.
//
// Threads: immutable once made; any thread may read it. Errors: all compilers answer kInvalidArgument with the place
// ("line:column" in grammar text, a JSON pointer in a schema), for a broken budget too.
// Invariants: (1) no rule calls itself before reading a byte (no left recursion). (2) a call reads at least one byte;
// where the called rule may be empty, the caller's edges say so. (3) from every state a rule's end can be reached, so
// that every text accepted so far can be completed. (4) `left_order` grows along calls made before the first byte.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "api/request.h"
#include "base/clock.h"
#include "base/status.h"

namespace surety::engine {

// What compiling may cost. A grammar or schema that needs more is refused.
struct GrammarLimits {
  size_t max_source_bytes = 256 << 10;
  int max_depth = 128;  // groups within groups, schemas within schemas
  int max_rules = 50'000;
  int max_states = 200'000;
  int max_edges = 2'000'000;
  int64_t max_compile_ms = 1000;
  Clock* clock = nullptr;  // null: the machine's
};

class Grammar {
 public:
  struct ByteEdge {
    uint8_t first = 0, last = 0;
    int32_t target = 0;
    auto operator<=>(const ByteEdge&) const = default;
  };
  struct CallEdge {
    int32_t rule = 0;
    int32_t target = 0;  // where it goes on after the rule
    auto operator<=>(const CallEdge&) const = default;
  };
  struct Rule {
    std::string name;
    int32_t start = 0;
    int32_t left_order = 0;
  };

  std::span<const ByteEdge> bytes(int32_t state) const {
    const State& s = states_[static_cast<size_t>(state)];
    return {byte_edges_.data() + s.bytes_begin, byte_edges_.data() + s.bytes_end};
  }
  std::span<const CallEdge> calls(int32_t state) const {
    const State& s = states_[static_cast<size_t>(state)];
    return {call_edges_.data() + s.calls_begin, call_edges_.data() + s.calls_end};
  }
  bool final(int32_t state) const { return states_[static_cast<size_t>(state)].final; }
  // The end of a rule and nothing else.
  bool only_final(int32_t state) const { return final(state) && bytes(state).empty() && calls(state).empty(); }
  const Rule& rule(int32_t id) const { return rules_[static_cast<size_t>(id)]; }
  const Rule& root() const { return rules_[0]; }
  int n_rules() const { return static_cast<int>(rules_.size()); }
  int n_states() const { return static_cast<int>(states_.size()); }
  int n_edges() const { return static_cast<int>(byte_edges_.size() + call_edges_.size()); }

  // Bytes that no edge tells apart share a class.
  int byte_class(uint8_t byte) const { return byte_class_[byte]; }
  uint8_t class_example(int byte_class) const { return class_example_[static_cast<size_t>(byte_class)]; }
  int n_byte_classes() const { return static_cast<int>(class_example_.size()); }

 private:
  friend class GrammarFinisher;
  struct State {
    int32_t bytes_begin = 0, bytes_end = 0, calls_begin = 0, calls_end = 0;
    bool final = false;
  };
  std::vector<Rule> rules_;  // the root first
  std::vector<State> states_;
  std::vector<ByteEdge> byte_edges_;
  std::vector<CallEdge> call_edges_;
  std::array<uint8_t, 256> byte_class_{};
  std::vector<uint8_t> class_example_;
};

using GrammarPtr = std::shared_ptr<const Grammar>;

// GBNF, the grammar language of llama.cpp: `root ::= "yes" | "no"`, see gbnf.cc.
Result<GrammarPtr> CompileGbnf(std::string_view source, const GrammarLimits& limits = {});
// Any JSON object, nested up to kMaxAnyJsonDepth levels (json_rules.h).
Result<GrammarPtr> CompileJsonObject(const GrammarLimits& limits = {});
// The values that a JSON schema admits, or fewer; see json_schema.h.
Result<GrammarPtr> CompileJsonSchema(const boost::json::value& schema, const GrammarLimits& limits = {});
// Null for kNone.
Result<GrammarPtr> CompileConstraint(const api::Constraint& constraint, const GrammarLimits& limits = {});

}  // namespace surety::engine
