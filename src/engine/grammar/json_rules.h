// Rules for JSON's own parts, made once a grammar and shared by all that call them.
//
// Threads: one. Errors: through the builder's budget. Invariants: (1) every text of every rule is valid JSON. (2)
// escapes of surrogates come in pairs only. (3) white space is bounded: nothing, one space, or a new line and at most
// kMaxIndent spaces or tabs, so that a model cannot run on in it.
// Source: RFC 8259.
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <string_view>

#include "engine/grammar/char_dfa.h"
#include "engine/grammar/grammar_builder.h"

namespace surety::engine {

inline constexpr int kMaxAnyJsonDepth = 32;  // objects and arrays within each other, where a schema admits anything
inline constexpr int kMaxIndent = 64;

// The name of the rule for a character of a string that is not plain ASCII. No GBNF rule can have it.
inline constexpr std::string_view kLongCharRule = "character beyond ASCII, or escaped";

class JsonRules {
 public:
  explicit JsonRules(GrammarBuilder& builder) : builder_(builder) {}

  int32_t Space();
  void AddChar(int32_t from, int32_t to);  // one character of a string, escaped or not
  int32_t String();
  int32_t Number();
  int32_t Integer();         // without fraction and exponent
  int32_t Value(int depth);  // any value, at most `depth` levels of objects and arrays
  int32_t Object(int depth);
  int32_t Array(int depth);

  // A string that `dfa` accepts, each character written in one way only: as itself where JSON allows it, else as the
  // short escape, else as \u00xx.
  void StringOf(const CharDfa& dfa, int32_t from, int32_t to);
  // The JSON text of a string, written as StringOf would.
  static std::string Quote(std::string_view utf8);

 private:
  int32_t LongChar();
  int32_t Known(const std::string& name, bool& is_new);
  void CharsOf(int32_t from, const CharSet& set, int32_t to);
  void List(int32_t from, char open, char close, int32_t item, int32_t to);

  GrammarBuilder& builder_;
  std::map<std::string, int32_t> rules_;
};

}  // namespace surety::engine
