// Counter-based randomness: a value is a pure function of (seed, position, purpose, lane), so a draw does not depend on
// batch place, preemption, restarts or how many values were drawn before.
//
// Source: Philox4x32-10 of Salmon, Moraes, Dror, Shaw, "Parallel Random Numbers: As Easy as 1, 2, 3", SC 2011.
// Threads: any (no state).
#pragma once

#include <array>
#include <cstdint>

namespace surety {

// Disjoint streams. Values are part of the replay contract: append, never renumber.
enum class RandomPurpose : uint32_t {
  kSample = 1,    // the sampled token at a position
  kDraft = 2,     // a draft token under the rejection rule
  kAccept = 3,    // the accept test of a draft token
  kResidual = 4,  // the residual draw after a rejection
  kBonus = 5,     // the extra token after a fully accepted draft
  kWorkload = 6,  // load generators and simulation
  kTest = 7,
  kTrace = 8,     // ids of traces and spans
  kRace = 9,      // the noise of a race among tokens; the coupled draft shares it with the target on purpose
};

struct RandomKey {
  uint64_t seed = 0;
  uint64_t position = 0;  // absolute output position
  RandomPurpose purpose = RandomPurpose::kSample;
  uint32_t lane = 0;      // which of n parallel samples
};

// Four words of Philox4x32-10 for one counter block and key.
std::array<uint32_t, 4> Philox4x32(std::array<uint32_t, 4> counter, std::array<uint32_t, 2> key);

// The index-th 64-bit word of the key's stream.
uint64_t RandomBits(const RandomKey& key, uint32_t index = 0);

// Uniform in the open interval (0, 1), 53 bits: never 0 and never 1, so a strict comparison cannot accept an event of
// probability zero.
double RandomUniform(const RandomKey& key, uint32_t index = 0);

}  // namespace surety
