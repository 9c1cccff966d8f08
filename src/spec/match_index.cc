#include "spec/match_index.h"

#include <algorithm>
#include <utility>

namespace surety::spec {
namespace {

// FNV-1a over the ids. A collision costs a comparison, nothing else: matches are compared token by token.
uint64_t RunHash(std::span<const int32_t> run) {
  uint64_t hash = 0xCBF29CE484222325;
  for (const int32_t token : run) hash = (hash ^ static_cast<uint32_t>(token)) * 0x100000001B3;
  return hash;
}

}  // namespace

void MatchIndex::Link(Chain& chain) {
  int32_t earlier = -1;
  const auto run = static_cast<size_t>(chain.run);
  if (tokens_.size() >= run) {
    const auto [entry, is_new] = chain.last.try_emplace(RunHash(std::span(tokens_).last(run)), size() - 1);
    if (!is_new) earlier = std::exchange(entry->second, size() - 1);
  }
  chain.before.push_back(earlier);
}

void MatchIndex::Append(int32_t token) {
  tokens_.push_back(token);
  Link(longer_);
  Link(shorter_);
}

void MatchIndex::AppendBreak() {
  if (tokens_.empty() || tokens_.back() == kBreak) return;
  tokens_.push_back(kBreak);
  longer_.before.push_back(-1);
  shorter_.before.push_back(-1);
}

void MatchIndex::Search(const Chain& chain, std::span<const int32_t> text,
                        FunctionRef<void(const Match& match)> found) const {
  const auto run = static_cast<size_t>(chain.run);
  if (text.size() < run) return;
  const auto entry = chain.last.find(RunHash(text.last(run)));
  if (entry == chain.last.end()) return;
  int32_t place = entry->second;
  for (int i = 0; i < kMaxChain && place >= 0; ++i, place = chain.before[static_cast<size_t>(place)]) {
    if (place + 1 >= size() || tokens_[static_cast<size_t>(place) + 1] == kBreak) continue;  // nothing follows
    const int most = std::min({kMaxLength, place + 1, static_cast<int>(text.size())});
    int length = 0;
    while (length < most && tokens_[static_cast<size_t>(place - length)] == text[text.size() - 1 -
                                                                                  static_cast<size_t>(length)]) {
      ++length;
    }
    if (length >= 2) found({place + 1, length});
  }
}

// What is looked for: the last tokens, of those after the last break.
std::span<const int32_t> MatchIndex::EndOf(std::span<const int32_t> text) {
  text = text.last(std::min(text.size(), size_t{kMaxLength}));
  const auto last_break = std::find(text.rbegin(), text.rend(), kBreak);
  return text.last(static_cast<size_t>(last_break - text.rbegin()));
}

MatchIndex::Match MatchIndex::Find(std::span<const int32_t> text) const {
  text = EndOf(text);
  Match best;
  const auto take = [&](const Match& match) {
    if (match.length > best.length) best = match;
  };
  Search(longer_, text, take);
  if (best.length == 0) Search(shorter_, text, take);
  return best;
}

int MatchIndex::FindEach(std::span<const int32_t> text, std::span<Match> out) const {
  text = EndOf(text);
  size_t n = 0;
  const auto take = [&](const Match& match) {
    const int32_t token = tokens_[static_cast<size_t>(match.next)];
    size_t at = 0;
    while (at < n && tokens_[static_cast<size_t>(out[at].next)] != token) ++at;
    if (at < n && out[at].length >= match.length) return;
    if (at == n && n < out.size()) ++n;
    if (at == out.size()) {
      if (out.empty() || out.back().length >= match.length) return;
      --at;
    }
    for (; at > 0 && out[at - 1].length < match.length; --at) out[at] = out[at - 1];
    out[at] = match;
  };
  Search(longer_, text, take);
  Search(shorter_, text, take);  // which also sees places whose longer run was pushed out of the other chain
  return static_cast<int>(n);
}

void MatchIndex::Clear() {
  tokens_.clear();
  for (Chain* chain : {&longer_, &shorter_}) {
    chain->last.clear();
    chain->before.clear();
  }
}

void MatchIndex::Erase() {
  volatile int32_t* token = tokens_.data();
  for (size_t i = 0; i < tokens_.size(); ++i) token[i] = 0;
  Clear();
}

}  // namespace surety::spec
