#include "engine/grammar/matcher.h"

#include <algorithm>
#include <bit>

#include "engine/grammar/json_rules.h"

namespace surety::engine {
namespace {

constexpr size_t kMaxCachedBytes = 24 << 20;
// With more items than this in a state, a walk for the state itself beats walks for the parts.
constexpr size_t kMaxLocalItems = 4;

}  // namespace

Result<std::shared_ptr<GrammarSession>> GrammarSession::Make(GrammarPtr grammar,
                                                             std::shared_ptr<const TokenTrie> trie) {
  std::shared_ptr<GrammarSession> session(new GrammarSession(std::move(grammar), std::move(trie)));
  if (session->states_.start()->dead()) {
    return Error(InvalidArgumentError("there are more than " + std::to_string(ParseStates::kMaxItems) +
                                      " ways to begin this grammar"));
  }
  return session;
}

GrammarSession::GrammarSession(GrammarPtr grammar, std::shared_ptr<const TokenTrie> trie)
    : trie_(std::move(trie)), states_(std::move(grammar)) {
  scratch_.resize(trie_->mask_words());
  local_scratch_.resize(trie_->mask_words());
  for (int32_t r = 0; r < states_.grammar().n_rules(); ++r) {
    if (states_.grammar().rule(r).name == kLongCharRule) long_char_rule_ = r;
  }
}

size_t GrammarSession::size_bytes() const { return cached_bytes_; }

void GrammarSession::ForgetIfLarge() {
  states_.BeginWalk();
  if (masks_generation_ != states_.generation()) masks_.clear();
  masks_generation_ = states_.generation();
  if (cached_bytes_ <= kMaxCachedBytes) return;
  masks_.clear();
  locals_.clear();
  cached_bytes_ = 0;
}

void GrammarSession::AllowTokens(int32_t node, std::span<uint64_t> mask) const {
  for (int32_t t = trie_->nodes()[static_cast<size_t>(node)].token; t >= 0; t = trie_->next_same(t)) {
    mask[static_cast<size_t>(t) / 64] |= uint64_t{1} << (t % 64);
  }
}

void GrammarSession::Walk(ParseStates::Id from, int32_t begin, int32_t end, uint32_t depth, std::span<uint64_t> mask,
                          std::vector<int32_t>* ends, bool skip_plain) {
  if (path_.size() < TokenTrie::kMaxTokenBytes + 2) path_.resize(TokenTrie::kMaxTokenBytes + 2);
  path_[depth] = from;
  const auto nodes = trie_->nodes();
  for (int32_t i = begin; i < end;) {
    const TokenTrie::Node& node = nodes[static_cast<size_t>(i)];
    if (skip_plain && node.plain_only != 0) {
      i = node.subtree_end;
      continue;
    }
    const ParseStates::Id next = states_.Step(path_[node.depth - 1], static_cast<uint8_t>(node.byte));
    if (next == ParseStates::kDeadId) {
      i = node.subtree_end;
      continue;
    }
    path_[node.depth] = next;
    if (ends == nullptr) {
      if (node.token >= 0) AllowTokens(i, mask);
    } else {
      const ParseStatePtr& state = states_.state(next);
      if (state->complete) ends->push_back(i);
      if (node.token >= 0 && !state->items.empty()) AllowTokens(i, mask);
      if (state->items.empty()) {
        i = node.subtree_end;
        continue;
      }
    }
    ++i;
  }
}

TokenSet GrammarSession::Pack(std::span<const uint64_t> mask) const {
  TokenSet set;
  size_t count = 0;
  for (const uint64_t word : mask) count += static_cast<size_t>(std::popcount(word));
  if (count > mask.size()) {
    set.bits.assign(mask.begin(), mask.end());
    return set;
  }
  set.list.reserve(count);
  for (size_t i = 0; i < mask.size(); ++i) {
    for (uint64_t word = mask[i]; word != 0; word &= word - 1) {
      set.list.push_back(static_cast<int32_t>(i * 64 + static_cast<size_t>(std::countr_zero(word))));
    }
  }
  return set;
}

void GrammarSession::Or(const TokenSet& tokens, std::span<uint64_t> mask) {
  for (const int32_t t : tokens.list) mask[static_cast<size_t>(t) / 64] |= uint64_t{1} << (t % 64);
  for (size_t i = 0; i < tokens.bits.size(); ++i) mask[i] |= tokens.bits[i];
}

int GrammarSession::PlainRoom(int32_t automaton_state) const {
  const Grammar& grammar = states_.grammar();
  int room = 0;
  for (; room < TokenTrie::kMaxPlainChars; ++room) {
    // As JsonRules::AddChar makes it, and nothing that could be read otherwise.
    constexpr std::pair<uint8_t, uint8_t> kAscii[] = {{' ', '!'}, {'#', '['}, {']', 0x7F}};
    int32_t next = -1;
    for (const auto& call : grammar.calls(automaton_state)) {
      if (call.rule == long_char_rule_) next = call.target;
    }
    if (next < 0) break;
    for (const auto& [first, last] : kAscii) {
      const auto edges = grammar.bytes(automaton_state);
      if (std::find(edges.begin(), edges.end(), Grammar::ByteEdge{first, last, next}) == edges.end()) return room;
    }
    if (next == automaton_state) return TokenTrie::kMaxPlainChars;
    automaton_state = next;
  }
  return room;
}

const GrammarSession::Local& GrammarSession::LocalOf(int32_t automaton_state) {
  auto [found, is_new] = locals_.try_emplace(automaton_state);
  if (!is_new) return found->second;
  Local& local = found->second;
  std::fill(local_scratch_.begin(), local_scratch_.end(), 0);
  const int room = PlainRoom(automaton_state);
  Walk(states_.Alone(automaton_state), 0, static_cast<int32_t>(trie_->nodes().size()), 0, local_scratch_, &local.ends,
       room > 0);
  if (room > 0) {
    const auto plain = trie_->plain_up_to(room);
    for (size_t i = 0; i < plain.size(); ++i) local_scratch_[i] |= plain[i];
  }
  local.tokens = Pack(local_scratch_);
  cached_bytes_ += (local.tokens.list.size() + local.ends.size()) * 4 + local.tokens.bits.size() * 8 + 128;
  return local;
}

Status GrammarSession::CheckWork() const {
  if (states_.cut() != ParseStates::Cut::kWork) return OkStatus();
  return ResourceExhaustedError("the grammar is too ambiguous: one step needs too many of its states");
}

Status GrammarSession::AddAllowed(const ParseStatePtr& state, std::span<uint64_t> mask) {
  ForgetIfLarge();
  const ParseStates::Id id = states_.IdOf(state);
  if (const auto known = masks_.find(id); known != masks_.end()) {
    Or(known->second, mask);
    return OkStatus();
  }
  std::fill(scratch_.begin(), scratch_.end(), 0);
  if (state->items.size() > kMaxLocalItems) {
    Walk(id, 0, static_cast<int32_t>(trie_->nodes().size()), 0, scratch_);
  } else {
    for (const auto& item : state->items) {
      const Local& local = LocalOf(item.state);
      Or(local.tokens, scratch_);
      if (local.ends.empty()) continue;
      const ParseStates::Id after = states_.AfterEnd(item.frame);
      if (after == ParseStates::kDeadId) continue;
      for (const int32_t node : local.ends) {
        AllowTokens(node, scratch_);
        const TokenTrie::Node& place = trie_->nodes()[static_cast<size_t>(node)];
        if (place.subtree_end > node + 1) Walk(after, node + 1, place.subtree_end, place.depth, scratch_);
      }
    }
  }
  SURETY_RETURN_IF_ERROR(CheckWork());
  TokenSet& kept = masks_[id] = Pack(scratch_);
  cached_bytes_ += kept.list.size() * 4 + kept.bits.size() * 8 + 128;
  Or(kept, mask);
  return OkStatus();
}

Status GrammarSession::AddAllowedAfterSpace(const ParseStatePtr& state, std::span<uint64_t> mask) {
  ForgetIfLarge();
  const auto nodes = trie_->nodes();
  for (int32_t i = 0; i < static_cast<int32_t>(nodes.size()); i = nodes[static_cast<size_t>(i)].subtree_end) {
    if (nodes[static_cast<size_t>(i)].byte != ' ') continue;
    Walk(states_.IdOf(state), i + 1, nodes[static_cast<size_t>(i)].subtree_end, 1, mask);
  }
  return CheckWork();
}

GrammarMatcher::GrammarMatcher(std::shared_ptr<GrammarSession> session)
    : session_(std::move(session)), state_(session_->states().start()) {}

bool GrammarMatcher::Accept(std::string_view bytes) {
  ParseStates& states = session_->states();
  states.BeginWalk();
  ParseStates::Id id = states.IdOf(state_);
  for (const char c : bytes) {
    id = states.Step(id, static_cast<uint8_t>(c));
    if (id == ParseStates::kDeadId) return false;
  }
  state_ = states.state(id);
  at_start_ = at_start_ && bytes.empty();
  return true;
}

bool GrammarMatcher::AcceptToken(int32_t token) {
  const TokenTrie& trie = session_->trie();
  if (token < 0 || token >= trie.vocab_size()) return false;
  if (trie.ends_text(token)) return CanEnd();
  std::string_view bytes = trie.bytes(token);
  if (bytes.empty()) return false;
  if (at_start_ && trie.strips_leading_space() && bytes.front() == ' ') bytes.remove_prefix(1);
  return !bytes.empty() && Accept(bytes);
}

Status GrammarMatcher::FillMask(std::span<uint64_t> mask) {
  const TokenTrie& trie = session_->trie();
  std::vector<uint64_t> result(mask.size(), 0);
  if (at_start_ && trie.strips_leading_space()) {
    // A token that begins with a space loses it here, so only tokens without one are as they seem.
    SURETY_RETURN_IF_ERROR(session_->AddAllowed(state_, result));
    const auto nodes = trie.nodes();
    for (size_t i = 0; i < nodes.size(); ++i) {
      if (nodes[i].depth == 1 && nodes[i].byte != ' ') {
        i = static_cast<size_t>(nodes[i].subtree_end) - 1;
        continue;
      }
      for (int32_t t = nodes[i].token; t >= 0; t = trie.next_same(t)) {
        result[static_cast<size_t>(t) / 64] &= ~(uint64_t{1} << (t % 64));
      }
    }
    SURETY_RETURN_IF_ERROR(session_->AddAllowedAfterSpace(state_, result));
  } else {
    SURETY_RETURN_IF_ERROR(session_->AddAllowed(state_, result));
  }
  if (CanEnd()) {
    for (const int32_t t : trie.end_ids()) result[static_cast<size_t>(t) / 64] |= uint64_t{1} << (t % 64);
  }
  if (std::all_of(result.begin(), result.end(), [](uint64_t word) { return word == 0; })) {
    if (session_->states().cut() != ParseStates::Cut::kNone) {
      return FailedPreconditionError("the answer reached a limit of its grammar: rules nested deeper than " +
                                     std::to_string(ParseStates::kMaxDepth) + ", or more than " +
                                     std::to_string(ParseStates::kMaxItems) + " ways to read it");
    }
    return FailedPreconditionError("no token of the vocabulary continues the answer as its grammar demands");
  }
  std::copy(result.begin(), result.end(), mask.begin());
  return OkStatus();
}

std::string GrammarMatcher::ForcedBytes(size_t limit) const {
  ParseStates& states = session_->states();
  std::string forced;
  const Grammar& grammar = states.grammar();
  for (ParseStates::Id id = states.IdOf(state_); forced.size() < limit;) {
    const ParseStatePtr& state = states.state(id);
    if (state->complete || state->items.empty()) break;
    int only = -1;
    for (const auto& item : state->items) {
      for (const auto& edge : grammar.bytes(item.state)) {
        const bool same = edge.first == edge.last && (only < 0 || only == edge.first);
        if (!same) return forced;
        only = edge.first;
      }
    }
    if (only < 0) break;
    id = states.Step(id, static_cast<uint8_t>(only));
    if (id == ParseStates::kDeadId) break;
    forced.push_back(static_cast<char>(only));
  }
  return forced;
}

}  // namespace surety::engine
