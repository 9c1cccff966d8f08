// Finds where the latest tokens of a text occurred before: the match finder of an LZ77 compressor over token ids, with
// two hash chains, one for runs of four tokens and one for runs of two.
//
// Threads: one. Owns: the tokens and the chains; 12 bytes a token and two hash entries for each distinct run.
// Invariants: (1) Find looks at no more than kMaxChain earlier places for each run length, whatever the text is. (2) no
// memory is given back with tokens, or hashes of them, still in it.
// Source: Ziv and Lempel 1977; prompt lookup decoding (Saxena 2023) is its use for drafting.
#pragma once

#include <cstdint>
#include <cstring>
#include <functional>
#include <memory>
#include <span>
#include <unordered_map>
#include <utility>
#include <vector>

#include "base/function_ref.h"

namespace surety::spec {

// Zero bytes over memory before it is given back: texts grow, and leave their smaller selves behind.
template <typename T>
struct ErasingAllocator {
  using value_type = T;
  ErasingAllocator() = default;
  template <typename U>
  ErasingAllocator(const ErasingAllocator<U>&) {}  // NOLINT: implicit, as of any allocator
  T* allocate(size_t n) { return std::allocator<T>().allocate(n); }
  void deallocate(T* memory, size_t n) {
    std::memset(static_cast<void*>(memory), 0, n * sizeof(T));
    asm volatile("" : : "r"(memory) : "memory");  // so that it is not left out as of no use
    std::allocator<T>().deallocate(memory, n);
  }
  bool operator==(const ErasingAllocator&) const { return true; }
};

class MatchIndex {
 public:
  static constexpr int kMaxChain = 32;
  static constexpr int kMaxLength = 64;  // longer matches count as this long

  struct Match {
    int next = -1;    // the place in tokens() of what followed; -1: no match
    int length = 0;   // how many tokens before it equal the end of the asked text
  };

  void Append(int32_t token);
  // What is appended next has nothing to do with what is there.
  void AppendBreak();
  // The longest run at the end of `text` (two tokens or more, of those after its last break) that stands in the index
  // with something after it; of equally long ones the latest.
  Match Find(std::span<const int32_t> text) const;
  // The same for each token that stands behind such a run: its longest one, of equally long ones the latest. Longest
  // first, as many as `out` holds; returns how many there are.
  int FindEach(std::span<const int32_t> text, std::span<Match> out) const;

  std::span<const int32_t> tokens() const { return tokens_; }
  int size() const { return static_cast<int>(tokens_.size()); }
  void Clear();
  // Clear, with zero bytes in place of the tokens.
  void Erase();

 private:
  static constexpr int32_t kBreak = -1;
  struct Chain {
    int run = 0;
    // Hash of a run -> the place of its last token, the latest of its kind.
    std::unordered_map<uint64_t, int32_t, std::hash<uint64_t>, std::equal_to<uint64_t>,
                       ErasingAllocator<std::pair<const uint64_t, int32_t>>> last;
    std::vector<int32_t> before;  // by place: the next earlier one with the same hash, or -1
  };
  void Link(Chain& chain);
  // Calls found(place after a run, its length) for the places in the order of a chain: the latest first.
  void Search(const Chain& chain, std::span<const int32_t> text, FunctionRef<void(const Match& match)> found) const;
  static std::span<const int32_t> EndOf(std::span<const int32_t> text);

  std::vector<int32_t, ErasingAllocator<int32_t>> tokens_;
  Chain longer_{4, {}, {}}, shorter_{2, {}, {}};
};

}  // namespace surety::spec
