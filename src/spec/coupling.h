// Sampling by a race, and the coupled rule of speculative decoding that follows from it.
//
// Each token has an exponential noise at each position, and the winner of a law p is the token with the least noise /
// p(token): it has the law p (the same as adding Gumbel noise to log-probabilities and taking the largest). The noise
// depends on (seed, position, lane, token) alone, so a drafter that runs the race of its own law under the same key
// tends to name the target's winner: with probability sum_x 1 / sum_y max(p_y / p_x, q_y / q_x). The output is the
// target's winner at every position, whatever was drafted: the very tokens of plain sampling with the same seed.
//
// Here noise is shared on purpose; in rejection.h it must not be, so the two have no code for keys in common.
//
// Threads: any (no state).
// Invariants: (1) the winner does not depend on the order of the law's entries, nor on a factor common to all of them
// but for rounding. (2) a token of probability 0 never wins. (3) of equal times the lowest id wins.
// Source: Daliri, Musco, Suresh 2024 ("Coupling without communication and drafter-invariant speculative decoding");
// Maddison, Tarlow, Minka 2014; the mixing constants: Steele, Lea, Flood 2014 (SplitMix64, variant 13 of Stafford).
#pragma once

#include <cmath>
#include <cstdint>
#include <limits>
#include <span>

#include "base/function_ref.h"
#include "kernels/cpu/logits_scan.h"
#include "spec/draft_tree.h"
#include "spec/law.h"

namespace surety::spec {

struct RaceKey {
  uint64_t seed = 0;
  uint64_t position = 0;  // absolute output position of the token that is decided
  uint32_t lane = 0;      // which of n parallel samples; 24 bits
};

// The noise of all tokens under one key. The key's two words come from Philox; a token is mixed in by two rounds of a
// multiplicative hash, since a block of Philox for each of 150,000 tokens would cost ten times as much.
class RaceNoise {
 public:
  explicit RaceNoise(const RaceKey& key);

  // 1 - u, where u is uniform in the open interval (0, 1), 53 bits. kernels::cpu::NextInRace mixes in the same way.
  double Gap(int32_t token) const {
    uint64_t x = first_ + static_cast<uint64_t>(static_cast<uint32_t>(token)) * 0x9E3779B97F4A7C15;
    x = (x ^ (x >> 30)) * 0xBF58476D1CE4E5B9;
    x ^= second_;
    x = (x ^ (x >> 27)) * 0x94D049BB133111EB;
    x ^= x >> 31;
    return static_cast<double>(static_cast<int64_t>(x >> 12)) * 0x1.0p-52 + 0x1.0p-53;
  }
  // -ln u.
  double Exponential(int32_t token) const { return -std::log1p(-Gap(token)); }
  // What Gap mixes with the token, for code that looks at many at once.
  kernels::cpu::RaceWords words() const { return {first_, second_}; }

 private:
  uint64_t first_;
  uint64_t second_;
};

// Who leads a race of which entries are looked at one by one, in any order.
class RaceLead {
 public:
  // -ln(u) >= 1 - u, in real numbers; this much more than rounding can take from it.
  static constexpr double kBoundSlack = 1 + 0x1.0p-40;
  static constexpr double kNever = std::numeric_limits<double>::infinity();

  // An entry of the law, which need not be normalised.
  void Try(int32_t token, double probability, const RaceNoise& noise) {
    const double gap = noise.Gap(token);
    if (!(gap < limit_ * probability)) [[likely]] return;
    const double time = -std::log1p(-gap) / probability;
    if (winner_ >= 0 && (time > best_ || (time == best_ && token > winner_))) return;
    winner_ = token;
    best_ = time;
    limit_ = time * kBoundSlack;
  }
  // An entry whose gap is not below this times its probability is out.
  double limit() const { return limit_; }
  int32_t winner() const { return winner_; }  // -1: none yet

 private:
  double best_ = kNever;
  double limit_ = kNever;  // infinity times 0 is no number, which no gap is below
  int32_t winner_ = -1;
};

// The winner of the law, which need not be normalised and must have an entry above 0.
int32_t RaceWinner(Law p, const RaceKey& key);

// The first out.size() of the race in their order; returns how many there are, fewer where the law has fewer tokens
// above 0. The first is RaceWinner's. As children of a node these are the likeliest to hold the target's winner.
int RaceLeaders(Law p, const RaceKey& key, std::span<int32_t> out);

// From the root down: the winner of law_of(node) is emitted; where a child holds it the walk goes on there. law_of is
// asked for a node once the walk stands on it; emit(token, node) gets -1 for a token that no node holds, which is the
// last, and says whether to go on. `key` is the position of the first token below the root. Returns the last accepted
// node, 0 if none.
int WalkCoupled(const DraftTree& tree, RaceKey key, FunctionRef<Law(int node)> law_of,
                FunctionRef<bool(int32_t token, int node)> emit);

}  // namespace surety::spec
