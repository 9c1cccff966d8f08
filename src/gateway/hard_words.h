// Words that SameHardFacts knows: what must be equal in both questions, and what must not stand against each other.
//
// Threads: any. Source: own lists, English; negations of Spanish, French and German besides. A word that is missing
// here makes a question look more alike than it is, so what a route may match by meaning is also bounded by intent.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string_view>

namespace surety::gateway::hard {

// "no", "never", "cannot", "don't", "without", ...
bool IsNegation(std::string_view word);
// Carries no meaning of its own: articles, auxiliaries, most prepositions.
bool IsFunctionWord(std::string_view word);
// Often begins a question or a demand, so that a capital there makes no name of it.
bool IsOpeningWord(std::string_view word);
// The fact that both questions must have: periods, comparisons, times, quantities, currencies. "monthly" and "month"
// are one fact; nullopt: none.
std::optional<std::string_view> EqualFactOf(std::string_view word);

// A word of a group of which only one may be meant: "credit" against "debit". Two questions that both name some of a
// group must name the same.
struct Rival {
  int group = 0;
  uint32_t pole = 0;  // one bit
};
inline constexpr int kMaxRivalGroups = 72;
std::span<const Rival> RivalsOf(std::string_view word);

// "seven", "twenty", "hundred": nullopt if no number word. `scale`: multiplies what stands before it.
struct NumberWord {
  int64_t value = 0;
  bool scale = false, ordinal = false;
};
std::optional<NumberWord> NumberWordOf(std::string_view word);

}  // namespace surety::gateway::hard
