// The merge loop that both forms of byte-pair encoding share: neighbours merge in the order that a lookup gives, the
// leftmost of equals first, in O(n log n) over a word.
#pragma once

#include <array>
#include <cmath>
#include <cstddef>
#include <queue>
#include <vector>

#include "model/tokenizer/tokenizer_spec.h"

namespace surety::model {

// A symbol of the word being merged: a span of its bytes, linked to its neighbours.
struct BpeSymbol {
  size_t begin, size;
  int previous, next;
  TokenId id;  // -1: not a token
};

// What two neighbours would merge to: smaller orders first; merged is -1 where they do not.
struct BpeMerge {
  double order = INFINITY;
  TokenId merged = -1;
};

inline void LinkUp(std::vector<BpeSymbol>& symbols) {
  for (size_t i = 0; i < symbols.size(); ++i) {
    symbols[i].previous = static_cast<int>(i) - 1;
    symbols[i].next = i + 1 < symbols.size() ? static_cast<int>(i) + 1 : -1;
  }
}

// Joins symbol `left` with the one after it.
inline void JoinSymbols(std::vector<BpeSymbol>& symbols, int left, TokenId merged) {
  BpeSymbol& a = symbols[static_cast<size_t>(left)];
  BpeSymbol& b = symbols[static_cast<size_t>(a.next)];
  a.size += b.size;
  a.id = merged;
  a.next = b.next;
  b.size = 0;
  if (a.next >= 0) symbols[static_cast<size_t>(a.next)].previous = left;
}

// Merges with a queue. lookup(left, right) answers with a BpeMerge.
template <typename Lookup>
void MergeLong(std::vector<BpeSymbol>& symbols, Lookup&& lookup) {
  struct Candidate {
    double order;
    int left, right;
    size_t size;  // of both when queued: tells a stale entry
    TokenId merged;
  };
  const auto later = [](const Candidate& a, const Candidate& b) {
    return a.order != b.order ? a.order > b.order : a.left > b.left;
  };
  std::priority_queue<Candidate, std::vector<Candidate>, decltype(later)> queue(later);
  const auto consider = [&](int left, int right) {
    if (left < 0 || right < 0) return;
    const BpeSymbol& a = symbols[static_cast<size_t>(left)];
    const BpeSymbol& b = symbols[static_cast<size_t>(right)];
    const BpeMerge merge = lookup(a, b);
    if (merge.merged >= 0) queue.push({merge.order, left, right, a.size + b.size, merge.merged});
  };
  for (int i = 0; i + 1 < static_cast<int>(symbols.size()); ++i) consider(i, i + 1);
  while (!queue.empty()) {
    const Candidate top = queue.top();
    queue.pop();
    const BpeSymbol& a = symbols[static_cast<size_t>(top.left)];
    const BpeSymbol& b = symbols[static_cast<size_t>(top.right)];
    if (a.size == 0 || b.size == 0 || a.next != top.right || a.size + b.size != top.size) continue;
    JoinSymbols(symbols, top.left, top.merged);
    consider(a.previous, top.left);
    consider(top.left, a.next);
  }
}

inline constexpr size_t kShortWord = 24;

// The same for at most kShortWord symbols: there a plain search for the best pair is faster than a queue.
template <typename Lookup>
void MergeShort(std::vector<BpeSymbol>& symbols, Lookup&& lookup) {
  std::array<BpeMerge, kShortWord> merges;  // of symbol i with its next
  const auto consider = [&](int i) {
    const BpeSymbol& symbol = symbols[static_cast<size_t>(i)];
    BpeMerge merge;
    if (symbol.next >= 0) merge = lookup(symbol, symbols[static_cast<size_t>(symbol.next)]);
    merges[static_cast<size_t>(i)] = merge.merged >= 0 ? merge : BpeMerge();
  };
  for (size_t i = 0; i < symbols.size(); ++i) consider(static_cast<int>(i));
  while (true) {
    int best = -1;
    double order = INFINITY;
    for (int i = 0; i >= 0; i = symbols[static_cast<size_t>(i)].next) {
      const BpeMerge& merge = merges[static_cast<size_t>(i)];
      if (merge.merged >= 0 && (best < 0 || merge.order < order)) {
        order = merge.order;
        best = i;
      }
    }
    if (best < 0) return;
    JoinSymbols(symbols, best, merges[static_cast<size_t>(best)].merged);
    consider(best);
    if (const int previous = symbols[static_cast<size_t>(best)].previous; previous >= 0) consider(previous);
  }
}

template <typename Lookup>
void MergeAll(std::vector<BpeSymbol>& symbols, Lookup&& lookup) {
  LinkUp(symbols);
  if (symbols.size() <= kShortWord) {
    MergeShort(symbols, lookup);
  } else {
    MergeLong(symbols, lookup);
  }
}

}  // namespace surety::model
