// Where one answer stands in a grammar, and which tokens may come next.
//
// A matcher is a small value: copying it forks it, keeping a copy is a way back. Matchers of one request share a
// GrammarSession, which remembers states and masks.
//
// Threads: a session and its matchers belong to one thread. Owns: nothing but shared pointers. Errors: FillMask answers
// kFailedPrecondition where no token fits (the vocabulary cannot spell what must come, or the nesting limit was met)
// and kResourceExhausted where the grammar is too ambiguous; the request should end with that message. Nothing throws.
// Invariants: (1) a token is allowed if and only if its bytes, read after the text so far, can still be completed;
// ParseStates' bounds excepted. (2) end-of-text tokens are allowed if and only if CanEnd. (3) a refused Accept changes
// nothing. (4) with a tokenizer that strips the first space of a text, so does the matcher.
#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

#include "engine/grammar/grammar.h"
#include "engine/grammar/parse_states.h"
#include "engine/grammar/token_trie.h"

namespace surety::engine {

// A set of tokens; few are listed, many are bits.
struct TokenSet {
  std::vector<int32_t> list;
  std::vector<uint64_t> bits;
};

class GrammarSession {
 public:
  // kInvalidArgument if already the beginning breaks a bound.
  static Result<std::shared_ptr<GrammarSession>> Make(GrammarPtr grammar, std::shared_ptr<const TokenTrie> trie);

  const TokenTrie& trie() const { return *trie_; }
  ParseStates& states() { return states_; }

  // Ors what may follow `state` into `mask`; end-of-text excepted.
  Status AddAllowed(const ParseStatePtr& state, std::span<uint64_t> mask);
  // The same after one leading space that is not part of the text.
  Status AddAllowedAfterSpace(const ParseStatePtr& state, std::span<uint64_t> mask);
  size_t size_bytes() const;

 private:
  // What tokens do inside a rule alone: the tokens that stay in it, and the places of the tree where its end is
  // reached.
  struct Local {
    TokenSet tokens;
    std::vector<int32_t> ends;  // nodes
  };
  GrammarSession(GrammarPtr grammar, std::shared_ptr<const TokenTrie> trie);
  void ForgetIfLarge();
  const Local& LocalOf(int32_t automaton_state);
  // How many plain characters of a JSON string may follow in any case, kMaxPlainChars at most; 0 outside strings.
  int PlainRoom(int32_t automaton_state) const;
  void AllowTokens(int32_t node, std::span<uint64_t> mask) const;
  // Walks nodes [begin, end), which all lie under a place where `from` holds and that has `depth` bytes. Without
  // `ends`, tokens at which the text is complete are allowed; with it, those places are noted instead, and parts of the
  // tree that hold plain tokens only are left out if `skip_plain`.
  void Walk(ParseStates::Id from, int32_t begin, int32_t end, uint32_t depth, std::span<uint64_t> mask,
            std::vector<int32_t>* ends = nullptr, bool skip_plain = false);
  TokenSet Pack(std::span<const uint64_t> mask) const;
  static void Or(const TokenSet& tokens, std::span<uint64_t> mask);
  Status CheckWork() const;

  std::shared_ptr<const TokenTrie> trie_;
  ParseStates states_;
  std::unordered_map<int32_t, Local> locals_;            // by automaton state
  std::unordered_map<ParseStates::Id, TokenSet> masks_;  // by parse state, of this generation
  std::vector<ParseStates::Id> path_;
  std::vector<uint64_t> scratch_, local_scratch_;
  uint64_t masks_generation_ = 0;
  size_t cached_bytes_ = 0;
  int32_t long_char_rule_ = -1;  // JsonRules' rule for a character beyond ASCII
};

class GrammarMatcher {
 public:
  explicit GrammarMatcher(std::shared_ptr<GrammarSession> session);

  bool Accept(std::string_view bytes);
  // End-of-text tokens are accepted where the text may end; tokens outside the tree never are.
  bool AcceptToken(int32_t token);
  bool CanEnd() const { return state_->complete; }
  bool MustEnd() const { return state_->complete && state_->items.empty(); }
  // Sets the bits of all allowed tokens, clears all others; `mask` has trie().mask_words() words. Unchanged on failure.
  Status FillMask(std::span<uint64_t> mask);
  // The bytes that must come next, whatever the answer: at most `limit`, empty where there is a choice.
  std::string ForcedBytes(size_t limit) const;

  GrammarSession& session() const { return *session_; }

 private:
  std::shared_ptr<GrammarSession> session_;
  ParseStatePtr state_;
  bool at_start_ = true;
};

}  // namespace surety::engine
