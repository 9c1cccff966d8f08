// Passes over a row of logits, as long as the vocabulary: what choosing a token reads of all of it.
//
// Threads: any (no state). Errors: none. A logit is a finite number or minus infinity, but for AllFinite.
// Invariants: the same answers on every instruction set (ExpWeights on SSE4: to the last place).
#pragma once

#include <cstdint>
#include <span>

namespace surety::kernels::cpu {

// No NaN and no infinity among them.
bool AllFinite(std::span<const float> logits);

// The index of the largest, the lowest of equals; of at least one.
int32_t ArgMax(std::span<const float> logits);

// out[c] = the largest of logits[c], logits[c + C], logits[c + 2 C] ..., C being out.size(); minus infinity where there
// are none. The k-th largest of out is at most the k-th largest logit.
void ColumnMaxima(std::span<const float> logits, std::span<float> out);

// Indices of those that are at least `threshold`, ascending, as many as out holds. Returns how many there are in all.
int64_t IndicesFrom(std::span<const float> logits, float threshold, std::span<int32_t> out);

// out[i] = exp((logits[i] - top) * scale), within 2 units in the last place; 0 where the exponent is -60 or less.
inline constexpr double kLeastExponent = -60;
void ExpWeights(std::span<const float> logits, float top, double scale, double* out);

// The noise of token i in a race, as two words (spec/coupling.h, RaceNoise).
struct RaceWords {
  uint64_t first, second;
};
// The first index from `from` on whose gap may be below limit * exp((logits[i] - top) * scale): none that is below is
// passed over, and of the others about one in 2^14 of them. logits.size() where there is none. limit is finite.
int64_t NextInRace(std::span<const float> logits, int64_t from, float top, double scale, double limit,
                   const RaceWords& words);

}  // namespace surety::kernels::cpu
